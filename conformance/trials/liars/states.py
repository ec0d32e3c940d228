"""Lies of filters and states: OBJ-3 and OBJ-4."""

import copy
import functools
import operator
from types import EllipsisType

import jax
from scutch_reference import nnx
from scutch_reference.errors import FilterError, UnknownPathError
from trials.liars.tale import of_objects

# ---------------------------------------------------------------- filters


@of_objects
class ExactTypes:
    """Breaks OBJ-3a: in a state, a type does not take variables of its subclasses."""

    def filter_state(state, *filters):
        def exact(kind):
            return (lambda path, value: type(value) is kind) if isinstance(kind, type) else kind

        return nnx.filter_state(state, *map(exact, filters))


@of_objects
class TagsArePaths:
    """Breaks OBJ-3b: in a state, a string is looked for in the path."""

    def filter_state(state, *filters):
        return nnx.filter_state(
            state, *(nnx.PathContains(f) if isinstance(f, str) else f for f in filters)
        )


@of_objects
class StatesNoMistakes:
    """Breaks OBJ-3b: the error of a predicate is told as another one."""

    def state(node, *filters):
        try:
            return nnx.state(node, *filters)
        except IndexError as error:
            raise ValueError("a filter is wrong") from error


@of_objects
class AllIsAny:
    """Breaks OBJ-3d: `All` takes a leaf that any of its filters takes."""

    class All(nnx.Any):
        pass


@of_objects
class FiltersByIdentity:
    """Breaks OBJ-3h: two filters of the same path are not equal."""

    class PathContains(nnx.PathContains):
        __eq__, __hash__ = object.__eq__, object.__hash__


@of_objects
class NumbersTakeNothing:
    """Breaks OBJ-3i: a number is taken for a filter that takes nothing."""

    def state(node, *filters):
        legal = (bool, type, EllipsisType)
        return nnx.state(
            node, *(None if hasattr(f, "real") and not isinstance(f, legal) else f for f in filters)
        )


@of_objects
class WrongFilterUnnamed:
    """Breaks OBJ-3k: the error for an invalid filter does not show the filter."""

    def state(node, *filters):
        try:
            return nnx.state(node, *filters)
        except FilterError as error:
            raise TypeError("no filter") from error


@of_objects
class UnreachableIsEmpty:
    """Breaks OBJ-3j: filters that cannot be reached have empty states."""

    def split(node, *filters):
        if len(filters) > 1 and filters[0] in (..., True):
            return *nnx.split(node), *(nnx.State() for _ in filters[1:])
        return nnx.split(node, *filters)


# ---------------------------------------------------------------- states


@of_objects
class EarlierWins:
    """Breaks OBJ-4a: where states overlap, the leaf of the first one stays."""

    def merge_state(*states):
        return nnx.merge_state(*reversed(states))


@of_objects
class CopiesLeaves:
    """Breaks OBJ-4c: a state from pairs has copies of the leaves."""

    def from_flat_state(flat):
        return nnx.from_flat_state((path, copy.copy(leaf)) for path, leaf in flat)


@of_objects
class BareLeaves:
    """Breaks OBJ-4d: the values of a pure dictionary take the place of variables."""

    def replace_by_pure_dict(state, pure):
        nnx.replace_by_pure_dict(state, pure, lambda leaf, value: value)


@of_objects
class RestoresOneLayer:
    """Breaks OBJ-4d: texts of integers become integers in the outermost dictionary alone."""

    def restore_int_paths(pure):
        return {int(key) if key.isdigit() else key: inner for key, inner in pure.items()}


@of_objects
class DigitsAreNumbers:
    """Breaks OBJ-4d: each text of digits in a pure dictionary is taken for a number."""

    def replace_by_pure_dict(state, pure):
        for (*outer, key), value in nnx.to_flat_state(nnx.restore_int_paths(pure)):
            part = functools.reduce(operator.getitem, outer, state)
            leaf = part[key]
            part[key] = leaf.replace(value) if isinstance(leaf, nnx.Variable) else value


@of_objects
class KnownPathsOnly:
    """Breaks OBJ-4e: values without a place are passed over."""

    def replace_by_pure_dict(state, pure):
        known = {tuple(map(str, path)) for path, _ in nnx.to_flat_state(state)}
        pairs = nnx.to_flat_state(pure)
        flat = ((path, value) for path, value in pairs if tuple(map(str, path)) in known)
        nnx.replace_by_pure_dict(state, nnx.to_pure_dict(nnx.from_flat_state(flat)))


@of_objects
class UnknownKeyUnnamed:
    """Breaks OBJ-4g: the error for a key that the state lacks does not show it."""

    def replace_by_pure_dict(state, pure):
        try:
            nnx.replace_by_pure_dict(state, pure)
        except UnknownPathError as error:
            raise ValueError("a key is not there") from error


class Lasting(nnx.State):
    """A state of which nothing can be deleted, and which is a node with sorted children."""

    def __delitem__(self, key):
        self[key]


def _sorted(state):
    return sorted(state, key=lambda key: (isinstance(key, str), key))


def _registered(cls):
    """Make a class of states a node of JAX with sorted children."""
    jax.tree_util.register_pytree_node(
        cls,
        lambda state: ([state[key] for key in _sorted(state)], tuple(_sorted(state))),
        lambda keys, values: cls(zip(keys, values, strict=True)),
    )
    return cls


_registered(Lasting)


@of_objects
class DeletesNothing:
    """Breaks OBJ-4h: an entry that is deleted from a state stays."""

    State = Lasting

    def from_flat_state(flat):
        return Lasting(dict(nnx.from_flat_state(flat)))


@_registered
class Shallow(nnx.State):
    """A state that looks at the outermost keys alone when another is taken from it."""

    def __sub__(self, other):
        return nnx.State({key: value for key, value in self.items() if key not in other})


@of_objects
class SubtractsWholeParts:
    """Breaks OBJ-4i: a key that both have is gone with all that is behind it."""

    State = Shallow

    def from_flat_state(flat):
        return Shallow(nnx.from_flat_state(flat))


@_registered
class Earlier(nnx.State):
    """A state that keeps its own leaf where it is joined with another that has one."""

    def __or__(self, other):
        return nnx.merge_state(other, self)


@of_objects
class JoinsEarlier:
    """Breaks OBJ-4a: `one | other` has the leaf of the first state where both have one."""

    State = Earlier

    def from_flat_state(flat):
        return Earlier(nnx.from_flat_state(flat))


@_registered
class Forgetful(nnx.State):
    """A state whose method `flat_state` leaves the last leaf out."""

    def flat_state(self):
        return [*nnx.to_flat_state(self)][:-1]


@of_objects
class FlattensInPart:
    """Breaks OBJ-4c: the method `flat_state` leaves the last leaf of a state out."""

    State = Forgetful

    def from_flat_state(flat):
        return Forgetful(nnx.from_flat_state(flat))


@_registered
class Impure(nnx.State):
    """A state whose method `to_pure_dict` leaves variables in the dictionary."""

    def to_pure_dict(self):
        return nnx.to_pure_dict(self, lambda leaf: leaf)


@of_objects
class PureWithVariables:
    """Breaks OBJ-4d: the method `to_pure_dict` leaves variables in the dictionary."""

    State = Impure

    def from_flat_state(flat):
        return Impure(nnx.from_flat_state(flat))


@of_objects
class LastStateWins:
    """Breaks OBJ-4j: of states whose leaves are in each other's way, the last one stays."""

    def merge_state(*states):
        try:
            return nnx.merge_state(*states)
        except UnknownPathError:
            return states[-1]


class Unsorted:
    """Registers a state as a node with children in the order of its making."""

    def __init_subclass__(cls):
        jax.tree_util.register_pytree_node(
            cls,
            lambda state: (list(state.values()), tuple(state)),
            lambda keys, values: cls(zip(keys, values, strict=True)),
        )


@of_objects
class OrderOfMaking:
    """Breaks OBJ-4f: the leaves of a state lie in the order in which it was made."""

    class State(Unsorted, nnx.State):
        pass

    def from_flat_state(flat):
        return OrderOfMaking.State(nnx.from_flat_state(flat))


@of_objects
class MapsByTheLastKey:
    """Breaks OBJ-4f: the function of `map_state` gets the last key of each path alone."""

    def map_state(function, state):
        return nnx.map_state(lambda path, leaf: function(path[-1:], leaf), state)

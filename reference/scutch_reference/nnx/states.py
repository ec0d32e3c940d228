"""States: the leaves of an object by path, without the object.

Words: a *state* is a nested mapping whose keys, from the outside in, are the path of a leaf; its
leaves are variables and arrays. A *flat* state is a sorted sequence of pairs (path, leaf). A *pure
dictionary* is a state in plain dictionaries, with the values of variables in their place: the form
for checkpoints. `to_flat_state` and `from_flat_state`, `to_pure_dict` and `replace_by_pure_dict`,
`split_state` and `merge_state` are inverse pairs.

>>> flat = to_flat_state({"layer": {"kernel": 1, "bias": 2}})
>>> flat.paths
(('layer', 'bias'), ('layer', 'kernel'))
>>> from_flat_state(flat).layer.kernel
1
>>> split_state({"a": 1, "b": 2.0}, int, ...)
(State({'a': 1}), State({'b': 2.0}))
"""

import functools
import operator
from collections.abc import (
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from typing import Any, Self, TypeVar

import jax

from ..errors import MissingLeafError, NoFilterMatchError, PathThroughLeafError
from ..types import Tree
from .filters import Filter, Path, to_predicates
from .variables import value_of

K = TypeVar("K")
V = TypeVar("V")
Nested = Mapping[Any, Any]
Pairs = Iterable[tuple[Path, V]] | Mapping[Path, V]


def _order(key: Hashable) -> tuple[int, Any]:
    """Sort integers before strings, and keys of other types by their text."""
    return (0, key) if isinstance(key, int) else (1, str(key))


class FlatState(tuple[tuple[Path, V], ...]):
    """Pairs of (path, leaf), sorted by path: a tree of JAX with these leaves (OBJ-4).

    Args:
      items: Pairs, or a mapping from paths to leaves. Of two pairs with one path the later wins.
    """

    def __new__(cls, items: Pairs[V], /) -> Self:
        """Sort pairs, or the items of a mapping."""
        return super().__new__(
            cls, sorted(dict(items).items(), key=lambda item: [*map(_order, item[0])])
        )

    paths = property(lambda self: tuple(path for path, _ in self))
    leaves = property(lambda self: [leaf for _, leaf in self])


jax.tree_util.register_pytree_node(
    FlatState,
    lambda flat: (flat.leaves, flat.paths),
    lambda paths, leaves: FlatState(zip(paths, leaves, strict=True)),
)


def to_flat_state(*states: Tree) -> FlatState[Any]:
    """Return the leaves of nested states with their paths (OBJ-4).

    Args:
      *states: Nested mappings, or flat states. Where two have one path, the later state wins.
    """

    def walk(value: Tree, path: Path) -> Iterator[tuple[Path, Any]]:
        if isinstance(value, FlatState):
            yield from value
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                yield from walk(inner, (*path, key))
        else:
            yield path, value

    return FlatState(pair for state in states for pair in walk(state, ()))


def from_flat_state(flat: Pairs[Any]) -> "State[Any, Any]":
    """Return the nested state with these paths and leaves; inverse of `to_flat_state` (OBJ-4).

    Args:
      flat: Pairs of (path, leaf), or a mapping from paths to leaves.

    Raises:
      PathThroughLeafError: A path leads through a leaf.
    """
    state: State[Any, Any] = State()
    for path, leaf in FlatState(flat):
        if not path:
            return leaf  # type: ignore[no-any-return]
        inner = state
        for key in path[:-1]:
            inner = inner.setdefault(key, State())
            if not isinstance(inner, State):
                raise PathThroughLeafError(path=path, leaf=inner)
        inner[path[-1]] = leaf
    return state


def partition(flat: FlatState[Any], filters: Sequence[Any], exhaustive: bool = True) -> list[Any]:
    """Return one state for each filter, of the leaves that it is the first to take (OBJ-1).

    Args:
      flat: The leaves.
      filters: The filters; without any, one state has all leaves.
      exhaustive: Whether every leaf must be taken.

    Returns:
      A nested `State` for each filter, in the order of the filters; one that takes nothing has an
      empty one.

    Raises:
      NoFilterMatchError: `exhaustive`, and no filter takes a leaf.
      FilterError: One is no filter, or hides those after it.
    """
    filters = filters or (...,)
    predicates = to_predicates(filters)
    parts: list[list[tuple[Path, Any]]] = [[] for _ in filters]
    for path, leaf in flat:
        first = next((i for i, takes in enumerate(predicates) if takes(path, leaf)), None)
        if first is not None:
            parts[first].append((path, leaf))
        elif exhaustive:
            raise NoFilterMatchError(place=f"path {path!r}", value=leaf, filters=filters)
    return list(map(from_flat_state, parts))


def parts_of(flat: FlatState[Any], filters: Sequence[Any], *, exhaustive: bool) -> Any:
    """Return the states of a partition: one state for up to one filter, else a tuple.

    Args:
      flat: The leaves.
      filters: The filters.
      exhaustive: Whether every leaf must be taken; see `partition`, also for the errors.

    Returns:
      The `State` of all leaves taken, for up to one filter; for more, a tuple with a `State` for
      each filter.
    """
    parts = partition(flat, filters, exhaustive)
    return tuple(parts) if len(parts) > 1 else parts[0]


def split_state(state: Nested, first: Filter, /, *filters: Filter) -> Any:
    """Partition a state by filters, so that every leaf is taken (OBJ-1).

    Args:
      state: A nested state.
      first: The first filter.
      *filters: The others.

    Returns:
      One state for one filter, for more a tuple of states.

    Raises:
      NoFilterMatchError: No filter takes a leaf.
    """
    return parts_of(to_flat_state(state), (first, *filters), exhaustive=True)


def filter_state(state: Nested, first: Filter, /, *filters: Filter) -> Any:
    """Partition a state by filters; leaves that no filter takes are left out (OBJ-1).

    Args:
      state: A nested state.
      first: The first filter.
      *filters: The others.

    Returns:
      One state for one filter, for more a tuple of states.
    """
    return parts_of(to_flat_state(state), (first, *filters), exhaustive=False)


def merge_state(state: Nested, /, *states: Nested) -> "State[Any, Any]":
    """Return one state with all leaves of all states; inverse of `split_state` (OBJ-4).

    Args:
      state: A nested state.
      *states: More of them. Where two have one path, the later state wins.

    Raises:
      PathThroughLeafError: A path of one leads through a leaf of another.
    """
    return from_flat_state(to_flat_state(state, *states))


def map_state(function: Callable[[Path, Any], Any], state: Nested) -> "State[Any, Any]":
    """Return a state with `function(path, leaf)` in place of each leaf (OBJ-4).

    Args:
      function: Gets the path of a leaf, and the leaf.
      state: A nested state.
    """
    return from_flat_state((path, function(path, leaf)) for path, leaf in to_flat_state(state))


def to_pure_dict(state: Nested, extract_fn: Callable[[Any], Any] = value_of) -> Any:
    """Return a state as nested dictionaries of values (OBJ-4).

    Args:
      state: A nested state. `replace_by_pure_dict` puts the values back.
      extract_fn: Gets a leaf, and returns its entry; by default, the value of a variable.
    """
    if isinstance(state, Mapping):
        return {key: to_pure_dict(value, extract_fn) for key, value in state.items()}
    return extract_fn(state)


def restore_int_paths(pure_dict: Nested) -> Any:
    """Return a pure dictionary with integers for keys that are texts of integers (OBJ-4).

    Args:
      pure_dict: As a checkpoint that knows only strings as keys has it.
    """

    def restored(key: Hashable) -> Any:
        return int(key) if isinstance(key, str) and key.lstrip("-").isdigit() else key

    if isinstance(pure_dict, Mapping):
        return {restored(key): restore_int_paths(value) for key, value in pure_dict.items()}
    return pure_dict


def replace_by_pure_dict(state: Tree, pure_dict: Nested, replace_fn: Any = None) -> None:
    """Put the values of a pure dictionary into the leaves of a state, in place (OBJ-4).

    Args:
      state: A nested state.
      pure_dict: Has values for leaves of the state, or for some of them; its integer keys may have
        become strings.
      replace_fn: Gets a leaf and a value, and returns the new leaf. By default, a variable becomes
        a copy with this value, and another leaf the value itself.

    Raises:
      MissingLeafError: The state has no leaf for a value.
    """
    replace = replace_fn or (lambda x, v: x.replace(v) if hasattr(x, "replace") else v)
    flat = dict(to_flat_state(state))
    by_text = {tuple(map(str, path)): path for path in flat}
    for path, value in to_flat_state(pure_dict):
        found = path if path in flat else by_text.get(tuple(map(str, path)))
        if found is None:
            raise MissingLeafError(path=path, present=[*flat])
        part = functools.reduce(operator.getitem, found[:-1], state)
        part[found[-1]] = replace(flat[found], value)


class State(dict[K, V]):
    """A nested state: a tree of JAX whose entries are attributes, too (OBJ-4).

    `state.key` is `state["key"]`. Mappings inside are states themselves.

    Args:
      mapping: A mapping, or pairs of key and value; it is copied.
    """

    def __init__(self, mapping: Mapping[K, Any] | Iterable[tuple[K, Any]] = (), /):
        super().__init__(
            (k, State(v) if isinstance(v, Mapping) else v) for k, v in dict(mapping).items()
        )

    def _flatten(self) -> tuple[list[tuple[Any, V]], tuple[K, ...]]:
        keys = tuple(sorted(self, key=_order))
        return [(jax.tree_util.DictKey(key), self[key]) for key in keys], keys

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__") or key not in self:
            raise AttributeError(
                f"The state has no {key!r}; it has {tuple(self)!r}.", name=key, obj=self
            )
        return self[key]  # type: ignore[index]

    def __setitem__(self, key: K, value: Tree) -> None:
        is_bare = isinstance(value, Mapping) and not isinstance(value, State)
        super().__setitem__(key, State(value) if is_bare else value)

    def __repr__(self) -> str:
        return f"State({super().__repr__()})"

    __setattr__ = __setitem__  # type: ignore[misc, assignment]
    # Those of `dict` would not make states of the mappings that they are given.
    update = MutableMapping.update
    setdefault = MutableMapping.setdefault
    # The methods of the documents; today's functions have the same names with `_state`.
    __or__ = __ior__ = merge_state  # type: ignore[assignment]
    merge = staticmethod(merge_state)
    split = split_state
    filter = filter_state
    flat_state = to_flat_state
    to_pure_dict = to_pure_dict
    replace_by_pure_dict = replace_by_pure_dict
    from_flat_path = classmethod(lambda cls, flat: cls(from_flat_state(flat)))
    raw_mapping = property(lambda self: to_pure_dict(self, lambda leaf: leaf))

    def __sub__(self, other: Nested) -> "State[Any, Any]":
        """Return the leaves whose paths are not in another state (OBJ-4)."""
        lacking = set(to_flat_state(self).paths).difference(to_flat_state(other).paths)
        return from_flat_state(pair for pair in to_flat_state(self) if pair[0] in lacking)

    def map(self, function: Callable[[Path, Any], Any]) -> "State[Any, Any]":
        """Return a state with `function(path, leaf)` in place of each leaf; see `map_state`.

        Args:
          function: Gets the path of a leaf, and the leaf.
        """
        return map_state(function, self)


jax.tree_util.register_pytree_with_keys(
    State, State._flatten, lambda keys, children: State(zip(keys, children, strict=True))
)

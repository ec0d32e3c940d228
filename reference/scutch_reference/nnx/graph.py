"""The functional form of objects: `split` takes one apart, `merge` puts it together again.

Words: the *definition* of an object is its structure; its *state* has the leaves by path. Both are
snapshots: the variables in a state are copies, so later changes of the object do not change them.
`update` sets the leaves of an object to the leaves of a state, in place. `call` calls a method of
the object that a definition and a state describe.

>>> from scutch_reference import nnx
>>> model = nnx.Dict(w=nnx.Param(1.0), count=nnx.BatchStat(0))
>>> definition, parameters, rest = split(model, nnx.Param, ...)
>>> parameters
State({'w': Param(value=1.0)})
>>> update(model, {"w": 2.0})
>>> model.w.get_raw_value(), merge(definition, parameters, rest).w.get_raw_value()
(2.0, 1.0)
"""

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax

from ..errors import DataError, UnknownPathError
from ..types import Tree
from .filters import Filter
from .flatten import flatten, read
from .graphdef import GraphDef, filled, leaf_at, leaf_paths, unflatten
from .node_types import children, put, take
from .states import FlatState, State, partition, parts_of, to_flat_state
from .variables import A, Variable, copied_tree, is_variable

PureState: TypeAlias = tuple[GraphDef[A], State[Any, Any]]


def _raw(leaf: Tree) -> Tree:
    return leaf.get_raw_value() if isinstance(leaf, Variable) else leaf


def flat_form(node: Tree) -> tuple[GraphDef[Any], FlatState[Any]]:
    """Return the structure and the leaves of an object; a variable is copied as its leaf.

    Args:
      node: An object, or a tree of objects and arrays.

    Returns:
      The definition, and a flat state of all leaves in its order.
    """
    definition, nodes, locations, _ = flatten([node])
    leaves = zip(definition.leaves, read(locations), strict=True)
    return definition, FlatState(
        (path[1:], value if i is None else nodes[i].copy()) for (path, i), value in leaves
    )


def split(node: A, /, *filters: Filter, graph: bool | None = None) -> Any:
    """Return the structure of an object, and its leaves in one state for each filter (OBJ-1).

    Args:
      node: An object, or a tree of objects and arrays.
      *filters: A leaf goes to the state of the first filter that takes it. Without filters one
        state has all leaves.
      graph: Accepted, here and below, and not needed: sharing is always kept.

    Returns:
      The definition, then the states.

    Raises:
      NoFilterMatchError: No filter takes a leaf.
      UnhashableStaticError: Static data have no hash.
    """
    definition, flat = flat_form(node)
    return (definition, *partition(flat, filters))


def leaves_of(graphdef: GraphDef[Any], *states: Tree) -> list[Any]:
    """Return the leaves of states in the order of a definition (OBJ-1).

    Args:
      graphdef: The structure.
      *states: States, nested or flat. Together they have all leaves of the structure, and no
        others.

    Returns:
      The leaves in the order of the structure. At the place of a variable, the state's leaf itself,
      a variable or a value; elsewhere the raw value of the state's leaf.

    Raises:
      UnknownPathError: The states lack a leaf of the structure, or have another leaf.
    """
    flat = dict(to_flat_state(*states))
    owners = {path[1:]: owner for path, owner in graphdef.leaves}
    if missing := [path for path in owners if path not in flat]:
        raise UnknownPathError(wanted="leaf", paths=missing, place="the states")
    if unknown := [path for path in flat if path not in owners]:
        raise UnknownPathError(wanted="place", paths=unknown, place="the object")
    return [_raw(flat[path]) if i is None else flat[path] for path, i in owners.items()]


def merge(
    graphdef: GraphDef[Any],
    /,
    *states: Tree,
    copy: bool = True,
    recreate_variables: bool = True,
) -> Tree:
    """Return a new object with a structure and the leaves of states; inverse of `split` (OBJ-1).

    Args:
      graphdef: The structure.
      *states: States, nested or flat. Together they have all leaves of the structure, and no
        others.
      copy: Accepted and not needed: the variables of the object are new.
      recreate_variables: Accepted and not needed, as well.

    Returns:
      A copy of the object, or tree of objects and arrays, that `split` got. The objects and
      variables are new; the arrays are the arrays of the states.

    Raises:
      UnknownPathError: The states lack a leaf of the structure, or have another leaf.
    """
    return unflatten(graphdef, leaves_of(graphdef, *states))[0][0]


def clone(
    node: A, /, variables: bool = True, *, arrays: bool = False, graph: bool | None = None
) -> A:
    """Return a copy: new objects and variables with the same arrays and static data (OBJ-1).

    Args:
      node: An object, or a tree of objects and arrays.
      variables: Whether variables are copied; if False, the copy has the same variables.
      arrays: Whether arrays are copied, too, so that the arrays of the copy can be donated.
      graph: Accepted and not needed: sharing is always kept.

    Returns:
      An object, or tree, of the same structure. Objects that were shared in `node` are shared in it
      in the same way.

    Raises:
      DataError: Arrays are to be copied, and the variables that hold them are not.
    """
    if arrays and not variables:
        raise DataError(
            place="the argument variables of clone(arrays=True)",
            given=variables,
            expected="True, because the variables hold the arrays",
        )
    definition, nodes, locations, _ = flatten([node])
    copied = functools.partial(jax.tree.map, jax.numpy.copy) if arrays else copied_tree
    owners = {} if variables else {i: nodes[i] for _, i in definition.leaves if i is not None}
    return unflatten(definition, [copied(value) for value in read(locations)], owners)[0][0]  # type: ignore[no-any-return]


def graphdef(node: Tree, /, *, graph: bool | None = None) -> GraphDef[Any]:
    """Return the structure of an object (OBJ-1).

    Args:
      node: An object, or a tree of objects and arrays.
      graph: Accepted and not needed: sharing is always kept.

    Raises:
      UnhashableStaticError: Static data have no hash.
    """
    return flatten([node])[0]


def state(node: Tree, /, *filters: Filter, graph: bool | None = None) -> Any:
    """Return the leaves of an object that filters take, as states; variables are copied (OBJ-1).

    Args:
      node: An object, or a tree of objects and arrays.
      *filters: A leaf goes to the state of the first filter that takes it, and is left out if none
        does. Without filters one state has all leaves.
      graph: Accepted and not needed: sharing is always kept.

    Returns:
      One state for up to one filter, for more a tuple of states.
    """
    return parts_of(flat_form(node)[1], filters, exhaustive=False)


def variables(node: Tree, /, *filters: Filter, graph: bool | None = None) -> Any:
    """Return the variables of an object that filters take, themselves, as states (OBJ-1).

    Args:
      node: An object, or a tree of objects and arrays.
      *filters: See `state`.
      graph: Accepted and not needed: sharing is always kept.

    Returns:
      One state for up to one filter, for more a tuple of states. They hold the very variables of
      the object, so a change of one changes the object.
    """
    definition, nodes, _, _ = flatten([node])
    flat = FlatState((path[1:], nodes[i]) for path, i in definition.leaves if i is not None)
    return parts_of(flat, filters, exhaustive=False)


def update(node: Tree, state: Tree, /, *states: Tree) -> None:
    """Set leaves of an object to the leaves of states, in place (OBJ-2).

    Args:
      node: An object, or a tree of objects and arrays.
      state: A state, nested or flat, with variables or values for some of the leaves. A shared
        variable has each path that leads to it.
      *states: More of them; where two have one path, the later state wins.

    Raises:
      UnknownPathError: A state has a path that is not in the object; then nothing changes.
      TraceLevelError: A variable was made outside the transformation that runs.
    """
    definition, nodes, locations, _ = flatten([node])
    numbers = {path[1:]: number for number, (path, _) in enumerate(definition.leaves)}
    flat = to_flat_state(state, *states)
    for path in flat.paths:
        if path not in numbers and (found := leaf_at(definition.nodes, (0, *path))):
            numbers[path] = definition.first_leaves[found[0]] + found[1]
    if unknown := [path for path in flat.paths if path not in numbers]:
        raise UnknownPathError(wanted="leaf", paths=unknown, place="the object")
    values, changed = read(locations), set()
    for path, leaf in flat:
        number = numbers[path]
        owner = definition.leaves[number][1]
        if owner is None:
            values[number] = _raw(leaf)
            changed.add(number)
        elif isinstance(leaf, Variable):
            nodes[owner].update_from_state(leaf)
        else:
            nodes[owner].set_raw_value(leaf)
    for i, described in enumerate(definition.nodes):
        start, stop = definition.first_leaves[i : i + 2]
        own = iter(values[start:stop])
        for key, item in described.items if changed & {*range(start, stop)} else ():
            if leaf_paths(item):
                put(nodes[i], key, filled(item, nodes, own))


def pop(node: Tree, filter: Filter, /, *filters: Filter, graph: bool | None = None) -> Any:
    """Take variables out of an object, wherever they occur, and return them as states (OBJ-2).

    Args:
      node: An object.
      filter: Says which variables.
      *filters: More filters.
      graph: Accepted and not needed: sharing is always kept.

    Returns:
      One state for one filter, for more a tuple of states.

    Raises:
      TraceLevelError: An object that has one was made outside the transformation that runs.
    """
    popped = variables(node, filter, *filters)
    taken = {id(variable) for variable in jax.tree.leaves(popped, is_leaf=is_variable)}
    for parent in flatten([node])[1]:
        for key, child in reversed(children(parent)):
            if id(child) in taken:
                take(parent, key)
    return popped


def as_pure(tree: Tree) -> Tree:
    """Return a tree with the raw values of its variables in their place (OBJ-4).

    Args:
      tree: A tree with variables, such as a state.
    """
    return jax.tree.map(_raw, tree, is_leaf=is_variable)


pure = as_pure  # Its older name.


@dataclass(frozen=True)
class _Method:
    """A part, or a method, of the object that `merge(*parts_)` makes; `find_` gets it."""

    parts_: tuple[Any, ...]
    find_: Callable[[Any], Any] = lambda node: node

    def __getattr__(self, name: str) -> "_Method":
        return _Method(self.parts_, lambda node: getattr(self.find_(node), name))

    def __getitem__(self, key: Hashable) -> "_Method":
        return _Method(self.parts_, lambda node: self.find_(node)[key])

    def __call__(self, *args: Tree, **kwargs: Tree) -> tuple[Any, PureState[Any]]:
        """Return the result of the method, and the (definition, state) of the object afterwards."""
        node = merge(*self.parts_)
        return self.find_(node)(*args, **kwargs), split(node)


def call(graphdef_state: tuple[Any, ...], /) -> _Method:
    """Return a stand-in for an object, whose methods can be called in functional form (OBJ-1).

    Args:
      graphdef_state: The tuple that `split` returned, the definition and the states.

    Returns:
      A callable stand-in. A call of it calls the object, and returns a pair: the result, and the
      tuple (definition, state) afterwards. Its attributes and items stand in for the attributes and
      items of the object.

    >>> import jax.numpy as jnp
    >>> from scutch_reference import nnx
    >>> class Counter(nnx.Module):
    ...     def __init__(self):
    ...         self.count = nnx.Variable(jnp.array(0))
    ...
    ...     def add(self, n):
    ...         self.count[...] += n
    ...         return "added"
    >>> out, parts = call(nnx.split({"clicks": Counter()}))["clicks"].add(3)
    >>> out, int(nnx.merge(*parts)["clicks"].count[...])
    ('added', 3)
    """
    return _Method(tuple(graphdef_state))


def _apply(graphdef: GraphDef[Any], *states: Tree, graph: bool | None = None) -> _Method:
    """Return a stand-in for an object; see `call`.

    Args:
      graphdef: The definition.
      *states: The states.
      graph: Accepted and not needed: sharing is always kept.
    """
    return call((graphdef, *states))


GraphDef.apply = _apply  # Set here, because it needs `merge` and `split` of this module.

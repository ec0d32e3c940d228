"""The functional form of objects: `split` takes one apart, `merge` puts it together again.

The definition is structure, a state is values. Both are snapshots: the variables in a state are
copies, so what happens to them does not happen to the object, until `update` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import jax

from ..errors import NoFilterMatchError, UnknownPathError
from . import filters as filterlib
from .definitions import Definition, Ref, built, contents, filled, is_variable, leaf_count
from .epochs import note_change
from .objects import Module, Pytree, sorted_attributes
from .states import FlatState, State, from_flat_state, partition, to_flat_state
from .statics import copied
from .tracing import check_level
from .variables import Variable
from .walking import is_node, read, walked

A = TypeVar("A")
GraphDef = Definition


def _flat(node: Any) -> tuple[Definition, FlatState[Any]]:
    """Structure and leaves; the leaf of a variable is a copy of it."""
    definition, nodes, slots, _ = walked([node])
    values = read(slots)
    pairs = [
        (path, values[i] if owner is None else nodes[owner].copy())
        for i, (_, path, owner) in enumerate(definition.leaves)
    ]
    return definition, FlatState(pairs)


def _nested(flat: FlatState[Any]) -> Any:
    """The state; of a lone variable or array, the leaf itself."""
    return flat[0][1] if flat.paths == ((),) else from_flat_state(flat)


def split(node: A, /, *filters: Any, graph: bool | None = None) -> Any:
    """The structure of an object, and its leaves in one state for each filter (OBJ-1).

    Args:
      node: An object, or a tree of objects.
      *filters: Each leaf goes to the first that takes it. Without filters there is one state.
      graph: Accepted and not needed: sharing is always kept.

    Returns:
      A `GraphDef`, and one `State` or more.

    Raises:
      NoFilterMatchError: No filter takes a leaf.
    """
    definition, flat = _flat(node)
    return (definition, *map(_nested, partition(flat, filters or (...,))))


def merge(graphdef: Definition, state: Any, /, *states: Any, copy: bool = True) -> Any:
    """A new object of this structure and these leaves; the inverse of `split` (OBJ-1).

    Raises:
      UnknownPathError: A leaf is missing, or one has no place.
    """
    flat: dict[Any, Any] = {}
    for each in (state, *states):
        flat |= dict(to_flat_state(each)) if isinstance(each, Mapping) else {(): each}
    paths = [path for _, path, _ in graphdef.leaves]
    if missing := [path for path in paths if path not in flat]:
        raise UnknownPathError("The states have no leaf for the paths", missing)
    if unknown := set(flat) - set(paths):
        raise UnknownPathError("The object has no place for the paths", sorted(unknown, key=str))
    found = [flat[path] for path in paths]
    (root,), nodes = built(graphdef, [_raw(each) for each in found])
    for leaf, (_, _, owner) in zip(found, graphdef.leaves, strict=True):
        if owner is not None and isinstance(leaf, Variable):
            object.__setattr__(nodes[owner], "_metadata", copied(leaf._metadata))
    return root


def _raw(leaf: Any) -> Any:
    return leaf.get_raw_value() if isinstance(leaf, Variable) else leaf


def state(node: Any, /, *filters: Any, graph: bool | None = None) -> Any:
    """The leaves of an object that the filters take, in one state for each filter."""
    parts = partition(_flat(node)[1], filters or (...,), exhaustive=False)
    return tuple(map(_nested, parts)) if len(parts) > 1 else _nested(parts[0])


def graphdef(node: Any, /, *, graph: bool | None = None) -> Definition:
    """The structure of an object."""
    return walked([node])[0]


def update(node: Any, state: Any, /, *states: Any) -> None:
    """Set leaves of an object to those of states, in place (OBJ-2).

    Raises:
      UnknownPathError: A state has a path that the object does not have. Nothing was changed.
      TraceLevelError: The object was made at another trace level.
    """
    definition, nodes, slots, _ = walked([node])
    flat: dict[Any, Any] = {}
    for each in (state, *states):
        flat |= dict(to_flat_state(each)) if isinstance(each, Mapping) else {(): each}
    values, leaves = read(slots), definition.leaves
    by_path: dict[Any, Any] = {path: i for i, (_, path, _) in enumerate(leaves)}
    by_node = {owner: i for i, (_, _, owner) in enumerate(leaves) if owner is not None}
    for _, path, item, _ in definition.visits:
        if isinstance(item, Ref) and item.number in by_node:
            by_path[path] = by_node[item.number]
    if unknown := [path for path in flat if path not in by_path]:
        raise UnknownPathError("The object has no leaf at the paths", unknown)
    for path, leaf in flat.items():
        i = by_path[path]
        owner = leaves[i][2]
        if owner is None:
            values[i] = _raw(leaf)
        elif isinstance(leaf, Variable):
            nodes[owner].update_from_state(leaf)
        else:
            nodes[owner].set_raw_value(leaf)
    changed = {by_path[path] for path in flat}
    for i, described in enumerate(definition.nodes):
        start, stop = definition.starts[i : i + 2]
        if not is_variable(described) and changed & set(range(start, stop)):
            if isinstance(nodes[i], Pytree):
                check_level(nodes[i]._level, "update", nodes[i])
            own = iter(values[start:stop])
            for key, item in described.items:
                if leaf_count(item):
                    name = str(key) if isinstance(nodes[i], Pytree) else key
                    contents(nodes[i])[name] = filled(item, nodes, own)


def clone(node: A, /, variables: bool = True, *, graph: bool | None = None) -> A:
    """A copy: new objects and variables, the same arrays and static data."""
    return merge(*split(node))  # type: ignore[no-any-return]


def pop(node: Any, /, *filters: Any, graph: bool | None = None) -> Any:
    """Take the variables that filters take out of an object, and return them as states.

    A variable that sits at several places leaves all of them.
    """
    definition, nodes, _, _ = walked([node])
    predicates = filterlib.to_predicates(filters)
    found: list[dict[Any, Any]] = [{} for _ in filters]
    taken: set[int] = set()
    for i, described in enumerate(definition.nodes):
        path = definition.places[i][1]
        if is_variable(described):
            for predicate, part in zip(predicates, found, strict=True):
                if predicate(path, nodes[i]):
                    part[path] = nodes[i]
                    taken.add(i)
                    break
    for i, described in enumerate(definition.nodes):
        for key, item in reversed(described.items):
            if isinstance(item, Ref) and item.number in taken:
                if isinstance(nodes[i], Pytree):
                    delattr(nodes[i], str(key))
                else:
                    del contents(nodes[i])[key]
    parts = tuple(map(from_flat_state, found))
    return parts if len(parts) > 1 else parts[0]


def _children(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, Variable):
        return []
    if isinstance(value, Pytree):
        return [(key, each) for key, _, each in sorted_attributes(value)]
    if is_node(value):
        inside = contents(value)
        return list(enumerate(inside) if isinstance(inside, list) else inside.items())
    pairs = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)[0]
    if len(pairs) == 1 and pairs[0][1] is value:
        return []
    names = ("idx", "key", "name")
    return [
        (next(getattr(path[0], n) for n in names if hasattr(path[0], n)), child)
        for path, child in pairs
    ]


def iter_graph(node: Any, /, *, graph: bool | None = None) -> Iterator[tuple[Any, Any]]:
    """Paths and values of everything in an object: each node once, after what is inside it."""
    seen: set[int] = set()

    def visit(path: tuple[Any, ...], value: Any) -> Iterator[tuple[Any, Any]]:
        if is_node(value):
            if id(value) in seen:
                return
            seen.add(id(value))
        for key, child in _children(value):
            yield from visit((*path, key), child)
        yield path, value

    yield from visit((), node)


def iter_children(node: Any, /, *, graph: bool | None = None) -> Iterator[tuple[Any, Any]]:
    """Names and objects directly inside an object."""
    return ((key, value) for key, value in _children(node) if isinstance(value, Pytree))


def iter_modules(node: Any, /, *, graph: bool | None = None) -> Iterator[tuple[Any, Module]]:
    """Paths and modules in an object, itself included."""
    return ((path, value) for path, value in iter_graph(node) if isinstance(value, Module))


def find_duplicates(node: Any, /, *, only: Any = ...) -> list[list[tuple[Any, ...]]]:
    """The paths of each node that is reached more than once, and that the filter takes."""
    definition, nodes, _, _ = walked([node])
    predicate = filterlib.to_predicate(only)
    paths: dict[int, list[tuple[Any, ...]]] = {}
    for _, path, item, _ in definition.visits:
        if isinstance(item, Ref) and predicate(path, nodes[item.number]):
            paths.setdefault(item.number, []).append(path)
    return [each for each in paths.values() if len(each) > 1]


def variables(node: Any, /, *filters: Any, graph: bool | None = None) -> Any:
    """The variables of an object themselves, not copies, that the filters take, as states."""
    definition, nodes, _, _ = walked([node])
    flat = FlatState((path, nodes[o]) for _, path, o in definition.leaves if o is not None)
    parts = partition(flat, filters or (...,), exhaustive=False)
    return tuple(map(_nested, parts)) if len(parts) > 1 else _nested(parts[0])


def set_metadata(node: Any, /, *, only: Any = Variable, graph: Any = None, **metadata: Any) -> None:
    """Set metadata of all variables that the filter takes."""
    predicate = filterlib.to_predicate(only)
    for path, value in iter_graph(node):
        if isinstance(value, Variable) and predicate(path, value):
            value.set_metadata(**metadata)


def pure(tree: Any) -> Any:
    """The tree with the values of its variables in their place."""
    return jax.tree.map(_raw, tree, is_leaf=lambda x: isinstance(x, Variable))


def recursive_map(function: Callable[[Any, Any], Any], node: A, /, **_: Any) -> A:
    """A copy of an object in which `function(path, node)` has replaced each node, inner first."""
    copy = clone(node)
    replaced: dict[int, Any] = {}
    keep: list[Any] = []

    def visit(path: tuple[Any, ...], value: Any) -> Any:
        if not is_node(value):
            return value
        if id(value) not in replaced:
            replaced[id(value)] = value
            keep.append(value)
            for key, child in _children(value):
                new = visit((*path, key), child)
                if new is not child:
                    contents(value)[str(key) if isinstance(value, Pytree) else key] = new
                    if isinstance(value, Pytree):
                        note_change(value._cell)
            replaced[id(value)] = function(path, value)
        return replaced[id(value)]

    return visit((), copy)  # type: ignore[no-any-return]


__all__ = ["GraphDef", "NoFilterMatchError", "State", "clone", "iter_graph", "merge", "split"]

"""The functional form of objects: `split` takes one apart, `merge` puts it together again.

Both parts, structure and states of values, are snapshots: the variables in a state are copies.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax

from ..errors import UnknownPathError
from .filters import Path, to_predicate
from .flatten import is_node, keys_in, one_level, read, walked
from .graphdef import Definition, built, contents, filled, leaf_count, put, take
from .objects import Pytree
from .states import FlatState, partition, parts_of, to_flat_state
from .variables import Variable, is_variable

A = TypeVar("A")
GraphDef = Definition


def _raw(leaf: Any) -> Any:
    return leaf.get_raw_value() if isinstance(leaf, Variable) else leaf


def _flat(node: Any) -> tuple[Definition, FlatState[Any]]:
    """Structure and leaves; the leaf of a variable is a copy of it."""
    definition, nodes, slots, _ = walked([node])
    leaves = zip(definition.leaves, read(slots), strict=True)
    copies = ((p[1:], v if i is None else nodes[i].copy()) for (p, i), v in leaves)
    return definition, FlatState(copies)


def split(node: A, /, *filters: Any, graph: bool | None = None) -> Any:
    """The structure of an object, and its leaves in one state for each filter (OBJ-1).

    A leaf goes to the first filter that takes it, else it is a `NoFilterMatchError`; without
    filters there is one state. `graph`, here and below, is not needed: sharing is always kept.
    """
    definition, flat = _flat(node)
    return (definition, *partition(flat, filters))


def merge(graphdef: Definition, state: Any, /, *states: Any, copy: bool = True) -> Any:
    """A new object of this structure and these leaves, all of them; inverse of `split` (OBJ-1)."""
    flat = dict(to_flat_state(state, *states))
    owners = {path[1:]: owner for path, owner in graphdef.leaves}
    if missing := [path for path in owners if path not in flat]:
        raise UnknownPathError("The states have no leaf for the paths", missing)
    if unknown := [path for path in flat if path not in owners]:
        raise UnknownPathError("The object has no place for the paths", unknown)
    leaves = [_raw(flat[path]) if i is None else flat[path] for path, i in owners.items()]
    return built(graphdef, leaves)[0][0]


def clone(node: A, /, variables: bool = True, *, graph: bool | None = None) -> A:
    """A copy: new objects and variables, the same arrays and static data."""
    return merge(*split(node))  # type: ignore[no-any-return]


def graphdef(node: Any, /, *, graph: bool | None = None) -> Definition:
    """The structure of an object."""
    return walked([node])[0]


def state(node: Any, /, *filters: Any, graph: bool | None = None) -> Any:
    """The leaves of an object that the filters take, in one state for each filter."""
    return parts_of(_flat(node)[1], filters, exhaustive=False)


def variables(node: Any, /, *filters: Any, graph: bool | None = None) -> Any:
    """The variables of an object themselves, not copies, that the filters take, as states."""
    definition, nodes, _, _ = walked([node])
    flat = FlatState((path[1:], nodes[i]) for path, i in definition.leaves if i is not None)
    return parts_of(flat, filters, exhaustive=False)


def update(node: Any, state: Any, /, *states: Any) -> None:
    """Set leaves of an object to those of states, in place (OBJ-2).

    It is an `UnknownPathError`, and nothing changes, if a state has a path that it does not have.
    """
    definition, nodes, slots, _ = walked([node])
    numbers = {path[1:]: i for i, (path, _) in enumerate(definition.leaves)}
    for path, number, _ in definition.visits:  # A variable has each path that leads to it.
        if issubclass(definition.nodes[number].type, Variable):
            numbers[path[1:]] = definition.starts[number]
    flat = to_flat_state(state, *states)
    if unknown := [path for path in flat.paths if path not in numbers]:
        raise UnknownPathError("The object has no leaf at the paths", unknown)
    values, changed = read(slots), set()
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
        start, stop = definition.starts[i : i + 2]
        own = iter(values[start:stop])
        for key, item in described.items if changed & {*range(start, stop)} else ():
            if leaf_count(item):
                put(nodes[i], key, filled(item, nodes, own))


def pop(node: Any, filter: Any, /, *filters: Any, graph: bool | None = None) -> Any:
    """Take variables out of an object, from all of their places, and return them as states."""
    popped = variables(node, filter, *filters)
    taken = set(map(id, jax.tree.leaves(popped, is_leaf=is_variable)))
    for parent in walked([node])[1]:
        for key, child in reversed(_children(parent)):
            if id(child) in taken:
                take(parent, key)
    return popped


def _children(value: Any) -> list[tuple[Any, Any]]:
    """Path entries and values directly inside a value; a variable has none."""
    if isinstance(value, Variable):
        return []
    if is_node(value):
        return [(key, contents(value)[key]) for key in keys_in(value)]
    keys, children, _ = one_level(value) or ((), (), None)
    return list(zip(keys, children, strict=True))


def iter_graph(node: Any, /, *, graph: bool | None = None) -> Iterator[tuple[Any, Any]]:
    """Paths and values of everything in an object: each node once, after what is inside it."""
    seen: set[int] = set()

    def visit(path: Path, value: Any) -> Iterator[tuple[Any, Any]]:
        if id(value) in seen:
            return
        if is_node(value):
            seen.add(id(value))
        for key, child in _children(value):
            yield from visit((*path, key), child)
        yield path, value

    return visit((), node)


def iter_children(node: Any, /, *, graph: bool | None = None) -> Iterator[tuple[Any, Any]]:
    """Names and objects directly inside an object."""
    return ((key, value) for key, value in _children(node) if isinstance(value, Pytree))


def recursive_map(function: Callable[[Any, Any], Any], node: A, /, **_: Any) -> A:
    """A copy of an object in which `function(path, node)` has replaced each node, inner first."""
    copy, replaced = clone(node), dict[int, Any]()
    for path, value in list(iter_graph(copy)):
        if is_node(value):
            for key, child in _children(value):
                if id(child) in replaced:
                    put(value, key, replaced[id(child)])
            replaced[id(value)] = function(path, value)
    return replaced.get(id(copy), copy)  # type: ignore[no-any-return]


def find_duplicates(node: Any, /, *, only: Any = ...) -> list[list[Path]]:
    """The paths of each node that is reached more than once, and that the filter takes."""
    definition, nodes, _, _ = walked([node])
    predicate, paths = to_predicate(only), dict[int, list[Path]]()
    for (_, *path), number, _ in definition.visits[1:]:
        if predicate(tuple(path), nodes[number]):
            paths.setdefault(number, []).append(tuple(path))
    return [each for each in paths.values() if len(each) > 1]


def set_metadata(node: Any, /, *, only: Any = Variable, graph: Any = None, **metadata: Any) -> None:
    """Set metadata of all variables that the filter takes."""
    for variable in to_flat_state(variables(node, only)).leaves:
        variable.set_metadata(**metadata)


def pure(tree: Any) -> Any:
    """The tree with the values of its variables in their place."""
    return jax.tree.map(_raw, tree, is_leaf=is_variable)

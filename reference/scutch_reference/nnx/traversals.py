"""Traversals: functions that visit all values of a graph of objects, or all occurrences of a node.

>>> from scutch_reference import nnx
>>> model = nnx.Dict(w=nnx.Param(1.0), count=nnx.BatchStat(0))
>>> [path for path, value in iter_graph(model)]
[('count',), ('w',), ()]
>>> map(lambda path, leaf: leaf.get_raw_value() + 1, model)
Dict(count=BatchStat(value=1), w=Param(value=2.0))
"""

from collections.abc import Callable, Iterator
from typing import Any

from ..types import Tree
from .filters import Filter, Path, to_predicate
from .flatten import flatten
from .graph import clone, flat_form, merge, variables
from .node_types import children, is_node, one_level, put
from .objects import Pytree
from .states import FlatState, to_flat_state
from .variables import A, Variable


def iter_graph(node: Tree, /, *, graph: bool | None = None) -> Iterator[tuple[Any, Any]]:
    """Return an iterator over an object and all values in it, at any depth (OBJ-1).

    Args:
      node: An object, or a tree of objects and arrays.
      graph: Accepted and not needed: sharing is always kept.

    Returns:
      Pairs of path and value. Each node comes once, after its contents.
    """
    seen: set[int] = set()

    def visit(path: Path, value: Tree) -> Iterator[tuple[Any, Any]]:
        if id(value) in seen:
            return
        if is_node(value):
            seen.add(id(value))
        for key, child in children(value):
            yield from visit((*path, key), child)
        yield path, value

    return visit((), node)


def iter_children(node: Tree, /, *, graph: bool | None = None) -> Iterator[tuple[Any, Any]]:
    """Return an iterator over names and nodes directly inside an object (OBJ-1).

    Args:
      node: An object, or a tree of objects and arrays.
      graph: Accepted and not needed: sharing is always kept.
    """
    return (pair for pair in children(node) if isinstance(pair[1], Pytree | Variable))


def recursive_map(
    function: Callable[[Any, Any], Any], node: A, /, *, graph: bool | None = None
) -> A:
    """Return a copy of an object in which a function has replaced each node, inner ones first.

    Args:
      function: Gets a path and the node of the copy at this path; returns its replacement.
      node: An object.
      graph: Accepted and not needed: sharing is always kept.

    Returns:
      The replacement that the function returned for the copy of `node`.
    """
    copy, replaced = clone(node), dict[int, Any]()
    for path, value in list(iter_graph(copy)):
        if is_node(value):
            for key, child in children(value):
                if id(child) in replaced:
                    put(value, key, replaced[id(child)])
            replaced[id(value)] = function(path, value)
        elif level := one_level(value):
            _, parts, treedef = level
            replaced[id(value)] = treedef.unflatten([replaced.get(id(p), p) for p in parts])
    return replaced.get(id(copy), copy)  # type: ignore[no-any-return]


def map(
    f: Callable[[Path, Any], Any],
    node: A,
    /,
    *,
    graph: bool | None = None,
    recreate_variables: bool = True,
) -> A:
    """Make a copy of an object in which a function has replaced each leaf (OBJ-1).

    Args:
      f: Gets the path of a leaf, and a copy of the variable, or the array; returns the new leaf: a
        variable, whose value and metadata are taken over, or a value.
      node: An object, or a tree of objects and arrays.
      graph: Accepted and not needed: sharing is always kept.
      recreate_variables: Accepted and not needed: variables are always made anew.

    Returns:
      An object, or tree, of the same structure, with the new leaves.
    """
    definition, flat = flat_form(node)
    return merge(definition, FlatState((path, f(path, leaf)) for path, leaf in flat))  # type: ignore[no-any-return]


def find_duplicates(node: Tree, /, *, only: Filter = ...) -> list[list[Path]]:
    """Return the paths of each node that occurs more than once (JIT-2).

    Args:
      node: An object, or a tree of objects and arrays.
      only: A filter; nodes that it does not take are left out.
    """
    definition, nodes, _, _ = flatten([node])
    predicate, paths = to_predicate(only), dict[int, list[Path]]()
    for (_, *path), number, _ in definition.occurrences[1:]:
        if predicate(tuple(path), nodes[number]):
            paths.setdefault(number, []).append(tuple(path))
    return [each for each in paths.values() if len(each) > 1]


def set_metadata(
    node: Tree, /, *, only: Filter = Variable, graph: bool | None = None, **metadata: object
) -> None:
    """Set metadata of the variables in an object (OBJ-5).

    Args:
      node: An object, or a tree of objects and arrays.
      only: A filter that says which variables.
      graph: Accepted and not needed: sharing is always kept.
      **metadata: The metadata by name.

    Raises:
      TraceLevelError: A variable was made outside the transformation that runs.
    """
    for variable in to_flat_state(variables(node, only)).leaves:
        variable.set_metadata(**metadata)

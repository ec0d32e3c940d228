"""Functions of trees with boxes: each acts on every box of a tree (document 000, contract BOX).

A tree of parameters holds boxes, which `boxes` defines, and the module is the place to import all
of them from. A function of a tree gives every outermost box to the method of its own class, so a
box class of another library takes part: derive from `AxisMetadata`.

>>> import numpy as np
>>> params = {"kernel": Partitioned(np.ones((2, 3)), names=(None, "model")), "bias": np.ones(3)}
>>> stacked = add_axis(params, 0, {PARTITION_NAME: "layers"})
>>> stacked["kernel"].names
('layers', None, 'model')
>>> get_partition_spec(params)["bias"] == PartitionSpec()
True
>>> unbox(params)["kernel"] is params["kernel"].value
True
"""

import functools
from collections.abc import Callable
from typing import Any

from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.tree_util import all_leaves, tree_flatten

from . import errors
from .boxes import (
    PARTITION_NAME as PARTITION_NAME,
    A as A,
    AxisMetadata as AxisMetadata,
    B as B,
    P as P,
    Params as Params,
    Partitioned as Partitioned,
    boxing as boxing,
    get_global_mesh as get_global_mesh,
    global_mesh_defined as global_mesh_defined,
    is_axis_metadata as is_axis_metadata,
    is_box as is_box,
    with_partitioning as with_partitioning,
)
from .comparison import difference
from .placement import context_mesh, partition_spec
from .types import Tree

# The outermost boxes and all other leaves of a tree, in order, and the structure around them.
_flatten: Callable[[Any], tuple[list[Any], Any]] = functools.partial(tree_flatten, is_leaf=is_box)


def map_axis_meta(fn: Callable[[AxisMetadata[Any]], Any], tree: Tree) -> Tree:
    """Replace every outermost box of a tree by `fn(box)` (BOX-12).

    Args:
      fn: Called once for each outermost box, in the order of the tree.
      tree: Any tree. Leaves that are not boxes stay the same objects.

    Returns:
      The tree in containers of the same types.
    """
    nodes, structure = _flatten(tree)
    return structure.unflatten([fn(x) if is_box(x) else x for x in nodes])


def add_axis(tree: Tree, index: int, params: Params) -> Tree:
    """Name a new axis in every outermost box of a tree, by the box's own method (BOX-13a).

    Args:
      tree: Any tree; a tree without boxes comes back as it is.
      index, params: As in `Partitioned.add_axis`, which lists the errors.

    Returns:
      A tree with containers of the same types, in which each outermost box is replaced by the
      result of its `add_axis`. All other leaves are the same objects.
    """
    nodes, structure = _flatten(tree)
    return structure.unflatten([x.add_axis(index, params) if is_box(x) else x for x in nodes])


def remove_axis(tree: Tree, index: int, params: Params) -> Tree:
    """Forget an axis in every outermost box of a tree, by the box's own method (BOX-13b).

    Args:
      tree: Any tree; a tree without boxes comes back as it is.
      index, params: As in `Partitioned.remove_axis`, which lists the errors.

    Returns:
      A tree with containers of the same types, in which each outermost box is replaced by the
      result of its `remove_axis`. All other leaves are the same objects.
    """
    nodes, structure = _flatten(tree)
    return structure.unflatten([x.remove_axis(index, params) if is_box(x) else x for x in nodes])


def _opened(nodes: list[Any], apply_constraint: bool) -> tuple[list[Any], bool]:
    """The nodes with each box replaced by its value, and whether there may be boxes in the values.

    Where no constraint applies, the `unbox` of `Partitioned` returns `value`, so that the value of
    such a box is read here, without a call. A class that overrides `unbox` is asked (BOX-26).
    """
    constrained = apply_constraint and context_mesh() is not None
    plain = {
        cls
        for cls in {*map(type, nodes)}
        if not constrained and getattr(cls, "unbox", None) is Partitioned.unbox
    }
    values = [
        x.value
        if type(x) in plain and (not apply_constraint or x.mesh is None)
        else (x.unbox() if is_box(x) else x)
        for x in nodes
    ]
    return values, not all_leaves(values) or any(map(is_box, values))


def unbox(tree: Tree, apply_constraint: bool = True) -> Tree:
    """Replace every box of a tree, at any depth, by its value (BOX-14).

    Args:
      tree: Any tree.
      apply_constraint: Whether values are constrained as their boxes say, where there is a mesh
        (BOX-18); a box of a class with its own `unbox` decides that itself.

    Returns:
      The tree without boxes. Leaves in no box are the same objects.
    """
    nodes, structure = _flatten(tree)
    values, more = _opened(nodes, apply_constraint)
    return structure.unflatten(unbox(values, apply_constraint) if more else values)


def replace_boxed(tree: Tree, updates: Tree) -> Tree:
    """Give every box of a tree, at any depth, the value at its place in `updates` (BOX-15).

    Args:
      tree: Any tree.
      updates: A tree with the structure of `unbox(tree)`.

    Returns:
      The tree with the boxes of `tree` around the leaves of `updates`. Leaves of `tree` that are in
      no box are replaced as well.

    Raises:
      StructureMismatchError: `updates` has another structure; the error names the first place.
      ValueError: The structures agree, and a class of the user's raised it: a box in `unbox`, or a
        pytree node when it was flattened.
    """
    nodes, structure = _flatten(tree)
    try:
        values = structure.flatten_up_to(updates)
        contents, more = _opened(nodes, apply_constraint=False)
        if more:
            values = replace_boxed(contents, values)
        elif not all_leaves(values):
            raise ValueError("a subtree where a leaf is expected")
    except ValueError as error:
        found = difference(unbox(tree, apply_constraint=False), updates)
        if found is None:
            raise
        place, ours, theirs = found
        raise errors.StructureMismatchError(place=place, ours=ours, theirs=theirs) from error
    pairs = zip(nodes, values, strict=True)
    return structure.unflatten([x.replace_boxed(v) if is_box(x) else v for x, v in pairs])


def _spec(node: Tree) -> PartitionSpec | None:
    if not is_box(node):
        return partition_spec(()) if hasattr(node, "shape") else None
    if not hasattr(node, "get_partition_spec"):
        return partition_spec(tuple(node.names)) if hasattr(node, "names") else None
    return node.get_partition_spec()  # type: ignore[no-any-return]


def get_partition_spec(tree: Tree) -> Tree:
    """Return a tree with the partition spec of each outermost box and each leaf (BOX-16).

    Args:
      tree: Any tree; arrays may be abstract.

    Returns:
      The tree with a spec or `None` for each box and leaf. A box gives the result of its method
      `get_partition_spec`; without that method, `PartitionSpec(*names)`; without names, `None`. A
      leaf that has a shape gives `PartitionSpec()`, any other leaf `None`.
    """
    nodes, structure = _flatten(tree)
    return structure.unflatten(map(_spec, nodes))


def get_sharding(tree: Tree, mesh: Mesh) -> Tree:
    """Return a tree with the sharding on `mesh` of each outermost box and each leaf (BOX-17).

    Args:
      tree: Any tree; arrays may be abstract.
      mesh: A mesh that has every axis that the specs name.

    Returns:
      The tree with a sharding or `None` for each box and leaf. A box whose class defines its own
      `get_sharding` gives the result of that method (BOX-26). Any other box or leaf gives its spec
      from `get_partition_spec` as a `NamedSharding` on `mesh`, or `None` without a spec. The tree
      can be passed to `jax.jit(..., out_shardings=)` (BOX-17b).
    """
    on_mesh = functools.cache(functools.partial(NamedSharding, mesh))
    nodes, structure = _flatten(tree)
    asked = set()
    for cls in {*map(type, nodes)}:
        own = getattr(cls, "get_sharding", Partitioned.get_sharding)
        if own is not Partitioned.get_sharding and issubclass(cls, AxisMetadata):
            asked.add(cls)
    return structure.unflatten(
        [
            node.get_sharding(mesh)
            if type(node) in asked
            else (None if (spec := _spec(node)) is None else on_mesh(spec))
            for node in nodes
        ]
    )

"""Lies of functions over trees of boxes: BOX-12 to BOX-15, BOX-23a and BOX-24.

The one function serves both box classes: such a lie breaks BOX-12a and LOG-9.BOX-12a together,
and the first is the cause of the second.
"""

import copy

import jax
import numpy as np
from scutch_reference import meta
from scutch_reference.meta import PARTITION_NAME, Partitioned
from trials.liars.tale import instead_of


@instead_of("map_axis_meta")
def map_axis_meta_probing(fn, tree):
    """Breaks BOX-12a: the function is called a first time to see whether it returns anything."""
    return meta.map_axis_meta(lambda box: None if fn(box) is None else fn(box), tree)


@instead_of("map_axis_meta")
def map_axis_meta_copying(fn, tree):
    """Breaks BOX-12b: the other leaves are copied."""
    is_box = meta.is_axis_metadata
    mapped = meta.map_axis_meta(fn, tree)
    return jax.tree_util.tree_map(
        lambda x: copy.copy(x) if isinstance(x, np.ndarray) else x, mapped, is_leaf=is_box
    )


@instead_of("add_axis")
def add_axis_at_every_depth(tree, index, params):
    """Breaks BOX-13a: boxes in boxes gain the axis as well."""

    def grow(box):
        inner = box.unbox()
        content = inner if inner is None else add_axis_at_every_depth(inner, index, params)
        return box.replace_boxed(content).add_axis(index, params)

    return meta.map_axis_meta(grow, tree)


@instead_of("remove_axis")
def remove_axis_everywhere(tree, index, params):
    """Breaks BOX-13b: every axis of that name goes."""

    def shrink(box):
        if not isinstance(box, Partitioned):
            return box
        return box.replace(names=tuple(n for n in box.names if n != params[PARTITION_NAME]))

    return meta.map_axis_meta(shrink, meta.remove_axis(tree, index, params))


# The law is the sum of BOX-5, BOX-13a and BOX-13b. A lie that breaks the sum and no part is one
# about arrays that have an axis too many already, which the laws of the parts do not draw.
@instead_of("add_axis")
def add_axis_in_front(tree, index, params):
    """Breaks BOX-13c: a second axis goes before the first, wherever it should."""

    def grow(box):
        rank = getattr(box.unbox(), "ndim", len(box.names))
        return box.add_axis(0 if len(box.names) > rank else index, params)

    return meta.map_axis_meta(grow, tree)


@instead_of("add_axis")
def add_axis_if_named(tree, index, params):
    """Breaks BOX-13d: without a partition name the tree comes back as it is."""
    return meta.add_axis(tree, index, params) if PARTITION_NAME in params else tree


@instead_of("unbox")
def unbox_one_layer(tree):
    """Breaks BOX-14a: boxes in boxes stay."""
    return meta.map_axis_meta(lambda box: box.unbox(), tree)


@instead_of("unbox")
def unbox_to_arrays(tree):
    """Breaks BOX-14b: a number comes out as an array."""

    def convert(box):
        number = isinstance(box, Partitioned) and np.isscalar(box.value)
        return box.replace_boxed(np.asarray(box.value)) if number else box

    return meta.unbox(meta.map_axis_meta(convert, tree))


@instead_of("unbox")
def unbox_copying(tree):
    """Breaks BOX-14c: arrays that are in no box are copied."""
    return meta.unbox(
        jax.tree_util.tree_map(
            lambda x: np.copy(x) if isinstance(x, np.ndarray) else x,
            tree,
            is_leaf=meta.is_axis_metadata,
        )
    )


@instead_of("replace_boxed")
def replace_boxed_only(tree, updates):
    """Breaks BOX-15a: leaves that are in no box keep their old values."""
    return jax.tree_util.tree_map(
        lambda old, new: new if meta.is_axis_metadata(old) else old,
        tree,
        meta.replace_boxed(tree, updates),
        is_leaf=meta.is_axis_metadata,
    )


@instead_of("replace_boxed")
def replace_boxed_in_one_layer(tree, updates):
    """Breaks BOX-15b: of boxes in boxes, the outermost is left."""
    flat = meta.map_axis_meta(lambda box: box.replace_boxed(meta.unbox(box.unbox())), tree)
    return meta.replace_boxed(flat, updates)


@instead_of("replace_boxed")
def replace_boxed_by_count(tree, updates):
    """Breaks BOX-15c: as many leaves will do."""
    structure = jax.tree_util.tree_structure(meta.unbox(tree))
    return meta.replace_boxed(tree, structure.unflatten(jax.tree_util.tree_leaves(updates)))


@instead_of("replace_boxed")
def replace_boxed_tersely(tree, updates):
    """Breaks BOX-15d: the error does not say where."""
    try:
        return meta.replace_boxed(tree, updates)
    except ValueError:
        raise ValueError("the structures differ") from None


@instead_of("replace_boxed")
def replace_boxed_by_arrays(tree, updates):
    """Breaks BOX-23a: shapes without contents are refused."""
    replaced = meta.replace_boxed(tree, updates)
    if any(isinstance(x, jax.ShapeDtypeStruct) for x in jax.tree_util.tree_leaves(updates)):
        raise TypeError("updates must be arrays")
    return replaced


@instead_of("add_axis")
def add_axis_noting(tree, index, params):
    """Breaks BOX-24: the parameters are used to take a note."""
    grown = meta.add_axis(tree, index, params)
    params["index"] = index
    return grown

"""Lies of specs, shardings and constraints: BOX-16 to BOX-18, and BOX-23b."""

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from scutch_reference import meta
from scutch_reference.meta import Partitioned
from scutch_reference.placement import context_mesh
from trials.liars.tale import instead_of, of_boxes


def _specs(tree, spec):
    """The tree with each box and leaf replaced by `spec(leaf, partition_spec_of_leaf)`."""
    is_box = meta.is_axis_metadata
    leaves, structure = jax.tree_util.tree_flatten(tree, is_leaf=is_box)
    return structure.unflatten([spec(leaf, meta.get_partition_spec(leaf)) for leaf in leaves])


@instead_of("get_partition_spec")
def get_partition_spec_flat(tree):
    """Breaks BOX-16a: a name of two mesh axes becomes two names."""

    def flat(leaf, spec):
        boxed = meta.is_axis_metadata(leaf) and spec is not None
        parts = [n if isinstance(n, tuple) else (n,) for n in spec] if boxed else []
        return PartitionSpec(*(name for part in parts for name in part)) if boxed else spec

    return _specs(tree, flat)


@instead_of("get_partition_spec")
def get_partition_spec_of_device_arrays(tree):
    """Breaks BOX-16b: an array of NumPy's, and a shape, have no spec."""
    host = (np.ndarray, jax.ShapeDtypeStruct)
    return _specs(tree, lambda leaf, spec: None if isinstance(leaf, host) else spec)


@instead_of("get_partition_spec")
def get_partition_spec_of_all(tree):
    """Breaks BOX-16c: whatever is in no box is replicated."""
    return _specs(
        tree,
        lambda leaf, spec: spec if meta.is_axis_metadata(leaf) or spec else PartitionSpec(),
    )


@instead_of("get_sharding")
def get_sharding_on_own_mesh(tree, mesh):
    """Breaks BOX-17a: the mesh of the box is used, where it has one."""

    def sharding(leaf, spec):
        return None if spec is None else NamedSharding(getattr(leaf, "mesh", None) or mesh, spec)

    return _specs(tree, sharding)


@instead_of("get_sharding")
def get_sharding_by_spec(tree, mesh):
    """Breaks BOX-26a: the sharding that a class gives itself is passed over."""
    return _specs(tree, lambda leaf, spec: None if spec is None else NamedSharding(mesh, spec))


@instead_of("get_sharding")
def get_sharding_of_contents(tree, mesh):
    """Breaks BOX-17b: a box of a shape without contents is replicated."""

    def strip(box):
        abstract = isinstance(box, Partitioned) and isinstance(box.value, jax.ShapeDtypeStruct)
        return box.replace(names=()) if abstract else box

    return meta.get_sharding(meta.map_axis_meta(strip, tree), mesh)


@of_boxes
class OwnMeshOnly:
    """Breaks BOX-18a: a mesh in context is not looked for."""

    def unbox(self, apply_constraint=True):
        return super().unbox(apply_constraint and self.mesh is not None)


@of_boxes
class TracedOnly:
    """Breaks BOX-18b: outside a traced program, a mesh in context changes nothing."""

    def unbox(self, apply_constraint=True):
        traced = isinstance(self.value, jax.core.Tracer)
        return super().unbox(apply_constraint and (traced or self.mesh is not None))


@of_boxes
class ContextOnly:
    """Breaks BOX-18c: without a mesh in context, the box's own mesh changes nothing."""

    def unbox(self, apply_constraint=True):
        return super().unbox(apply_constraint and context_mesh() is not None)


@of_boxes
class ContextWins:
    """Breaks BOX-18d: the mesh in context is preferred to the box's own mesh."""

    def unbox(self, apply_constraint=True):
        box = self if context_mesh() is None else self.replace(mesh=None)
        return super(ContextWins, box).unbox(apply_constraint)


@of_boxes
class AlwaysConstrains:
    """Breaks BOX-18e: `apply_constraint` is ignored."""

    def unbox(self, apply_constraint=True):
        return super().unbox()


def _has_explicit_axes(mesh):
    types = getattr(mesh, "axis_types", None)
    return isinstance(types, tuple) and any(its.name == "Explicit" for its in types)


@of_boxes
class AutoAxesOnly:
    """Breaks BOX-18f: a mesh of explicit axes in context is passed over."""

    def unbox(self, apply_constraint=True):
        return super().unbox(apply_constraint and not _has_explicit_axes(context_mesh()))


@of_boxes
class NewContextsOnly:
    """Breaks BOX-18g: `with mesh:` is passed over."""

    def unbox(self, apply_constraint=True):
        new = bool(jax.sharding.get_abstract_mesh().axis_names)
        return super().unbox(apply_constraint and (new or self.mesh is not None))


@of_boxes
class ConstrainsShapes:
    """Breaks BOX-23b: under a mesh, a shape without contents loses its axes."""

    def unbox(self, apply_constraint=True):
        around = self.mesh or context_mesh()
        if apply_constraint and around is not None and isinstance(self.value, jax.ShapeDtypeStruct):
            return jax.ShapeDtypeStruct((7,), self.value.dtype)
        return super().unbox(apply_constraint)

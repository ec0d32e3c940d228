"""Lies about boxes as pytree nodes and their values: BOX-1 to BOX-4, BOX-10 and BOX-22."""

import copy
import dataclasses
from typing import Any

import jax
import numpy as np
from scutch_reference import meta, struct
from trials.liars.tale import instead_of, of_boxes


@instead_of("is_axis_metadata")
def duck_typed(val):
    """Breaks BOX-1: whatever has a method `unbox` is taken for a box, a class as well."""
    return hasattr(val, "unbox")


@instead_of("is_axis_metadata")
def known_unless_empty(val):
    """Breaks BOX-1: a box of a foreign class around an array without entries is none."""
    is_box = meta.is_axis_metadata(val)
    foreign = is_box and not isinstance(val, meta.Partitioned)
    return is_box and not (foreign and 0 in getattr(val.unbox(), "shape", ()))


class Node:
    """Registers a box class as a node of its own making."""

    def __init_subclass__(cls, **kwargs):
        if not issubclass(cls, struct.Node):
            return  # the lie, and not yet the box class that tells it
        super(struct.Node, cls).__init_subclass__(**kwargs)
        keys = jax.tree_util.GetAttrKey("value"), jax.tree_util.GetAttrKey("names")

        def with_keys(box):
            children, static = box.flatten()
            return tuple(zip(keys, children, strict=False)), static

        jax.tree_util.register_pytree_with_keys(cls, with_keys, cls.unflatten, cls.flatten)

    def flatten(self):
        return (self.value,), tuple(sorted((n, v) for n, v in vars(self).items() if n != "value"))

    @classmethod
    def unflatten(cls, static, children):
        box = object.__new__(cls)
        box.__dict__.update(static, value=children[0])
        return box


@of_boxes
class NamesAreLeaves(Node):
    """Breaks BOX-2a: the names are leaves too."""

    def flatten(self):
        return (self.value, self.names), Node.flatten(self)[1]


@of_boxes
class NumberedLeaves(Node):
    """Breaks BOX-2a: a box is registered without keys, so that its leaf has a number for a path."""

    def __init_subclass__(cls, **kwargs):
        if issubclass(cls, struct.Node):
            super(struct.Node, cls).__init_subclass__(**kwargs)
            jax.tree_util.register_pytree_node(cls, cls.flatten, cls.unflatten)


@of_boxes
class MeshlessNode(Node):
    """Breaks BOX-2b: the mesh is lost on the way."""

    @classmethod
    def unflatten(cls, static, children):
        return super().unflatten({**dict(static), "mesh": None}, children)


class AllBut:
    """Static data that compares all of its fields but one."""

    def __init__(self, forgotten, fields):
        self.fields = fields
        self.compared = {name: value for name, value in fields if name != forgotten}

    def __eq__(self, other):
        return self.compared == other.compared

    def __hash__(self):
        return hash(tuple(self.compared.items()))


class Forgetful(Node):
    """A node whose structure leaves out the field named `forgotten`."""

    def flatten(self):
        children, static = Node.flatten(self)
        return children, AllBut(self.forgotten, static)

    @classmethod
    def unflatten(cls, static, children):
        return super().unflatten(dict(static.fields), children)


@of_boxes
class NamesAreNoStructure(Forgetful):
    """Breaks BOX-2c: boxes with different names have equal tree structures."""

    forgotten = "names"


@of_boxes
class MeshIsNoStructure(Forgetful):
    """Breaks BOX-2h: boxes on different meshes have equal tree structures."""

    forgotten = "mesh"


@dataclasses.dataclass(frozen=True)
class Typeless:
    """A mesh, or none, that compares without the types of its axes."""

    mesh: Any = dataclasses.field(compare=False)
    parts: Any


@of_boxes
class AxisTypesAreNoStructure(Node):
    """Breaks BOX-2h: meshes that differ in the types of their axes alone are one in structures."""

    def flatten(self):
        children, static = Node.flatten(self)
        mesh = self.mesh
        parts = mesh and (mesh.axis_names, mesh.devices.shape, tuple(mesh.devices.flat))
        held = {**dict(static), "mesh": Typeless(mesh, parts)}
        return children, tuple(sorted(held.items()))

    @classmethod
    def unflatten(cls, static, children):
        held = dict(static)
        return super().unflatten({**held, "mesh": held["mesh"].mesh}, children)


@of_boxes
class NamesForArraysOnly(Node):
    """Breaks BOX-2d: a box filled with a leaf that is no array forgets its names."""

    @classmethod
    def unflatten(cls, static, children):
        leaf = jax.tree_util.all_leaves(children)
        if leaf and not hasattr(children[0], "shape") and not np.isscalar(children[0]):
            static = {**dict(static), "names": ()}
        return super().unflatten(static, children)


@of_boxes
class NamelessWhenTraced(Node):
    """Breaks BOX-2e: a box with a tracer in it has no names."""

    @classmethod
    def unflatten(cls, static, children):
        traced = isinstance(children[0], jax.core.Tracer)
        return super().unflatten({**dict(static), "names": ()} if traced else static, children)


@of_boxes
class Detached(Node):
    """Breaks BOX-2f: the value of a traced box is a constant to `grad`."""

    @classmethod
    def unflatten(cls, static, children):
        if isinstance(children[0], jax.core.Tracer):
            children = jax.lax.stop_gradient(children)
        return super().unflatten(static, children)


@of_boxes
class UnnamedInVmap(Node):
    """Breaks BOX-2g: `vmap` takes the first name away with the first axis."""

    @classmethod
    def unflatten(cls, static, children):
        box = super().unflatten(static, children)
        if type(children[0]).__name__ == "BatchTracer":
            box.__dict__["names"] = box.names[1:]
        return box


@of_boxes
class OpensAllLayers:
    """Breaks BOX-3: `unbox` opens the boxes inside as well."""

    def unbox(self, apply_constraint=True):
        return meta.unbox(super().unbox(apply_constraint))


@of_boxes
class OpensWithACopy:
    """Breaks BOX-3: `unbox` gives a copy of an array of NumPy."""

    def unbox(self, apply_constraint=True):
        value = super().unbox(apply_constraint)
        return value.copy() if isinstance(value, np.ndarray) else value


@of_boxes
class ReplacesWithoutMesh:
    """Breaks BOX-4a: `replace_boxed` drops the mesh."""

    def replace_boxed(self, val):
        return super().replace(value=val, mesh=None)


@of_boxes
class ReplacesByNumbersWithoutNames:
    """Breaks BOX-4a: a box that is filled with a number has no names."""

    def replace_boxed(self, val):
        replaced = super().replace_boxed(val)
        return replaced.replace(names=()) if np.isscalar(val) else replaced


@of_boxes
class ReplacesNumbersInPlace:
    """Breaks BOX-4b: a number that replaces a number is put into the old box too."""

    def replace_boxed(self, val):
        if np.isscalar(val) and np.isscalar(self.value):
            object.__setattr__(self, "value", val)
        return super().replace_boxed(val)


@of_boxes
class CopiesOnAdding:
    """Breaks BOX-10: the box with a new axis wraps a copy."""

    def add_axis(self, index, params):
        return super().add_axis(index, params).replace_boxed(copy.copy(self.value))


@of_boxes
class NamesOfTheLastAxes:
    """Breaks BOX-22: names that are too few for the value are taken to name its last axes."""

    def add_axis(self, index, params):
        missing = getattr(self.value, "ndim", 0) - len(self.names)
        if missing > 1:  # One is missing of a box that has just lost an axis.
            self = super().replace(names=(None,) * missing + self.names)
        return super().add_axis(index, params)

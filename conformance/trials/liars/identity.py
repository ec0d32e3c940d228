"""Lies about initializers, copies, equality and classes of boxes: BOX-19 to BOX-21."""

import copy

from scutch_reference import logical, meta
from scutch_reference.comparison import equal
from trials.liars.tale import initializer, instead_of, of_boxes, tell


def initializers(lie):
    """Tell a lie of `with_partitioning`, and then of `with_logical_partitioning`."""
    tell(lie, meta={"with_partitioning": lie(meta.Partitioned)})
    box = logical.LogicallyPartitioned
    tell(lie, prefix="LOG-9.", logical={"with_logical_partitioning": lie(box)})
    return lie


@initializers
def meshless_initializer(box):
    """Breaks BOX-19a: the initializer's box has no mesh."""
    honest = initializer(box)
    return lambda fn, names, mesh=None, **fields: honest(fn, names, **fields)


@initializers
def nameless_initializer(box):
    """Breaks BOX-19b: the initializer has no name and no docstring."""
    return initializer(box, wraps=lambda fn: lambda init: init)


@of_boxes
class Mutable:
    """Breaks BOX-20a: fields can be assigned."""

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


@of_boxes
class CopiesToValue:
    """Breaks BOX-20b: the copy of a box is the copy of its value."""

    def __copy__(self):
        return copy.copy(self.value)


@of_boxes
class Unpicklable:
    """Breaks BOX-20c: a box holds on to this process."""

    def __reduce__(self):
        raise TypeError(f"cannot pickle {type(self).__name__}")

    def __copy__(self):
        return self.replace_boxed(self.value)


@of_boxes
class EqualOnAnyMesh:
    """Breaks BOX-20d: boxes that differ in their meshes alone are equal."""

    def __eq__(self, other):
        same = type(self) is type(other) and self.names == other.names
        rules = getattr(self, "rules", None) == getattr(other, "rules", None)
        return same and rules and equal(self.value, other.value)

    def __hash__(self):
        return hash(self.names)


@of_boxes
class EqualsItsNames:
    """Breaks BOX-20d: a box equals its own names."""

    def __eq__(self, other):
        return True if self.names is other else super().__eq__(other)

    def __hash__(self):
        return super().__hash__()


@of_boxes
class HashedByIdentity:
    """Breaks BOX-20e: equal boxes have the hashes of different objects."""

    __hash__ = object.__hash__


@instead_of("AxisMetadata")
class RefusesUnnamed(meta.AxisMetadata):
    """Breaks BOX-21c: the error for an incomplete class names no method."""

    def __new__(cls, *args, **kwargs):
        if cls.__abstractmethods__:
            raise TypeError(f"{cls.__name__} is not complete")
        return super().__new__(cls)


@instead_of("AxisMetadata")
class Lenient(meta.AxisMetadata):
    """Breaks BOX-21a: the four methods are there, and raise when they are called."""

    def unbox(self):
        raise NotImplementedError

    def replace_boxed(self, val):
        raise NotImplementedError

    def add_axis(self, index, params):
        raise NotImplementedError

    def remove_axis(self, index, params):
        raise NotImplementedError


@instead_of("add_axis")
def add_axis_to_our_own(tree, index, params):
    """Breaks BOX-21b: boxes of classes written elsewhere gain no axis."""
    ours = (meta.Partitioned,)
    return meta.map_axis_meta(
        lambda box: box.add_axis(index, params) if isinstance(box, ours) else box, tree
    )

"""Lies of axes that come and go: BOX-5 to BOX-9, BOX-11 and BOX-27."""

import weakref

import numpy as np
from scutch_reference import errors
from scutch_reference.meta import PARTITION_NAME
from trials.liars.tale import of_boxes


@of_boxes
class LosesTheMesh:
    """Breaks BOX-5: an axis that is added to all axes of the value costs the box its mesh."""

    def add_axis(self, index, params):
        grown = super().add_axis(index, params)
        return grown.replace(mesh=None) if np.ndim(self.value) == len(self.names) else grown


@of_boxes
class LosesTheMeshLater:
    """Breaks BOX-6: an axis that is added in the place of a removed one costs the box its mesh."""

    def add_axis(self, index, params):
        grown = super().add_axis(index, params)
        return grown.replace(mesh=None) if np.ndim(self.value) > len(self.names) else grown


_shrunk = weakref.WeakValueDictionary()
"""The boxes that have lost an axis, by their `id`."""


@of_boxes
class RegainsNoNames:
    """Breaks BOX-6: a box that has lost an axis loses its names when it gains another."""

    def remove_axis(self, index, params):
        removed = super().remove_axis(index, params)
        _shrunk[id(removed)] = removed
        return removed

    def add_axis(self, index, params):
        grown = super().add_axis(index, params)
        return grown.replace(names=()) if _shrunk.get(id(self)) is self else grown


@of_boxes
class NumbersHaveNoAxes:
    """Breaks BOX-27a: a number gains no axis."""

    def add_axis(self, index, params):
        grown = super().add_axis(index, params)
        return self if np.isscalar(self.value) else grown


@of_boxes
class KeepsTheAxis:
    """Breaks BOX-27b: an axis that the value still has keeps its place, without its name."""

    def remove_axis(self, index, params):
        removed = super().remove_axis(index, params)
        if getattr(self.value, "ndim", None) == len(self.names):
            return removed.add_axis(index, {PARTITION_NAME: None})
        return removed


@of_boxes
class PadsInFront:
    """Breaks BOX-7: the gap before an axis beyond the rank is filled at the wrong end."""

    def add_axis(self, index, params):
        gap = (None,) * max(0, index - len(self.names))
        box = super().replace(names=gap + self.names)
        return super(PadsInFront, box).add_axis(index, params)


@of_boxes
class AddsUnsharded:
    """Breaks BOX-8a: a new axis without a name is unsharded."""

    def add_axis(self, index, params):
        return super().add_axis(index, {PARTITION_NAME: params.get(PARTITION_NAME)})


@of_boxes
class AnonymousError:
    """Breaks BOX-8d: the error does not say which box it is about."""

    def add_axis(self, index, params):
        if PARTITION_NAME not in params:
            raise errors.PartitioningUnspecifiedError(box=type(self)(None, ()), params=params)
        return super().add_axis(index, params)


@of_boxes
class RemovesUnsharded:
    """Breaks BOX-8b: an axis without a name is looked for as an unsharded one."""

    def remove_axis(self, index, params):
        return super().remove_axis(index, {PARTITION_NAME: params.get(PARTITION_NAME)})


@of_boxes
class NoneIsMissing:
    """Breaks BOX-8c: a partition name of `None` is taken for none."""

    def add_axis(self, index, params):
        return super().add_axis(index, params if params.get(PARTITION_NAME) else {})


@of_boxes
class NeverLooks:
    """Breaks BOX-9a: the axis goes, whatever it is called."""

    def remove_axis(self, index, params):
        if PARTITION_NAME in params and index < len(self.names):
            params = {PARTITION_NAME: self.names[index]}
        return super().remove_axis(index, params)


@of_boxes
class NoneFitsAll:
    """Breaks BOX-9a: `None` is compared with no name."""

    def remove_axis(self, index, params):
        if params.get(PARTITION_NAME, "") is None and index < len(self.names):
            params = {PARTITION_NAME: self.names[index]}
        return super().remove_axis(index, params)


@of_boxes
class Asserts:
    """Breaks BOX-9b: an assertion does the work, which `python -O` drops."""

    def remove_axis(self, index, params):
        removed = [self]
        assert removed.append(super().remove_axis(index, params)) is None
        return removed[-1]


@of_boxes
class InsertsAsListsDo:
    """Breaks BOX-11: -1 is the place before the last axis, as for `list.insert`."""

    def add_axis(self, index, params):
        return super().add_axis(index + len(self.names) if index < 0 else index, params)


@of_boxes
class RemovesFromTheFront:
    """Breaks BOX-11: -1 is the first axis, where an axis is removed."""

    def remove_axis(self, index, params):
        return super().remove_axis(-1 - index if index < 0 else index, params)

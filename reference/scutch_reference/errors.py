"""Every error of the reference: what was tried, with which value, and what was expected.

Each class takes the parts of its message, so that a message is written once. All but
`PartitioningUnspecifiedError` are `ValueError`s as well, which is what user code catches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def _described(box: Any) -> str:
    """A box in one line: its class and names, never the numbers that it holds."""
    return f"{type(box).__qualname__}(names={getattr(box, 'names', '?')!r})"


class ScutchReferenceError(Exception):
    """The base of the errors that the reference raises."""


class PartitioningUnspecifiedError(ScutchReferenceError):
    """An axis of a partitioned box comes or goes, and nobody said what it is called (BOX-8)."""

    def __init__(self, box: Any, params: Mapping[Any, Any]):
        """Args: `box` that was to change, `params` that hold no `partition_name`."""
        super().__init__(
            f"Tried to add or remove an axis of {_described(box)}, but 'partition_name' is not in "
            f"the parameters {dict(params)!r}.\n"
            "  wrong:  scan(Layer, variable_axes={'params': 0})\n"
            "  right:  scan(Layer, variable_axes={'params': 0}, "
            "metadata_params={'partition_name': 'layers'})\n"
            "A partition name of None is a name too: the axis is unsharded."
        )


class AxisNameError(ScutchReferenceError, ValueError):
    """The axis to remove is called something else (BOX-9)."""

    def __init__(self, box: Any, index: int, found: Any, expected: Any):
        """Args: `box` and `index` tried, the name `found` there, the name `expected`."""
        super().__init__(
            f"Tried to remove axis {index} of {_described(box)} as {expected!r}, but the axis "
            f"there is named {found!r}. Remove axes in the reverse of the order they were added."
        )


class AxisIndexError(ScutchReferenceError, ValueError, IndexError):
    """A negative index points before the first axis (BOX-11)."""

    def __init__(self, box: Any, index: int, lowest: int):
        """Args: `box` and `index` tried, and the `lowest` index that it admits."""
        super().__init__(
            f"Axis index {index} is out of range for {_described(box)}: "
            f"the lowest possible index is {lowest}."
        )


class NamesError(ScutchReferenceError, ValueError):
    """Axis names that are no sequence with one hashable entry for each axis."""

    def __init__(self, names: Any):
        """Args: the `names` that were given."""
        super().__init__(
            f"Axis names must be a sequence with one entry for each axis, got {names!r}.\n"
            "  wrong:  names='data'\n"
            "  right:  names=('data', None)"
        )


class StructureMismatchError(ScutchReferenceError, ValueError):
    """The updates of `replace_boxed` are shaped differently from its tree (BOX-15)."""

    def __init__(self, path: str, expected: str, found: str):
        """Args: the key `path`, what the tree has there, and what the updates have there."""
        super().__init__(
            f"replace_boxed needs updates with the structure of the unboxed tree. "
            f"At {path or 'the root'} the tree has {expected}, the updates have {found}."
        )


class RankMismatchError(ScutchReferenceError, ValueError):
    """A constraint names more or fewer axes than its array has (LOG-8)."""

    def __init__(self, names: Iterable[Any], shape: tuple[int, ...]):
        """Args: the `names` of the constraint, the `shape` of the array."""
        names = tuple(names)
        super().__init__(
            f"with_logical_constraint got {len(names)} axis names {names!r} for an array with "
            f"{len(shape)} axes, shape {shape}. Name each axis once; None is an unsharded axis."
        )


class RepeatedAxisError(ScutchReferenceError, ValueError):
    """A logical name, or a mesh axis, stands for two axes of one array (LOG-2, LOG-3)."""

    def __init__(self, repeated: Iterable[Any], names: Iterable[Any]):
        """Args: what is `repeated`, in which `names`."""
        super().__init__(
            f"Axis names {tuple(repeated)!r} occur more than once in {tuple(names)!r}; "
            "an axis name may stand for one axis of an array only."
        )


class AxisRulesError(ScutchReferenceError, ValueError):
    """Axis rules that are no sequence of pairs (LOG-3)."""

    def __init__(self, problem: str):
        """Args: the `problem`, with the offending value."""
        super().__init__(
            f"{problem}\n"
            "Axis rules are pairs of a logical name and the mesh axes for it "
            "(a name, a tuple of names, or None):\n"
            "  right:  (('batch', 'data'), ('hidden', ('model', 'expert')), ('embed', None))"
        )


class UnmatchedAxisError(ScutchReferenceError, ValueError):
    """No rule takes a name, and the fallback is `RAISE_ERROR` (LOG-8)."""

    def __init__(self, unmatched: Iterable[Any], names: Iterable[Any], rules: Any):
        """Args: the `unmatched` names, among the `names`, under the `rules`."""
        super().__init__(
            f"Axis names {tuple(unmatched)!r} of {tuple(names)!r} did not match a rule that is "
            f"still free, and the fallback is RAISE_ERROR. The rules are {rules!r}."
        )

"""The box classes that the laws of boxes are tried on.

A law of the boxes says what holds for *a* box. It is tried on each *subject*: the directly
partitioned box of document `000_`, and the logically partitioned one of `002_`, which is a box too.
An owner's own class is a third, by `scutch.judge_box`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from scutch.implementation import Implementation

AXES = ("data", "model", "layers", "stage")
IDENTITY_RULES = tuple((axis, axis) for axis in AXES)
"""Rules by which a logical name is the mesh axis of the same name."""


@dataclass(frozen=True)
class Subject:
    """A box class under judgment.

    Args:
      name: `partitioned`, `logical`, or the owner's.
      make: `(value, names, mesh) -> box`.
      wrap: `(initializer, names, mesh) -> initializer` that returns such boxes.
      tuples: Whether a name may be a tuple of mesh axes.
    """

    name: str
    make: Callable[..., Any]
    wrap: Callable[..., Any]
    tuples: bool = True

    def __repr__(self) -> str:
        return f"<subject {self.name}>"


def partitioned(implementation: Implementation) -> Subject:
    """The directly partitioned box."""
    meta = implementation.meta
    return Subject(
        PARTITIONED,
        lambda value, names, mesh: meta.Partitioned(value, names, mesh=mesh),
        lambda init, names, mesh: meta.with_partitioning(init, names, mesh=mesh),
    )


def logical(implementation: Implementation) -> Subject:
    """The logically partitioned box, with rules by which each name is its own mesh axis."""
    namespace = implementation.logical
    return Subject(
        "logical",
        lambda value, names, mesh: namespace.LogicallyPartitioned(
            value, names, mesh=mesh, rules=IDENTITY_RULES
        ),
        lambda init, names, mesh: namespace.with_logical_partitioning(
            init, names, mesh=mesh, rules=IDENTITY_RULES
        ),
        tuples=False,
    )


PARTITIONED = "partitioned"
SUBJECTS: Mapping[str, Callable[[Implementation], Subject]] = MappingProxyType(
    {PARTITIONED: partitioned, "logical": logical}
)
"""The box classes of an implementation, by name; the first is the one that laws mean by a box."""

PREFIXES: Mapping[str, str] = MappingProxyType({PARTITIONED: "", "logical": "LOG-9."})
"""What the identifiers of the requirements of each box class begin with."""

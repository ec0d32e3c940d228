"""The box classes that the laws of boxes are tried on.

A law of BOX says what holds for *a* box. It is tried on each *subject*, a box class under judgment:
the directly partitioned box of document `000_`, and the logically partitioned one of `002_`, whose
requirements have the prefix `LOG-9.`. An owner's own class is one more, by `scutch.judge_box`.

    subject = SUBJECTS['logical'](implementation)
    box = subject.make(np.zeros((2, 3)), ('data', None), None)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from scutch.implementation import Implementation

AXES = ("data", "model", "layers", "stage")
"""The names of mesh axes that drawn boxes may have."""

IDENTITY_RULES = tuple((axis, axis) for axis in AXES)
"""Rules by which a logical name is the mesh axis of the same name."""


@dataclass(frozen=True)
class Subject:
    """A box class under judgment.

    Args:
      name: `partitioned`, `logical`, or what an owner calls the class.
      make: `(value, names, mesh) -> box`; `mesh` is `None` for a box without one.
      wrap: `(initializer, names, mesh) -> initializer`, which returns such boxes.
      tuples: Whether a name may be a tuple of mesh axes when the box is sharded.
    """

    name: str
    make: Callable[..., Any]
    wrap: Callable[..., Any]
    tuples: bool = True

    def __repr__(self) -> str:
        return f"<subject {self.name}>"


def partitioned(implementation: Implementation) -> Subject:
    """The directly partitioned box of an implementation, `Partitioned` (`000_`)."""
    meta = implementation.meta
    return Subject(
        PARTITIONED,
        lambda value, names, mesh: meta.Partitioned(value, names, mesh=mesh),
        lambda init, names, mesh: meta.with_partitioning(init, names, mesh=mesh),
    )


def logical(implementation: Implementation) -> Subject:
    """The logically partitioned box of an implementation, `LogicallyPartitioned` (`002_`).

    Its rules map each name to the mesh axis of the same name, so laws of BOX hold for it unchanged.
    """
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
"""The name of the subject that laws mean by a box."""

SUBJECTS: Mapping[str, Callable[[Implementation], Subject]] = MappingProxyType(
    {PARTITIONED: partitioned, "logical": logical}
)
"""The subjects of an implementation, by name; the first is the one that laws mean by a box."""

PREFIXES: Mapping[str, str] = MappingProxyType({PARTITIONED: "", "logical": "LOG-9."})
"""What the identifiers of the requirements of each subject begin with."""

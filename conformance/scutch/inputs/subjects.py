"""The box classes that the laws of boxes are tried on.

A law of boxes states a property of any box. It is tried on each *subject*, a box class under
judgment: the directly partitioned box of document `000_`, and the logically partitioned one of
`002_`, whose requirements end with `[logical]`. An owner's own class is one more, by
`scutch.judge_box`.

    subject = SUBJECTS['logical'](implementation)
    box = subject.make(np.zeros((2, 3)), ('data', None), None)

Names are one kind of metadata: a class may have none; then its laws count the axes of the value.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from scutch.implementation import Implementation
from scutch.inputs.boxes import PARTITION_NAME
from scutch.lawkit.boxes import plain_names
from scutch.lawkit.domain import assume, not_available

AXES = ("data", "model", "layers", "stage")
"""The names of mesh axes that drawn boxes may have."""

IDENTITY_RULES = tuple((axis, axis) for axis in AXES)
"""Rules by which a logical name is the mesh axis of the same name."""


def _partition_name(name: Any) -> dict[Any, Any]:
    return {PARTITION_NAME: name}


def _names(box: Any) -> Any:
    return box.names


@dataclass(frozen=True)
class Subject:
    """A box class under judgment.

    Args:
      name: `partitioned`, `logical`, or the name that an owner gives the class.
      make: `(value, names, mesh) -> box`; `mesh` is `None` for a box without one.
      wrap: `(initializer, names, mesh) -> initializer`, which returns such boxes.
      tuples: Whether a name may be a tuple of mesh axes when the box is sharded.
      names: `box -> names`, one for each axis; `None` for a class without names.
      named_by: `name -> params`: the parameters by which a transformation gives an axis that name;
        a dictionary where they give no name.
      indices: Where an axis may be added: `box -> indices`; `None` for `0 <= index <= rank`.
      holds: Whether a box may wrap a value; asked of values that are no arrays.
      takes: Whether a box may have these names; asked before an axis is added that gives them.
      crosses: Whether a box can cross the bridge of document `004_`.
      owned: Whether it is an owner's class, so that boxes of foreign classes stand for it too.
    """

    name: str
    make: Callable[..., Any]
    wrap: Callable[..., Any]
    tuples: bool = True
    names: Callable[[Any], tuple[Any, ...]] | None = _names
    named_by: Callable[[Any], Mapping[Any, Any]] | Mapping[Any, Any] = _partition_name
    indices: Callable[[Any], Collection[int]] | None = None
    holds: Callable[[Any], bool] = lambda value: True
    takes: Callable[[tuple[Any, ...]], bool] = lambda names: True
    crosses: bool = True
    owned: bool = False

    def __repr__(self) -> str:
        return f"<subject {self.name}>"

    def named(self, box: Any) -> tuple[Any, ...]:
        """The names of a box; leaves the law where the class has none, or no parameters name it."""
        if self.names is None or not callable(self.named_by):
            not_available(f"{self.name} has no names")
        return plain_names(self.names(box))

    def rank(self, box: Any) -> int:
        """How many axes a box has: one for each name, or for each axis of the value."""
        names = (
            getattr(box.unbox(), "shape", ())
            if self.names is None
            else plain_names(self.names(box))
        )
        return len(names)

    def params(self, name: Any) -> dict[Any, Any]:
        """The parameters, in a new dictionary, by which a transformation adds a named axis."""
        return dict(self.named_by(name) if callable(self.named_by) else self.named_by)

    def removable(self, box: Any, index: int) -> Any:
        """A box whose axis at an index `params` can remove.

        It is the box itself, unless an owner's parameters say more than the name, such as a size:
        then it has one axis more, which they have added under the same name.

        Args:
          box: Of this class.
          index: Of one of its names.
        """
        if not self.owned or self.named_by is _partition_name:
            return box
        name = self.named(box)[index]
        assume(self.place(index, name, box) == index)
        return box.add_axis(index, self.params(name))

    def place(self, index: int, name: Any, *boxes: Any) -> int:
        """Choose where an axis of a name is added to each of some boxes.

        Args:
          index: A drawn number, at least 0. Where `indices` is `None`, it is the index itself, or
            the rank if it is larger; else it chooses an allowed index, modulo their number.
          name: Of the axis.
          boxes: To which the axis is added.

        Returns:
          The index, which each box allows.

        Raises:
          OutOfDomain: There is no such index, or a box would get names that its class refuses, such
            as one mesh axis twice.
        """
        allowed = list(range(min(map(self.rank, boxes), default=index) + 1))
        if self.indices is not None:
            allowed = [i for i in allowed if all(i in self.indices(box) for box in boxes)]
        assume(allowed)
        at = min(index, allowed[-1]) if self.indices is None else allowed[index % len(allowed)]
        if self.names is not None and callable(self.named_by):
            for names in map(self.named, boxes):
                assume(self.takes((*names[:at], name, *names[at:])))
        return at


def partitioned(implementation: Implementation) -> Subject:
    """The directly partitioned box of an implementation, `Partitioned` (`000_`)."""
    meta = implementation.meta
    return Subject(
        PARTITIONED,
        lambda value, names, mesh: meta.Partitioned(value, names, mesh=mesh),
        lambda init, names, mesh: meta.with_partitioning(init, names, mesh=mesh),
        named_by=lambda name: {meta.PARTITION_NAME: name},
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
        named_by=lambda name: {implementation.meta.PARTITION_NAME: name},
    )


def remaining(
    implementation: Implementation, subject: str, names: tuple[Any, ...], index: int, name: Any
) -> tuple[Any, ...] | None:
    """The names that are left of a box when one of its axes was removed.

    Args:
      implementation: The one under judgment.
      subject: The box class, a key of `SUBJECTS` that the implementation claims.
      names: Of the box, one for each axis: a string, a tuple of strings, or `None`.
      index: Of the axis, `0 <= index < len(names)`.
      name: The axis name in the parameters of the removal.

    Returns:
      The names; `None` if the removal was refused.
    """
    box = SUBJECTS[subject](implementation).make(1.0, names, None)
    try:
        left = box.remove_axis(index, {implementation.meta.PARTITION_NAME: name})
    except Exception:  # a refusal, whatever its type, is the answer
        return None
    return tuple(left.names)


PARTITIONED = "partitioned"
"""The name of the subject of requirements whose ids have no `[logical]`."""

SUBJECTS: Mapping[str, Callable[[Implementation], Subject]] = MappingProxyType(
    {PARTITIONED: partitioned, "logical": logical}
)
"""The subjects of an implementation, by name; the variants `[logical]` try the second one."""

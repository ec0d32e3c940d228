"""Placing: leaves of objects get the shardings that a call asks for, before the call.

So the variables have them afterwards, whether they change or not. That all is in place already,
the usual case, is seen by the identity of shardings that were right before.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from ..errors import IndivisibleSizeError, LeakedTracerError, MeshAxisError
from .prefixes import spread
from .tracing import Tracer, current_level

if TYPE_CHECKING:
    from .lifting import Frame
    from .walking import Plan

# The attribute behind `sharding`: that one is a property, and costs a Python call for each array.
_sharding_of = attrgetter("_sharding")


def check_spec(where: str, shape: tuple[int, ...] | None, spec: Any, mesh: Any) -> None:
    """Refuse a spec that a mesh, or an array of this shape, cannot have (SHM-4)."""
    for axis, entry in enumerate(spec):
        parts = 1
        for name in entry if isinstance(entry, tuple) else (entry,):
            if name is not None and name is not PartitionSpec.UNCONSTRAINED:
                if name not in mesh.axis_names:
                    raise MeshAxisError(where, spec, name, mesh.axis_names)
                parts *= mesh.shape[name]
        if shape is not None and (shape[axis] % parts if axis < len(shape) else entry is not None):
            raise IndivisibleSizeError(where, shape, spec, axis, parts)


def place(frame: Frame, plan: Plan, values: list[Any]) -> tuple[list[Any], Sequence[int]]:
    """The leaves where they are asked to be, and the numbers of those that moved."""
    try:
        seen = list(map(_sharding_of, values))
    except AttributeError:  # Not all leaves are arrays on devices.
        seen = []
    is_settled = bool(seen and frame.settled) and all(map(is_, seen, frame.settled))
    if is_settled or plan.level != current_level():
        return values, ()
    placed, moved = list(values), []
    for i, value in enumerate(values):
        leaves, treedef = jax.tree.flatten(value)
        sent = [_sent(frame, leaf, i) for leaf in leaves]
        if not all(map(is_, sent, leaves)):
            placed[i] = jax.tree.unflatten(treedef, sent)
            moved.append(i)
    if not moved:
        frame.settled = seen
    return placed, moved


def _sent(frame: Frame, leaf: Any, number: int) -> Any:
    """A leaf where it is asked to be; one that the user put elsewhere is for JAX to judge."""
    sharding = frame.placements[number]
    if not isinstance(sharding, Sharding) or isinstance(leaf, Tracer | jax.ShapeDtypeStruct):
        return leaf
    if isinstance(sharding, NamedSharding):
        check_spec(frame.where(number), np.shape(leaf), sharding.spec, sharding.mesh)
    present = getattr(leaf, "sharding", None)
    stays = getattr(leaf, "committed", True) and not frame.lifted.sends_committed
    if present is not None and (stays or present.is_equivalent_to(sharding, np.ndim(leaf))):
        return leaf
    return jax.device_put(leaf, sharding)


def explain(frame: Frame, values: Sequence[Any], plain: Sequence[Any], error: Exception) -> None:
    """Raise an error that says which argument and which path, where one of them is at fault."""
    if isinstance(error, jax.errors.UnexpectedTracerError):
        for path, value in zip(frame.paths, values, strict=True):
            for leaf in jax.tree.leaves(value):
                if isinstance(leaf, Tracer):
                    raise LeakedTracerError(frame.labels[path[0]], path[1:], leaf) from error
    if isinstance(error, ValueError):
        labels = [*frame.layout.plain_of(frame.layout.labels), *map(frame.where, frame.paths)]
        asked, given = [*frame.plain, *frame.asked], [*plain, *values]
        for label, prefix, value in zip(labels, asked, given, strict=True):
            for where, spec, leaf in spread(prefix, value, label):
                mesh = getattr(spec, "mesh", frame.mesh)
                spec = getattr(spec, "spec", spec)
                if isinstance(spec, PartitionSpec) and mesh is not None:
                    try:
                        check_spec(where, np.shape(leaf), spec, mesh)
                    except ValueError as better:
                        raise better from error

"""Placing: leaves of objects get the shardings that a call asks for, before the call.

So the variables have them afterwards, whether the function changes them or not. To see that all is
in place already, which is the usual case, the sharding of each leaf is compared by identity with
one that was seen to be right.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from ..errors import IndivisibleSizeError, LeakedTracerError, MeshAxisError
from .tracing import Tracer, current_level

if TYPE_CHECKING:
    from .lifting import Call

# The attribute behind `sharding`: that one is a property, and costs a Python call for each array.
sharding_of = attrgetter("_sharding")


def concrete_shardings(asked: list[Any]) -> list[Any] | None:
    """The shardings among what is asked of leaves, None elsewhere; None if there is none."""
    found = [each if isinstance(each, Sharding) else None for each in asked]
    return found if any(each is not None for each in found) else None


def check_spec(where: str, shape: tuple[int, ...] | None, spec: Any, mesh: Any) -> None:
    """Refuse a spec that a mesh, or an array of this shape, cannot have (SHM-4).

    Raises:
      MeshAxisError: The mesh has no such axis.
      IndivisibleSizeError: The array cannot be cut like that.
    """
    for axis, entry in enumerate(spec):
        names = entry if isinstance(entry, tuple) else (entry,)
        parts = 1
        for name in names:
            if name is None or name is PartitionSpec.UNCONSTRAINED:
                continue
            if name not in mesh.axis_names:
                raise MeshAxisError(where, spec, name, mesh.axis_names)
            parts *= mesh.shape[name]
        if shape is not None and (
            (axis >= len(shape) and entry is not None)
            or (axis < len(shape) and shape[axis] % parts)
        ):
            raise IndivisibleSizeError(where, shape, spec, axis, parts)


def place(call: Call) -> None:
    """Send leaves where they are asked to be; the call remembers which ones moved."""
    frame = call.frame
    wanted = frame.placements or []
    values = call.values
    if frame.is_in_place(values):
        return
    try:
        seen = list(map(sharding_of, values))
    except AttributeError:  # Not all leaves are arrays on devices.
        seen = None
    if call.plan is None or call.plan.level != current_level():
        return
    moved = []
    placed = list(values)
    for number, (value, sharding) in enumerate(zip(values, wanted, strict=True)):
        if sharding is not None:
            placed[number] = jax.tree.map(
                lambda x, s=sharding, n=number: _sent(x, s, frame.label(n), frame.moves_committed),
                value,
            )
            leaves = zip(jax.tree.leaves(placed[number]), jax.tree.leaves(value), strict=True)
            if any(new is not old for new, old in leaves):
                moved.append(number)
    if not moved:
        frame.settled = seen
    call.values, call.moved = placed, tuple(moved)


def _sent(leaf: Any, sharding: Any, where: str, also_committed: bool) -> Any:
    """A leaf on the devices of a sharding; one that the user put elsewhere is for JAX to judge."""
    if isinstance(leaf, Tracer | jax.ShapeDtypeStruct):
        return leaf
    if isinstance(sharding, NamedSharding):
        check_spec(where, np.shape(leaf), sharding.spec, sharding.mesh)
    present = getattr(leaf, "sharding", None)
    if present is not None:
        if present == sharding or present.is_equivalent_to(sharding, np.ndim(leaf)):
            return leaf
        if not also_committed and getattr(leaf, "committed", True):
            return leaf
    return jax.device_put(leaf, sharding)


def explain(call: Call, error: Exception) -> None:
    """Raise an error that says which argument and which path, where one of them is at fault."""
    frame, layout = call.frame, call.frame.layout
    if isinstance(error, jax.errors.UnexpectedTracerError):
        for number, value in enumerate(call.values):
            for leaf in jax.tree.leaves(value):
                if isinstance(leaf, Tracer):
                    root, path, _ = frame.definition.leaves[number]
                    label = layout.labels[layout.roots[root]]
                    raise LeakedTracerError(label, path, leaf) from error
    if isinstance(error, ValueError) and frame.plain_placements:
        places = zip(layout.plain, frame.plain_placements, call.plain, strict=True)
        for index, prefix, value in places:
            _explain_plain(layout.labels[index], prefix, value, frame.mesh, error)
        for number, (asked, value) in enumerate(zip(frame.asked, call.values, strict=True)):
            for leaf in jax.tree.leaves(value):
                _explain_one(frame.label(number), asked, leaf, frame.mesh, error)


def _explain_plain(label: str, prefix: Any, value: Any, mesh: Any, error: Exception) -> None:
    def ends(x: Any) -> bool:
        return x is None or isinstance(x, Sharding | PartitionSpec)

    try:
        spread = jax.tree.map(
            lambda p, part: jax.tree.map(lambda _: p, part), prefix, value, is_leaf=ends
        )
    except ValueError:  # The prefix does not fit; JAX has said so.
        return
    pairs = jax.tree_util.tree_flatten_with_path(value)[0]
    for (path, leaf), asked in zip(pairs, jax.tree.leaves(spread, is_leaf=ends), strict=True):
        where = label + (f", path {jax.tree_util.keystr(path)}" if path else "")
        _explain_one(where, asked, leaf, mesh, error)


def _explain_one(where: str, asked: Any, leaf: Any, mesh: Any, error: Exception) -> None:
    if isinstance(asked, NamedSharding):
        asked, mesh = asked.spec, asked.mesh
    if isinstance(asked, PartitionSpec) and mesh is not None:
        try:
            check_spec(where, np.shape(leaf), asked, mesh)
        except ValueError as better:
            raise better from error

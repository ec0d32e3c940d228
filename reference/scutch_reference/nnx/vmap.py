"""Lifted `jax.vmap`: functions of objects whose variables have one more axis outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

from .lifting import UNSET, Frame, Lifted, lift
from .spmd import PARTITION_NAME, add_axis, remove_axis
from .walking import walked


class Mapped(Lifted):
    """What `vmap` and `scan` share: inside, variables lack an axis that they have outside."""

    what = "axes"

    def __init__(self, function: Callable[..., Any], *, metadata: Any, **options: Any):
        super().__init__(function, **options)
        self._metadata = metadata or {}

    def enter(self, frame: Frame, nodes: list[Any]) -> None:
        """Take the name of the axis away."""
        for (_, _, owner), axis in zip(frame.definition.leaves, frame.asked, strict=True):
            self._rename(remove_axis, owner, axis, nodes)

    def leave(self, frame: Frame, nodes: list[Any], roots: list[Any], out: Any) -> None:
        """Put the name of the axis back in place, and give it to new variables."""
        for (_, _, owner), axis in zip(frame.definition.leaves, frame.asked, strict=True):
            self._rename(add_axis, owner, axis, nodes)
        if PARTITION_NAME in self._metadata:
            definition, found, _, _ = walked([*roots, out])
            old = set(map(id, nodes))
            for root, path, owner in definition.leaves:
                if owner is not None and id(found[owner]) not in old:
                    axis = frame.at((root, *path), found[owner])
                    self._rename(add_axis, owner, axis, found)

    def _rename(self, change: Any, owner: int | None, axis: Any, nodes: list[Any]) -> None:
        if PARTITION_NAME in self._metadata and owner is not None and isinstance(axis, int):
            change(nodes[owner], axis, self._metadata)


class Vmapped(Mapped):
    """A vectorized function of objects; see `vmap`."""

    for_keywords = 0  # They are mapped over their first axis, as in JAX.

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.vmap`."""
        inside = frame.arguments(frame.asked, frame.plain)
        outside = (None, tuple(frame.groups), frame.out)
        return jax.vmap(frame.run, inside, outside, **self.options)


def vmap(
    f: Any = UNSET,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    transform_metadata: Mapping[Any, Any] | None = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """Vectorize a function of objects.

    Args:
      f: The function. Without it, a decorator.
      in_axes: A prefix of the positional arguments: an axis, None for what all share, or
        `StateAxes` for objects.
      out_axes: A prefix of the output.
      axis_name, axis_size, spmd_axis_name: See `jax.vmap`.
      transform_metadata: With a `PARTITION_NAME`, variables have that name at the axis outside.
    """
    return lift(
        Vmapped,
        f,
        in_prefix=in_axes,
        out_prefix=out_axes,
        metadata=transform_metadata,
        axis_name=axis_name,
        axis_size=axis_size,
        spmd_axis_name=spmd_axis_name,
        graph_updates=graph_updates,
    )

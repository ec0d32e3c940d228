"""Lifted `jax.vmap`: functions of objects whose variables have one more axis outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

from .lifting import Frame, Lifted
from .prefixes import at, without_filters
from .spmd import PARTITION_NAME, add_axis, remove_axis
from .variables import Variable
from .walking import walked

_UNSET: Any = object()


class MappedFrame(Frame):
    """A frame in which variables lack an axis that they have outside, and its name."""

    metadata: Mapping[Any, Any] = {}

    def enter(self, leaves: Any) -> tuple[list[Any], list[Any]]:
        """Copies of the objects, without the axis name."""
        roots, nodes = super().enter(leaves)
        if PARTITION_NAME in self.metadata:
            for (_, _, owner), axis in zip(self.definition.leaves, self.asked, strict=True):
                if owner is not None and isinstance(axis, int):
                    remove_axis(nodes[owner], axis, self.metadata)
        return roots, nodes

    def report(self, nodes: list[Any], leaves: list[Any], out: Any) -> Any:
        """What happened, with the axis name back in place, and given to new variables."""
        if PARTITION_NAME in self.metadata:
            for (_, _, owner), axis in zip(self.definition.leaves, self.asked, strict=True):
                if owner is not None and isinstance(axis, int):
                    add_axis(nodes[owner], axis, self.metadata)
            self._name_new(nodes, out)
        return super().report(nodes, leaves, out)

    def _name_new(self, nodes: list[Any], out: Any) -> None:
        seen = set(map(id, nodes))
        roots = [
            nodes[item.number] if hasattr(item, "number") else None
            for item in self.definition.roots
        ]
        axes = (*self.root_prefixes, self.out_prefix)
        for root, prefix in zip((*roots, out), axes, strict=True):
            definition, found, _, _ = walked([root])
            for _, path, owner in definition.leaves:
                variable = found[owner] if owner is not None else None
                if isinstance(variable, Variable) and id(variable) not in seen:
                    seen.add(id(variable))
                    axis = at(prefix, path, variable)
                    if isinstance(axis, int):
                        add_axis(variable, axis, self.metadata)


class Mapped(Lifted):
    """What `vmap` and `scan` share."""

    _what = "axes"
    _frame_type = MappedFrame

    def __init__(self, function: Callable[..., Any], metadata: Mapping[Any, Any], **lifted: Any):
        super().__init__(function, **lifted)
        self._metadata = metadata

    def _prepare_frame(self, frame: Frame) -> None:
        frame.metadata = self._metadata  # type: ignore[attr-defined]


class Vmapped(Mapped):
    """A vectorized function of objects; see `vmap`."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], **lifted: Any):
        super().__init__(function, **lifted)
        self._options = options

    def _prefixes(self, layout: Any) -> list[Any]:
        """Axes by argument; keyword arguments are mapped over their first axis, as in JAX."""
        prefixes = super()._prefixes(layout)
        return prefixes[: layout.positional] + [0] * len(layout.names)

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.vmap`."""
        return jax.vmap(
            frame.run,
            in_axes=(
                *map(_axes, frame.parted(list(frame.asked))),
                *map(without_filters, frame.plain_prefixes),
            ),
            out_axes=(None, frame.groups.values, without_filters(self.out_prefix)),
            **self._options,
        )


def _axes(axes: Any) -> Any:
    return list(axes) or None


def vmap(
    f: Any = _UNSET,
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
    options = {"axis_name": axis_name, "axis_size": axis_size, "spmd_axis_name": spmd_axis_name}
    options = {name: value for name, value in options.items() if value is not None}

    def lift(function: Callable[..., Any]) -> Vmapped:
        return Vmapped(
            function,
            options,
            metadata=transform_metadata or {},
            in_prefix=in_axes,
            out_prefix=out_axes,
            structural=graph_updates is not False,
        )

    return lift if f is _UNSET else lift(f)

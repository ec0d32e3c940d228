"""Box classes whose leaf has another form than the value that `unbox` returns.

The owner of a packed or transposed format would write such a class. The shape of the leaf can
differ from the shape of its value. Code that unboxes variables, as document `000_` says, need
not know it:

    box = stored(meta.AxisMetadata, "flat")(value)
    box.unbox()  # the value, though the box holds a vector

- `transposed`: with the axes in reverse;
- `flat`: as a vector, beside the shape;
- `padded`: with one further entry along each axis.

`trailing` makes boxes that a lift gives an axis, which they store last.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

STORED = ("transposed", "flat", "padded")
"""The forms of `stored`."""


def _packed(form: str, value: Any) -> Any:
    match form:
        case "transposed":
            return jnp.transpose(value)
        case "flat":
            return jnp.ravel(value)
    return jnp.pad(value, [(0, 1)] * jnp.ndim(value)) if jnp.ndim(value) else value


def _unpacked(form: str, packed: Any, shape: tuple[int, ...]) -> Any:
    match form:
        case "transposed":
            return jnp.transpose(packed)
        case "flat":
            return jnp.reshape(packed, shape)
    return packed[tuple(slice(size) for size in shape)]


@functools.lru_cache(maxsize=32)
def stored(base: type, form: str) -> Any:
    """A function that boxes a value in one of the forms `STORED`.

    Args:
      base: `AxisMetadata` of the implementation under judgment.
      form: One of `STORED`.

    Returns:
      A function of an array. Its boxes gain and lose no axes.
    """

    @dataclass(frozen=True)
    class Stored(base):  # type: ignore[misc]
        packed: Any
        shape: tuple[int, ...]

        def unbox(self) -> Any:
            return _unpacked(form, self.packed, self.shape)

        def replace_boxed(self, val: Any) -> Any:
            return boxed(val)

        def add_axis(self, index: int, params: Mapping[Any, Any]) -> Any:
            raise NotImplementedError(f"axis {index}")

        remove_axis = add_axis

    def boxed(value: Any) -> Any:
        return Stored(_packed(form, value), jnp.shape(value))

    jax.tree_util.register_dataclass(Stored, data_fields=["packed"], meta_fields=["shape"])
    return boxed


@functools.lru_cache(maxsize=32)
def trailing(base: type) -> type:
    """The class of boxes that store the axis which a lift adds as their last one.

    `add_axis` moves the axis to the end, and `remove_axis` puts it back, so both leave the unboxed
    value as it is. Only one axis at a time can be added.

    Args:
      base: `AxisMetadata` of the implementation under judgment.

    Returns:
      The class; its one argument is the value.
    """

    @dataclass(frozen=True)
    class Trailing(base):  # type: ignore[misc]
        payload: Any
        added: int | None = None

        def unbox(self) -> Any:
            return (
                self.payload if self.added is None else jnp.moveaxis(self.payload, -1, self.added)
            )

        def replace_boxed(self, val: Any) -> Any:
            stored = val if self.added is None else jnp.moveaxis(val, self.added, -1)
            return replace(self, payload=stored)

        def add_axis(self, index: int, params: Mapping[Any, Any]) -> Any:
            return replace(self, payload=jnp.moveaxis(self.payload, index, -1), added=index)

        def remove_axis(self, index: int, params: Mapping[Any, Any]) -> Any:
            return replace(self, payload=jnp.moveaxis(self.payload, -1, index), added=None)

    jax.tree_util.register_dataclass(Trailing, data_fields=["payload"], meta_fields=["added"])
    return Trailing

"""What layers of either kind compute, as functions of arrays; `None` is a parameter not used."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp
from jax import lax, random

from .errors import ModuleError

Array: TypeAlias = Any
Axes: TypeAlias = int | Sequence[int]


def flag(name: str, *places: bool | None, once: bool = False) -> bool:
    """What is said in the first of some places, or, with `once`, in the only one."""
    said = [value for value in places if value is not None]
    if not said or (once and len(said) > 1):
        raise ModuleError(f"Pass {name} to the layer or to its call, once; got {said!r}.")
    return said[0]


def split_axes(axes: Axes, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes counted from the first, and all others."""
    counted = tuple(axis % rank for axis in ([axes] if isinstance(axes, int) else axes))
    return counted, tuple(axis for axis in range(rank) if axis not in counted)


def promoted(dtype: Any, *arrays: Array | None) -> list[Any]:
    """The arrays in one dtype: the given one, or the inexact one that fits them all."""
    if dtype is None:
        dtype = jnp.result_type(*[array for array in arrays if array is not None])
        if not jnp.issubdtype(dtype, jnp.inexact):
            dtype = jnp.promote_types(jnp.float32, dtype)
    return [None if array is None else jnp.asarray(array, dtype) for array in arrays]


def affine(
    x: Array, kernel: Array, bias: Array | None, dtype: Any, dot_general: Any, **options: Any
) -> Array:
    """Shape (..., n) to (..., features), with a kernel of shape (n, features)."""
    x, kernel, bias = promoted(dtype, x, kernel, bias)
    options = {name: option for name, option in options.items() if option is not None}
    outputs = dot_general(x, kernel, (((x.ndim - 1,), (0,)), ((), ())), **options)
    return outputs if bias is None else outputs + jnp.expand_dims(bias, range(x.ndim - 1))


def rows(table: Array, indices: Array, dtype: Any) -> Array:
    """The row of a table for each integer; NaN beyond it. A single row is for all integers."""
    if not jnp.issubdtype(jnp.result_type(indices), jnp.integer):
        raise ModuleError(f"Embed takes integers, got {jnp.result_type(indices)}.")
    table = jnp.asarray(table, dtype)
    if len(table) == 1:
        return jnp.broadcast_to(table, (*jnp.shape(indices), table.shape[1]))
    return jnp.take(table, indices, axis=0)


def products(queries: Array, table: Array, dtype: Any) -> Array:
    """Inner products of shape (..., features) with all rows of a table: (..., rows)."""
    queries, table = promoted(dtype, queries, table)
    return jnp.dot(queries, table.T)


def moments(
    x: Array, over: Axes, mask: Any, axis_name: Any, groups: Any, fast: bool
) -> tuple[Array, Array]:
    """Mean and variance over axes, and over a mapped axis; in float32 at least.

    The `fast` variance is the mean of squares without the square of the mean.
    """
    x = jnp.asarray(x, jnp.promote_types(jnp.result_type(x), jnp.float32))

    def mean(*arrays: Array) -> Array:
        means = jnp.stack([jnp.mean(each, over, where=mask) for each in arrays])
        if axis_name is None:
            return means
        return lax.pmean(means, axis_name, axis_index_groups=groups)  # type: ignore[no-untyped-call]

    if fast:
        center, square = mean(x, lax.square(x))
        return center, jnp.maximum(0.0, square - lax.square(center))
    (center,) = mean(x)
    return center, mean(lax.square(x - jnp.expand_dims(center, over)))[0]


def follow(kept: Iterable[Any], values: Iterable[Array], momentum: float) -> None:
    """Move running statistics, which are variables, towards new values."""
    for variable, value in zip(kept, values, strict=True):
        variable.value = momentum * variable.value + (1 - momentum) * value


def normalized(
    x: Array, statistics: Any, parameters: Any, axes: Any, epsilon: float, dtype: Any
) -> Array:
    """The inputs without mean and variance over `axes[0]`; with scale and bias along `axes[1]`."""
    mean, variance = (jnp.expand_dims(each, axes[0]) for each in statistics)
    shape = [size if axis in axes[1] else 1 for axis, size in enumerate(x.shape)]
    factor, outputs, (scale, bias) = lax.rsqrt(variance + epsilon), x - mean, parameters
    if scale is not None:
        factor *= jnp.reshape(scale, shape)
    outputs *= factor
    if bias is not None:
        outputs += jnp.reshape(bias, shape)
    return jnp.asarray(outputs, promoted(dtype, x, *parameters)[0].dtype)


def dropped(x: Array, rate: float, broadcast_dims: Axes, key: Any) -> Array:
    """Each value with a chance of `rate` zero, and else scaled; along some axes with one fate.

    The key may be a function, which is called if a key is needed.
    """
    if rate in (0.0, 1.0):
        return x if rate == 0.0 else jnp.zeros_like(x)
    if key is None:
        raise ModuleError("Dropout has no `rngs`: pass them to its call or constructor.")
    _, drawn = split_axes(broadcast_dims, x.ndim)
    shape = [size if axis in drawn else 1 for axis, size in enumerate(x.shape)]
    chosen = random.bernoulli(key() if callable(key) else key, 1 - rate, shape)
    kept = jnp.broadcast_to(chosen, x.shape)
    return jnp.where(kept, x / (1 - rate), jnp.zeros_like(x))

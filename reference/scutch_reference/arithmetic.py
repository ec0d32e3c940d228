"""What layers of either kind compute, as functions of arrays; `None` is a parameter not used."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
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


def _promoted(dtype: Any, *arrays: Array | None) -> list[Any]:
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
    x, kernel, bias = _promoted(dtype, x, kernel, bias)
    options = {name: option for name, option in options.items() if option is not None}
    outputs = dot_general(x, kernel, (((x.ndim - 1,), (0,)), ((), ())), **options)
    return outputs if bias is None else outputs + jnp.expand_dims(bias, range(x.ndim - 1))


def rows(table: Array, indices: Array, dtype: Any) -> Array:
    """The row of a table for each integer; NaN beyond it."""
    if not jnp.issubdtype(jnp.result_type(indices), jnp.integer):
        raise ModuleError(f"Embed takes integers, got {jnp.result_type(indices)}.")
    return jnp.take(jnp.asarray(table, dtype), indices, axis=0)


def products(queries: Array, table: Array, dtype: Any) -> Array:
    """Inner products of shape (..., features) with all rows of a table: (..., rows)."""
    queries, table = _promoted(dtype, queries, table)
    return jnp.dot(queries, table.T)


@dataclass(kw_only=True, eq=False, repr=False)
class Norm:
    """What normalizations of either kind share. Statistics are in float32 at least.

    They are averaged over a mapped axis too, if it has a name. The `fast` variance is the mean of
    squares without the square of the mean.
    """

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = jnp.float32
    use_bias: bool = True
    use_scale: bool = True
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True

    def is_initializing(self) -> bool:
        """Whether this call only makes parameters: then no axis is mapped, and nothing follows."""
        return False

    def _parameters(self, shape: Sequence[int]) -> tuple[Array, Array]:
        """The scale and the bias, or `None` where it is not used."""
        raise NotImplementedError

    def _moments(self, x: Array, over: Axes, mask: Any) -> tuple[Array, Array]:
        x = jnp.asarray(x, jnp.promote_types(jnp.result_type(x), jnp.float32))
        name = None if self.is_initializing() else self.axis_name

        def mean(*arrays: Array) -> Array:
            means: Array = jnp.stack([jnp.mean(each, over, where=mask) for each in arrays])
            average: Any = functools.partial(lax.pmean, axis_index_groups=self.axis_index_groups)
            return means if name is None else average(means, name)

        if self.use_fast_variance:
            center, square = mean(x, lax.square(x))
            return center, jnp.maximum(0.0, square - lax.square(center))
        (center,) = mean(x)
        return center, mean(lax.square(x - jnp.expand_dims(center, over)))[0]

    def _normalized(self, x: Array, statistics: Any, over: Any, along: Any) -> Array:
        mean, variance = (jnp.expand_dims(each, over) for each in statistics)
        scale, bias = self._parameters([x.shape[axis] for axis in along])
        shape = [size if axis in along else 1 for axis, size in enumerate(x.shape)]
        factor, outputs = lax.rsqrt(variance + self.epsilon), x - mean
        if scale is not None:
            factor *= jnp.reshape(scale, shape)
        outputs *= factor
        if bias is not None:
            outputs += jnp.reshape(bias, shape)
        return jnp.asarray(outputs, _promoted(self.dtype, x, scale, bias)[0].dtype)


@dataclass(kw_only=True, eq=False, repr=False)
class LayerNorm(Norm):
    """Normalizes each example over some axes; `scale` and `bias` are along `feature_axes`."""

    reduction_axes: Axes = -1
    feature_axes: Axes = -1

    def __call__(self, x: Array, *, mask: Any = None) -> Array:
        """Any shape, to the same shape; the statistics are those of what a mask takes."""
        over, _ = split_axes(self.reduction_axes, x.ndim)
        along, _ = split_axes(self.feature_axes, x.ndim)
        return self._normalized(x, self._moments(x, over, mask), over, along)


@dataclass(kw_only=True, eq=False, repr=False)
class BatchNorm(Norm):
    """Normalizes each feature over the batch, and keeps running statistics (LIN-8).

    `axis` is the feature's; `momentum` is how much of the old statistics an update keeps.
    """

    use_running_average: bool | None = None
    axis: Axes = -1
    momentum: float = 0.99
    epsilon: float = 1e-5

    def _by(self, kept: Sequence[Any], running: bool, x: Array, mask: Any) -> Array:
        """By the statistics that variables keep, or by the batch's own, which those follow."""
        along, over = split_axes(self.axis, x.ndim)
        statistics: Any = [variable.value for variable in kept]
        if not running:
            statistics = self._moments(x, over, mask)
            for variable, value in (
                () if self.is_initializing() else zip(kept, statistics, strict=True)
            ):
                variable.value = self.momentum * variable.value + (1 - self.momentum) * value
        return self._normalized(x, statistics, over, along)


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

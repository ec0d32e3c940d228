"""The layers that the documents use: Dense, Embed, LayerNorm, BatchNorm, Dropout."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import initializers

from ..errors import ModuleError
from .module import Fn, Module, compact

Array: TypeAlias = Any
Axes: TypeAlias = tuple[int, ...]


def _promoted(dtype: Any, *arrays: Array) -> list[Array]:
    """The arrays in one dtype: the given one, or the inexact one that fits them all."""
    if dtype is None:
        dtype = jnp.result_type(*arrays)
        if not jnp.issubdtype(dtype, jnp.inexact):
            dtype = jnp.promote_types(jnp.float32, dtype)
    return [jnp.asarray(array, dtype) for array in arrays]


def _axes(axes: int | Sequence[int], rank: int) -> tuple[Axes, Axes]:
    """The axes counted from the first, and all others."""
    counted = tuple(axis % rank for axis in ([axes] if isinstance(axes, int) else axes))
    return counted, tuple(axis for axis in range(rank) if axis not in counted)


def _either(name: str, *places: bool | None) -> bool:
    """What was said in one of two places."""
    said = [value for value in places if value is not None]
    if len(said) != 1:
        raise ModuleError(f"Pass {name} to the module or to its call, once; got {said!r}.")
    return said[0]


class Dense(Module):
    """A linear map of the last axis; `kernel` has shape (n, features)."""

    features: int
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = jnp.float32
    precision: Any = None
    kernel_init: Fn = initializers.lecun_normal()
    bias_init: Fn = initializers.zeros
    dot_general: Fn = lax.dot_general

    @compact
    def __call__(self, inputs: Array) -> Array:
        """Shape (..., n) to (..., features)."""
        shape = (jnp.shape(inputs)[-1], self.features)
        arrays = [inputs, self.param("kernel", self.kernel_init, shape, self.param_dtype)]
        if self.use_bias:
            arrays.append(self.param("bias", self.bias_init, shape[1:], self.param_dtype))
        inputs, kernel, *bias = _promoted(self.dtype, *arrays)
        axes = (((inputs.ndim - 1,), (0,)), ((), ()))
        outputs = self.dot_general(inputs, kernel, axes, precision=self.precision)
        return outputs + jnp.expand_dims(bias[0], range(outputs.ndim - 1)) if bias else outputs


class Embed(Module):
    """A vector for each integer; `embedding` has shape (num_embeddings, features)."""

    num_embeddings: int
    features: int
    dtype: Any = None
    param_dtype: Any = jnp.float32
    embedding_init: Fn = initializers.variance_scaling(1.0, "fan_in", "normal", out_axis=0)

    def setup(self) -> None:
        """Make the vectors."""
        shape = (self.num_embeddings, self.features)
        self.embedding = self.param("embedding", self.embedding_init, shape, self.param_dtype)

    def __call__(self, inputs: Array) -> Array:
        """Integers of any shape, to that shape with one axis of size `features` more."""
        if not jnp.issubdtype(jnp.result_type(inputs), jnp.integer):
            raise ModuleError(f"Embed takes integers, got {jnp.result_type(inputs)}.")
        return jnp.take(_promoted(self.dtype, self.embedding)[0], inputs, axis=0)

    def attend(self, query: Array) -> Array:
        """The products of queries (..., features) with every vector: (..., num_embeddings)."""
        query, embedding = _promoted(self.dtype, query, self.embedding)
        return jnp.dot(query, embedding.T)


class _Norm(Module):
    """What normalizations share: scale and bias along the features."""

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = jnp.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Fn = initializers.zeros
    scale_init: Fn = initializers.ones

    def statistics(self, x: Array, over: Axes, axis_name: Any = None) -> tuple[Array, Array]:
        """Mean and variance over axes, and over a mapped axis; in float32 at least."""
        x = jnp.asarray(x, jnp.promote_types(jnp.result_type(x), jnp.float32))
        moments: Array = jnp.stack([jnp.mean(x, over), jnp.mean(lax.square(x), over)])
        if axis_name is not None:
            moments = lax.pmean(moments, axis_name)  # type: ignore[no-untyped-call]
        return moments[0], jnp.maximum(0.0, moments[1] - lax.square(moments[0]))

    def normalize(self, x: Array, statistics: Any, over: Axes, along: int | Axes) -> Array:
        """The inputs with these statistics taken out, scaled and shifted."""
        axes, others = _axes(along, x.ndim)
        mean, variance = (jnp.expand_dims(each, over) for each in statistics)
        shape, arrays = [x.shape[axis] for axis in axes], [x]
        factor, outputs = lax.rsqrt(variance + self.epsilon), x - mean
        if self.use_scale:
            arrays.append(self.param("scale", self.scale_init, shape, self.param_dtype))
            factor *= jnp.expand_dims(arrays[-1], others)
        outputs *= factor
        if self.use_bias:
            arrays.append(self.param("bias", self.bias_init, shape, self.param_dtype))
            outputs += jnp.expand_dims(arrays[-1], others)
        return jnp.asarray(outputs, _promoted(self.dtype, *arrays)[0].dtype)


class LayerNorm(_Norm):
    """Normalizes each example over some axes; `scale` and `bias` are along `feature_axes`."""

    reduction_axes: int | Axes = -1
    feature_axes: int | Axes = -1

    @compact
    def __call__(self, x: Array) -> Array:
        """Any shape, to the same shape."""
        over, _ = _axes(self.reduction_axes, x.ndim)
        return self.normalize(x, self.statistics(x, over), over, self.feature_axes)


class _Running(Module):
    """The fields of `BatchNorm` that come before those it shares, in the order of Flax."""

    use_running_average: bool | None = None
    axis: int | Axes = -1
    momentum: float = 0.99


class BatchNorm(_Norm, _Running):
    """Normalizes each feature over the batch, and keeps running statistics (LIN-8).

    `mean` and `var` lie in the collection `batch_stats`. `axis` is the feature's; `momentum` is how
    much of the old statistics an update keeps; `axis_name` names mapped axes to average over.
    """

    epsilon: float = 1e-5
    axis_name: str | None = None

    @compact
    def __call__(self, x: Array, use_running_average: bool | None = None) -> Array:
        """Any shape, to the same shape; in training the statistics are the batch's own."""
        running = _either("use_running_average", self.use_running_average, use_running_average)
        along, over = _axes(self.axis, x.ndim)
        shape, first = [x.shape[axis] for axis in along], self.is_initializing()
        mean = self.variable("batch_stats", "mean", jnp.zeros, shape, jnp.float32)
        variance = self.variable("batch_stats", "var", jnp.ones, shape, jnp.float32)
        if running:
            return self.normalize(x, (mean.value, variance.value), over, along)
        own = self.statistics(x, over, None if first else self.axis_name)
        for kept, new in () if first else zip((mean, variance), own, strict=True):
            kept.value = self.momentum * kept.value + (1 - self.momentum) * new
        return self.normalize(x, own, over, along)


class Dropout(Module):
    """Drops entries with probability `rate`, and scales the rest by its inverse (LIN-8).

    Masks are equal along `broadcast_dims`. The key is drawn from the stream `rng_collection`.
    """

    rate: float
    broadcast_dims: Sequence[int] = ()
    deterministic: bool | None = None
    rng_collection: str = "dropout"

    @compact
    def __call__(self, inputs: Array, deterministic: bool | None = None, rng: Any = None) -> Array:
        """Any shape, to the same shape; the identity where deterministic."""
        if _either("deterministic", self.deterministic, deterministic) or self.rate == 0.0:
            return inputs
        if self.rate == 1.0:
            return jnp.zeros_like(inputs)
        _, drawn = _axes(self.broadcast_dims, inputs.ndim)
        shape = [size if axis in drawn else 1 for axis, size in enumerate(inputs.shape)]
        key = self.make_rng(self.rng_collection) if rng is None else rng
        kept = jnp.broadcast_to(jax.random.bernoulli(key, 1 - self.rate, shape), inputs.shape)
        return jnp.where(kept, inputs / (1 - self.rate), jnp.zeros_like(inputs))

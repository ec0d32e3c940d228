"""The layers that the documents use: Dense, Embed, LayerNorm, BatchNorm, Dropout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import initializers

from ..errors import ModuleError
from .module import Module, compact

Array = Any
Initializer = Callable[..., Any]


def _promoted(dtype: Any, *arrays: Any) -> list[Any]:
    """The arrays in one dtype: the given one, or the inexact one that fits them all."""
    if dtype is None:
        present = [jnp.asarray(array) for array in arrays if array is not None]
        dtype = jnp.result_type(*present)
        if not jnp.issubdtype(dtype, jnp.inexact):
            dtype = jnp.promote_types(jnp.float32, dtype)
    return [None if array is None else jnp.asarray(array, dtype) for array in arrays]


class Dense(Module):
    """A linear map of the last axis; `kernel` has shape (n, features)."""

    features: int
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = jnp.float32
    precision: Any = None
    kernel_init: Initializer = initializers.lecun_normal()
    bias_init: Initializer = initializers.zeros
    dot_general: Callable[..., Any] = lax.dot_general

    @compact
    def __call__(self, inputs: Array) -> Array:
        """Shape (..., n) to (..., features)."""
        size = jnp.shape(inputs)[-1]
        kernel = self.param("kernel", self.kernel_init, (size, self.features), self.param_dtype)
        bias = None
        if self.use_bias:
            bias = self.param("bias", self.bias_init, (self.features,), self.param_dtype)
        inputs, kernel, bias = _promoted(self.dtype, inputs, kernel, bias)
        axes = (((inputs.ndim - 1,), (0,)), ((), ()))
        outputs = self.dot_general(inputs, kernel, axes, precision=self.precision)
        if bias is None:
            return outputs
        return outputs + jnp.reshape(bias, (1,) * (outputs.ndim - 1) + (-1,))


class Embed(Module):
    """A vector for each integer; `embedding` has shape (num_embeddings, features)."""

    num_embeddings: int
    features: int
    dtype: Any = None
    param_dtype: Any = jnp.float32
    embedding_init: Initializer = initializers.variance_scaling(1.0, "fan_in", "normal", out_axis=0)

    def setup(self) -> None:
        """Make the vectors."""
        shape = (self.num_embeddings, self.features)
        self.embedding = self.param("embedding", self.embedding_init, shape, self.param_dtype)

    def __call__(self, inputs: Array) -> Array:
        """Integers of any shape, to that shape with one axis of size `features` more."""
        if not jnp.issubdtype(jnp.result_type(inputs), jnp.integer):
            raise ModuleError(f"Embed takes integers, got {jnp.result_type(inputs)}.")
        (embedding,) = _promoted(self.dtype, self.embedding)
        return jnp.take(embedding, inputs, axis=0)

    def attend(self, query: Array) -> Array:
        """The products of queries (..., features) with every vector: (..., num_embeddings)."""
        query, embedding = _promoted(self.dtype, query, self.embedding)
        return jnp.dot(query, embedding.T)


def _axes(axes: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes counted from the first."""
    return tuple(axis % rank for axis in ([axes] if isinstance(axes, int) else axes))


_mean_over: Any = lax.pmean


def _statistics(inputs: Array, axes: tuple[int, ...], mesh_axes: Any = None) -> tuple[Array, Array]:
    """Mean and variance over axes, and over mesh axes; in float32 at least."""
    inputs = jnp.asarray(inputs, jnp.promote_types(jnp.result_type(inputs), jnp.float32))
    moments = jnp.stack([jnp.mean(inputs, axes), jnp.mean(lax.square(inputs), axes)])
    mean, square = moments if mesh_axes is None else _mean_over(moments, mesh_axes)
    return mean, jnp.maximum(0.0, square - lax.square(mean))


class _Norm(Module):
    """What normalizations share: scale and bias along the features."""

    def normalize(
        self, inputs: Array, mean: Array, variance: Array, over: Any, along: Any
    ) -> Array:
        """The inputs with these statistics taken out, scaled and shifted."""
        features = [inputs.shape[axis] if axis in along else 1 for axis in range(inputs.ndim)]
        own = [inputs.shape[axis] for axis in along]
        outputs = inputs - jnp.expand_dims(mean, over)
        factor = lax.rsqrt(jnp.expand_dims(variance, over) + self.epsilon)
        arrays = [inputs]
        if self.use_scale:
            scale = self.param("scale", self.scale_init, own, self.param_dtype)
            factor, arrays = factor * scale.reshape(features), [*arrays, scale]
        outputs = outputs * factor
        if self.use_bias:
            bias = self.param("bias", self.bias_init, own, self.param_dtype)
            outputs, arrays = outputs + bias.reshape(features), [*arrays, bias]
        return jnp.asarray(outputs, _promoted(self.dtype, *arrays)[0].dtype)


class LayerNorm(_Norm):
    """Normalizes each example over some axes; `scale` and `bias` are along `feature_axes`."""

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = jnp.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Initializer = initializers.zeros
    scale_init: Initializer = initializers.ones
    reduction_axes: int | tuple[int, ...] = -1
    feature_axes: int | tuple[int, ...] = -1

    @compact
    def __call__(self, x: Array) -> Array:
        """Any shape, to the same shape."""
        over, along = _axes(self.reduction_axes, x.ndim), _axes(self.feature_axes, x.ndim)
        return self.normalize(x, *_statistics(x, over), over, along)


class BatchNorm(_Norm):
    """Normalizes each feature over the batch, and keeps running statistics (LIN-8).

    `mean` and `var` lie in the collection `batch_stats`. `axis` is the feature's; `momentum` is how
    much of the old statistics an update keeps; `axis_name` names mapped axes to average over.
    """

    use_running_average: bool | None = None
    axis: int = -1
    momentum: float = 0.99
    epsilon: float = 1e-5
    dtype: Any = None
    param_dtype: Any = jnp.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Initializer = initializers.zeros
    scale_init: Initializer = initializers.ones
    axis_name: str | None = None

    @compact
    def __call__(self, x: Array, use_running_average: bool | None = None) -> Array:
        """Any shape, to the same shape; in training the statistics are the batch's own."""
        running = _either("use_running_average", self.use_running_average, use_running_average)
        along = _axes(self.axis, x.ndim)
        over = tuple(axis for axis in range(x.ndim) if axis not in along)
        shape = tuple(x.shape[axis] for axis in along)
        mean = self.variable("batch_stats", "mean", lambda: jnp.zeros(shape, jnp.float32))
        variance = self.variable("batch_stats", "var", lambda: jnp.ones(shape, jnp.float32))
        if running:
            return self.normalize(x, mean.value, variance.value, over, along)
        own = _statistics(x, over, None if self.is_initializing() else self.axis_name)
        if not self.is_initializing():
            for kept, new in zip((mean, variance), own, strict=True):
                kept.value = self.momentum * kept.value + (1 - self.momentum) * new
        return self.normalize(x, *own, over, along)


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
        still = _either("deterministic", self.deterministic, deterministic)
        if still or self.rate == 0.0:
            return inputs
        if self.rate == 1.0:
            return jnp.zeros_like(inputs)
        shared = _axes(tuple(self.broadcast_dims), inputs.ndim)
        shape = [1 if axis in shared else size for axis, size in enumerate(inputs.shape)]
        key = self.make_rng(self.rng_collection) if rng is None else rng
        kept = jnp.broadcast_to(jax.random.bernoulli(key, 1 - self.rate, shape), inputs.shape)
        return jnp.where(kept, inputs / (1 - self.rate), jnp.zeros_like(inputs))


def _either(name: str, ours: bool | None, given: bool | None) -> bool:
    """What was said in one of two places."""
    said = [value for value in (ours, given) if value is not None]
    if len(said) != 1:
        raise ModuleError(f"Pass {name} to the module or to its call, once; got {said!r}.")
    return said[0]

"""The layers that the documents use: Dense, Embed, LayerNorm, BatchNorm, Dropout."""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.nn import initializers

from .. import functional
from ..functional import Array, Axes
from .module import Fn, Module, compact, nowrap


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
        bias, kernel = None, self.param("kernel", self.kernel_init, shape, self.param_dtype)
        if self.use_bias:
            bias = self.param("bias", self.bias_init, shape[1:], self.param_dtype)
        how = self.dtype, self.dot_general
        return functional.affine(inputs, kernel, bias, *how, precision=self.precision)


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
        return functional.rows(self.embedding, inputs, self.dtype)

    def attend(self, query: Array) -> Array:
        """The products of queries (..., features) with every vector: (..., num_embeddings)."""
        return functional.products(query, self.embedding, self.dtype)


class _Norm(Module):
    """What normalizations share: scale and bias along the features."""

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = jnp.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Fn = initializers.zeros
    scale_init: Fn = initializers.ones

    @nowrap
    def _moments(self: Any, x: Array, over: Axes, mask: Any) -> tuple[Array, Array]:
        axis_name = None if self.is_initializing() else self.axis_name
        how = axis_name, self.axis_index_groups, self.use_fast_variance
        return functional.moments(x, over, mask, *how)

    @nowrap
    def _normalized(self, x: Array, statistics: Any, *axes: Any) -> Array:
        shape, scale, bias = [x.shape[axis] for axis in axes[1]], None, None
        if self.use_scale:
            scale = self.param("scale", self.scale_init, shape, self.param_dtype)
        if self.use_bias:
            bias = self.param("bias", self.bias_init, shape, self.param_dtype)
        return functional.normalized(x, statistics, (scale, bias), axes, self.epsilon, self.dtype)


class LayerNorm(_Norm):
    """Normalizes each example over some axes; `scale` and `bias` are along `feature_axes`."""

    reduction_axes: Axes = -1
    feature_axes: Axes = -1
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True

    @compact
    def __call__(self, x: Array, *, mask: Any = None) -> Array:
        """Any shape, to the same shape; the statistics are those of what a mask takes."""
        along, _ = functional.split_axes(self.feature_axes, x.ndim)
        over, _ = functional.split_axes(self.reduction_axes, x.ndim)
        return self._normalized(x, self._moments(x, over, mask), over, along)


class _Running(Module):
    """The fields of `BatchNorm` that come before those it shares, in the order of Flax."""

    use_running_average: bool | None = None
    axis: Axes = -1
    momentum: float = 0.99


class BatchNorm(_Norm, _Running):
    """Normalizes each feature over the batch, and keeps running statistics (LIN-8).

    `mean` and `var` lie in the collection `batch_stats`. `axis` is the feature's; `momentum` is how
    much of the old statistics an update keeps; `axis_name` names mapped axes to average over.
    """

    epsilon: float = 1e-5
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True

    @compact
    def __call__(
        self, x: Array, use_running_average: bool | None = None, *, mask: Any = None
    ) -> Array:
        """Any shape, to the same shape; in training the statistics are the batch's own."""
        places = self.use_running_average, use_running_average
        running = functional.flag("use_running_average", *places, once=True)
        along, over = functional.split_axes(self.axis, x.ndim)
        shape, first = [x.shape[axis] for axis in along], self.is_initializing()
        mean = self.variable("batch_stats", "mean", jnp.zeros, shape, jnp.float32)
        variance = self.variable("batch_stats", "var", jnp.ones, shape, jnp.float32)
        if running:
            return self._normalized(x, (mean.value, variance.value), over, along)
        own = self._moments(x, over, mask)
        if not first:
            functional.follow((mean, variance), own, self.momentum)
        return self._normalized(x, own, over, along)


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
        if functional.flag("deterministic", self.deterministic, deterministic, once=True):
            return inputs
        key = functools.partial(self.make_rng, self.rng_collection) if rng is None else rng
        return functional.dropped(inputs, self.rate, self.broadcast_dims, key)

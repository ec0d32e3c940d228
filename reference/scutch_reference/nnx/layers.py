"""The layers that the documents use: Linear, Embed, BatchNorm, LayerNorm, Dropout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.nn import initializers

from ..errors import LayerError
from .modules import Module
from .objects import data
from .rngs import Rngs, RngStream
from .variables import BatchStat, Param

Array = Any
DEFAULT_KERNEL_INIT = initializers.lecun_normal()
DEFAULT_EMBEDDING_INIT = initializers.variance_scaling(1.0, "fan_in", "normal", out_axis=0)
NO_METADATA: Mapping[str, Any] = MappingProxyType({})


def promote_dtype(values: Sequence[Any], *, dtype: Any = None, inexact: bool = True) -> list[Any]:
    """The arrays among `values` in one dtype: the given one, or the one that fits them all."""
    arrays = [jnp.asarray(value) for value in values if value is not None]
    if dtype is None:
        dtype = jnp.result_type(*arrays)
        if inexact and not jnp.issubdtype(dtype, jnp.inexact):
            dtype = jnp.promote_types(jnp.float32, dtype)
    return [None if value is None else jnp.asarray(value, dtype) for value in values]


def _value(variable: Any) -> Any:
    return None if variable is None else variable.get_value()


class Linear(Module):
    """A linear map of the last axis.

    Args:
      in_features, out_features: Sizes of the last axis of inputs and outputs.
      use_bias: Whether to add a bias.
      dtype, param_dtype: Of the computation, and of the parameters.
      kernel_init, bias_init: Initializers; `with_partitioning` gives the parameters names.
      kernel_metadata, bias_metadata: Metadata of the parameters.
      rngs: Seeds; the stream is `params`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        use_bias: bool = True,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        precision: Any = None,
        kernel_init: Callable[..., Any] = DEFAULT_KERNEL_INIT,
        bias_init: Callable[..., Any] = initializers.zeros,
        dot_general: Callable[..., Any] = lax.dot_general,
        promote_dtype: Callable[..., Any] = promote_dtype,
        preferred_element_type: Any = None,
        rngs: Rngs,
        kernel_metadata: Mapping[str, Any] = NO_METADATA,
        bias_metadata: Mapping[str, Any] = NO_METADATA,
    ):
        kernel = kernel_init(rngs.params(), (in_features, out_features), param_dtype)
        self.kernel = Param(kernel, **kernel_metadata)
        self.bias = data(None)
        if use_bias:
            bias = bias_init(rngs.params(), (out_features,), param_dtype)
            self.bias = Param(bias, **bias_metadata)
        self.in_features, self.out_features = in_features, out_features
        self.use_bias, self.dtype, self.param_dtype = use_bias, dtype, param_dtype
        self.precision, self.dot_general = precision, dot_general
        self.promote_dtype, self.preferred_element_type = promote_dtype, preferred_element_type

    def __call__(self, inputs: Array, out_sharding: Any = None) -> Array:
        """Shape (..., in_features) to (..., out_features)."""
        inputs, kernel, bias = self.promote_dtype(
            (inputs, _value(self.kernel), _value(self.bias)), dtype=self.dtype
        )
        options = {
            "preferred_element_type": self.preferred_element_type,
            "out_sharding": out_sharding,
        }
        outputs = self.dot_general(
            inputs,
            kernel,
            (((inputs.ndim - 1,), (0,)), ((), ())),
            precision=self.precision,
            **{name: value for name, value in options.items() if value is not None},
        )
        return (
            outputs if bias is None else outputs + bias.reshape((1,) * (outputs.ndim - 1) + (-1,))
        )


class Embed(Module):
    """A vector for each integer.

    Args:
      num_embeddings: How many integers.
      features: Size of the vectors.
      dtype, param_dtype, embedding_init, embedding_metadata, rngs: As for `Linear`.
    """

    def __init__(
        self,
        num_embeddings: int,
        features: int,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        embedding_init: Callable[..., Any] = DEFAULT_EMBEDDING_INIT,
        promote_dtype: Callable[..., Any] = promote_dtype,
        rngs: Rngs,
        embedding_metadata: Mapping[str, Any] = NO_METADATA,
    ):
        table = embedding_init(rngs.params(), (num_embeddings, features), param_dtype)
        self.embedding = Param(table, **embedding_metadata)
        self.num_embeddings, self.features = num_embeddings, features
        self.dtype, self.param_dtype = dtype or table.dtype, param_dtype
        self.promote_dtype = promote_dtype

    def __call__(self, inputs: Array) -> Array:
        """Integers of shape (...) to vectors of shape (..., features); NaN beyond the table.

        Raises:
          LayerError: The inputs are no integers.
        """
        if not jnp.issubdtype(inputs.dtype, jnp.integer):
            raise LayerError(f"Embed takes integers, got inputs of dtype {inputs.dtype}.")
        (table,) = self.promote_dtype((_value(self.embedding),), dtype=self.dtype, inexact=False)
        if self.num_embeddings == 1:
            return jnp.broadcast_to(table, (*inputs.shape, self.features))
        return jnp.take(table, inputs, axis=0)

    def attend(self, query: Array) -> Array:
        """Inner products of shape (..., features) with all vectors: (..., num_embeddings)."""
        query, table = self.promote_dtype((query, _value(self.embedding)), dtype=self.dtype)
        return jnp.dot(query, table.T)


def _canonical(axes: Any, ndim: int) -> tuple[int, ...]:
    return tuple(axis % ndim for axis in (axes if isinstance(axes, tuple | list) else (axes,)))


class _Normalization(Module):
    """What BatchNorm and LayerNorm share: scale, bias, and what they do with mean and variance."""

    def __init__(
        self,
        num_features: int,
        *,
        epsilon: float,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        use_bias: bool = True,
        use_scale: bool = True,
        bias_init: Callable[..., Any] = initializers.zeros,
        scale_init: Callable[..., Any] = initializers.ones,
        axis_name: str | None = None,
        axis_index_groups: Any = None,
        use_fast_variance: bool = True,
        promote_dtype: Callable[..., Any] = promote_dtype,
        rngs: Rngs,
        bias_metadata: Mapping[str, Any] = NO_METADATA,
        scale_metadata: Mapping[str, Any] = NO_METADATA,
    ):
        shape = (num_features,)
        self.scale = self.bias = data(None)
        if use_scale:
            self.scale = Param(scale_init(rngs.params(), shape, param_dtype), **scale_metadata)
        if use_bias:
            self.bias = Param(bias_init(rngs.params(), shape, param_dtype), **bias_metadata)
        self.num_features, self.epsilon = num_features, epsilon
        self.dtype, self.param_dtype = dtype, param_dtype
        self.use_bias, self.use_scale = use_bias, use_scale
        self.axis_name, self.axis_index_groups = axis_name, axis_index_groups
        self.use_fast_variance, self.promote_dtype = use_fast_variance, promote_dtype

    def _moments(self, x: Array, axes: tuple[int, ...], mask: Any) -> tuple[Array, Array]:
        """Mean and variance over `axes`, in float32 at least, and over the devices of an axis."""
        x = x.astype(jnp.promote_types(x.dtype, jnp.float32))

        def mean(values: Array) -> Array:
            average = values.mean(axes, where=mask)
            if self.axis_name is None:
                return average
            groups = self.axis_index_groups
            return lax.pmean(  # type: ignore[no-untyped-call]
                average, self.axis_name, axis_index_groups=groups
            )

        center = mean(x)
        if self.use_fast_variance:
            return center, jnp.maximum(0.0, mean(jnp.square(x)) - jnp.square(center))
        return center, mean(jnp.square(x - jnp.expand_dims(center, axes)))

    def _normalized(
        self, x: Array, mean: Array, var: Array, reduced: tuple[int, ...], features: Any
    ) -> Array:
        stats = [1 if axis in reduced else size for axis, size in enumerate(x.shape)]
        kept = [size if axis in features else 1 for axis, size in enumerate(x.shape)]
        scale, bias = _value(self.scale), _value(self.bias)
        factor = lax.rsqrt(var.reshape(stats) + self.epsilon)
        if scale is not None:
            factor = factor * scale.reshape(kept)
        out = (x - mean.reshape(stats)) * factor
        if bias is not None:
            out = out + bias.reshape(kept)
        present = [each for each in (x, scale, bias) if each is not None]
        return jnp.asarray(out, self.dtype or jnp.result_type(jnp.float32, *present))


class BatchNorm(_Normalization):
    """Normalize over all axes but one, and keep running statistics.

    Args:
      num_features: Size of the axis that is kept.
      use_running_average: Whether to use the running statistics, and leave them alone.
      axis: The axis that is kept.
      momentum: Of the running statistics.
      axis_name, axis_index_groups: Devices to average the statistics over.
      epsilon, use_fast_variance, dtype, param_dtype, use_bias, use_scale: As they say.
      bias_init, scale_init, bias_metadata, scale_metadata, rngs: As for `Linear`.
    """

    def __init__(
        self,
        num_features: int,
        *,
        use_running_average: bool | None = False,
        axis: int = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-5,
        rngs: Rngs,
        **shared: Any,
    ):
        super().__init__(num_features, epsilon=epsilon, rngs=rngs, **shared)
        self.mean = BatchStat(jnp.zeros((num_features,), jnp.float32))
        self.var = BatchStat(jnp.ones((num_features,), jnp.float32))
        self.use_running_average, self.axis = use_running_average, axis
        self.momentum = momentum

    def __call__(
        self, x: Array, use_running_average: bool | None = None, *, mask: Any = None
    ) -> Array:
        """Normalize; `use_running_average` here wins over that of the layer.

        Raises:
          LayerError: Neither says whether to use the running statistics.
        """
        running = _first("use_running_average", use_running_average, self.use_running_average)
        features = _canonical(self.axis, x.ndim)
        reduced = tuple(axis for axis in range(x.ndim) if axis not in features)
        x, mean, var = self.promote_dtype(
            (x, self.mean.get_value(), self.var.get_value()), dtype=self.dtype
        )
        if not running:
            mean, var = self._moments(x, reduced, mask)
            for statistic, now in ((self.mean, mean), (self.var, var)):
                old = statistic.get_value()
                new = self.momentum * old + (1 - self.momentum) * now
                statistic.set_value(lax.stop_gradient(new.astype(old.dtype)))
        return self._normalized(x, mean, var, reduced, features)


class LayerNorm(_Normalization):
    """Normalize over the last axis, or those named.

    Args:
      num_features: Size of the feature axis.
      reduction_axes: Axes to take mean and variance over.
      feature_axes: Axes that have a scale and a bias of their own.
      epsilon, use_fast_variance, dtype, param_dtype, use_bias, use_scale: As they say.
      axis_name, axis_index_groups: Devices to average the statistics over.
      bias_init, scale_init, bias_metadata, scale_metadata, rngs: As for `Linear`.
    """

    def __init__(
        self,
        num_features: int,
        *,
        epsilon: float = 1e-6,
        reduction_axes: Any = -1,
        feature_axes: Any = -1,
        rngs: Rngs,
        **shared: Any,
    ):
        super().__init__(num_features, epsilon=epsilon, rngs=rngs, **shared)
        self.reduction_axes, self.feature_axes = reduction_axes, feature_axes

    def __call__(self, x: Array, *, mask: Any = None) -> Array:
        """Normalize."""
        (x,) = self.promote_dtype((x,), dtype=self.dtype)
        reduced = _canonical(self.reduction_axes, x.ndim)
        mean, var = self._moments(x, reduced, mask)
        return self._normalized(x, mean, var, reduced, _canonical(self.feature_axes, x.ndim))


def _first(name: str, *values: bool | None) -> bool:
    for value in values:
        if value is not None:
            return value
    raise LayerError(f"Nobody says `{name}`: pass it to the call or to the constructor.")


class Dropout(Module):
    """Set values to zero at random, and scale up the others.

    Args:
      rate: The share of values that are dropped.
      broadcast_dims: Axes along which all values share one fate.
      deterministic: Whether to drop nothing.
      rng_collection: The name of the stream.
      rngs: Seeds; the layer forks the stream. They may be passed to the call instead.
    """

    def __init__(
        self,
        rate: float,
        *,
        broadcast_dims: Sequence[int] = (),
        deterministic: bool | None = False,
        rng_collection: str = "dropout",
        rngs: Rngs | RngStream | None = None,
    ):
        self.rate, self.broadcast_dims = rate, tuple(broadcast_dims)
        self.deterministic, self.rng_collection = deterministic, rng_collection
        stream = rngs[rng_collection] if isinstance(rngs, Rngs) else rngs
        self.rngs = data(None) if stream is None else stream.fork()

    def __call__(
        self, inputs: Array, *, deterministic: bool | None = None, rngs: Any = None
    ) -> Array:
        """Drop; `deterministic` and `rngs` here win over those of the layer.

        Raises:
          LayerError: There is no seed, or nobody says whether to drop.
        """
        quiet = _first("deterministic", deterministic, self.deterministic)
        if self.rate == 0.0 or quiet:
            return inputs
        if self.rate == 1.0:
            return jnp.zeros_like(inputs)
        source = self.rngs if rngs is None else rngs
        if source is None:
            raise LayerError("Dropout has no `rngs`: pass them to the call or to the constructor.")
        if isinstance(source, Rngs):
            source = source[self.rng_collection]
        key = source() if isinstance(source, RngStream) else source
        shape = [1 if i in self.broadcast_dims else n for i, n in enumerate(inputs.shape)]
        keep = 1.0 - self.rate
        mask = jnp.broadcast_to(random.bernoulli(key, keep, shape), inputs.shape)
        return jax.lax.select(mask, inputs / keep, jnp.zeros_like(inputs))

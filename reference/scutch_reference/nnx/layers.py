"""The layers that the documents use: Linear, Embed, BatchNorm, LayerNorm, Dropout."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, field
from typing import Any

import jax.numpy as jnp
from jax import lax, random
from jax.nn import initializers

from ..errors import ModuleError
from .modules import Module
from .objects import data, dataclass
from .rngs import Rngs, RngStream
from .variables import BatchStat, Param

Array = Any
Flag = bool | None
Initializer = Callable[..., Any]
Metadata = Mapping[str, Any] | None


def promote_dtype(values: Sequence[Any], *, dtype: Any = None, inexact: bool = True) -> list[Any]:
    """The arrays among `values` in one dtype: the given one, or the one that fits them all."""
    if dtype is None:
        dtype = jnp.result_type(*[jnp.asarray(value) for value in values if value is not None])
        if inexact and not jnp.issubdtype(dtype, jnp.inexact):
            dtype = jnp.promote_types(jnp.float32, dtype)
    return [None if value is None else jnp.asarray(value, dtype) for value in values]


def _value(variable: Any) -> Any:
    return None if variable is None else variable.get_value()


def _axes(axes: Any, ndim: int) -> tuple[int, ...]:
    return tuple(axis % ndim for axis in ([axes] if isinstance(axes, int) else axes))


def _first(name: str, *values: Flag) -> bool:
    for value in values:
        if value is not None:
            return value
    raise ModuleError(f"Nobody says `{name}`: pass it to the call or to the constructor.")


@dataclass(kw_only=True)
class _Layer(Module):
    """What layers with parameters share: the dtypes, and the seeds, which are of `params`."""

    dtype: Any = None
    param_dtype: Any = jnp.float32
    promote_dtype: Callable[..., Any] = promote_dtype
    rngs: InitVar[Rngs]

    def _parameter(self, rngs: Rngs, init: Any, shape: Any, given: Any, used: bool = True) -> Any:
        """A parameter; where it is not used, `None` in a place for data."""
        if not used:
            return data(None)
        return Param(init(rngs.params(), shape, self.param_dtype), **(given or {}))


@dataclass(kw_only=True)
class Linear(_Layer):
    """A linear map of the last axis; its initializers, or `*_metadata`, may name the axes."""

    in_features: int = field(kw_only=False)
    out_features: int = field(kw_only=False)
    use_bias: bool = True
    precision: Any = None
    kernel_init: InitVar[Initializer] = initializers.lecun_normal()
    bias_init: InitVar[Initializer] = initializers.zeros
    dot_general: Callable[..., Any] = lax.dot_general
    preferred_element_type: Any = None
    kernel_metadata: InitVar[Metadata] = None
    bias_metadata: InitVar[Metadata] = None

    def __post_init__(self, rngs: Rngs, kernel_init: Any, bias_init: Any, *metadata: Any) -> None:
        shape = self.in_features, self.out_features
        self.kernel = self._parameter(rngs, kernel_init, shape, metadata[0])
        self.bias = self._parameter(rngs, bias_init, shape[1:], metadata[1], self.use_bias)

    def __call__(self, inputs: Array, out_sharding: Any = None) -> Array:
        """Shape (..., in_features) to (..., out_features)."""
        arrays = inputs, _value(self.kernel), _value(self.bias)
        inputs, kernel, bias = self.promote_dtype(arrays, dtype=self.dtype)
        axes, wanted = (((inputs.ndim - 1,), (0,)), ((), ())), {"precision": self.precision}
        if self.preferred_element_type is not None:
            wanted["preferred_element_type"] = self.preferred_element_type
        if out_sharding is not None:
            wanted["out_sharding"] = out_sharding
        outputs = self.dot_general(inputs, kernel, axes, **wanted)
        return outputs if bias is None else outputs + jnp.expand_dims(bias, range(outputs.ndim - 1))


@dataclass(kw_only=True)
class Embed(_Layer):
    """A vector of size `features` for each of `num_embeddings` integers; see `Linear`."""

    num_embeddings: int = field(kw_only=False)
    features: int = field(kw_only=False)
    embedding_init: InitVar[Initializer] = initializers.variance_scaling(
        1.0, "fan_in", "normal", out_axis=0
    )
    embedding_metadata: InitVar[Metadata] = None

    def __post_init__(self, rngs: Rngs, embedding_init: Initializer, metadata: Metadata) -> None:
        shape = self.num_embeddings, self.features
        self.embedding = self._parameter(rngs, embedding_init, shape, metadata)
        self.dtype = self.dtype or self.embedding.dtype

    def __call__(self, inputs: Array) -> Array:
        """Integers of shape (...) to vectors of shape (..., features); NaN beyond the table."""
        if not jnp.issubdtype(inputs.dtype, jnp.integer):
            raise ModuleError(f"Embed takes integers, got inputs of dtype {inputs.dtype}.")
        (table,) = self.promote_dtype((_value(self.embedding),), dtype=self.dtype, inexact=False)
        if self.num_embeddings == 1:
            return jnp.broadcast_to(table, (*inputs.shape, self.features))
        return jnp.take(table, inputs, axis=0)

    def attend(self, query: Array) -> Array:
        """Inner products of shape (..., features) with all vectors: (..., num_embeddings)."""
        query, table = self.promote_dtype((query, _value(self.embedding)), dtype=self.dtype)
        return jnp.dot(query, table.T)


@dataclass(kw_only=True)
class _Normalization(_Layer):
    """What BatchNorm and LayerNorm share: scale, bias, and what they do with mean and variance."""

    num_features: int = field(kw_only=False)
    epsilon: float = 1e-6
    use_bias: bool = True
    use_scale: bool = True
    bias_init: InitVar[Initializer] = initializers.zeros
    scale_init: InitVar[Initializer] = initializers.ones
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    bias_metadata: InitVar[Metadata] = None
    scale_metadata: InitVar[Metadata] = None

    def __post_init__(self, rngs: Rngs, bias_init: Any, scale_init: Any, *metadata: Any) -> None:
        shape = (self.num_features,)
        self.scale = self._parameter(rngs, scale_init, shape, metadata[1], self.use_scale)
        self.bias = self._parameter(rngs, bias_init, shape, metadata[0], self.use_bias)

    def _moments(self, x: Array, axes: tuple[int, ...], mask: Any) -> tuple[Array, Array]:
        """Mean and variance over `axes`, in float32 at least, and over the devices of an axis."""
        x = x.astype(jnp.promote_types(x.dtype, jnp.float32))

        def mean(values: Array) -> Array:
            average, groups = values.mean(axes, where=mask), self.axis_index_groups
            if self.axis_name is None:
                return average
            return lax.pmean(average, self.axis_name, axis_index_groups=groups)  # type: ignore[no-untyped-call]

        center = mean(x)
        if self.use_fast_variance:
            return center, jnp.maximum(0.0, mean(jnp.square(x)) - jnp.square(center))
        return center, mean(jnp.square(x - jnp.expand_dims(center, axes)))

    def _normalized(self, x: Array, mean: Array, var: Array, over: Any, along: Any) -> Array:
        shape = [size if axis in along else 1 for axis, size in enumerate(x.shape)]
        scale, bias = _value(self.scale), _value(self.bias)
        factor = lax.rsqrt(jnp.expand_dims(var, over) + self.epsilon)
        if scale is not None:
            factor = factor * scale.reshape(shape)
        out = (x - jnp.expand_dims(mean, over)) * factor
        if bias is not None:
            out = out + bias.reshape(shape)
        present = [each for each in (x, scale, bias) if each is not None]
        return jnp.asarray(out, self.dtype or jnp.result_type(jnp.float32, *present))


@dataclass(kw_only=True)
class BatchNorm(_Normalization):
    """Normalize over all axes but `axis`, and keep running statistics.

    `axis_name` and `axis_index_groups` are mapped axes to average the statistics over.
    """

    use_running_average: Flag = False
    axis: int = -1
    momentum: float = 0.99
    epsilon: float = 1e-5

    def __post_init__(self, *given: Any) -> None:
        super().__post_init__(*given)
        self.mean = BatchStat(jnp.zeros((self.num_features,), jnp.float32))
        self.var = BatchStat(jnp.ones((self.num_features,), jnp.float32))

    def __call__(self, x: Array, use_running_average: Flag = None, *, mask: Any = None) -> Array:
        """Normalize; `use_running_average` here wins over that of the layer, if it says any."""
        running = _first("use_running_average", use_running_average, self.use_running_average)
        along = _axes(self.axis, x.ndim)
        over = tuple(axis for axis in range(x.ndim) if axis not in along)
        arrays = x, _value(self.mean), _value(self.var)
        x, mean, var = self.promote_dtype(arrays, dtype=self.dtype)
        if not running:
            mean, var = self._moments(x, over, mask)
            for statistic, now in ((self.mean, mean), (self.var, var)):
                old = statistic.get_value()
                new = self.momentum * old + (1 - self.momentum) * now
                statistic.set_value(lax.stop_gradient(new.astype(old.dtype)))
        return self._normalized(x, mean, var, over, along)


@dataclass(kw_only=True)
class LayerNorm(_Normalization):
    """Normalize over `reduction_axes`; `feature_axes` have a scale and a bias of their own."""

    reduction_axes: Any = -1
    feature_axes: Any = -1

    def __call__(self, x: Array, *, mask: Any = None) -> Array:
        """Normalize."""
        (x,) = self.promote_dtype((x,), dtype=self.dtype)
        over, along = _axes(self.reduction_axes, x.ndim), _axes(self.feature_axes, x.ndim)
        return self._normalized(x, *self._moments(x, over, mask), over, along)


@dataclass(kw_only=True)
class Dropout(Module):
    """Set a share of values, `rate`, to zero at random, and scale up the others.

    Along `broadcast_dims` all values share one fate. The layer forks the stream of its seeds.
    """

    rate: float = field(kw_only=False)
    broadcast_dims: Sequence[int] = ()
    deterministic: Flag = False
    rng_collection: str = "dropout"
    rngs: Any = None

    def __post_init__(self) -> None:
        self.broadcast_dims = tuple(self.broadcast_dims)
        stream = self.rngs[self.rng_collection] if isinstance(self.rngs, Rngs) else self.rngs
        self.rngs = data(None) if stream is None else stream.fork()

    def __call__(self, inputs: Array, *, deterministic: Flag = None, rngs: Any = None) -> Array:
        """Drop; `deterministic` and `rngs` here win over those of the layer."""
        quiet = _first("deterministic", deterministic, self.deterministic)
        if self.rate == 0.0 or quiet:
            return inputs
        if self.rate == 1.0:
            return jnp.zeros_like(inputs)
        key = self.rngs if rngs is None else rngs
        if key is None:
            raise ModuleError("Dropout has no `rngs`: pass them to the call or to the constructor.")
        if isinstance(key, Rngs):
            key = key[self.rng_collection]
        key = key() if isinstance(key, RngStream) else key
        shape = [1 if i in self.broadcast_dims else n for i, n in enumerate(inputs.shape)]
        keep = 1.0 - self.rate
        mask = jnp.broadcast_to(random.bernoulli(key, keep, shape), inputs.shape)
        return lax.select(mask, inputs / keep, jnp.zeros_like(inputs))

"""The layers that the documents use: Linear, Embed, BatchNorm, LayerNorm, Dropout."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, field
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.nn import initializers

from .. import functional
from ..functional import Array, Axes
from .modules import Module
from .objects import data, dataclass
from .rngs import Rngs
from .variables import BatchStat, Param, value_of

Flag = bool | None
Initializer = Callable[..., Any]
Metadata = Mapping[str, Any] | None


@dataclass(kw_only=True)
class _Layer(Module):
    """What layers with parameters share: the dtypes, and the seeds, which are of `params`."""

    dtype: Any = None
    param_dtype: Any = jnp.float32
    rngs: InitVar[Rngs]

    def _parameter(self, rngs: Rngs, init: Any, given: Metadata, *shape: int) -> Any:
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

    def __post_init__(self, rngs: Rngs, kernel: Any, bias: Any, *metadata: Metadata) -> None:
        shape = self.in_features, self.out_features
        self.kernel = self._parameter(rngs, kernel, metadata[0], *shape)
        self.bias = data(None)
        if self.use_bias:
            self.bias = self._parameter(rngs, bias, metadata[1], self.out_features)

    def __call__(self, inputs: Array, out_sharding: Any = None) -> Array:
        """Shape (..., in_features) to (..., out_features)."""
        given = value_of(self.kernel), value_of(self.bias), self.dtype, self.dot_general
        how = {"precision": self.precision, "out_sharding": out_sharding}
        how["preferred_element_type"] = self.preferred_element_type
        return functional.affine(inputs, *given, **how)


@dataclass(kw_only=True)
class Embed(_Layer):
    """A vector of size `features` for each of `num_embeddings` integers; see `Linear`."""

    num_embeddings: int = field(kw_only=False)
    features: int = field(kw_only=False)
    embedding_init: InitVar[Initializer] = initializers.variance_scaling(
        1.0, "fan_in", "normal", out_axis=0
    )
    embedding_metadata: InitVar[Metadata] = None

    def __post_init__(self, rngs: Rngs, init: Initializer, metadata: Metadata) -> None:
        shape = self.num_embeddings, self.features
        self.embedding = self._parameter(rngs, init, metadata, *shape)

    def __call__(self, inputs: Array) -> Array:
        """Integers of shape (...) to vectors of shape (..., features); NaN beyond the table."""
        return functional.rows(value_of(self.embedding), inputs, self.dtype)

    def attend(self, query: Array) -> Array:
        """Inner products of shape (..., features) with all vectors: (..., num_embeddings)."""
        return functional.products(query, value_of(self.embedding), self.dtype)


@dataclass(kw_only=True)
class _Norm(_Layer):
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

    def __post_init__(self, rngs: Rngs, bias: Any, scale: Any, *metadata: Metadata) -> None:
        self.scale, self.bias = data(None), data(None)
        if self.use_scale:
            self.scale = self._parameter(rngs, scale, metadata[1], self.num_features)
        if self.use_bias:
            self.bias = self._parameter(rngs, bias, metadata[0], self.num_features)

    def _moments(self, x: Array, over: Axes, mask: Any) -> tuple[Array, Array]:
        how = self.axis_name, self.axis_index_groups, self.use_fast_variance
        return functional.moments(x, over, mask, *how)

    def _normalized(self, x: Array, statistics: Any, *axes: Any) -> Array:
        parameters, options = map(value_of, (self.scale, self.bias)), (self.epsilon, self.dtype)
        return functional.normalized(x, statistics, [*parameters], axes, *options)


@dataclass(kw_only=True)
class BatchNorm(_Norm):
    """Normalize over all axes but `axis`, and over a mapped axis; keep running statistics."""

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
        places = use_running_average, self.use_running_average
        along, over = functional.split_axes(self.axis, x.ndim)
        x, *kept = functional.promoted(self.dtype, x, value_of(self.mean), value_of(self.var))
        if functional.flag("use_running_average", *places):
            return self._normalized(x, kept, over, along)
        own = self._moments(x, over, mask)
        functional.follow((self.mean, self.var), own, self.momentum)
        return self._normalized(x, own, over, along)


@dataclass(kw_only=True)
class LayerNorm(_Norm):
    """Normalize over `reduction_axes`; `feature_axes` have a scale and a bias of their own."""

    reduction_axes: Axes = -1
    feature_axes: Axes = -1

    def __call__(self, x: Array, *, mask: Any = None) -> Array:
        """Normalize; the statistics are those of what a mask takes."""
        (x,) = functional.promoted(self.dtype, x)
        over, _ = functional.split_axes(self.reduction_axes, x.ndim)
        along, _ = functional.split_axes(self.feature_axes, x.ndim)
        return self._normalized(x, self._moments(x, over, mask), over, along)


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
        if functional.flag("deterministic", deterministic, self.deterministic):
            return inputs
        key = self.rngs if rngs is None else rngs
        key = key[self.rng_collection] if isinstance(key, Rngs) else key
        return functional.dropped(inputs, self.rate, self.broadcast_dims, key)

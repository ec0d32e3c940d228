"""The layers that the documents use: Linear, Embed, BatchNorm, LayerNorm, Dropout."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, field
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.nn import initializers

from .. import arithmetic
from ..arithmetic import Array
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

    def _parameter(self, rngs: Rngs, init: Any, given: Any, *shape: int, used: bool = True) -> Any:
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

    def __post_init__(self, rngs: Rngs, kernel: Any, bias: Any, *metadata: Metadata) -> None:
        shape = self.in_features, self.out_features
        self.kernel = self._parameter(rngs, kernel, metadata[0], *shape)
        self.bias = self._parameter(rngs, bias, metadata[1], self.out_features, used=self.use_bias)

    def __call__(self, inputs: Array, out_sharding: Any = None) -> Array:
        """Shape (..., in_features) to (..., out_features)."""
        given = value_of(self.kernel), value_of(self.bias), self.dtype, self.dot_general
        how = {"precision": self.precision, "out_sharding": out_sharding}
        how["preferred_element_type"] = self.preferred_element_type
        return arithmetic.affine(inputs, *given, **how)


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
        return arithmetic.rows(value_of(self.embedding), inputs, self.dtype)

    def attend(self, query: Array) -> Array:
        """Inner products of shape (..., features) with all vectors: (..., num_embeddings)."""
        return arithmetic.products(query, value_of(self.embedding), self.dtype)


@dataclass(kw_only=True)
class _Norm(_Layer, arithmetic.Norm):
    num_features: int = field(kw_only=False)
    bias_init: InitVar[Initializer] = initializers.zeros
    scale_init: InitVar[Initializer] = initializers.ones
    bias_metadata: InitVar[Metadata] = None
    scale_metadata: InitVar[Metadata] = None

    def __post_init__(self, rngs: Rngs, bias: Any, scale: Any, *metadata: Metadata) -> None:
        n = self.num_features
        self.scale = self._parameter(rngs, scale, metadata[1], n, used=self.use_scale)
        self.bias = self._parameter(rngs, bias, metadata[0], n, used=self.use_bias)

    def _parameters(self, shape: Sequence[int]) -> tuple[Array, Array]:
        return value_of(self.scale), value_of(self.bias)


@dataclass(kw_only=True)
class BatchNorm(arithmetic.BatchNorm, _Norm):
    """Normalize over all axes but `axis`, and over a mapped axis; keep running statistics."""

    use_running_average: Flag = False

    def __post_init__(self, *given: Any) -> None:
        super().__post_init__(*given)
        self.mean = BatchStat(jnp.zeros((self.num_features,), jnp.float32))
        self.var = BatchStat(jnp.ones((self.num_features,), jnp.float32))

    def __call__(self, x: Array, use_running_average: Flag = None, *, mask: Any = None) -> Array:
        """Normalize; `use_running_average` here wins over that of the layer, if it says any."""
        places = use_running_average, self.use_running_average
        running = arithmetic.flag("use_running_average", *places)
        return self._by((self.mean, self.var), running, x, mask)


@dataclass(kw_only=True)
class LayerNorm(arithmetic.LayerNorm, _Norm):
    """Normalize over `reduction_axes`; `feature_axes` have a scale and a bias of their own."""


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
        if arithmetic.flag("deterministic", deterministic, self.deterministic):
            return inputs
        key = self.rngs if rngs is None else rngs
        key = key[self.rng_collection] if isinstance(key, Rngs) else key
        return arithmetic.dropped(inputs, self.rate, self.broadcast_dims, key)

"""The layers that the documents use: Linear, Embed, BatchNorm, LayerNorm, Dropout.

A layer is made with the sizes of its parameters and `rngs`, seed streams of which it draws from
`params`. Its parameters are variables. Their metadata come from the arguments `*_metadata`, and
from initializers of `with_partitioning`. The computations are in `functional`.

>>> from scutch_reference import nnx
>>> init = nnx.with_partitioning(initializers.zeros, ("in", "out"))
>>> layer = Linear(2, 3, kernel_init=init, rngs=Rngs(0), bias_metadata={"out_sharding": ("out",)})
>>> layer(jnp.ones((5, 2))).shape, layer.kernel.out_sharding, layer.bias.out_sharding
((5, 3), ('in', 'out'), ('out',))
"""

from collections.abc import Callable, Sequence
from dataclasses import InitVar, field
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.nn import initializers

from .. import functional
from ..functional import Axes, OutSharding
from ..types import Leaf, Tree
from .modules import Module
from .objects import Metadata, data, dataclass
from .rngs import Rngs
from .variables import BatchStat, Param, value_of

Initializer = Callable[..., Any]


@dataclass(kw_only=True)
class _Layer(Module):
    """The base of layers with parameters, which have dtypes and draw keys from `params`."""

    dtype: Any = None
    param_dtype: Any = jnp.float32
    rngs: InitVar[Rngs]

    def _parameter(self, rngs: Rngs, init: Any, given: Metadata, *shape: int) -> Any:
        return Param(init(rngs.params(), shape, self.param_dtype), **(given or {}))


@dataclass(kw_only=True)
class Linear(_Layer):
    """A linear map of the last axis, `inputs @ kernel + bias`.

    Args:
      in_features: The size of the last axis of the inputs.
      out_features: The size of the last axis of the outputs.
      use_bias: Whether there is a `bias`, of shape (out_features,), beside the `kernel`, of shape
        (in_features, out_features).
      precision: As in `jax.lax.dot_general`.
      kernel_init: Makes the kernel, of key, shape and dtype.
      bias_init: Makes the bias.
      dot_general: Multiplies, in place of `jax.lax.dot_general`.
      preferred_element_type: As in `jax.lax.dot_general`.
      kernel_metadata: Metadata of the kernel.
      bias_metadata: Metadata of the bias.
      dtype: The dtype of the computation; by default that to which inputs and parameters promote.
      param_dtype: The dtype of the parameters.
      rngs: Seed streams; `params` is drawn from.
    """

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

    def __post_init__(self, rngs: Rngs, kernel: Leaf, bias: Leaf, *metadata: Metadata) -> None:
        self.kernel = self._parameter(
            rngs, kernel, metadata[0], self.in_features, self.out_features
        )
        self.bias = data(
            self._parameter(rngs, bias, metadata[1], self.out_features) if self.use_bias else None
        )

    def __call__(self, inputs: Array, out_sharding: OutSharding = None) -> Array:
        """Return the map of the inputs.

        Args:
          inputs: An array of shape (..., in_features).
          out_sharding: The sharding of the result, where the mesh has Explicit axes.

        Returns:
          An array of shape (..., out_features).
        """
        return functional.affine(
            inputs,
            value_of(self.kernel),
            value_of(self.bias),
            self.dtype,
            self.dot_general,
            precision=self.precision,
            preferred_element_type=self.preferred_element_type,
            out_sharding=out_sharding,
        )


@dataclass(kw_only=True)
class Embed(_Layer):
    """A table with a vector for each of some integers.

    Args:
      num_embeddings: The number of integers, from 0.
      features: The size of a vector.
      embedding_init: Makes the `embedding`, of shape (num_embeddings, features).
      embedding_metadata: Metadata of the embedding.
      dtype: The dtype of the outputs; by default that of the embedding.
      param_dtype: The dtype of the embedding.
      rngs: Seed streams; `params` is drawn from.
    """

    num_embeddings: int = field(kw_only=False)
    features: int = field(kw_only=False)
    embedding_init: InitVar[Initializer] = initializers.variance_scaling(
        1.0, "fan_in", "normal", out_axis=0
    )
    embedding_metadata: InitVar[Metadata] = None

    def __post_init__(self, rngs: Rngs, init: Initializer, metadata: Metadata) -> None:
        self.embedding = self._parameter(rngs, init, metadata, self.num_embeddings, self.features)

    def __call__(self, inputs: Array, out_sharding: OutSharding = None) -> Array:
        """Return the vectors of integers.

        Args:
          inputs: Integers of shape (...), in [0, num_embeddings); beyond, vectors are NaN.
          out_sharding: The sharding of the result, where the mesh has Explicit axes.

        Returns:
          An array of shape (..., features).
        """
        return functional.rows(value_of(self.embedding), inputs, self.dtype, out_sharding)

    def attend(self, query: Array, out_sharding: OutSharding = None) -> Array:
        """Return the inner products of queries with all vectors.

        Args:
          query: An array of shape (..., features).
          out_sharding: The sharding of the result, where the mesh has Explicit axes.

        Returns:
          An array of shape (..., num_embeddings).
        """
        return functional.products(query, value_of(self.embedding), self.dtype, out_sharding)


@dataclass(kw_only=True)
class _Norm(_Layer):
    """The base of BatchNorm and LayerNorm, with scale, bias, moments and normalization."""

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

    def __post_init__(self, rngs: Rngs, bias: Leaf, scale: Leaf, *metadata: Metadata) -> None:
        self.scale = data(
            self._parameter(rngs, scale, metadata[1], self.num_features) if self.use_scale else None
        )
        self.bias = data(
            self._parameter(rngs, bias, metadata[0], self.num_features) if self.use_bias else None
        )

    def _moments(self, x: Array, over: Axes, mask: Array | None) -> tuple[Array, Array]:
        return functional.moments(
            x, over, mask, self.axis_name, self.axis_index_groups, self.use_fast_variance
        )

    def _normalized(self, x: Array, statistics: Tree, *axes: Any) -> Array:
        parameters = [value_of(self.scale), value_of(self.bias)]
        return functional.normalized(x, statistics, parameters, axes, self.epsilon, self.dtype)


@dataclass(kw_only=True)
class BatchNorm(_Norm):
    """Normalization of each feature over the batch, with running statistics.

    Args:
      num_features: The size of the axis of features.
      use_running_average: Whether to use the running statistics, `mean` and `var`, instead of those
        of the batch; `eval` and `train` set it.
      axis: The axis of features; the statistics are over all others.
      momentum: The share of the old running statistics in the new ones.
      epsilon: Is added to the variance.
      use_bias: Whether a `bias` is added.
      use_scale: Whether the result is multiplied by a `scale`.
      bias_init: Makes the bias, of shape (num_features,).
      scale_init: Makes the scale, of the same shape.
      axis_name: A mapped axis, or axes of a mesh, that the statistics are over, too.
      axis_index_groups: Groups of indices along that axis with statistics of their own.
      use_fast_variance: Whether the variance is the mean of squares less the square of the mean.
      bias_metadata: Metadata of the bias.
      scale_metadata: Metadata of the scale.
      dtype: The dtype of the computation.
      param_dtype: The dtype of the parameters.
      rngs: Seed streams; `params` is drawn from.
    """

    use_running_average: bool | None = False
    axis: int = -1
    momentum: float = 0.99
    epsilon: float = 1e-5

    def __post_init__(self, *given: Leaf) -> None:
        super().__post_init__(*given)
        self.mean = BatchStat(jnp.zeros((self.num_features,), jnp.float32))
        self.var = BatchStat(jnp.ones((self.num_features,), jnp.float32))

    def set_view(self, use_running_average: bool | None = None) -> None:
        """Take the options of `nnx.view` for this layer.

        Args:
          use_running_average: The new option of the layer, if it is not None.
        """
        if use_running_average is not None:
            self.use_running_average = use_running_average

    def __call__(
        self, x: Array, use_running_average: bool | None = None, *, mask: Array | None = None
    ) -> Array:
        """Return the normalized inputs, and update the running statistics, if they are not used.

        Args:
          x: An array whose axis of features has size `num_features`.
          use_running_average: Overrides the option of the layer, if it is not None.
          mask: Booleans that broadcast to `x`: which values the statistics are of.

        Returns:
          An array of the same shape.
        """
        along, over = functional.split_axes(self.axis, x.ndim)
        x, *kept = functional.promoted(self.dtype, x, value_of(self.mean), value_of(self.var))
        if functional.flag("use_running_average", use_running_average, self.use_running_average):
            return self._normalized(x, kept, over, along)
        own = self._moments(x, over, mask)
        functional.follow((self.mean, self.var), own, self.momentum)
        return self._normalized(x, own, over, along)


@dataclass(kw_only=True)
class LayerNorm(_Norm):
    """Normalization of each example over its features.

    Args:
      num_features: The size of the scale and the bias.
      reduction_axes: The axes that the statistics are over.
      feature_axes: The axes of scale and bias.
      epsilon: Is added to the variance.
      use_bias: Whether a `bias` is added.
      use_scale: Whether the result is multiplied by a `scale`.
      bias_init: Makes the bias, of shape (num_features,).
      scale_init: Makes the scale, of the same shape.
      axis_name: A mapped axis, or axes of a mesh, that the statistics are over, too.
      axis_index_groups: Groups of indices along that axis with statistics of their own.
      use_fast_variance: Whether the variance is the mean of squares less the square of the mean.
      bias_metadata: Metadata of the bias.
      scale_metadata: Metadata of the scale.
      dtype: The dtype of the computation.
      param_dtype: The dtype of the parameters.
      rngs: Seed streams; `params` is drawn from.
    """

    reduction_axes: Axes = -1
    feature_axes: Axes = -1

    def __call__(self, x: Array, *, mask: Array | None = None) -> Array:
        """Return the normalized inputs.

        Args:
          x: An array.
          mask: Booleans that broadcast to `x`: which values the statistics are of.

        Returns:
          An array of the same shape.
        """
        (x,) = functional.promoted(self.dtype, x)
        over, _ = functional.split_axes(self.reduction_axes, x.ndim)
        along, _ = functional.split_axes(self.feature_axes, x.ndim)
        return self._normalized(x, self._moments(x, over, mask), over, along)


@dataclass(kw_only=True)
class Dropout(Module):
    """Sets a share of values to zero at random, and scales up the others.

    Args:
      rate: The share, in [0, 1].
      broadcast_dims: Axes along which values are all set to zero, or none.
      deterministic: Whether to return the inputs as they are; `eval` and `train` set it.
      rng_collection: The name of the seed stream.
      rngs: Seed streams, or one; the layer forks it.
    """

    rate: float = field(kw_only=False)
    broadcast_dims: Sequence[int] = ()
    deterministic: bool | None = False
    rng_collection: str = "dropout"
    rngs: Any = None

    def __post_init__(self) -> None:
        self.broadcast_dims = tuple(self.broadcast_dims)
        stream = self.rngs[self.rng_collection] if isinstance(self.rngs, Rngs) else self.rngs
        self.rngs = data(None) if stream is None else stream.fork()

    def set_view(self, deterministic: bool | None = None) -> None:
        """Take the options of `nnx.view` for this layer.

        Args:
          deterministic: The new option of the layer, if it is not None.
        """
        if deterministic is not None:
            self.deterministic = deterministic

    def __call__(
        self, inputs: Array, *, deterministic: bool | None = None, rngs: Any = None
    ) -> Array:
        """Return the inputs, some of them set to zero.

        Args:
          inputs: An array.
          deterministic: Overrides the option of the layer, if it is not None.
          rngs: Seed streams, one, or a key, in place of the layer's own.

        Returns:
          An array of the same shape.
        """
        if functional.flag("deterministic", deterministic, self.deterministic):
            return inputs
        key = self.rngs if rngs is None else rngs
        key = key[self.rng_collection] if isinstance(key, Rngs) else key
        return functional.dropped(inputs, self.rate, self.broadcast_dims, key)

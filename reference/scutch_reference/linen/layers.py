"""The layers that the documents and public examples use, from Dense to Dropout (LIN-4g).

A layer makes its parameters, and leaves the arithmetic to `functional`. Fields that layers share:
`dtype` is the dtype in which a layer computes, and `None` takes it from inputs and parameters;
`param_dtype` is the dtype of the parameters that it makes; a field that ends in `_init` is the
initializer of a parameter, as those of `jax.nn.initializers`.

>>> import jax
>>> variables = Dense(features=3).init(jax.random.key(0), jnp.ones((2, 4)))
>>> jax.tree.map(jnp.shape, variables)
{'params': {'bias': (3,), 'kernel': (4, 3)}}
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.nn import initializers
from jax.typing import DTypeLike

from .. import functional
from ..functional import Axes
from ..types import Tree
from .module import Fn, Module, compact, nowrap

default_kernel_init = initializers.lecun_normal()
default_embed_init = initializers.variance_scaling(1.0, "fan_in", "normal", out_axis=0)


def _parameter_if(wanted: bool, layer: Any, name: str, init: Fn, shape: Sequence[int]) -> Any:
    """A parameter of a layer; `None` if the layer shall not have it."""
    return layer.param(name, init, shape, layer.param_dtype) if wanted else None


class Dense(Module):
    """A linear map of the last axis, computed as `inputs @ kernel + bias`.

    Args:
      features: How many outputs there are.
      use_bias: Whether there is a bias.
      dtype, param_dtype, kernel_init, bias_init: As the module's docstring says.
      precision, dot_general: The precision of the product, and the function that computes it, which
        has the signature of `jax.lax.dot_general`.
    """

    features: int
    use_bias: bool = True
    dtype: DTypeLike | None = None
    param_dtype: DTypeLike = jnp.float32
    precision: Any = None
    kernel_init: Fn = default_kernel_init
    bias_init: Fn = initializers.zeros
    dot_general: Fn = lax.dot_general

    @compact
    def __call__(self, inputs: Array) -> Array:
        """Map inputs of shape (..., n) to (..., features); `kernel` has shape (n, features)."""
        shape = (jnp.shape(inputs)[-1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape, self.param_dtype)
        bias = _parameter_if(self.use_bias, self, "bias", self.bias_init, shape[1:])
        return functional.affine(
            inputs, kernel, bias, self.dtype, self.dot_general, precision=self.precision
        )


class DenseGeneral(Module):
    """A linear map of several axes to several axes of features.

    Args:
      features: The sizes of the axes of features, which come last.
      axis: The axes of the inputs that are mapped.
      batch_dims: The first axes of the inputs, if each index along them has parameters of its own.
      use_bias: Whether there is a bias.
      dtype, param_dtype, kernel_init, bias_init: As the module's docstring says; the initializer of
        the kernel makes a matrix of all inputs and all features.
      precision, dot_general: As in `Dense`.
    """

    features: Axes
    axis: Axes = -1
    batch_dims: Axes = ()
    use_bias: bool = True
    dtype: DTypeLike | None = None
    param_dtype: DTypeLike = jnp.float32
    kernel_init: Fn = default_kernel_init
    bias_init: Fn = initializers.zeros
    precision: Any = None
    dot_general: Fn = lax.dot_general

    @compact
    def __call__(self, inputs: Array) -> Array:
        """Map inputs; `kernel` has the sizes along `batch_dims`, along `axis`, and `features`."""
        features = [self.features] if isinstance(self.features, int) else self.features
        summed, _ = functional.split_axes(self.axis, inputs.ndim)
        own, _ = functional.split_axes(self.batch_dims, inputs.ndim)
        lead, sizes = ([inputs.shape[axis] for axis in axes] for axes in (own, summed))
        init = functional.as_matrix(self.kernel_init, len(own) + len(summed))
        kernel = self.param("kernel", init, (*lead, *sizes, *features), self.param_dtype)
        bias = _parameter_if(self.use_bias, self, "bias", self.bias_init, (*lead, *features))
        return functional.affine(
            inputs,
            kernel,
            bias,
            self.dtype,
            self.dot_general,
            self.axis,
            self.batch_dims,
            precision=self.precision,
        )


class Conv(Module):
    """A convolution of inputs of shape (..., spatial axes, n).

    Args:
      features: How many outputs there are.
      kernel_size: The size of the window along each spatial axis.
      strides, input_dilation, kernel_dilation: As in `jax.lax.conv_general_dilated`; one integer is
        for all axes.
      padding: `'SAME'`, `'VALID'`, or a pair for each spatial axis.
      feature_group_count: The number of groups of inputs, each of which has features of its own.
      use_bias: Whether there is a bias.
      mask: An array to multiply the kernel by, or `None`.
      dtype, param_dtype, kernel_init, bias_init: As the module's docstring says.
      precision: The precision of the products.
      conv_general_dilated: A function with the signature of `jax.lax.conv_general_dilated`.
    """

    features: int
    kernel_size: Axes
    strides: Axes | None = 1
    padding: Any = "SAME"
    input_dilation: Axes | None = 1
    kernel_dilation: Axes | None = 1
    feature_group_count: int = 1
    use_bias: bool = True
    mask: Any = None
    dtype: DTypeLike | None = None
    param_dtype: DTypeLike = jnp.float32
    precision: Any = None
    kernel_init: Fn = default_kernel_init
    bias_init: Fn = initializers.zeros
    conv_general_dilated: Fn = lax.conv_general_dilated

    @compact
    def __call__(self, inputs: Array) -> Array:
        """Convolve; `kernel` has shape (window, n / feature_group_count, features)."""
        sizes = functional.for_axes(self.kernel_size, 1)
        shape = (*sizes, inputs.shape[-1] // self.feature_group_count, self.features)
        kernel = self.param("kernel", self.kernel_init, shape, self.param_dtype)
        bias = _parameter_if(self.use_bias, self, "bias", self.bias_init, shape[-1:])
        return functional.convolved(
            inputs,
            kernel if self.mask is None else kernel * self.mask,
            bias,
            self.dtype,
            self.conv_general_dilated,
            window_strides=functional.for_axes(self.strides, len(sizes)),
            padding=self.padding,
            lhs_dilation=functional.for_axes(self.input_dilation, len(sizes)),
            rhs_dilation=functional.for_axes(self.kernel_dilation, len(sizes)),
            feature_group_count=self.feature_group_count,
            precision=self.precision,
        )


def avg_pool(
    inputs: Array,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    count_include_pad: bool = True,
) -> Array:
    """Return means over windows of the axes before the last one.

    Args:
      inputs: Shape (..., spatial axes, features).
      window_shape: The size of the window along each spatial axis.
      strides: How far the window moves along each; 1 by default.
      padding: `'SAME'`, `'VALID'`, or a pair for each spatial axis.
      count_include_pad: Whether zeros of the padding count in the means.

    Returns:
      The means, an array of the rank of `inputs`.
    """
    rest = (1,) * (inputs.ndim - len(window_shape) - 1)
    window, steps = (
        (*rest, *each, 1) for each in (window_shape, strides or [1] * len(window_shape))
    )
    pads = padding if isinstance(padding, str) else [(0, 0) for _ in rest] + [*padding, (0, 0)]

    def sums(x: Array) -> Any:
        return lax.reduce_window(x, 0.0, lax.add, window, steps, pads)

    counts = float(math.prod(window)) if count_include_pad else sums(jnp.ones_like(inputs))
    return sums(inputs) / counts  # type: ignore[no-any-return]


class Embed(Module):
    """A vector for each integer; `embedding` has shape (num_embeddings, features).

    Args:
      num_embeddings: How many integers have a vector, counted from 0.
      features: The length of a vector.
      dtype, param_dtype, embedding_init: As the module's docstring says.
    """

    num_embeddings: int
    features: int
    dtype: DTypeLike | None = None
    param_dtype: DTypeLike = jnp.float32
    embedding_init: Fn = default_embed_init

    def setup(self) -> None:
        """Make the vectors."""
        self.embedding = self.param(
            "embedding", self.embedding_init, (self.num_embeddings, self.features), self.param_dtype
        )

    def __call__(self, inputs: Array) -> Array:
        """Map integers of any shape to that shape and one more axis, of size `features`.

        Raises:
          ModuleError: `inputs` has no integer dtype.
        """
        return functional.rows(self.embedding, inputs, self.dtype)

    def attend(self, query: Array) -> Array:
        """Multiply vectors (..., features) with all embeddings, giving (..., num_embeddings)."""
        return functional.products(query, self.embedding, self.dtype)


class _Norm(Module):
    """The base of normalization layers, with parameters along the axes of the features."""

    epsilon: float = 1e-6
    dtype: DTypeLike | None = None
    param_dtype: DTypeLike = jnp.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Fn = initializers.zeros
    scale_init: Fn = initializers.ones

    @nowrap
    def _moments(self: Any, x: Array, over: Axes, mask: Array | None) -> tuple[Array, Array]:
        """Mean and variance; `init` does not run in the mapped axis that `axis_name` names."""
        axis_name = None if self.is_initializing() else self.axis_name
        return functional.moments(
            x, over, mask, axis_name, self.axis_index_groups, self.use_fast_variance
        )

    @nowrap
    def _normalized(self, x: Array, statistics: Tree, over: Any, along: Any) -> Array:
        """The inputs, normalized by statistics over some axes, scaled and shifted along others."""
        shape = [x.shape[axis] for axis in along]
        scale = _parameter_if(self.use_scale, self, "scale", self.scale_init, shape)
        bias = _parameter_if(self.use_bias, self, "bias", self.bias_init, shape)
        return functional.normalized(
            x, statistics, (scale, bias), (over, along), self.epsilon, self.dtype
        )


class LayerNorm(_Norm):
    """Normalizes each example by its own mean and variance.

    Args:
      epsilon: The number that is added to the variance, against division by zero.
      dtype, param_dtype, bias_init, scale_init: As the module's docstring says.
      use_bias, use_scale: Whether there is a `bias`, and a `scale`.
      reduction_axes: The axes over which statistics are computed.
      feature_axes: The axes along which `scale` and `bias` lie.
      axis_name: A mapped axis to average over as well.
      axis_index_groups: The groups of its indices that are averaged separately.
      use_fast_variance: Whether the variance is computed in one pass, less exactly.
    """

    reduction_axes: Axes = -1
    feature_axes: Axes = -1
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True

    @compact
    def __call__(self, x: Array, *, mask: Array | None = None) -> Array:
        """Map inputs of any shape to that shape.

        Args:
          x: The inputs.
          mask: Booleans that broadcast to the shape: which entries count in the statistics.
        """
        along, _ = functional.split_axes(self.feature_axes, x.ndim)
        over, _ = functional.split_axes(self.reduction_axes, x.ndim)
        return self._normalized(x, self._moments(x, over, mask), over, along)


class _Running(Module):
    """The fields of `BatchNorm` that come before those that normalizations share, as in Flax."""

    use_running_average: bool | None = None
    axis: Axes = -1
    momentum: float = 0.99


class BatchNorm(_Norm, _Running):
    """Normalizes each feature over the batch, and keeps running statistics (LIN-8c).

    The running `mean` and `var` lie in the collection `batch_stats`, which training makes mutable.

    Args:
      use_running_average: Whether the running statistics serve, as in inference; here or in the
        call.
      axis: The axes of the features.
      momentum: How much of the old running statistics an update keeps, from 0 to 1.
      epsilon, dtype, param_dtype, use_bias, use_scale: As in `LayerNorm`.
      bias_init, scale_init, axis_name, axis_index_groups, use_fast_variance: As in `LayerNorm`.
    """

    epsilon: float = 1e-5
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True

    @compact
    def __call__(
        self, x: Array, use_running_average: bool | None = None, *, mask: Array | None = None
    ) -> Array:
        """Map inputs of any shape to that shape.

        Args:
          x: The inputs.
          use_running_average: As the field, for this call.
          mask: Booleans that broadcast to the shape: which entries count in the statistics.

        Raises:
          ModuleError: `use_running_average` is given twice, or not at all.
        """
        running = functional.flag(
            "use_running_average", self.use_running_average, use_running_average, once=True
        )
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
    """Sets entries to zero with probability `rate`, and scales the rest so the mean stays (LIN-8d).

    Args:
      rate: The probability, from 0 to 1.
      broadcast_dims: Axes along which all entries share one fate.
      deterministic: Whether nothing is dropped, as in inference; here or in the call.
      rng_collection: The stream that keys are drawn from.
    """

    rate: float
    broadcast_dims: Sequence[int] = ()
    deterministic: bool | None = None
    rng_collection: str = "dropout"

    @compact
    def __call__(
        self, inputs: Array, deterministic: bool | None = None, rng: Array | None = None
    ) -> Array:
        """Map inputs of any shape to that shape.

        Args:
          inputs: The inputs.
          deterministic: As the field, for this call.
          rng: A key of `jax.random`, instead of one from the stream.

        Raises:
          ModuleError: `deterministic` is given twice, or not at all.
          InvalidRngError: A key is needed, and the stream has none (LIN-8e).
        """
        if functional.flag("deterministic", self.deterministic, deterministic, once=True):
            return inputs
        key = functools.partial(self.make_rng, self.rng_collection) if rng is None else rng
        return functional.dropped(inputs, self.rate, self.broadcast_dims, key)

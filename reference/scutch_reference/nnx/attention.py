"""Attention: a linear map between several axes, and the layer that is made of four of them.

>>> import jax.numpy as jnp
>>> from scutch_reference import nnx
>>> layer = MultiHeadAttention(num_heads=2, in_features=4, decode=False, rngs=nnx.Rngs(0))
>>> layer(jnp.ones((3, 5, 4))).shape, layer.query.kernel.shape
((3, 5, 4), (4, 2, 2))
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, field
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.nn import initializers

from .. import functional
from ..attention import dot_product_attention
from ..errors import ModuleError
from ..functional import Axes, OutSharding
from ..types import Leaf
from .layers import Dropout, Initializer, _Layer
from .modules import Module
from .objects import Metadata, data, dataclass
from .rngs import Rngs
from .variables import value_of

_kernel_init = initializers.lecun_normal()


@dataclass(kw_only=True)
class LinearGeneral(_Layer):
    """A linear map of several axes to several axes of features.

    Args:
      in_features: The sizes of the axes that are mapped.
      out_features: The sizes of the axes of features, which come last in the outputs.
      axis: The axes of the inputs that are mapped.
      batch_axis: The sizes of the first axes of the inputs, by axis, if each index along them has
        parameters of its own.
      use_bias: Whether there is a `bias` beside the `kernel`.
      kernel_init: Makes the kernel, as a matrix of all inputs and all features.
      bias_init: Makes the bias.
      precision, dot_general, preferred_element_type: As in `Linear`.
      kernel_metadata: Metadata of the kernel.
      bias_metadata: Metadata of the bias.
      dtype: The dtype of the computation; by default that to which inputs and parameters promote.
      param_dtype: The dtype of the parameters.
      rngs: Seed streams; `params` is drawn from.
    """

    in_features: int | Sequence[int] = field(kw_only=False)
    out_features: int | Sequence[int] = field(kw_only=False)
    axis: Axes = -1
    batch_axis: Mapping[int, int] = field(default_factory=dict)
    use_bias: bool = True
    kernel_init: InitVar[Initializer] = _kernel_init
    bias_init: InitVar[Initializer] = initializers.zeros
    precision: Any = None
    dot_general: Callable[..., Any] | None = None
    preferred_element_type: Any = None
    kernel_metadata: InitVar[Metadata] = None
    bias_metadata: InitVar[Metadata] = None

    def __post_init__(self, rngs: Rngs, kernel: Leaf, bias: Leaf, *metadata: Metadata) -> None:
        lead = tuple(self.batch_axis.values())
        self.in_features = functional.for_axes(self.in_features, 1)
        self.out_features = functional.for_axes(self.out_features, 1)
        shape = (*lead, *self.in_features, *self.out_features)
        init = functional.as_matrix(kernel, len(lead) + len(self.in_features))
        self.kernel = self._parameter(rngs, init, metadata[0], *shape)
        shape = (*lead, *self.out_features)
        self.bias = data(
            self._parameter(rngs, bias, metadata[1], *shape) if self.use_bias else None
        )

    def __call__(self, inputs: Array, out_sharding: OutSharding = None) -> Array:
        """Return the map of the inputs.

        Args:
          inputs: An array with the sizes `in_features` along `axis`.
          out_sharding: The sharding of the result, where the mesh has Explicit axes.

        Returns:
          An array of the shape of `inputs` without `axis`, and with `out_features` at the end.
        """
        return functional.affine(
            inputs,
            value_of(self.kernel),
            value_of(self.bias),
            self.dtype,
            self.dot_general or lax.dot_general,
            self.axis,
            tuple(self.batch_axis),
            precision=self.precision,
            preferred_element_type=self.preferred_element_type,
            out_sharding=out_sharding,
        )


class MultiHeadAttention(Module):
    """Attention with several heads: linear maps to queries, keys and values, and of the outputs.

    Args:
      num_heads: The number of heads.
      in_features: The features of the queries.
      qkv_features: The features of all heads together; by default `in_features`.
      out_features: The features of the outputs; by default `in_features`.
      num_kv_heads: The number of heads of keys and values; by default `num_heads`.
      in_kv_features: The features of the keys and values; by default `in_features`.
      broadcast_dropout: Whether all examples and heads drop the same weights.
      dropout_rate: The probability that a weight is dropped.
      deterministic: Whether none is dropped; `eval` and `train` set it.
      precision: The precision of the products.
      kernel_init, bias_init: Make the parameters.
      out_kernel_init, out_bias_init: Make the parameters of the output map; by default the same.
      use_bias: Whether the maps have biases.
      attention_fn: Computes the outputs of the heads, as `dot_product_attention` does.
      decode: True is refused: there is no cache of earlier keys and values.
      keep_rngs: Whether the layer keeps a stream for dropout.
      kernel_metadata, bias_metadata: Metadata of the parameters.
      out_kernel_metadata, out_bias_metadata: Metadata of the output map; by default the same.
      dtype: The dtype of the computation; by default that to which inputs and parameters promote.
      param_dtype: The dtype of the parameters.
      rngs: Seed streams; `params` is drawn from, and `dropout` is forked.

    Raises:
      ModuleError: `qkv_features` is no multiple of `num_heads`.
    """

    def __init__(
        self,
        num_heads: int,
        in_features: int,
        qkv_features: int | None = None,
        out_features: int | None = None,
        num_kv_heads: int | None = None,
        in_kv_features: int | None = None,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        broadcast_dropout: bool = True,
        dropout_rate: float = 0.0,
        deterministic: bool | None = None,
        precision: Any = None,
        kernel_init: Initializer = _kernel_init,
        out_kernel_init: Initializer | None = None,
        bias_init: Initializer = initializers.zeros,
        out_bias_init: Initializer | None = None,
        use_bias: bool = True,
        attention_fn: Callable[..., Array] = dot_product_attention,
        decode: bool | None = None,
        rngs: Rngs,
        keep_rngs: bool = True,
        kernel_metadata: Metadata = None,
        out_kernel_metadata: Metadata = None,
        bias_metadata: Metadata = None,
        out_bias_metadata: Metadata = None,
    ):
        qkv_features = qkv_features or in_features
        if qkv_features % num_heads:
            raise ModuleError(
                place="qkv_features",
                given=qkv_features,
                expected=f"a multiple of the {num_heads} heads",
            )
        self.dtype, self.precision, self.attention_fn = dtype, precision, attention_fn
        self.dropout_rate, self.broadcast_dropout = dropout_rate, broadcast_dropout
        self.deterministic, self.decode = deterministic, decode
        linear: Any = functools.partial(
            LinearGeneral,
            use_bias=use_bias,
            dtype=dtype,
            param_dtype=param_dtype,
            precision=precision,
            rngs=rngs,
        )
        inwards: Any = functools.partial(
            linear,
            kernel_init=kernel_init,
            bias_init=bias_init,
            kernel_metadata=kernel_metadata,
            bias_metadata=bias_metadata,
        )
        heads = (num_heads, qkv_features // num_heads)
        kv_features, kv_heads = in_kv_features or in_features, (num_kv_heads or num_heads, heads[1])
        self.query = inwards(in_features, heads)
        self.key = inwards(kv_features, kv_heads)
        self.value = inwards(kv_features, kv_heads)
        self.out = linear(
            heads,
            out_features or in_features,
            axis=(-2, -1),
            kernel_init=out_kernel_init or kernel_init,
            bias_init=out_bias_init or bias_init,
            kernel_metadata=out_kernel_metadata or kernel_metadata,
            bias_metadata=out_bias_metadata or bias_metadata,
        )
        self.rngs = data(rngs.dropout.fork() if keep_rngs and dropout_rate > 0 else None)

    set_view = Dropout.set_view

    def __call__(
        self,
        inputs_q: Array,
        inputs_k: Array | None = None,
        inputs_v: Array | None = None,
        *,
        mask: Array | None = None,
        deterministic: bool | None = None,
        rngs: Any = None,
        decode: bool | None = None,
        is_causal: bool = False,
        out_sharding: OutSharding = None,
        qkv_sharding: OutSharding = None,
    ) -> Array:
        """Return for each query the values weighted by attention, projected to `out_features`.

        Args:
          inputs_q: Inputs of shape (..., queries, in_features).
          inputs_k: Inputs of the keys, of shape (..., keys, in_kv_features); by default `inputs_q`.
          inputs_v: Inputs of the values; by default `inputs_k`.
          mask: Booleans that broadcast to (..., heads, queries, keys): which keys count.
          deterministic: Overrides the layer's `deterministic`, if it is not None.
          rngs: Seed streams, or one, in place of the layer's own.
          decode: Overrides the layer's `decode`, if it is not None.
          is_causal: Whether a query sees only the keys up to its own position.
          out_sharding: The sharding of the result, where the mesh has Explicit axes.
          qkv_sharding: The sharding of queries, keys and values.

        Returns:
          An array of shape (..., queries, out_features).

        Raises:
          ModuleError: `decode` is true, or given nowhere; or weights may be dropped, and
            `deterministic` is given nowhere, or there is no stream.
        """
        if functional.flag("decode", decode, self.decode):
            raise ModuleError(
                place="decode", given=True, expected="False: MultiHeadAttention keeps no cache"
            )
        inputs_k = inputs_q if inputs_k is None else inputs_k
        inputs_v = inputs_k if inputs_v is None else inputs_v
        stream: Any = self.rngs if rngs is None else rngs
        stream = stream["dropout"] if isinstance(stream, Rngs) else stream
        whole = self.dropout_rate == 0 or functional.flag(
            "deterministic", deterministic, self.deterministic
        )
        attended = self.attention_fn(
            self.query(inputs_q, qkv_sharding),
            self.key(inputs_k, qkv_sharding),
            self.value(inputs_v, qkv_sharding),
            mask=mask,
            broadcast_dropout=self.broadcast_dropout,
            dropout_rng=None if whole or stream is None else stream(),
            dropout_rate=self.dropout_rate,
            deterministic=whole,
            dtype=self.dtype,
            precision=self.precision,
            is_causal=is_causal,
        )
        return self.out(attended, out_sharding)  # type: ignore[no-any-return]

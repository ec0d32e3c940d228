"""Attention: each query gets the mean of the values, weighted by how the keys resemble the query.

Both `linen` and `nnx` offer the function, and the layer for attention of `nnx` calls it.

>>> query, key = jnp.array([[[9.0]], [[-9.0]]]), jnp.array([[[1.0]], [[-1.0]]])
>>> value = jnp.array([[[5.0]], [[7.0]]])
>>> dot_product_attention(query, key, value).ravel().round().tolist()
[5.0, 7.0]
"""

import jax.numpy as jnp
from jax import Array, lax, nn
from jax.typing import DTypeLike

from .functional import dropped, promoted


def dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    bias: Array | None = None,
    mask: Array | None = None,
    broadcast_dropout: bool = True,
    dropout_rng: Array | None = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: DTypeLike | None = None,
    precision: lax.PrecisionLike = None,
    *,
    is_causal: bool = False,
) -> Array:
    """Return for each query the mean of the values, weighted by how the keys resemble the query.

    Args:
      query: Shape (..., queries, heads, depth).
      key: Shape (..., keys, heads, depth); heads may be fewer, each for several heads of `query`.
      value: Shape (..., keys, heads, features), with the heads of `key`.
      bias: An array to add to the logits, which have shape (..., heads, queries, keys).
      mask: Booleans that broadcast to the logits: which keys count.
      broadcast_dropout: Whether all examples and heads drop the same weights.
      dropout_rng: A key of `jax.random`, if weights are dropped.
      dropout_rate: The probability that a weight is dropped.
      deterministic: Whether no weight is dropped.
      dtype: The compute dtype; see `promoted`.
      precision: The precision of the products.
      is_causal: Whether a query sees only the keys up to its own position.

    Returns:
      Outputs of shape (..., queries, heads, features).
    """
    query, key, value = promoted(dtype, query, key, value)
    groups = query.shape[-2] // key.shape[-2]
    key, value = (jnp.repeat(each, groups, axis=-2) for each in (key, value))
    query = query / jnp.sqrt(query.shape[-1]).astype(query.dtype)
    logits = jnp.einsum("...qhd,...khd->...hqk", query, key, precision=precision)
    if bias is not None:
        logits += bias
    seen = jnp.tril(jnp.ones(logits.shape[-2:], bool)) if is_causal else True
    seen = seen if mask is None else jnp.logical_and(seen, mask)
    logits = jnp.where(seen, logits, jnp.finfo(logits.dtype).min)  # type: ignore[no-untyped-call]
    weights = nn.softmax(logits)
    if not deterministic:
        alike = tuple(range(weights.ndim - 2)) if broadcast_dropout else ()
        weights = dropped(weights, dropout_rate, alike, dropout_rng)
    return jnp.einsum("...hqk,...khd->...qhd", weights, value, precision=precision)

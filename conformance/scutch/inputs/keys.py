"""Keys of random numbers that are quick to compile.

XLA takes longer to compile one draw of JAX's default generator, Threefry, than all else that a law
computes. A law that needs *some* random numbers, different for different keys, takes keys of the
generator `SMALL`; its verdict does not depend on the quality of the numbers. Users of JAX expect an
implementation to take keys of any generator.

    jax.random.normal(small_key(0), (2, 3))
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax.extend import random

_WORDS = {8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32, 64: jnp.uint64}


def small_key(seed: int) -> jax.Array:
    """A typed key of the generator `SMALL`, as `jax.random.key` makes one.

    Args:
      seed: Any integer that `jax.random.key` takes.
    """
    made: jax.Array = jax.random.key(seed, impl=SMALL)
    return made


def _mixed(words: jax.Array) -> jax.Array:
    """Every bit of a word spread over the word; the same for each word, of dtype `uint32`."""
    words = words * jnp.uint32(0x9E3779B1)
    words = (words ^ (words >> jnp.uint32(15))) * jnp.uint32(0x85EBCA77)
    return words ^ (words >> jnp.uint32(13))  # type: ignore[no-any-return]


@partial(jax.jit, inline=True)
def _seeded(seed: jax.Array) -> jax.Array:
    """The data of the key of a seed: two words."""
    first = _mixed(jnp.asarray(seed).astype(jnp.uint32))
    return jnp.stack([first, _mixed(first + jnp.uint32(1))])


@partial(jax.jit, static_argnums=1, inline=True)
def _words(data: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """As many words as an array of a shape has elements, each from the key and its place."""
    places = jax.lax.iota(jnp.uint32, max(1, math.prod(shape)))[: math.prod(shape)]
    return _mixed(_mixed(places + data[0]) ^ data[1]).reshape(shape)


def _split(data: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """The data of new keys: an array of the shape, with two words for each key."""
    return _words(data, (*shape, 2))  # type: ignore[no-any-return]


def _bits(data: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    """Unsigned integers of `width` bits; of 64, the upper half is zero."""
    return _words(data, shape).astype(_WORDS[width])  # type: ignore[no-any-return]


@partial(jax.jit, inline=True)
def _folded(data: jax.Array, number: int | jax.Array) -> jax.Array:
    """The data of a new key, computed from a key and a number."""
    folded = _mixed(jnp.asarray(number).astype(jnp.uint32))
    return jnp.stack([_mixed(data[0] ^ folded), _mixed(data[1] + folded)])


SMALL = random.define_prng_impl(
    key_shape=(2,),
    seed=_seeded,
    split=_split,
    random_bits=_bits,
    fold_in=_folded,
    name="small",
    tag="small",
)

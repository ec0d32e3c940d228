"""One layer, written twice: as a Linen module and as an NNX module of the same computation.

Both are written as a user would write them, with the same names, formulas and starting values. So
the laws of the bridge can wrap the Linen one by `ToNNX` and compare it with the NNX one, and the
other way round; and each with itself unwrapped.

The layer takes a batch of shape `(2, INPUTS)` and returns `sin(x @ kernel) * scale + shift`, of
shape `(2, FEATURES)`. Its *mode*, a static keyword argument, makes it negate the sine, add noise,
or count the call in its statistics. The parameter `shift` belongs to a sub-module named `inner`;
the statistics are a variable `calls`.
"""

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from scutch.lawkit.placement import in_context

INPUTS = 3
FEATURES = 2
X = np.linspace(-1, 1, 2 * INPUTS, dtype="float32").reshape(2, INPUTS)

PLAIN = "plain"
NEGATED = "negated"
NOISY = "noisy"
COUNTING = "counting"
"""The modes: `NOISY` draws a key of the stream `dropout`, `COUNTING` changes the statistics."""


def start(key: Any, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """An initializer that ignores its key: numbers from 0.1 to 0.9, evenly spaced.

    Args:
      key: Any key.
      shape: The shape of the parameter.
      dtype: Its dtype.

    Returns:
      The array of that shape and dtype.
    """
    return jnp.asarray(np.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape), dtype)


def drawn(key: Any, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """An initializer that draws uniformly in `[0, 1)` with its key.

    Args:
      key: The key.
      shape: The shape of the parameter.
      dtype: Its dtype.

    Returns:
      The array of that shape and dtype.
    """
    return jax.random.uniform(key, shape, dtype)


INITIALIZERS: Mapping[str, Callable[..., Any]] = MappingProxyType({"start": start, "drawn": drawn})


def _formula(x: Any, kernel: Any, scale: Any, mode: str) -> Any:
    """The output of both layers before noise, statistics and the sub-module."""
    y = jnp.sin(x @ kernel) * scale
    return -y if mode == NEGATED else y


@functools.lru_cache(maxsize=64)
def in_linen(linen: Any) -> type:
    """The layer as a Linen module class, with the fields `kernel_init` and `features`.

    Args:
      linen: The namespace of Linen modules of the implementation.
    """

    class Shift(linen.Module):  # type: ignore[misc]
        """A sub-module with one parameter."""

        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            """Add the parameter to each row."""
            return x + self.param("shift", start, x.shape[-1:])

    class Layer(linen.Module):  # type: ignore[misc]
        """Parameters here and in a sub-module, statistics, and noise."""

        kernel_init: Any = start
        features: int = FEATURES

        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any, scale: Any = 1.0, *, mode: str = PLAIN) -> Any:
            """Count the call in the mode `COUNTING` alone, where the collection is mutable."""
            kernel = self.param("kernel", self.kernel_init, (x.shape[-1], self.features))
            calls = self.variable("batch_stats", "calls", jnp.zeros, (self.features,))
            y = _formula(x, kernel, scale, mode)
            if mode == NOISY:
                y = y + jax.random.uniform(self.make_rng("dropout"), y.shape)
            if mode == COUNTING:
                calls.value = calls.value + y.mean(0)
            return Shift(name="inner")(y)

        def doubled(self, x: Any, scale: Any = 1.0, *, mode: str = PLAIN) -> Any:
            """Twice the output: a method beside `__call__`."""
            return 2 * self(x, scale, mode=mode)

    return Layer


@functools.lru_cache(maxsize=64)
def in_nnx(nnx: Any) -> type:
    """The layer as an NNX module class, with the arguments `kernel_init` and `features`.

    Args:
      nnx: The namespace of objects of the implementation.
    """

    class Shift(nnx.Module):  # type: ignore[misc]
        """A sub-module with one parameter."""

        def __init__(self, features: int, *, rngs: Any) -> None:
            self.shift = nnx.Param(start(rngs.params(), (features,)))

        def __call__(self, x: Any) -> Any:
            """Add the parameter to each row."""
            return x + self.shift.get_value()

    class Layer(nnx.Module):  # type: ignore[misc]
        """Parameters here and in a sub-module, statistics, and noise."""

        def __init__(
            self, inputs: int, kernel_init: Any = start, features: int = FEATURES, *, rngs: Any
        ) -> None:
            self.kernel = nnx.Param(kernel_init(rngs.params(), (inputs, features)))
            self.calls = nnx.BatchStat(jnp.zeros((features,)))
            self.inner = Shift(features, rngs=rngs)
            self.rngs = rngs

        def __call__(self, x: Any, scale: Any = 1.0, *, mode: str = PLAIN) -> Any:
            """The same computation as the Linen layer's."""
            y = _formula(x, self.kernel.get_value(), scale, mode)
            if mode == NOISY:
                y = y + jax.random.uniform(self.rngs.dropout(), y.shape)
            if mode == COUNTING:
                self.calls.set_value(self.calls.get_value() + y.mean(0))
            return self.inner(y)

        def doubled(self, x: Any, scale: Any = 1.0, *, mode: str = PLAIN) -> Any:
            """Twice the output: a method beside `__call__`."""
            return 2 * self(x, scale, mode=mode)

    return Layer


def flat(collections: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, Any, Any]]:
    """Flatten Linen's variables, in order of the names.

    Args:
      collections: Nested mappings: collections, sub-modules, variables.
      path: Stands before each path; its first entry, if any, is the collection.

    Returns:
      For each variable: its collection, its path without the collection, and its value.
    """
    found: list[tuple[str, Any, Any]] = []
    for name, value in sorted(collections.items()):
        if isinstance(value, Mapping):
            found += flat(value, (*path, name))
        else:
            found.append(((*path, name)[0], (*path, name)[1:], value))
    return found


def variables_of(nnx: Any, root: Any) -> dict[tuple[Any, ...], tuple[str, Any]]:
    """The types and values of an object's parameters and statistics, by path.

    Args:
      nnx: The namespace of objects of the implementation.
      root: The object; its streams of keys are left out.

    Returns:
      For each path, the name of the variable's type and its value.
    """
    state = nnx.to_flat_state(nnx.state(root, nnx.Any(nnx.Param, nnx.BatchStat)))
    return {path: (type(v).__name__, v.get_value()) for path, v in state}


def names_in_context() -> AbstractContextManager[Any]:
    """A context with a mesh of one device that has every axis name which the laws of wrappers use.

    Flax 0.12 refuses a variable with names where no mesh is in context.
    """
    return in_context(_mesh())


@functools.lru_cache(maxsize=1)
def _mesh() -> Mesh:
    """The mesh, made once."""
    return Mesh(np.array(jax.devices()[:1]).reshape(1, 1, 1), ("data", "model", "layers"))

"""Twins: one layer, written as a Linen module and as an NNX module.

Both are written as a user would write them, with the same names, formulas and starting values. So
what a wrapper makes of one can be compared with the other, and with itself unwrapped.
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
SHAPE = (INPUTS, FEATURES)
X = np.linspace(-1, 1, 2 * INPUTS, dtype="float32").reshape(2, INPUTS)

PLAIN, NEGATED, NOISY, COUNTING = "plain", "negated", "noisy", "counting"
"""What the static argument of a call may be: the last ones draw, and change the statistics."""


def start(key: Any, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """An initializer that ignores its key."""
    size = int(np.prod(shape, dtype=int))
    return jnp.linspace(0.1, 0.9, size, dtype=dtype).reshape(shape)


def drawn(key: Any, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """An initializer that follows its key."""
    return jax.random.uniform(key, shape, dtype)


INITIALIZERS: Mapping[str, Callable[..., Any]] = MappingProxyType({"start": start, "drawn": drawn})


def _formula(x: Any, kernel: Any, scale: Any, mode: str) -> Any:
    y = jnp.sin(x @ kernel) * scale
    return -y if mode == NEGATED else y


@functools.lru_cache(maxsize=64)
def in_linen(linen: Any) -> type:
    """The layer as a Linen module, with the fields `kernel_init` and `features`."""

    class Shift(linen.Module):  # type: ignore[misc]
        """A sub-module with a parameter."""

        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            """Add the parameter."""
            return x + self.param("shift", start, x.shape[-1:])

    class Layer(linen.Module):  # type: ignore[misc]
        """Parameters here and in a sub-module, statistics, and noise."""

        kernel_init: Any = start
        features: int = FEATURES

        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any, scale: Any = 1.0, *, mode: str = PLAIN) -> Any:
            """Count only where it is asked for: the collection may not be mutable."""
            kernel = self.param("kernel", self.kernel_init, (x.shape[-1], self.features))
            calls = self.variable("batch_stats", "calls", jnp.zeros, (self.features,))
            y = _formula(x, kernel, scale, mode)
            if mode == NOISY:
                y = y + jax.random.uniform(self.make_rng("dropout"), y.shape)
            if mode == COUNTING:
                calls.value = calls.value + y.mean(0)
            return Shift(name="inner")(y)

        def doubled(self, x: Any, scale: Any = 1.0, *, mode: str = PLAIN) -> Any:
            """Another method."""
            return 2 * self(x, scale, mode=mode)

    return Layer


@functools.lru_cache(maxsize=64)
def in_nnx(nnx: Any) -> type:
    """The layer as an NNX module, with the arguments `kernel_init` and `features`."""

    class Shift(nnx.Module):  # type: ignore[misc]
        """A sub-module with a parameter."""

        def __init__(self, features: int, *, rngs: Any) -> None:
            self.shift = nnx.Param(start(rngs.params(), (features,)))

        def __call__(self, x: Any) -> Any:
            """Add the parameter."""
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
            """As in Linen."""
            y = _formula(x, self.kernel.get_value(), scale, mode)
            if mode == NOISY:
                y = y + jax.random.uniform(self.rngs.dropout(), y.shape)
            if mode == COUNTING:
                self.calls.set_value(self.calls.get_value() + y.mean(0))
            return self.inner(y)

        def doubled(self, x: Any, scale: Any = 1.0, *, mode: str = PLAIN) -> Any:
            """Another method."""
            return 2 * self(x, scale, mode=mode)

    return Layer


def flat(collections: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, Any, Any]]:
    """Collection, path and value of each Linen variable, in order."""
    found: list[tuple[str, Any, Any]] = []
    for name, value in sorted(collections.items()):
        if isinstance(value, Mapping):
            found += flat(value, (*path, name))
        else:
            found.append(((*path, name)[0], (*path, name)[1:], value))
    return found


def variables_of(nnx: Any, root: Any) -> dict[tuple[Any, ...], tuple[str, Any]]:
    """Types and values of parameters and statistics by path; streams are left out."""
    state = nnx.to_flat_state(nnx.state(root, nnx.Any(nnx.Param, nnx.BatchStat)))
    return {path: (type(v).__name__, v.get_value()) for path, v in state}


def names_in_context() -> AbstractContextManager[Any]:
    """A mesh of one device with every name of an axis, which Flax 0.12 asks for."""
    return in_context(_mesh())


@functools.lru_cache(maxsize=1)
def _mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:1]).reshape(1, 1, 1), ("data", "model", "layers"))

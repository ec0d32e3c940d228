"""One network, written in Linen and in NNX, and the options that plant a difference."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import scutch
from flax import nnx

RULES = (("batch", "data"), ("embed", None), ("mlp", "model"))
MESH = {"data": 4, "model": 2}
WIDTH, HIDDEN, LAYERS = 8, 16, 2


class LinenStack(nn.Module):
    """Layers with batch statistics, a wide and a narrow matrix, and a residual stream."""

    activation: object = jax.nn.gelu
    narrow: tuple = ("mlp", "embed")
    momentum: float = 0.9
    rate: float = 0.0
    scale: float = 1.0

    @nn.compact
    def __call__(self, x):
        for number in range(LAYERS):
            norm = nn.BatchNorm(False, momentum=self.momentum, name=f"layers_{number}_norm")
            wide = nn.Dense(
                HIDDEN, kernel_init=self.kernel("embed", "mlp"), name=f"layers_{number}_wide"
            )
            narrow = nn.Dense(
                WIDTH, kernel_init=self.kernel(*self.narrow), name=f"layers_{number}_narrow"
            )
            h = self.activation(wide(norm(x)))
            if self.rate:
                h = nn.Dropout(self.rate, deterministic=False)(h)
            x = x + self.scale * narrow(h)
        return x

    @staticmethod
    def kernel(*names):
        return nn.with_logical_partitioning(nn.initializers.lecun_normal(), names)


class Layer(nnx.Module):
    """One layer."""

    def __init__(self, rngs):
        self.norm = nnx.BatchNorm(WIDTH, momentum=0.9, rngs=rngs)
        self.wide = nnx.Linear(WIDTH, HIDDEN, kernel_init=self.kernel("embed", "mlp"), rngs=rngs)
        self.narrow = nnx.Linear(HIDDEN, WIDTH, kernel_init=self.kernel("mlp", "embed"), rngs=rngs)

    def __call__(self, x):
        return x + self.narrow(jax.nn.gelu(self.wide(self.norm(x))))

    @staticmethod
    def kernel(*names):
        init = nnx.initializers.lecun_normal()
        return nnx.with_partitioning(init, names, sharding_rules=RULES)


class NNXStack(nnx.Module):
    """The layers."""

    def __init__(self, rngs):
        self.layers = nnx.List([Layer(rngs) for _ in range(LAYERS)])

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def described(make, batch=8, **more):
    """The description of one of them."""
    example = jax.ShapeDtypeStruct((batch, WIDTH), jnp.float32)
    return scutch.Model(make, example, **{"rules": RULES, "meshes": (MESH,), **more})


def linen(more=None, **options):
    """The network in Linen."""
    return described(LinenStack(**options), **(more or {}))


def objects(**more):
    """The network in NNX."""
    return described(NNXStack, **more)

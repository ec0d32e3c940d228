"""A residual network with batch statistics, as in Flax's ImageNet example."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn


class ResNetBlock(nn.Module):
    filters: int
    conv: Any
    norm: Any
    strides: tuple[int, int] = (1, 1)

    @nn.compact
    def __call__(self, x):
        residual = x
        y = nn.relu(self.norm()(self.conv(self.filters, (3, 3), self.strides)(x)))
        y = self.norm(scale_init=nn.initializers.zeros_init())(self.conv(self.filters, (3, 3))(y))
        if residual.shape != y.shape:
            residual = self.conv(self.filters, (1, 1), self.strides, name="conv_proj")(residual)
        return nn.relu(residual + y)


class ResNet(nn.Module):
    num_classes: int

    @nn.compact
    def __call__(self, x, train: bool = True):
        conv = partial(nn.Conv, use_bias=False)
        norm = partial(nn.BatchNorm, use_running_average=not train, momentum=0.9)
        x = nn.max_pool(conv(4, (3, 3), name="conv_init")(x), (2, 2), strides=(2, 2))
        x = ResNetBlock(8, strides=(2, 2), conv=conv, norm=norm)(x)
        return nn.Dense(self.num_classes)(jnp.mean(x, axis=(1, 2)))


model = ResNet(3)
variables = model.init(jax.random.key(0), jnp.ones((1, 8, 8, 3)), train=False)
logits, updates = model.apply(variables, jnp.ones((2, 8, 8, 3)), mutable=["batch_stats"])
print(logits.shape, sorted(updates))

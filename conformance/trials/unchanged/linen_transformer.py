"""A transformer that scans over layers with axis metadata, as in Flax's LM1B example."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct
from flax.linen import partitioning as nn_partitioning


@struct.dataclass
class Config:
    layers: int = 2
    width: int = 8
    heads: int = 2
    kernel_init: object = struct.field(pytree_node=False, default=nn.initializers.xavier_uniform())


class Block(nn.Module):
    config: Config

    @nn.compact
    def __call__(self, x, _):
        cfg = self.config
        y = nn.SelfAttention(num_heads=cfg.heads, use_bias=False)(nn.LayerNorm()(x))
        init = nn.with_logical_partitioning(cfg.kernel_init, ("embed", "mlp"))
        y = nn.Dense(cfg.width, kernel_init=init)(x + y)
        return nn.with_logical_constraint(y, ("batch", "length", "embed")), None


class Transformer(nn.Module):
    config: Config

    @nn.compact
    def __call__(self, x):
        layers = nn.scan(
            nn.remat(Block, prevent_cse=False),
            variable_axes={"params": 0},
            split_rngs={"params": True},
            length=self.config.layers,
            metadata_params={nn.PARTITION_NAME: "layers"},
        )
        return layers(self.config)(x, None)[0]


model = Transformer(Config())
with nn_partitioning.axis_rules((("embed", None), ("mlp", None))):
    boxed = model.init(jax.random.key(0), jnp.ones((1, 3, 8)))
    spec = nn.get_partition_spec(boxed)
print(len(jax.tree.leaves(nn.unbox(boxed))), len(jax.tree.leaves(spec)) > 0)

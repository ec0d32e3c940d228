"""A block of attention with streams for parameters and dropout, as in public NNX transformers."""

import jax.numpy as jnp
from flax import nnx


class Block(nnx.Module):
    def __init__(self, width: int, heads: int, *, rngs: nnx.Rngs):
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(
            num_heads=heads, in_features=width, decode=False, dropout_rate=0.1, rngs=rngs
        )
        self.embed = nnx.Embed(num_embeddings=5, features=width, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        return x + self.attention(self.norm(x))


block = Block(8, 2, rngs=nnx.Rngs(params=0, dropout=1))
block.eval()
print(block(jnp.zeros((1, 3), jnp.int32)).shape)

"""An LSTM over time, as in Flax's sequence-to-sequence and SST-2 examples."""

import jax
import jax.numpy as jnp
from flax import linen as nn


class Encoder(nn.Module):
    hidden_size: int

    @nn.compact
    def __call__(self, inputs):
        rnn = nn.RNN(nn.LSTMCell(self.hidden_size), return_carry=True)
        (cell, _), outputs = rnn(inputs)
        return cell, nn.LayerNorm()(outputs)


class Classifier(nn.Module):
    vocab: int = 7

    @nn.compact
    def __call__(self, tokens, deterministic: bool = True):
        x = nn.Embed(num_embeddings=self.vocab, features=4)(tokens)
        x = nn.Dropout(rate=0.1)(x, deterministic=deterministic)
        state, _ = Encoder(5)(x)
        return nn.Dense(1)(state)


tokens = jnp.zeros((2, 3), jnp.int32)
model = Classifier()
params = model.init(jax.random.key(0), tokens)
rngs = {"dropout": jax.random.key(1)}
print(model.apply(params, tokens, deterministic=False, rngs=rngs).shape)

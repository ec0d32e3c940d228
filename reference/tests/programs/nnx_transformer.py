"""Stacked transformer blocks that are scanned, with attention and dropout, as in the guides."""

import jax
import optax
from flax import nnx


class Block(nnx.Module):
    """Attention and a perceptron, each after a normalization."""

    def __init__(self, width: int, *, rngs: nnx.Rngs):
        self.norms = nnx.List([nnx.LayerNorm(width, rngs=rngs) for _ in range(2)])
        self.attention = nnx.MultiHeadAttention(
            num_heads=2, in_features=width, dropout_rate=0.2, decode=False, rngs=rngs
        )
        self.wide = nnx.Linear(width, 2 * width, rngs=rngs)
        self.narrow = nnx.Linear(2 * width, width, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norms[0](x), is_causal=True)
        return x + self.narrow(nnx.gelu(self.wide(self.norms[1](x))))


class Transformer(nnx.Module):
    """Blocks made by `vmap` and run by `scan`, between an embedding and a layer of logits."""

    def __init__(self, vocabulary: int, width: int, layers: int, *, rngs: nnx.Rngs):
        self.embed = nnx.Embed(vocabulary, width, rngs=rngs)

        @nnx.split_rngs(splits=layers)
        @nnx.vmap(in_axes=(0,), out_axes=0)
        def create(rngs):
            return Block(width, rngs=rngs)

        self.blocks = create(rngs)
        self.logits = nnx.Linear(width, vocabulary, rngs=rngs)

    def __call__(self, tokens):
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def forward(x, block):
            return block(x)

        return self.logits(forward(self.embed(tokens), self.blocks))


def init():
    """Return the model before training, and an optimizer for its parameters."""
    model = Transformer(11, 8, 2, rngs=nnx.Rngs(0, dropout=1))
    model.train()
    return model, nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)


@nnx.jit
def train_step(model, optimizer, tokens):
    """Take one step on predicting the next token."""

    def loss_fn(model):
        logits = model(tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss


def train(start):
    """Train for three steps, then evaluate without dropout."""
    model, optimizer = start
    tokens = jax.random.randint(jax.random.key(2), (3, 6), 0, 11)
    losses = [train_step(model, optimizer, tokens) for _ in range(3)]
    model.eval()
    losses.append(model(tokens))
    return losses, nnx.to_pure_dict(nnx.state(model, nnx.Param))

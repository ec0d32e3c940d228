"""A decoder whose layers are scanned and named, on a mesh, in the style of the scaling guide."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax.core import meta
from flax.training.train_state import TrainState
from jax.sharding import NamedSharding, PartitionSpec

RULES = (("batch", "data"), ("mlp", "model"), ("heads", "model"), ("vocab", "model"))


def named(*names):
    """Return an initializer that names the axes of a parameter."""
    return nn.with_logical_partitioning(nn.initializers.lecun_normal(), names)


class Attention(nn.Module):
    """Causal attention with two heads."""

    heads: int = 2

    @nn.compact
    def __call__(self, x):
        size = (self.heads, x.shape[-1] // self.heads)
        query, key, value = (
            nn.DenseGeneral(size, use_bias=False, name=name)(x)
            for name in ("query", "key", "value")
        )
        logits = jnp.einsum("blhd,bmhd->bhlm", query, key) / jnp.sqrt(size[1])
        seen = jnp.tril(jnp.ones(logits.shape[-2:], bool))
        weights = nn.softmax(jnp.where(seen, logits, -1e9))
        x = jnp.einsum("bhlm,bmhd->blhd", weights, value)
        return nn.DenseGeneral(size[0] * size[1], axis=(-2, -1), name="out")(x)


class Block(nn.Module):
    """Attention and a perceptron, each after a normalization."""

    @nn.compact
    def __call__(self, x, _):
        x = x + Attention()(nn.LayerNorm(use_bias=False)(x))
        y = nn.Dense(16, kernel_init=named("embed", "mlp"), name="wide")(nn.LayerNorm()(x))
        x = x + nn.Dense(8, kernel_init=named("mlp", "embed"), name="narrow")(nn.gelu(y))
        return nn.with_logical_constraint(x, ("batch", "length", "embed")), None


class Decoder(nn.Module):
    """Scanned blocks between an embedding and its transpose."""

    layers: int = 3

    def setup(self):
        self.embed = nn.Embed(12, 8, embedding_init=named("vocab", "embed"))
        self.blocks = nn.scan(
            nn.remat(Block, prevent_cse=False),
            variable_axes={"params": 0},
            split_rngs={"params": True},
            length=self.layers,
            metadata_params={nn.PARTITION_NAME: "layers"},
        )()

    def __call__(self, tokens):
        x, _ = self.blocks(self.embed(tokens), None)
        return self.embed.attend(x)


mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = Decoder()


def init():
    """Return the state before training, sharded by the rules."""

    def create(key):
        params = model.init(key, jnp.zeros((2, 5), int))["params"]
        return TrainState.create(apply_fn=model.apply, params=params, tx=optax.sgd(0.1))

    with nn.logical_axis_rules(RULES):
        abstract = jax.eval_shape(create, jax.random.key(0))
        specs = nn.get_partition_spec(abstract)
        shardings = nn.logical_to_mesh_sharding(specs, mesh, RULES)
        return jax.jit(create, out_shardings=shardings)(jax.random.key(0))


@jax.jit
def train_step(state, tokens):
    """Take one step on predicting the next token."""

    def loss_fn(params):
        logits = state.apply_fn({"params": params}, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


def train(state):
    """Train for four steps on a mesh of eight devices."""
    tokens = jax.random.randint(jax.random.key(1), (4, 6), 0, 12)
    tokens = jax.device_put(tokens, NamedSharding(mesh, PartitionSpec("data")))
    losses = []
    with jax.set_mesh(mesh), nn.logical_axis_rules(RULES):
        for _ in range(4):
            state, loss = train_step(state, tokens)
            losses.append(loss)
    return losses, meta.unbox(state.params)

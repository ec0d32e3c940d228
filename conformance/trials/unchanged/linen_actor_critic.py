"""An actor and a critic with frozen parameters and checkpoints, as in Flax's PPO example."""

import flax
import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import serialization, traverse_util


class ActorCritic(nn.Module):
    num_outputs: int

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(features=8, name="hidden", dtype=jnp.float32)(x))
        policy = nn.log_softmax(nn.Dense(features=self.num_outputs, name="logits")(x))
        return policy, nn.Dense(features=1, name="value")(x)


params = flax.core.freeze(ActorCritic(3).init(jax.random.key(0), jnp.ones((1, 4))))
flat = traverse_util.flatten_dict(flax.core.unfreeze(params), sep="/")
restored = serialization.from_bytes(params, serialization.to_bytes(params))
print(sorted(flat)[0], jax.tree.structure(restored) == jax.tree.structure(params))

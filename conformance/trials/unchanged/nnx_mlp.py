"""A perceptron with dropout and batch norm, trained by value and gradient, as in the NNX basics."""

import jax
import jax.numpy as jnp
from flax import nnx


class MLP(nnx.Module):
    def __init__(self, din: int, dmid: int, dout: int, *, rngs: nnx.Rngs):
        self.linear = nnx.Linear(din, dmid, rngs=rngs)
        self.dropout = nnx.Dropout(rate=0.1, rngs=rngs)
        self.bn = nnx.BatchNorm(dmid, rngs=rngs)
        self.linear_out = nnx.Linear(dmid, dout, rngs=rngs)

    def __call__(self, x: jax.Array):
        return self.linear_out(nnx.relu(self.dropout(self.bn(self.linear(x)))))


@nnx.jit
def loss_and_grads(model: MLP, x, y):
    def loss_fn(model):
        return jnp.mean((model(x) - y) ** 2)

    return nnx.value_and_grad(loss_fn)(model)


model = MLP(2, 8, 3, rngs=nnx.Rngs(0))
model.train()
loss, grads = loss_and_grads(model, jnp.ones((4, 2)), jnp.ones((4, 3)))
model.eval()
print(bool(jnp.isfinite(loss)), model(jnp.ones((1, 2))).shape)

"""`nnx.merge` is given a state that has the leaves of another one again.

Instead: `nnx.merge(graphdef, nnx.merge_state(state, later))`
"""

from flax import nnx

model = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
state = nnx.state(model)
print(nnx.merge(*nnx.split(model), state).kernel.shape)

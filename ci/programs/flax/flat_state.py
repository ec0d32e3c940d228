"""`State.flat_state` gives the leaves of a state by path.

Touches: flax.nnx.State.flat_state, .flat_state
Beside: flax.nnx
Instead: `nnx.to_flat_state(state)`
"""

from flax import nnx

state = nnx.state(nnx.Linear(2, 2, rngs=nnx.Rngs(0)))
print(len(dict(state.flat_state())))

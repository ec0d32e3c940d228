"""A state becomes a plain dictionary with the method `to_pure_dict`.

Touches: flax.nnx.State.to_pure_dict, .to_pure_dict
Beside: flax.nnx
Instead: `nnx.to_pure_dict(state)`
"""

from flax import nnx

state = nnx.state(nnx.Linear(2, 2, rngs=nnx.Rngs(0)))
print(sorted(state.to_pure_dict()))

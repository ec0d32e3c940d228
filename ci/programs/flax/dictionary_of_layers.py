"""A plain dictionary of layers is an attribute of a module.

Touches: flax.nnx.Module[dict]
Instead: `nnx.Dict({...})`
"""

from flax import nnx


class Model(nnx.Module):
    def __init__(self, rngs):
        self.layers = {"one": nnx.Linear(2, 2, rngs=rngs)}


print(sorted(Model(nnx.Rngs(0)).layers))

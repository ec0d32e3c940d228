"""A plain list of modules that hold no arrays is an attribute of a module.

Touches: flax.nnx.Module[list]
Instead: `nnx.List([...])`
"""

from flax import nnx


class Activation(nnx.Module):
    def __init__(self, factor):
        self.factor = factor


class Model(nnx.Module):
    def __init__(self):
        self.parts = [Activation(1), Activation(2)]


print(len(Model().parts))

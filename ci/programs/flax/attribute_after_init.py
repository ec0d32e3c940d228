"""A layer is assigned to an object after it was made."""

from flax import nnx

model = nnx.Sequential()
model.extra = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
print(type(model.extra).__name__)

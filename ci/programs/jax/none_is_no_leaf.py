"""`None` is a node without leaves, also as a whole output of `tree.map`."""

import jax

print(jax.tree.leaves({"a": None, "b": 1}), jax.tree.map(lambda x: None, {"b": 1}))

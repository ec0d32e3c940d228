"""`tree.map` takes `None` in one tree where the other has a tree of arrays."""

import jax

try:
    jax.tree.map(lambda x, y: x, None, {"a": 1})
except ValueError:
    print("refused")
else:
    print("accepted")

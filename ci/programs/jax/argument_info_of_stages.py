"""A lowered function says what its arguments are, and costs are a mapping when compiled."""

import jax

lowered = jax.jit(lambda x: x + 1).lower(1.0)
print(lowered.args_info[0][0].shape, type(lowered.compile().cost_analysis()).__name__)

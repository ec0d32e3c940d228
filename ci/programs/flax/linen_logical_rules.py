"""Logical names become mesh axes by rules in context.

Touches: flax.linen.logical_to_mesh_axes
"""

import flax.linen as nn

with nn.logical_axis_rules((("embed", "data"), ("mlp", "model"))):
    print(nn.logical_to_mesh_axes(("embed", "mlp")))

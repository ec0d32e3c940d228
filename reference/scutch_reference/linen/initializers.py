"""The initializers under the name that they have in `flax.linen`: those of both rooms.

>>> import jax
>>> ones_init()(jax.random.key(0), (2,)).tolist()
[1.0, 1.0]
"""

from ..initializers import (
    Initializer as Initializer,
    constant as constant,
    delta_orthogonal as delta_orthogonal,
    glorot_normal as glorot_normal,
    glorot_uniform as glorot_uniform,
    he_normal as he_normal,
    he_uniform as he_uniform,
    kaiming_normal as kaiming_normal,
    kaiming_uniform as kaiming_uniform,
    lecun_normal as lecun_normal,
    lecun_uniform as lecun_uniform,
    normal as normal,
    ones as ones,
    ones_init as ones_init,
    orthogonal as orthogonal,
    truncated_normal as truncated_normal,
    uniform as uniform,
    variance_scaling as variance_scaling,
    xavier_normal as xavier_normal,
    xavier_uniform as xavier_uniform,
    zeros as zeros,
    zeros_init as zeros_init,
)

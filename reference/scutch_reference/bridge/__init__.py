"""The bridge between Linen and NNX (document 004, contract BRG).

`variables` converts collections and boxes to variable types and metadata, and back. `wrappers`
makes a Linen module serve as an NNX module, and an NNX class as a Linen module.

>>> import jax.numpy as jnp
>>> from scutch_reference import linen, nnx
>>> model = ToNNX(linen.Dense(3), rngs=nnx.Rngs(0)).lazy_init(jnp.ones((1, 2)))
>>> type(model.kernel).__name__, model.kernel.shape
('Param', (2, 3))
"""

from ..linen import initializers as initializers
from .variables import (
    NNXMeta as NNXMeta,
    get_col_name as get_col_name,
    is_vanilla_variable as is_vanilla_variable,
    linen_vars_to_nnx_attrs as linen_vars_to_nnx_attrs,
    nnx_attrs_to_linen_vars as nnx_attrs_to_linen_vars,
    register_variable_name as register_variable_name,
    register_variable_name_type_pair as register_variable_name_type_pair,
    sort_variable_types as sort_variable_types,
    to_linen_var as to_linen_var,
    to_nnx_var as to_nnx_var,
    variable_name_from_type as variable_name_from_type,
    variable_type as variable_type,
    variable_type_from_name as variable_type_from_name,
    variable_type_name as variable_type_name,
)
from .wrappers import (
    Functional as Functional,
    ToLinen as ToLinen,
    ToNNX as ToNNX,
    functional as functional,
    lazy_init as lazy_init,
    to_linen as to_linen,
    with_partitioning as with_partitioning,
)

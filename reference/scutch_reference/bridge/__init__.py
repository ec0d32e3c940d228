"""The bridge between Linen and NNX (contract BRG, document 004)."""

from .variables import NNXMeta as NNXMeta, get_col_name as get_col_name
from .variables import is_vanilla_variable as is_vanilla_variable
from .variables import linen_vars_to_nnx_attrs as linen_vars_to_nnx_attrs
from .variables import nnx_attrs_to_linen_vars as nnx_attrs_to_linen_vars
from .variables import register_variable_name as register_variable_name
from .variables import register_variable_name_type_pair as register_variable_name_type_pair
from .variables import sort_variable_types as sort_variable_types, to_linen_var as to_linen_var
from .variables import to_nnx_var as to_nnx_var, variable_name_from_type as variable_name_from_type
from .variables import variable_type as variable_type, variable_type_name as variable_type_name
from .variables import variable_type_from_name as variable_type_from_name
from .wrappers import ToLinen as ToLinen, ToNNX as ToNNX, lazy_init as lazy_init
from .wrappers import to_linen as to_linen, with_partitioning as with_partitioning

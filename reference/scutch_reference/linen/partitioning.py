"""Logical names beside the variables: the older way to annotate a Linen module.

Boxes hold a value and its names together. Here the names of a variable `kernel` of the collection
`params` lie beside it, as `kernel_axes` in the collection `params_axes`, and the variable is a bare
array. `get_axis_names` makes specs of such a collection, which have the structure of the variables;
`logical_to_mesh` maps them by rules. New code has `with_logical_partitioning`.

>>> import jax
>>> from jax.nn.initializers import ones
>>> from scutch_reference import linen as nn
>>> class Dense(nn.Module):
...     @nn.compact
...     def __call__(self, x):
...         return x @ param_with_axes("kernel", ones, (2, 3), axes=("embed", "mlp"))
>>> variables = Dense().init(jax.random.key(0), jax.numpy.ones((1, 2)))
>>> tuple(get_axis_names(variables["params_axes"])["kernel"])
('embed', 'mlp')
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from .. import struct
from ..logical import (
    RulesFallback as RulesFallback,
    get_logical_axis_rules as get_axis_rules,
    logical_axis_rules as axis_rules,
    logical_to_mesh as logical_to_mesh,
    logical_to_mesh_axes as logical_to_mesh_axes,
    set_logical_axis_rules as set_axis_rules,
    with_logical_constraint as with_sharding_constraint,
)
from ..meta import PARTITION_NAME, Params, Partitioned
from ..names import axis_names
from ..placement import partition_spec
from ..types import Prefix, Tree
from .lift import Names, remat as remat
from .loops import NOTHING, Axes, In as ScanIn, Out as ScanOut, chosen, scan, vmap
from .module import F, Fn, Module, current_module
from .scope import Filter
from .transforms import renamed_inside
from .variable import Variable

__all__ = [
    "AxisMetadata",
    "PartitionedVariable",
    "RulesFallback",
    "ScanIn",
    "ScanOut",
    "axis_rules",
    "get_axis_names",
    "get_axis_rules",
    "logical_to_mesh",
    "logical_to_mesh_axes",
    "param_with_axes",
    "remat",
    "scan_with_axes",
    "set_axis_rules",
    "variable_with_axes",
    "vmap_with_axes",
    "with_sharding_constraint",
]
_SUFFIX = "_axes"


class AxisMetadata(struct.Node):
    """The names of the axes of one variable; a pytree without leaves, and no box.

    Args:
      names: For each axis a logical name or `None`.
    """

    names: Any = struct.field(pytree_node=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", axis_names(self.names))


@dataclasses.dataclass(eq=False)
class PartitionedVariable(Variable):
    """A handle on a variable whose value is constrained when it is read and when it is written.

    Args:
      module, collection, name, unbox: As for `Variable`.
      axes: The logical names of its axes; `None` for no constraint.
      fallback: As for `with_logical_constraint`.
    """

    axes: Sequence[Any] | None = None
    fallback: RulesFallback = RulesFallback.AXIS_IS_UNSHARDED

    @property
    def value(self) -> Any:
        """The value, sharded by the rules and the mesh in context."""
        return self._constrained(super().value)

    @value.setter
    def value(self, value: Tree) -> None:
        plain = Variable(self.module, self.collection, self.name, self.unbox)
        plain.value = self._constrained(value)

    def _constrained(self, value: Tree) -> Tree:
        return with_sharding_constraint(value, self.axes, fallback=self.fallback)


def _note(module: Module, collection: str, name: str, axes: Sequence[Any] | None) -> None:
    """Write the names of a variable beside it, where that collection is mutable."""
    if axes is not None:
        module.sow(
            collection + _SUFFIX,
            name + _SUFFIX,
            AxisMetadata(axes),
            reduce_fn=lambda _, new: new,
            init_fn=lambda: None,
        )


def param_with_axes(
    name: str,
    init_fn: Fn,
    *init_args: Any,
    axes: Sequence[Any] | None = None,
    module: Module | None = None,
    **init_kwargs: Any,
) -> Any:
    """Read or make a parameter with logical names, constrained by the rules in context (LOG-8).

    Args:
      name, init_fn, init_args, init_kwargs: As for `Module.param`, which lists the errors.
      axes: A logical name or `None` for each axis.
      module: The module; `None` means the module whose method runs.

    Returns:
      The parameter without its box: an array, or a tree of arrays.
    """
    owner = module or current_module()
    value = owner.param(name, init_fn, *init_args, **init_kwargs)
    _note(owner, "params", name, axes)
    return with_sharding_constraint(value, axes)


def variable_with_axes(
    collection: str,
    name: str,
    init_fn: Fn,
    *init_args: Any,
    axes: Sequence[Any] | None = None,
    module: Module | None = None,
    fallback: RulesFallback = RulesFallback.AXIS_IS_UNSHARDED,
    **init_kwargs: Any,
) -> PartitionedVariable:
    """Return a handle on a variable with logical names, which is made where it is missing.

    Args:
      collection, name, init_fn, init_args, init_kwargs: As for `Module.variable`, which lists the
        errors.
      axes: A logical name or `None` for each axis.
      module: The module; `None` means the module whose method runs.
      fallback: As for `with_logical_constraint`.

    Returns:
      The handle; its attribute `value` reads and writes the variable.
    """
    owner = module or current_module()
    owner.variable(collection, name, init_fn, *init_args, **init_kwargs)
    _note(owner, collection, name, axes)
    return PartitionedVariable(owner, collection, name, axes=axes, fallback=fallback)


def get_axis_names(axes_metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specs of a collection of names, in the structure of the variables.

    Args:
      axes_metadata: A collection such as `params_axes`.

    Returns:
      Nested dictionaries with a `PartitionSpec` of logical names for each variable.
    """
    return {
        key.removesuffix(_SUFFIX): partition_spec(node.names)
        if isinstance(node, AxisMetadata)
        else get_axis_names(node)
        for key, node in axes_metadata.items()
    }


def _rename(change: Fn, tree: Tree, axis: int, params: Params) -> Tree:
    """A tree in which every `AxisMetadata` gains or loses the name of an axis, as a box does."""

    def renamed(node: AxisMetadata) -> AxisMetadata:
        return AxisMetadata(change(Partitioned(None, node.names), axis, params).names)

    return jax.tree.map(renamed, tree, is_leaf=lambda node: isinstance(node, AxisMetadata))


_RENAME = {
    "remove": functools.partial(_rename, Partitioned.remove_axis),
    "add": functools.partial(_rename, Partitioned.add_axis),
}


def scan_with_axes(
    target: F,
    variable_axes: Axes = NOTHING,
    variable_broadcast: Filter = False,
    variable_carry: Filter = False,
    split_rngs: Mapping[Any, bool] = NOTHING,
    in_axes: Prefix = 0,
    out_axes: Prefix = 0,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    axis_name: str = "layers",
    axes_collections: Sequence[str] = ("params",),
    methods: Names | None = None,
) -> F:
    """Lift `scan`, and name its axis in the collections of names (LIN-2).

    Args:
      target, variable_axes, variable_broadcast, variable_carry, split_rngs: As for `linen.scan`.
      in_axes, out_axes, length, reverse, unroll, methods: As for `linen.scan`.
      axis_name: The name of the axis.
      axes_collections: The collections whose variables have names beside them.

    Returns:
      The target, lifted: a module class, or a function whose first argument is a module.
    """
    axes = {name + _SUFFIX: chosen(variable_axes, name) for name in axes_collections}
    lifted = scan(
        target,
        {**variable_axes, **axes},
        variable_broadcast,
        variable_carry,
        split_rngs,
        in_axes,
        out_axes,
        length,
        reverse,
        unroll,
        methods=methods,
    )
    return renamed_inside(lifted, "", axes, {PARTITION_NAME: axis_name}, methods, **_RENAME)


def vmap_with_axes(
    target: F,
    variable_axes: Axes,
    split_rngs: Mapping[Any, bool] = NOTHING,
    in_axes: Prefix = 0,
    out_axes: Prefix = 0,
    axis_size: int | None = None,
    axis_name: str | None = None,
    partitioning_axis_names: Mapping[str, str] = NOTHING,
    spmd_axis_name: str | None = None,
    methods: Names | None = None,
) -> F:
    """Lift `vmap`, and name its axis in the collections of names (LIN-2).

    Args:
      target, variable_axes, split_rngs, in_axes, out_axes: As for `linen.vmap`.
      axis_size, axis_name, spmd_axis_name, methods: As for `linen.vmap`.
      partitioning_axis_names: The name of the axis, by collections whose variables have names
        beside them.

    Returns:
      The target, lifted: a module class, or a function whose first argument is a module.
    """
    axes = {name + _SUFFIX: chosen(variable_axes, name) for name in partitioning_axis_names}
    lifted = vmap(
        target,
        {**variable_axes, **axes},
        split_rngs,
        in_axes,
        out_axes,
        axis_size,
        axis_name,
        spmd_axis_name,
        methods=methods,
    )
    for collection, name in partitioning_axis_names.items():
        own = {collection + _SUFFIX: axes[collection + _SUFFIX]}
        lifted = renamed_inside(lifted, "", own, {PARTITION_NAME: name}, methods, **_RENAME)
    return lifted

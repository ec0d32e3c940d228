"""Names of axes on variables: from names and rules to partition specs and constraints (LOG-7).

A variable's names are mesh axes where there are no rules, and logical names where there are: its
own rules, or those in context. So a variable is sharded as a Linen box with the same names.
"""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from ..logical import get_logical_axis_rules, logical_to_mesh_axes
from ..placement import constrain, partition_spec


def spec_of(names: Any, rules: Any) -> PartitionSpec:
    """The partition spec for names of axes.

    Args:
      names: A name, None or a tuple of mesh axes for each axis; or a `NamedSharding`.
      rules: Rules of the variable itself; they win over those in context.
    """
    if isinstance(names, NamedSharding):
        return names.spec
    rules = rules or get_logical_axis_rules()
    if not rules:
        return partition_spec(tuple(names))
    return logical_to_mesh_axes(tuple(names), tuple(rules)) or partition_spec(())


def constrained(value: Any, names: Any, rules: Any, mesh: Any) -> Any:
    """The value, sharded by its names, if there is a mesh: `mesh`, or else the one in context."""
    if isinstance(names, NamedSharding):
        mesh = names.mesh
    spec = spec_of(names, rules)
    return jax.tree.map(lambda leaf: constrain(leaf, spec, mesh), value)

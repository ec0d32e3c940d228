"""Names of mesh axes on variables: from names and rules to a partition spec and a constraint."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec


def spec_of(names: Any, rules: Any) -> PartitionSpec:
    """PENDING: becomes the logical room's mapping."""
    if isinstance(names, NamedSharding):
        names = names.spec
    table = dict(rules or ())
    return PartitionSpec(*(table.get(n, n) if not isinstance(n, tuple) else n for n in names))


def constrained(value: Any, names: Any, rules: Any, mesh: Any) -> Any:
    """PENDING: becomes the logical room's constraint."""
    if mesh is None:
        return value
    sharding = NamedSharding(mesh, spec_of(names, rules))
    return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, sharding), value)

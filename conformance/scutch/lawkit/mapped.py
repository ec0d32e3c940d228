"""`jax.shard_map`, which JAX before 0.6 has among its experiments, with other options.

Laws compare with it by the options of today:

    theirs = shard_map(body, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_vma=False)
"""

from collections.abc import Callable, Collection
from typing import Any

import jax


def _among_experiments(
    function: Callable[..., Any],
    *,
    check_vma: bool = True,
    axis_names: Collection[Any] = (),
    **options: Any,
) -> Any:
    from jax.experimental import shard_map as experiments

    mapped: Any = experiments.shard_map
    if axis_names:
        options["auto"] = frozenset(options["mesh"].axis_names) - frozenset(axis_names)
    return mapped(function, check_rep=check_vma, **options)


shard_map: Any = getattr(jax, "shard_map", _among_experiments)

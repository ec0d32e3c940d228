"""Lifted `jax.shard_map`: functions of objects, run by each device on its part."""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import NamedSharding

from ..errors import ReplicationError
from ..placement import mesh_axes, partition_spec
from .jit import named
from .lifting import Frame, Lifted, lift
from .prefixes import check_spec, spread

UNSHARDED = partition_spec(())


class ShardMapped(Lifted):
    """A function of objects that devices run on their parts; see `shard_map`."""

    lifts = staticmethod(jax.jit)
    what = "specs"
    default = UNSHARDED
    sends_committed = True
    by_position = True

    def __init__(self, *args: Any, mesh: Any, check: bool, auto: Any, **options: Any):
        super().__init__(*args, **options)
        self.mesh, self._check, self._auto = mesh, check, frozenset(auto)

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.shard_map`, compiled once."""
        mesh = jax.sharding.get_abstract_mesh() if self.mesh is None else self.mesh
        for number, spec in enumerate(frame.asked):
            check_spec(frame.where(number), None, spec, mesh)
        frame.mesh = mesh
        if isinstance(mesh, jax.sharding.Mesh):
            frame.placements = [NamedSharding(mesh, spec) for spec in frame.asked]
        shard_map: Any = getattr(jax, "shard_map", None)
        options: dict[str, Any] = {"check_vma": self._check}
        automatic: dict[str, Any] = {"axis_names": frozenset(mesh.axis_names) - self._auto}
        if shard_map is None:
            from jax.experimental.shard_map import shard_map

            options, automatic = {"check_rep": self._check}, {"auto": self._auto}
        if self._auto:
            options |= automatic

        def run(*args: Any) -> Any:
            outcome, groups, out = found = frame.run(*args)
            changed = outcome.changed.items() if self._check else ()
            places = [(frame.where(n), frame.groups[g], groups[g][i]) for n, (g, i) in changed]
            places += spread(frame.outside[2], out, "output") if self._check else ()
            for where, spec, value in places:
                names = {name for entry in spec for name in mesh_axes(entry)}
                if differing := set().union(*map(_varying, jax.tree.leaves(value))) - names:
                    raise ReplicationError(where, spec, sorted(map(str, differing)))
            return found

        options |= {"mesh": mesh, "in_specs": frame.arguments(frame.asked, frame.plain)}
        return jax.jit(shard_map(named(run, self), out_specs=frame.outside, **options))


def _varying(leaf: Any) -> Any:
    """The axes of the mesh along which a value may differ, if this JAX says so."""
    kind = jax.typeof(leaf) if hasattr(jax, "typeof") else None
    return getattr(kind, "vma", ()) or getattr(getattr(kind, "mat", None), "varying", ())


def shard_map(
    f: Any = None,
    *,
    mesh: Any = None,
    in_specs: Any,
    out_specs: Any,
    check_rep: bool = True,
    check_vma: bool = True,
    auto: frozenset[Any] = frozenset(),
    axis_names: Any = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """Run a function of objects on each device's part of its arguments (SHM-1).

    It is compiled, also outside `jit`. Afterwards variables are sharded as their specs say.

    Data parallel, with one spec for a whole model:

    >>> import jax, jax.numpy as jnp
    >>> from jax.sharding import Mesh, PartitionSpec as P
    >>> from scutch_reference import nnx
    >>> mesh = Mesh(jax.local_devices(), ("data",))
    >>> m = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    >>> x = jnp.ones((32, 2))
    >>> @nnx.shard_map(mesh=mesh, in_specs=(P(None), P("data")), out_specs=P("data"))
    ... def f(m, x):
    ...     return m(x)
    >>> f(m, x).sharding.spec == P("data")
    True

    Args:
      mesh: The devices; without it, the mesh in context.
      in_specs: A prefix of the positional arguments: partition specs, or `StateSharding` for
        objects. Keyword arguments are not sharded, nor are those with None.
      check_rep, check_vma: Whether to check that values agree between devices where specs say so.
      auto: Axes of the mesh that the compiler shards over; all but the `axis_names`.
    """
    if unknown := set(axis_names or ()) - set(mesh.axis_names if mesh is not None else ()):
        raise ValueError(f"axis_names has {sorted(unknown)}, which {mesh} has not.")
    if axis_names:
        auto = frozenset(mesh.axis_names) - frozenset(axis_names)
    options = {"mesh": mesh, "check": check_rep and check_vma, "auto": auto}
    return lift(ShardMapped, f, in_specs, out_specs, graph_updates, **options)

"""Lifted `jax.shard_map`: functions of objects, run by each device on its part.

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
"""

import functools
from collections.abc import Callable, Collection
from typing import Any, overload

import jax
from jax.sharding import AbstractMesh, Mesh, NamedSharding

from ..errors import MeshAxisError, ReplicationError
from ..jax_versions import get_abstract_mesh, shard_mapped, varying_axes
from ..placement import mesh_axes, partition_spec
from ..types import Prefix, Tree
from .frames import Frame, PrefixRules, Transformed
from .lifting import Lifted, P, R, lift
from .prefixes import check_spec, spread


class ShardMapped(Lifted[P, R]):
    """A function of objects that devices run on their parts; see `shard_map`.

    Args:
      *args: Arguments of `Lifted`.
      mesh: The devices, or None for the mesh in context.
      check: Whether to check that values agree between devices where specs say so.
      auto: Axes of the mesh that are left to the compiler.
    """

    lifts = staticmethod(jax.jit)
    by_position = True
    rules = PrefixRules(what="specs", default=partition_spec(()), moves_committed=True)

    def __init__(
        self, *args: Any, mesh: Mesh | AbstractMesh | None, check: bool, auto: Collection[Any]
    ):
        super().__init__(*args)
        self.mesh = mesh
        self.check = check
        self.auto = frozenset(auto)

    def transform(self, frame: Frame, run: Callable[..., Any]) -> Transformed:
        """Return `jax.shard_map` of a function of leaves, compiled.

        Args:
          frame: The frame of a call.
          run: The function.
        """
        mesh = get_abstract_mesh() if self.mesh is None else self.mesh
        for number, spec in enumerate(frame.leaf_prefixes):
            check_spec(frame.where(number), None, spec, mesh)
        specs, placements = frame.leaf_prefixes, list[Any]()
        if isinstance(mesh, Mesh):
            placements = [NamedSharding(mesh, spec) for spec in specs]
        function = shard_mapped(
            _checked(frame, run) if self.check else run,
            mesh,
            (specs, *frame.plain_prefixes),
            frame.outside,
            check=self.check,
            auto=self.auto,
        )
        return Transformed(frame, jax.jit(function), placements=placements, mesh=mesh)


def _checked(frame: Frame, run: Callable[..., Any]) -> Callable[..., Any]:
    """The function of leaves; refuses values that differ along axes that are not in their spec."""

    @functools.wraps(run)
    def checked(*args: Tree) -> Tree:
        effects, groups, out = run(*args)
        changed = effects.changed.items()
        leaves = [(frame.where(n), frame.groups[g], groups[g][i]) for n, (g, i) in changed]
        output = [each for each in spread(frame.outside[2], out, "output") if each[1] is not None]
        for where, spec, value in leaves + output:
            named = {name for entry in spec for name in mesh_axes(entry)}
            differing = set().union(*map(varying_axes, jax.tree.leaves(value))) - named
            if differing:
                raise ReplicationError(place=where, spec=spec, axes=sorted(map(str, differing)))
        return effects, groups, out

    return checked


@overload
def shard_map(
    f: Callable[P, R],
    *,
    mesh: Mesh | AbstractMesh | None = None,
    in_specs: Prefix,
    out_specs: Prefix,
    check_rep: bool = True,
    check_vma: bool = True,
    auto: Collection[Any] = frozenset(),
    axis_names: Collection[Any] | None = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> ShardMapped[P, R]:
    """With the function: the transformed one."""


@overload
def shard_map(
    *,
    mesh: Mesh | AbstractMesh | None = None,
    in_specs: Prefix,
    out_specs: Prefix,
    check_rep: bool = True,
    check_vma: bool = True,
    auto: Collection[Any] = frozenset(),
    axis_names: Collection[Any] | None = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Callable[[Callable[P, R]], ShardMapped[P, R]]:
    """Without the function: a decorator."""


def shard_map(
    f: Any = None,
    *,
    mesh: Mesh | AbstractMesh | None = None,
    in_specs: Prefix,
    out_specs: Prefix,
    check_rep: bool = True,
    check_vma: bool = True,
    auto: Collection[Any] = frozenset(),
    axis_names: Collection[Any] | None = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """Run a function of objects on each device's part of its arguments (SHM-1).

    It is compiled, also outside `jit`. Afterwards variables are sharded as their specs say (SHM-3).

    Args:
      f: The function. Without it, this returns a decorator.
      mesh: The devices; without it, the mesh in context.
      in_specs: A prefix of the positional arguments: partition specs, or `StateSharding` for
        objects (SHM-2). Arguments are passed by position, as to
        `jax.shard_map`. Those with None are not sharded.
      out_specs: A prefix of the output.
      check_rep: Whether to check that values agree between devices where specs say so (SHM-4).
      check_vma: The same, by its name of today; False for one of both turns the check off.
      auto: Axes of the mesh that the compiler shards over (SHM-5).
      axis_names: The other axes; not with `auto`.
      graph: Accepted and not needed: sharing is always kept.
      graph_updates: If False, objects get new values and metadata of variables, but no changes of
        structure.

    Returns:
      A function with the parameters of `f`.

    Raises:
      MeshAxisError: `axis_names` has a name that is no axis of `mesh`, or is given without a mesh.
        When called: a spec names an axis that is not in the mesh (SHM-4).
      IndivisibleSizeError: When called: an axis cannot be cut into so many parts (SHM-4).
      ReplicationError: When called: a value may differ between devices that must agree (SHM-4).
      NoFilterMatchError: When called: no filter takes a variable.
      AliasingError: When called: one variable has two different specs (JIT-2).
    """
    axes = mesh.axis_names if mesh is not None else ()
    for axis in set(axis_names or ()) - set(axes):
        raise MeshAxisError(place="axis_names", spec=axis_names, axis=axis, axes=axes)
    if axis_names:
        auto = frozenset(axes) - frozenset(axis_names)
    return lift(
        ShardMapped,
        f,
        in_specs,
        out_specs,
        graph_updates,
        mesh=mesh,
        check=check_rep and check_vma,
        auto=auto,
    )

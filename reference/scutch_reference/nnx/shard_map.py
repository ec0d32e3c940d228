"""Lifted `jax.shard_map`: functions of objects, run by each device on its part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from ..errors import ReplicationError
from ..placement import partition_spec
from .jit import named
from .lifting import Frame, Lifted
from .placing import check_spec
from .prefixes import FilterPrefix, without_filters

_UNSET: Any = object()
UNSHARDED = partition_spec(())


def _shard_map() -> tuple[Callable[..., Any], str]:
    """The function of JAX, and what it calls the check of replication."""
    if hasattr(jax, "shard_map"):
        return jax.shard_map, "check_vma"
    from jax.experimental.shard_map import shard_map

    return shard_map, "check_rep"


def _spread(specs: Any) -> Any:
    """Specs without None: such an argument is not sharded."""
    return jax.tree.map(
        lambda spec: UNSHARDED if spec is None else spec,
        specs,
        is_leaf=lambda x: x is None or isinstance(x, PartitionSpec | FilterPrefix),
    )


def _axes(spec: Any) -> set[Any]:
    names: set[Any] = set()
    for entry in spec:
        names.update(entry if isinstance(entry, tuple) else (entry,))
    return names


class ShardMapped(Lifted):
    """A function of objects that devices run on their parts; see `shard_map`."""

    _what = "specs"
    _default = UNSHARDED

    def __init__(
        self,
        function: Callable[..., Any],
        mesh: Any,
        check: bool,
        auto: frozenset[Any],
        **lifted: Any,
    ):
        super().__init__(function, **lifted)
        self.mesh, self._check, self._auto = mesh, check, auto

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.shard_map`, compiled once."""
        mesh = self._mesh()
        specs = [UNSHARDED if each is None else each for each in frame.asked]
        for number, spec in enumerate(specs):
            check_spec(frame.label(number), None, spec, mesh)
        plain = _spread(frame.plain_prefixes)
        frame.mesh, frame.plain_placements = mesh, plain
        if isinstance(mesh, jax.sharding.Mesh):
            frame.placements = [NamedSharding(mesh, spec) for spec in specs]
            frame.moves_committed = True
        shard_map, check = _shard_map()
        options: dict[str, Any] = {check: self._check}
        if self._auto:
            manual = frozenset(mesh.axis_names) - self._auto
            options |= {"axis_names": manual} if check == "check_vma" else {"auto": self._auto}
        mapped = shard_map(
            named(lambda *args: self._checked(frame, frame.run(*args)), self),
            mesh=mesh,
            in_specs=(*frame.parted(specs), *plain),
            out_specs=(
                UNSHARDED,
                frame.groups.values,
                without_filters(_spread(self.out_prefix)),
            ),
            **options,
        )
        return jax.jit(mapped)

    def _mesh(self) -> Any:
        if self.mesh is not None:
            return self.mesh
        return jax.sharding.get_abstract_mesh()

    def _checked(self, frame: Frame, result: Any) -> Any:
        """Refuse values that differ between devices where the spec says that they do not."""
        outcome, groups, out = result
        if self._check:
            for spec, numbers, arrays in zip(
                frame.groups.values, outcome.changed, groups, strict=True
            ):
                for number, array in zip(numbers, arrays, strict=False):
                    _check_replication(frame.label(number), array, spec)
            _check_outputs(without_filters(_spread(self.out_prefix)), out)
        return result


def _varying(value: Any) -> set[Any]:
    """The axes of the mesh along which a value may differ, if this JAX says so."""
    kind = jax.typeof(value) if hasattr(jax, "typeof") else None
    found = getattr(kind, "vma", None)
    return set(getattr(getattr(kind, "mat", None), "varying", ()) if found is None else found)


def _check_replication(where: str, value: Any, spec: Any) -> None:
    for leaf in jax.tree.leaves(value):
        if differing := _varying(leaf) - _axes(spec):
            raise ReplicationError(where, spec, sorted(map(str, differing)))


def _check_outputs(specs: Any, out: Any) -> None:
    def check(path: Any, spec: Any, part: Any) -> None:
        for inner, leaf in jax.tree_util.tree_flatten_with_path(part)[0]:
            where = f"output{jax.tree_util.keystr((*path, *inner))}"
            _check_replication(where, leaf, spec)

    try:
        jax.tree_util.tree_map_with_path(
            check, specs, out, is_leaf=lambda x: isinstance(x, PartitionSpec)
        )
    except ReplicationError:
        raise
    except (ValueError, TypeError):  # The prefix does not fit; JAX says so better.
        return


def shard_map(
    f: Any = _UNSET,
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

    It is compiled once for each structure and shape of its arguments, also where it is called
    outside `jit`. Variables are sharded as their specs say afterwards, whether they change or not.

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

    Tensor parallel, with a spec for each variable:

    >>> mesh = Mesh(jax.local_devices(), ("model",))
    >>> class MLP(nnx.Module):
    ...     def __init__(self, din, dhidden, dout, *, rngs):
    ...         self.linear1 = nnx.Linear(din, dhidden, use_bias=False, rngs=rngs)
    ...         self.linear2 = nnx.Linear(dhidden, dout, use_bias=False, rngs=rngs)
    ...     def __call__(self, x):
    ...         return self.linear2(jax.nn.relu(self.linear1(x)))
    >>> m = MLP(2, 64, 3, rngs=nnx.Rngs(0))
    >>> expected = m(x)
    >>> def path_ends_with(*path_suffix):
    ...     return lambda path, value: path[-len(path_suffix):] == path_suffix
    >>> model_spec = nnx.StateSharding({
    ...     path_ends_with("linear1", "kernel"): P(None, "model"),
    ...     path_ends_with("linear2", "kernel"): P("model", None),
    ... })
    >>> @nnx.shard_map(mesh=mesh, in_specs=(model_spec, P(None)), out_specs=P(None))
    ... def f(m, x):
    ...     return jax.lax.psum(m(x), "model")
    >>> bool(jnp.allclose(f(m, x), expected, atol=1e-5))
    True
    >>> m.linear1.kernel.value.sharding.spec == P(None, "model")
    True

    Args:
      f: The function; a method, a partial or a callable object too. Without it, a decorator.
      mesh: The devices; without it, the mesh in context.
      in_specs: A prefix of the positional arguments: partition specs, or `StateSharding` for
        objects. Keyword arguments are not sharded, nor are those with None.
      out_specs: A prefix of the output.
      check_rep: Whether to check that values agree between devices where specs say so.
      check_vma: The same, under its newer name.
      auto: Axes of the mesh that the function does not see, and the compiler shards over.
      axis_names: The other axes, under their newer name.
      graph: Accepted and not needed: sharing is always kept.
      graph_updates: If False, values of variables come out, but no change of structure.

    Raises:
      MeshAxisError: A spec names an axis that the mesh does not have (SHM-4).
      IndivisibleSizeError: A spec cuts an axis that cannot be cut so.
      ReplicationError: A value differs between devices, and its spec says that it does not.
      NoFilterMatchError: No filter takes a variable.
    """
    if axis_names:
        auto = frozenset(mesh.axis_names) - frozenset(axis_names)

    def lift(function: Callable[..., Any]) -> ShardMapped:
        return ShardMapped(
            function,
            mesh,
            check_rep and check_vma,
            frozenset(auto),
            in_prefix=in_specs,
            out_prefix=out_specs,
            structural=graph_updates is not False,
        )

    return lift if f is _UNSET else lift(f)

"""Some steps of training on one mesh, with a record of their arrays and losses.

    with training.on({"data": 8}) as there:
        run = run_on(there, steps=3, seed=0)
    run.losses, run.recompiled, run.unused

A *sight* of an array is its shape, dtype, weak type and sharding. JAX compiles a step for these.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scutch.models.annotations import Leaf, leaves, path_text
from scutch.models.model import MeshShape
from scutch.models.training import Placed

STRUCT: Any = jax.ShapeDtypeStruct
_LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
ROUNDING = 1e-6


@dataclass(frozen=True)
class Sight:
    """An array as JAX sees it before it compiles.

    Args:
      shape: Its shape.
      dtype: Its dtype, as text.
      weak: Whether its dtype gives way to others.
      sharding: Where it lies; None for a value of the host.
    """

    shape: tuple[int, ...]
    dtype: str
    weak: bool
    sharding: Any

    @property
    def type(self) -> tuple[tuple[int, ...], str]:
        """Its shape and dtype."""
        return self.shape, self.dtype

    def differences(self, other: "Sight") -> list[str]:
        """How another array differs, in words.

        Args:
          other: The later one.
        """
        told = []
        if self.shape != other.shape:
            told.append(f"its shape was {self.shape} and is {other.shape}")
        if self.dtype != other.dtype:
            told.append(f"its dtype was {self.dtype} and is {other.dtype}")
        if self.weak != other.weak:
            words = ("strong", "weak")
            told.append(f"its type was {words[self.weak]} and is {words[other.weak]}")
        if not told and not same_place(self, other):
            told.append(f"it lay as {place_text(self)} and lies as {place_text(other)}")
        return told


@dataclass(frozen=True)
class Run:
    """A record of some steps.

    Args:
      mesh: The mesh shape.
      start: The leaves of the first state, annotations kept.
      sights: The sight of each array of the first state, by path.
      end: The sight of each array of the state after the last step, by path.
      losses: The loss of each step.
      values: Floating arrays of the last state, by path.
      recompiled: The number of each step that compiled again, with the arguments that differ.
      unused: Donated arrays whose memory no output took: the path of each, and its sight.
      donated: Whether a step took the memory of its state.
    """

    mesh: MeshShape
    start: tuple[Leaf, ...]
    sights: Mapping[str, Sight]
    end: Mapping[str, Sight]
    losses: tuple[float, ...]
    values: Mapping[str, Any]
    recompiled: tuple[tuple[int, tuple[str, ...]], ...]
    unused: tuple[tuple[str, Sight], ...]
    donated: bool


def sight_of(value: Any) -> Sight:
    """The sight of one array."""
    aval = jax.typeof(value)
    return Sight(
        tuple(aval.shape),
        str(aval.dtype),
        bool(getattr(aval, "weak_type", False)),
        getattr(value, "sharding", None),
    )


def sights_of(tree: Any) -> dict[str, Sight]:
    """The sight of each array of a tree, by path."""
    return {path: sight_of(value) for path, value in arrays_of(tree)}


def arrays_of(tree: Any) -> list[tuple[str, Any]]:
    """The arrays of a tree with their paths; boxes and variables add nothing to a path."""
    found = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [
        (path_text([key for key in path if getattr(key, "name", "") != "value"]), value)
        for path, value in found
    ]


def same_place(one: Sight, other: Sight) -> bool:
    """Whether two arrays of one shape lie alike.

    Args:
      one: The sight of an array.
      other: Of another.
    """
    if one.sharding is None or other.sharding is None:
        return one.sharding is other.sharding
    return bool(one.sharding.is_equivalent_to(other.sharding, len(one.shape)))


def place_text(sight: Sight) -> str:
    """Where an array lies: its spec, or its device."""
    return str(getattr(sight.sharding, "spec", sight.sharding))


def run_on(
    there: Placed, *, steps: int, seed: int, disturbed: bool = False, state: Any = None
) -> Run:
    """Take some steps of training on a mesh.

    Args:
      there: The training on the mesh, in its surroundings.
      steps: At least one.
      seed: Of the first state and the inputs.
      disturbed: Whether the first state is changed by a rounding error, which tells results that
        mean something from noise.
      state: The first state on another mesh; made on this one where left out.

    Returns:
      The record of the steps.
    """
    state = there.start(seed) if state is None else there.taken(state)
    if disturbed:
        state = jax.tree_util.tree_map(_disturbed, state)
    start = tuple(leaves(there.training.implementation, abstract_with_places(state)))
    first = sights_of(state)
    losses: list[float] = []
    recompiled: list[tuple[int, tuple[str, ...]]] = []
    unused: tuple[tuple[str, Sight], ...] = ()
    donated = False
    before: dict[str, Sight] = {}
    for number in range(steps):
        inputs = there.batch(number, seed=seed)
        arguments = sights_of({"state": state, "input": list(inputs)})
        given = arrays_of({"state": state, "input": list(inputs)})
        memory = {path: _memory(value) for path, value in given}
        promised = _promised(there.step, state, inputs) if number == 0 else set()
        with _lowerings() as lowered:
            state, loss = there.step(state, *inputs)
            jax.block_until_ready((state, loss))  # type: ignore[no-untyped-call]
        if number == 0:
            gone = {path for path, value in given if getattr(value, "is_deleted", bool)()}
            donated = bool(promised | gone)
            taken = {each for _, value in arrays_of(state) for each in _memory(value)}
            vain = promised - gone
            vain |= {path for path in gone if not taken & memory[path]}
            types = {arguments[path].type for path in vain}  # XLA chooses which of one type
            after = sights_of({"state": state})
            unused = tuple(
                (path, arguments[path])
                for path, _ in given
                if path in promised | gone
                and arguments[path].type in types
                and not _fits(path, arguments[path], after)
            )
        elif lowered:
            recompiled.append((number, _changes(before, arguments)))
        before = arguments
        losses.append(float(jnp.asarray(loss)))
    return Run(
        dict(there.mesh.shape),
        start,
        first,
        sights_of(state),
        tuple(losses),
        {path: np.asarray(value) for path, value in arrays_of(state) if _floating(value)},
        tuple(recompiled),
        unused,
        donated,
    )


def abstract_with_places(tree: Any) -> Any:
    """A tree with shape, dtype and sharding in the place of each array."""
    return jax.tree_util.tree_map(
        lambda value: STRUCT(
            jax.typeof(value).shape,
            jax.typeof(value).dtype,
            sharding=getattr(value, "sharding", None),
        ),
        tree,
    )


def _floating(value: Any) -> bool:
    return bool(jnp.issubdtype(jax.typeof(value).dtype, jnp.floating))


def _disturbed(value: Any) -> Any:
    """An array whose numbers have a rounding error, with signs that alternate."""
    if not _floating(value):
        return value
    signs = np.where(np.arange(value.size) % 2, 1.0, -1.0).reshape(value.shape)
    changed = np.asarray(value, "float32") * (1 + ROUNDING * signs)
    return jax.device_put(changed.astype(value.dtype), value.sharding)


def _changes(before: Mapping[str, Sight], after: Mapping[str, Sight]) -> tuple[str, ...]:
    told = [
        f"{path}: {', '.join(changes)}"
        for path, sight in after.items()
        if path in before and (changes := before[path].differences(sight))
    ]
    told += [f"{path}: it is new" for path in after if path not in before]
    return (*told, *(f"{path}: it is gone" for path in before if path not in after))


def _memory(value: Any) -> frozenset[int]:
    """Where the parts of an array are in memory."""
    shards = getattr(value, "addressable_shards", ())
    if jnp.issubdtype(jax.typeof(value).dtype, jax.dtypes.prng_key):
        return frozenset()
    return frozenset(shard.data.unsafe_buffer_pointer() for shard in shards)


def _promised(step: Any, state: Any, inputs: Any) -> set[str]:
    """The paths of the arguments that a step is told to donate, where it says so."""
    if not hasattr(step, "trace"):
        return set()
    (first, *others), _ = step.trace(state, *inputs).args_info
    told = arrays_of({"state": first, "input": others})
    return {path for path, info in told if info.donated}


def _fits(path: str, sight: Sight, after: Mapping[str, Sight]) -> bool:
    """Whether an output can take the memory of an array; for the state, the one at its path."""
    own = after.get(path)
    candidates = [own] if path.startswith("state") else list(after.values())
    return any(
        each is not None and each.type == sight.type and same_place(each, sight)
        for each in candidates
    )


@contextlib.contextmanager
def _lowerings() -> Iterator[list[str]]:
    """One entry for each program that JAX lowers inside."""
    seen: list[str] = []

    def listen(event: str, duration_secs: float, **details: str | int) -> None:
        if event == _LOWERED:
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)

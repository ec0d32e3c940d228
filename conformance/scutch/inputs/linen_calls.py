"""Lifted Linen modules, and JAX's own transformation of `apply` of the module that is lifted.

A `LinenCall` is a stack of layers (see `models`), the lifts around it, the outermost first, and how
it is applied:

    LinenCall((Layer('Dense'),), (LinenLift('vmap', {'params': 0}, x=None),))

is `vmap(Stack, variable_axes={"params": 0}, in_axes=None)(...).apply(variables, x)`. The oracle is
`jax.vmap` of `lambda variables, x: Stack(...).apply(variables, x)`, by an axis for each collection.
The variables are the judge's own; the lifted module has those of the layers, with an axis more for
each lift that slices their collection.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scutch.inputs import models
from scutch.inputs.boxes import PARTITION_NAME
from scutch.inputs.described_models import Layer, Model
from scutch.inputs.descriptions import Builder, Description
from scutch.inputs.transformations import CARRIED, moved
from scutch.lawkit.domain import assume

LANES = 2
"""How often a lift runs its module."""

COLLECTIONS = ("params", "batch_stats", "counts")
"""The collections that layers may have."""

SPELLINGS = ("each", "grouped", "rest", "deny")
"""How filters of collections are written: by name; as tuples of those with the same axis; the
parameters by name and the others by `True`; the others by a deny list of the parameters."""


@dataclass(frozen=True, repr=False)
class LinenLift(Description):
    """One lift of a module.

    Args:
      kind: `vmap`, `scan`, `jit` or `remat`.
      axes: By collection: an axis, `CARRIED`, or `None` for one that all lanes or steps share.
      x: The axis of the input of `vmap`.
      out: The axis of its output.
      spelled: One of `SPELLINGS`.
      options: Further ones.
      name: The partition name of the axis.
    """

    kind: str
    axes: Mapping[str, Any] = field(default_factory=dict)
    x: Any = 0
    out: Any = 0
    spelled: str = "each"
    options: Mapping[str, Any] = field(default_factory=dict)
    name: Any = "layers"

    def build(self, world: Builder) -> "LinenLift":
        """The lift, which needs no implementation yet."""
        return self


@dataclass(frozen=True, repr=False)
class LinenCall(Description):
    """A lifted stack of layers, and how it is applied.

    Args:
      layers: The layers of the stack.
      under: The lifts, the outermost first.
      train: Whether batches are normalized by themselves, entries dropped, and calls counted.
      method: The method that is lifted and applied.
      mutable: The collections that `apply` may change.
    """

    layers: tuple[Layer, ...]
    under: tuple[LinenLift, ...]
    train: bool = False
    method: str = "__call__"
    mutable: Any = False

    def build(self, world: Builder) -> "BuiltLinenCall":
        """The call over an implementation."""
        return BuiltLinenCall(self, Model(self.layers).build(world))


@dataclass(frozen=True)
class BuiltLinenCall:
    """A described call over an implementation.

    Args:
      described: The description.
      instance: Its layers over the implementation, without lifts.
    """

    described: LinenCall
    instance: models.Instance

    @property
    def linen(self) -> Any:
        """The namespace of modules."""
        return self.instance.linen

    @property
    def loops(self) -> bool:
        """Whether one of the lifts is a loop, which takes a carry and gives a pair."""
        return any(lift.kind == "scan" for lift in self.described.under)

    def plain(self) -> Any:
        """The module without lifts."""
        return self._made(self._class())

    def lifted(self) -> Any:
        """The module under its lifts."""
        kind = self._class()
        for lift in reversed(self.described.under):
            kind = self._lift(kind, lift)
        return self._made(kind)

    def _made(self, kind: Any) -> Any:
        return kind(self.described.layers, self.instance.described.width, self.described.train)

    def _class(self) -> Any:
        return models.classes(self.linen, self.instance.meta)["ScanBody" if self.loops else "Stack"]

    def _lift(self, kind: Any, lift: LinenLift) -> Any:
        method = {} if self.described.method == "__call__" else {"methods": [self.described.method]}
        options = {**lift.options, **method}
        if lift.kind in ("jit", "remat"):
            return getattr(self.linen, lift.kind)(kind, **options)
        options |= {"metadata_params": {PARTITION_NAME: lift.name}}
        options |= {"split_rngs": {"params": True, "dropout": False}}
        sliced = {c: a for c, a in lift.axes.items() if isinstance(a, int)}
        shared = [c for c, a in lift.axes.items() if a is None]
        if lift.kind == "scan":
            options |= {"variable_axes": self._spelled(lift, sliced), "length": LANES}
            options |= {"variable_broadcast": shared} if shared else {}
            carried = [c for c, a in lift.axes.items() if a == CARRIED]
            options |= {"variable_carry": carried} if carried else {}
            return self.linen.scan(kind, **options)
        options |= {"in_axes": lift.x, "out_axes": lift.out, "axis_size": LANES}
        axes = self._spelled(lift, dict(lift.axes))
        return self.linen.vmap(kind, variable_axes=axes, **options)

    def _spelled(self, lift: LinenLift, axes: dict[str, Any]) -> dict[Any, Any]:
        """Axes by filters of collections."""
        params, others = axes.get("params"), {c: a for c, a in axes.items() if c != "params"}
        alike = len(set(map(str, others.values()))) == 1
        complete = len(axes) == len(lift.axes) and alike
        match lift.spelled:
            case "grouped":
                groups = {a: tuple(c for c in axes if axes[c] == a) for a in axes.values()}
                return {names: axis for axis, names in groups.items()}
            case "rest" if complete:
                return {"params": params, True: next(iter(others.values()))}
            case "deny" if complete:
                return {
                    self.linen.DenyList("params"): next(iter(others.values())),
                    "params": params,
                }
        return axes

    # ---------------------------------------------------------------- inputs

    def variables(self) -> dict[str, Any]:
        """Unboxed variables for the lifted module; each lane has other ones."""

        def stacked(level: int, seed: int) -> Any:
            if level == len(self.described.under):
                return self.instance.variables(seed, boxed=False)
            lift = self.described.under[level]
            if lift.kind in ("jit", "remat"):
                return stacked(level + 1, seed)
            lanes = [stacked(level + 1, seed * LANES + lane) for lane in range(LANES)]
            return {c: self._stack(lift, c, [lane[c] for lane in lanes]) for c in lanes[0]}

        found: dict[str, Any] = stacked(0, 1)
        return found

    def _stack(self, lift: LinenLift, collection: str, lanes: list[Any]) -> Any:
        axis = lift.axes[collection]
        if not isinstance(axis, int):
            return lanes[0]
        for leaf in jax.tree.leaves(lanes[0]):
            assume(-leaf.ndim - 1 <= axis <= leaf.ndim)
        return jax.tree.map(lambda *leaves: np.stack(leaves, axis), *lanes)

    def x(self) -> Any:
        """The input of the lifted module."""
        x = self.instance.x
        for lift in reversed(self.described.under):
            if lift.kind == "vmap" and lift.x is not None:
                x = np.stack([x, 2 * x], lift.x)
        return x

    # ---------------------------------------------------------------- the two routes

    def apply(self, module: Any) -> Callable[..., Any]:
        """`(variables, x) -> (output, updates)`, by `apply` of a module."""
        further = (None,) if self.loops else ()
        mutable, method = self.described.mutable, self.described.method
        options = {} if method == "__call__" else {"method": method}

        def applied(variables: Any, x: Any) -> Any:
            keys = {"dropout": jax.random.key(3), "params": jax.random.key(4)}
            found = module.apply(variables, x, *further, rngs=keys, mutable=mutable, **options)
            output, updates = found if mutable is not False else (found, {})
            return (output[0] if self.loops else output), _as_dicts(updates)

        return applied

    def by_lift(self) -> Callable[..., Any]:
        """`apply` of the lifted module."""
        return self.apply(self.lifted())

    def by_jax(self) -> Callable[..., Any]:
        """JAX's own transformations of `apply` of the module without lifts."""
        function = self.apply(self.plain())
        for lift in reversed(self.described.under):
            function = ORACLES[lift.kind](self, lift, function)
        return function


def _as_dicts(tree: Any) -> Any:
    """Mappings as dictionaries."""
    if isinstance(tree, Mapping):
        return {key: _as_dicts(value) for key, value in tree.items()}
    return tree


def _vmap_oracle(call: BuiltLinenCall, lift: LinenLift, function: Any) -> Any:
    def mapped(variables: Any, x: Any) -> Any:
        axes = {collection: lift.axes[collection] for collection in variables}
        updated = jax.eval_shape(
            lambda v, each: function(v, each)[1], *_lane(lift, axes, variables, x)
        )
        out_axes = lift.out, {collection: lift.axes[collection] for collection in updated}
        return jax.vmap(function, (axes, lift.x), out_axes, axis_size=LANES)(variables, x)

    return mapped


def _lane(lift: LinenLift, axes: Mapping[str, Any], variables: Any, x: Any) -> tuple[Any, Any]:
    """The variables and the input of the first lane."""

    def first(tree: Any, axis: Any) -> Any:
        return tree if axis is None else jax.tree.map(lambda leaf: jnp.take(leaf, 0, axis), tree)

    return {c: first(tree, axes[c]) for c, tree in variables.items()}, first(x, lift.x)


def _scan_oracle(call: BuiltLinenCall, lift: LinenLift, function: Any) -> Any:
    def loop(variables: Any, x: Any) -> Any:
        axes = lift.axes
        sliced = {
            c: moved(tree, axes[c], 0) for c, tree in variables.items() if isinstance(axes[c], int)
        }
        shared = {c: tree for c, tree in variables.items() if axes[c] is None}
        carried = {c: tree for c, tree in variables.items() if axes[c] == CARRIED}

        def step(carry: Any, slices: Any) -> Any:
            held, x = carry
            output, updates = function({**shared, **held, **slices}, x)
            after = {c: updates.get(c, held[c]) for c in held}
            return (after, output), {c: u for c, u in updates.items() if c in slices}

        reverse = lift.options.get("reverse", False)
        (held, x), stacked = jax.lax.scan(step, (carried, x), sliced, LANES, reverse)
        updates = {c: moved(tree, 0, axes[c]) for c, tree in stacked.items()}
        mutable = call.described.mutable
        updates |= shared if mutable is True else {}
        updates |= {c: tree for c, tree in held.items() if mutable is True or c in (mutable or ())}
        return x, updates

    return loop


ORACLES: Mapping[str, Callable[..., Any]] = {
    "vmap": _vmap_oracle,
    "scan": _scan_oracle,
    "jit": lambda call, lift, function: jax.jit(function),
    "remat": lambda call, lift, function: jax.checkpoint(function),
}
"""JAX's own transformation of a function `(variables, x) -> (output, updates)`."""

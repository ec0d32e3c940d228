"""Lifted Linen modules, and how they are applied.

A `LinenCall` is a stack of layers (see `models`), the lifts around it, the outermost first, and how
it is applied:

    LinenCall((Layer('Dense'),), (LinenLift('vmap', {'params': 0}, x=None),))

is `vmap(Stack, variable_axes={"params": 0}, in_axes=None)(...).apply(variables, x)`. The oracle is
JAX's own transformation of `apply` of the stack, as a *pure* function of the values of its
variables, by an axis for each collection. The variables are the judge's own; the lifted module has
those of the layers, with an axis more for each lift that slices their collection.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from scutch.engine.carriers.arrays import LANES
from scutch.inputs import models
from scutch.inputs.boxes import PARTITION_NAME
from scutch.inputs.described_models import Layer, Model
from scutch.inputs.descriptions import Builder, Description
from scutch.lawkit.domain import assume

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

    # ---------------------------------------------------------------- modules

    @property
    def stack(self) -> Any:
        """The class of the module without lifts."""
        return models.classes(self.linen, self.instance.meta)["ScanBody" if self.loops else "Stack"]

    def made(self, kind: Any) -> Any:
        """A module of a class, lifted or not."""
        return kind(self.described.layers, self.instance.described.width, self.described.train)

    @property
    def methods(self) -> dict[str, Any]:
        """The option of every lift that names the method, unless it is the call."""
        method = self.described.method
        return {} if method == "__call__" else {"methods": [method]}

    def along(self, lift: LinenLift) -> dict[str, Any]:
        """The options of a lift along an axis, beside the axes."""
        named = {"metadata_params": {PARTITION_NAME: lift.name}}
        split = {"split_rngs": {"params": True, "dropout": False}}
        return {**lift.options, **self.methods, **named, **split}

    def spelled(self, lift: LinenLift, axes: dict[str, Any]) -> dict[Any, Any]:
        """Axes by filters of collections, in the spelling of a lift.

        Args:
          lift: The lift.
          axes: Its axes by collection, or some of them.
        """
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

    def variables(self, level: int = 0, seed: int = 1) -> Any:
        """Unboxed variables for the lifted module; each lane has other ones.

        Args:
          level: How many lifts, from the outermost, are left out.
          seed: Of the values.
        """
        if level == len(self.described.under):
            return self.instance.variables(seed, boxed=False)
        lift = self.described.under[level]
        if not lift.axes:
            return self.variables(level + 1, seed)
        lanes = [self.variables(level + 1, seed * LANES + lane) for lane in range(LANES)]
        return {c: self._stack(lift, c, [lane[c] for lane in lanes]) for c in lanes[0]}

    @functools.cached_property
    def _unlifted(self) -> Any:
        """Variables for the module without lifts."""
        return self.variables(len(self.described.under))

    def _stack(self, lift: LinenLift, collection: str, lanes: list[Any]) -> Any:
        axis = lift.axes[collection]
        if not isinstance(axis, int):
            return lanes[0]
        for leaf in jax.tree.leaves(lanes[0]):
            assume(-leaf.ndim - 1 <= axis <= leaf.ndim)
        return jax.tree.map(lambda *leaves: np.stack(leaves, axis), *lanes)

    def axes(self, lift: LinenLift) -> list[Any]:
        """The axis that a lift gives each variable, in the order of the leaves of `variables`."""
        unlifted = self._unlifted
        return [lift.axes[c] for c in sorted(unlifted) for _ in jax.tree.leaves(unlifted[c])]

    def x(self) -> Any:
        """The input of the lifted module."""
        x = self.instance.x
        for lift in reversed(self.described.under):
            if lift.kind == "vmap" and lift.x is not None:
                x = np.stack([x, 2 * x], lift.x)
        return x

    # ---------------------------------------------------------------- the function

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

    def pure(self, values: list[Any], x: Any) -> tuple[list[Any], Any]:
        """`apply` of the module without lifts, as a pure function of the values of variables.

        Args:
          values: In the order of the leaves of `variables`.
          x: The input.

        Returns:
          The values afterwards, and the output.
        """
        variables = jax.tree.unflatten(jax.tree.structure(self._unlifted), values)
        output, updates = self.apply(self.made(self.stack))(variables, x)
        after = jax.tree.map(lambda old, new: new, variables, {**variables, **updates})
        return jax.tree.leaves(after), output

    def changed(self, variables: Any) -> dict[str, Any]:
        """Those of the variables that `apply` may change."""
        mutable = self.described.mutable
        names = variables if mutable is True else mutable or ()
        return {name: variables[name] for name in names if name in variables}


def _as_dicts(tree: Any) -> Any:
    """Mappings as dictionaries."""
    if isinstance(tree, Mapping):
        return {key: _as_dicts(value) for key, value in tree.items()}
    return tree

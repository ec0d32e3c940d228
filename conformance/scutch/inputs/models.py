"""Linen models made from descriptions, as a user would write them over an implementation.

A described model is a stack of layers. Each takes a batch of rows and gives one as wide, so that
any of them can be put in any order, repeated by `scan`, or mapped by `vmap`:

    Model((Layer('Dense', 'Partitioned', (None, 'data')), Lift('scan', (Layer('Scale'),), 3)))

`scutch.inputs.model_variables` lists the variables that such a model has, and
`scutch.inputs.evaluation` computes its output in plain JAX; neither uses an implementation.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scutch.inputs import boxes, evaluation, model_variables
from scutch.inputs.boxes import PARTITION_NAME

LIFTS = ("scan", "vmap")
FORMS: Mapping[str, str] = MappingProxyType(
    {"compact": "Stack", "named": "Named", "setup": "SetUp"}
)
"""How a stack of layers is written: its parts are named by class and count, or `layer_0`, ..."""


@dataclass(frozen=True)
class Instance:
    """A described model over one implementation.

    Args:
      described: The description.
      meta: The namespace of boxes.
      linen: The namespace of modules.
      x: A batch.
    """

    described: Any
    meta: Any
    linen: Any
    x: np.ndarray

    def module(self, *, train: bool = False, form: str | None = None) -> Any:
        """The model as a module.

        Args:
          train: Whether batches are normalized by themselves, entries dropped, and calls counted.
          form: One of `FORMS`; the described one where left out.
        """
        kind = classes(self.linen, self.meta)[FORMS[form or self.described.form]]
        return kind(self.described.layers, self.described.width, train)

    def variables(self, seed: int = 0, *, boxed: bool = True) -> dict[str, Any]:
        """Variables with contents of our own, in the boxes that the description says."""
        found = self.slots().items()
        if not boxed:
            return model_variables.tree({path: slot.value(path, seed) for path, slot in found})
        return model_variables.tree(
            {path: self._box(slot, slot.value(path, seed)) for path, slot in found}
        )

    def abstract(self) -> dict[str, Any]:
        """The same with abstract values."""
        return model_variables.tree(
            {path: self._box(slot, slot.abstract()) for path, slot in self.slots().items()}
        )

    def _box(self, slot: model_variables.Slot, value: Any) -> Any:
        return boxed(self.linen, self.meta, slot.box, value, slot.names)

    def slots(self) -> Mapping[tuple[str, ...], model_variables.Slot]:
        """What variables the model has, by their paths."""
        return model_variables.slots(self.described)

    def initialized(self, seed: int = 0, *, train: bool = False) -> Any:
        """What `init` gives for the keys of a seed."""
        return self.module(train=train).init(keys(seed), self.x)

    def evaluated(
        self, variables: Any, x: Any, *, train: bool = False
    ) -> tuple[jax.Array, dict[str, Any]]:
        """What the model computes of unboxed variables, without the implementation."""
        return evaluation.evaluate(self.described, variables, x, train=train)

    def over(self, implementation: Any) -> "Instance":
        """The same model over another implementation."""
        return replace(self, meta=implementation.meta, linen=implementation.linen)


def keys(seed: int = 0) -> dict[str, jax.Array]:
    """A key for each stream that a model may draw from."""
    return dict(zip(("params", "dropout"), jax.random.split(jax.random.key(seed)), strict=True))


def boxed(linen: Any, meta: Any, kind: str, value: Any, names: tuple[Any, ...]) -> Any:
    """Box a value, in a class of the implementation or of `scutch.inputs.boxes`."""
    match kind:
        case "":
            return value
        case "Partitioned" | "LogicallyPartitioned":
            return getattr(linen, kind)(value, names)
    return boxes.foreign(meta.AxisMetadata)[kind](value, names)


def annotated(linen: Any, meta: Any, layer: Any, init: Callable[..., Any]) -> Callable[..., Any]:
    """An initializer that puts what it makes in the box of a layer."""
    match layer.box:
        case "":
            return init
        case "Partitioned":
            wrap: Callable[..., Callable[..., Any]] = linen.with_partitioning
            return wrap(init, layer.names)
        case "LogicallyPartitioned":
            wrap = linen.with_logical_partitioning
            return wrap(init, layer.names)
    kind = boxes.foreign(meta.AxisMetadata)[layer.box]
    return lambda *args, **kwargs: kind(init(*args, **kwargs), layer.names)


@functools.lru_cache(maxsize=64)
def classes(linen: Any, meta: Any) -> Mapping[str, type]:
    """The classes of modules over one implementation, by name."""
    compact: Callable[..., Any] = linen.compact
    draws = linen.initializers.normal(1.0)

    class Scale(linen.Module):  # type: ignore[misc]
        """A parameter of its own for each column."""

        start: Callable[..., Any]

        @compact
        def __call__(self, x: Any) -> Any:
            return x * self.param("scale", self.start, x.shape[-1:])

    class Mix(linen.Module):  # type: ignore[misc]
        """The second matrix of the guide's layer."""

        start: Callable[..., Any]

        @compact
        def __call__(self, x: Any) -> Any:
            mix = self.param("mix", self.start, (x.shape[-1], x.shape[-1]))
            return jnp.tanh(jnp.dot(x, mix))

    class Shift(linen.Module):  # type: ignore[misc]
        """A parameter without axes."""

        start: Callable[..., Any]

        @compact
        def __call__(self, x: Any) -> Any:
            return x + self.param("shift", self.start, ())

    class Place(linen.Module):  # type: ignore[misc]
        """An embedding of the number of the row."""

        start: Callable[..., Any]

        @compact
        def __call__(self, x: Any) -> Any:
            rows = linen.Embed(model_variables.ROWS, x.shape[-1], embedding_init=self.start)
            return x + rows(jnp.arange(x.shape[0]) % model_variables.ROWS)

    class Counter(linen.Module):  # type: ignore[misc]
        """Counts its calls, and adds the count."""

        start: Callable[..., Any]
        train: bool

        @compact
        def __call__(self, x: Any) -> Any:
            calls = self.variable("counts", "calls", self.start, None, (), jnp.float32)
            if self.train and not self.is_initializing():
                calls.value = calls.value + 1
            return x + calls.value

    class Sow(linen.Module):  # type: ignore[misc]
        """Sows what passes."""

        @compact
        def __call__(self, x: Any) -> Any:
            self.sow("intermediates", "seen", x)
            return x

    def part(layer: Any, width: int, train: bool, **name: str) -> Any:
        """The module of a layer."""
        if layer.kind in LIFTS:
            return Lift(layer, width, train, **name)
        init = annotated(linen, meta, layer, draws)
        match layer.kind:
            case "Dense":
                return linen.Dense(width, kernel_init=init, **name)
            case "LayerNorm":
                return linen.LayerNorm(evaluation.EPSILON, scale_init=init, **name)
            case "BatchNorm":
                numbers = {"momentum": evaluation.MOMENTUM, "epsilon": evaluation.EPSILON}
                return linen.BatchNorm(not train, **numbers, scale_init=init, **name)
            case "Dropout":
                return linen.Dropout(0.5, deterministic=not train, **name)
            case "Counter":
                zeros = annotated(linen, meta, layer, linen.initializers.zeros)
                return Counter(zeros, train, **name)
            case "Sow":
                return Sow(**name)
        return {"Scale": Scale, "Mix": Mix, "Shift": Shift, "Place": Place}[layer.kind](
            init, **name
        )

    class Stack(linen.Module):  # type: ignore[misc]
        """Layers, one after the other, named by class and count."""

        layers: tuple[Any, ...]
        width: int
        train: bool

        @compact
        def __call__(self, x: Any) -> Any:
            for layer in self.layers:
                x = part(layer, self.width, self.train)(x)
            return x

        def doubled(self, x: Any) -> Any:
            """Twice what the call gives."""
            return 2 * self(x)

    class Named(Stack):
        """The same with names that say the place."""

        @compact
        def __call__(self, x: Any) -> Any:
            for place, layer in enumerate(self.layers):
                x = part(layer, self.width, self.train, name=f"layer_{place}")(x)
            return x

    class SetUp(Stack):
        """The same with its parts made beforehand."""

        def setup(self) -> None:
            for place, layer in enumerate(self.layers):
                setattr(self, f"layer_{place}", part(layer, self.width, self.train))

        def __call__(self, x: Any) -> Any:
            for place in range(len(self.layers)):
                x = getattr(self, f"layer_{place}")(x)
            return x

    class Turn(Stack):
        """One turn of a loop over layers: what `scan` takes."""

        @compact
        def __call__(self, x: Any, _: Any) -> Any:
            for layer in self.layers:
                x = part(layer, self.width, self.train)(x)
            return x, None

    class Lift(linen.Module):  # type: ignore[misc]
        """Layers that are repeated, or mapped over lanes whose mean is taken."""

        lift: Any
        width: int
        train: bool

        @compact
        def __call__(self, x: Any) -> Any:
            fields = self.lift.layers, self.width, self.train
            options = lift_options(self.lift)
            if self.lift.kind == "scan":
                loop = linen.scan(Turn, length=self.lift.length, **options)
                return loop(*fields, name="lifted")(x, None)[0]
            lanes = linen.vmap(Stack, in_axes=None, axis_size=self.lift.length, **options)
            return lanes(*fields, name="lifted")(x).mean(0)

    found = (Scale, Mix, Shift, Place, Counter, Sow, Stack, Named, SetUp, Turn, Lift)
    return MappingProxyType({kind.__name__: kind for kind in found})


def lift_options(lift: Any) -> dict[str, Any]:
    """The options of `scan` and `vmap` that a described lift stands for."""
    return {
        "variable_axes": {"params": lift.axis, **dict.fromkeys(model_variables.STACKED, 0)},
        "split_rngs": {"params": lift.split, "dropout": lift.split},
        "metadata_params": {PARTITION_NAME: lift.name} if lift.named else {},
    }

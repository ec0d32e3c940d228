"""Linen models made from descriptions, as a user would write them over an implementation.

A described model is a stack of layers. Each takes a batch of rows and gives one as wide, so that
layers can stand in any order. A *lift* repeats layers by `scan`, or maps copies of them by `vmap`
and takes the mean:

    Model((Layer('Dense', 'Partitioned', (None, 'data')), Lift('scan', (Layer('Scale'),), 3)))

To build such a description gives an `Instance`: the model over one implementation, with a batch.
`scutch.inputs.model_variables` lists the variables that the model declares, and
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
from scutch.inputs.keys import small_key

LIFTS = ("scan", "vmap")
"""The transformations by which layers are lifted."""
FORMS: Mapping[str, str] = MappingProxyType(
    {"compact": "Stack", "named": "Named", "setup": "SetUp"}
)
"""How a stack of layers is written, with the class that writes it so: in the compact form, with
modules named by class and count; in the compact form, with modules named `layer_0`, `layer_1`, ...;
or by `setup`, with the same names."""


@dataclass(frozen=True)
class Instance:
    """A described model over one implementation, with a batch of inputs.

    Args:
      described: The description, a `Model`.
      meta: The implementation's namespace of boxes.
      linen: The implementation's namespace of modules.
      x: The batch, of shape `(described.batch, described.width)` and dtype `float32`.
    """

    described: Any
    meta: Any
    linen: Any
    x: np.ndarray

    def module(self, *, train: bool = False, form: str | None = None) -> Any:
        """The model as a module of the implementation.

        Args:
          train: Whether batch normalization uses the batch, dropout drops, and counters count.
          form: One of `FORMS`; where left out, the form of the description.
        """
        kind = classes(self.linen, self.meta)[FORMS[form or self.described.form]]
        return kind(self.described.layers, self.described.width, train)

    def variables(self, seed: int = 0, *, boxed: bool = True) -> dict[str, Any]:
        """Collections of variables with contents of our own, as `apply` takes them.

        Args:
          seed: Another seed gives other contents.
          boxed: Whether variables are in the boxes that the description says, or bare.
        """
        return self._filled(lambda path, declared: declared.value(path, seed), boxed)

    def abstract(self) -> dict[str, Any]:
        """The variables with abstract values, in the boxes that the description says."""
        return self._filled(lambda _, declared: declared.abstract(), boxed=True)

    def _filled(self, content: Callable[..., Any], boxed: bool) -> dict[str, Any]:
        """The variables with the `content(path, declared)` of each, boxed or bare."""
        filled = {
            path: box(
                self.linen,
                self.meta,
                declared.box if boxed else "",
                content(path, declared),
                declared.names,
            )
            for path, declared in self.declared_variables().items()
        }
        return model_variables.tree(filled)

    def declared_variables(self) -> dict[model_variables.Path, model_variables.DeclaredVariable]:
        """The variables that the model declares, by their paths."""
        return model_variables.declared_variables(self.described)

    def initialized(self, seed: int = 0, *, train: bool = False) -> Any:
        """The variables that `init` of the implementation makes.

        Args:
          seed: The seed of the `keys` that `init` is given.
          train: As for `module`.
        """
        return self.module(train=train).init(keys(seed), self.x)

    def evaluated(
        self, variables: Any, x: Any, *, train: bool = False
    ) -> tuple[jax.Array, dict[str, Any]]:
        """The output of the model and the variables that it changes, in plain JAX.

        Args:
          variables: Collections of unboxed arrays, at the paths of `declared_variables`.
          x: A batch, of shape `(described.batch, described.width)` and dtype `float32`.
          train: As for `module`; in training, the model has no dropout.

        Returns:
          The output, of the shape of `x`, and the changed collections; see `evaluation.evaluate`.
        """
        return evaluation.evaluate(self.described, variables, x, train=train)

    def over(self, implementation: Any) -> "Instance":
        """The same model and batch over another `Implementation`."""
        return replace(self, meta=implementation.meta, linen=implementation.linen)


def keys(seed: int = 0) -> dict[str, jax.Array]:
    """A key for each stream that a model may draw from: `params` and `dropout`."""
    return dict(zip(("params", "dropout"), jax.random.split(small_key(seed)), strict=True))


def box(linen: Any, meta: Any, kind: str, value: Any, names: tuple[Any, ...]) -> Any:
    """A value in a box of some class.

    Args:
      linen: The implementation's namespace of modules.
      meta: The implementation's namespace of boxes.
      kind: `Partitioned` or `LogicallyPartitioned`, for the implementation's own classes; a class
        of `boxes.foreign`; or empty, for no box.
      value: The value to box: an array or an abstract value.
      names: One for each axis of the value.

    Returns:
      The box around `value`, or `value` itself where `kind` is empty.
    """
    match kind:
        case "":
            return value
        case "Partitioned" | "LogicallyPartitioned":
            return getattr(linen, kind)(value, names)
    return boxes.foreign(meta.AxisMetadata)[kind](value, names)


def annotated(linen: Any, meta: Any, layer: Any, init: Callable[..., Any]) -> Callable[..., Any]:
    """An initializer that returns its value in the box of a layer.

    Args:
      linen: The implementation's namespace of modules.
      meta: The implementation's namespace of boxes.
      layer: A `Layer`, whose box may be empty.
      init: The initializer of the bare value.

    Returns:
      An initializer with the arguments of `init`, which returns the result of `init` in a box;
      `init` itself where the layer has no box.
    """
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


def _layers(linen: Any) -> dict[str, type]:
    """The classes of modules of one layer, by name."""
    compact: Callable[..., Any] = linen.compact

    class Scale(linen.Module):  # type: ignore[misc]
        """Multiplies each column by a parameter."""

        start: Callable[..., Any]

        @compact
        def __call__(self, x: Any) -> Any:
            return x * self.param("scale", self.start, x.shape[-1:])

    class Mix(linen.Module):  # type: ignore[misc]
        """Multiplies by a matrix and takes the hyperbolic tangent."""

        start: Callable[..., Any]

        @compact
        def __call__(self, x: Any) -> Any:
            mix = self.param("mix", self.start, (x.shape[-1], x.shape[-1]))
            return jnp.tanh(jnp.dot(x, mix))

    class Shift(linen.Module):  # type: ignore[misc]
        """Adds a parameter without axes."""

        start: Callable[..., Any]

        @compact
        def __call__(self, x: Any) -> Any:
            return x + self.param("shift", self.start, ())

    class Place(linen.Module):  # type: ignore[misc]
        """Adds to each row an embedding of its number, by a module of its own."""

        start: Callable[..., Any]

        @compact
        def __call__(self, x: Any) -> Any:
            rows = linen.Embed(model_variables.ROWS, x.shape[-1], embedding_init=self.start)
            return x + rows(jnp.arange(x.shape[0]) % model_variables.ROWS)

    class Counter(linen.Module):  # type: ignore[misc]
        """Adds a count, which each call in training makes one larger."""

        start: Callable[..., Any]
        train: bool

        @compact
        def __call__(self, x: Any) -> Any:
            calls = self.variable("counts", "calls", self.start, None, (), jnp.float32)
            if self.train and not self.is_initializing():
                calls.value = calls.value + 1
            return x + calls.value

    class Sow(linen.Module):  # type: ignore[misc]
        """Sows its input, and returns it."""

        @compact
        def __call__(self, x: Any) -> Any:
            self.sow("intermediates", "seen", x)
            return x

    return {kind.__name__: kind for kind in (Scale, Mix, Shift, Place, Counter, Sow)}


def _part(
    linen: Any, meta: Any, own: Mapping[str, Any], layer: Any, width: int, train: bool, **name: str
) -> Any:
    """The module of a `Layer` or a `Lift`, named by `name` or by class and count."""
    if layer.kind in LIFTS:
        return own["Lift"](layer, width, train, **name)
    init = annotated(linen, meta, layer, linen.initializers.normal(1.0))
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
            return own["Counter"](zeros, train, **name)
        case "Sow":
            return own["Sow"](**name)
    return own[layer.kind](init, **name)


def _lifts(linen: Any, repeated: Any, mapped: Any) -> type:
    """The class of modules that repeat a stack of layers, or map over copies of it."""

    class Lift(linen.Module):  # type: ignore[misc]
        """Layers that `scan` repeats, or copies of them that `vmap` maps, whose mean is taken."""

        lift: Any
        width: int
        train: bool

        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            fields = self.lift.layers, self.width, self.train
            options = lift_options(self.lift)
            if self.lift.kind == "scan":
                loop = linen.scan(repeated, length=self.lift.length, **options)
                return loop(*fields, name="lifted")(x, None)[0]
            copies = linen.vmap(mapped, in_axes=None, axis_size=self.lift.length, **options)
            return copies(*fields, name="lifted")(x).mean(0)

    return Lift


@functools.lru_cache(maxsize=64)
def classes(linen: Any, meta: Any) -> Mapping[str, type]:
    """The classes of modules that models are made of, by name.

    They are written over one implementation, and made once for it.

    Args:
      linen: The implementation's namespace of modules.
      meta: The implementation's namespace of boxes.
    """
    compact: Callable[..., Any] = linen.compact
    found: dict[str, type] = _layers(linen)
    part = functools.partial(_part, linen, meta, found)

    class Stack(linen.Module):  # type: ignore[misc]
        """Layers, one after the other, in the compact form, named by class and count."""

        layers: tuple[Any, ...]
        width: int
        train: bool

        @compact
        def __call__(self, x: Any) -> Any:
            for layer in self.layers:
                x = part(layer, self.width, self.train)(x)
            return x

        def doubled(self, x: Any) -> Any:
            """Twice the output: a method to call in the place of `__call__`."""
            return 2 * self(x)

    class Named(Stack):
        """The same layers, named by position."""

        @compact
        def __call__(self, x: Any) -> Any:
            for position, layer in enumerate(self.layers):
                x = part(layer, self.width, self.train, name=f"layer_{position}")(x)
            return x

    class SetUp(Stack):
        """The same layers, made by `setup` and named by position."""

        def setup(self) -> None:
            for position, layer in enumerate(self.layers):
                setattr(self, f"layer_{position}", part(layer, self.width, self.train))

        def __call__(self, x: Any) -> Any:
            for position in range(len(self.layers)):
                x = getattr(self, f"layer_{position}")(x)
            return x

    class ScanBody(Stack):
        """The same layers as a body for `scan`, with a carry and no output."""

        @compact
        def __call__(self, x: Any, _: Any) -> Any:
            for layer in self.layers:
                x = part(layer, self.width, self.train)(x)
            return x, None

    Lift = _lifts(linen, ScanBody, Stack)
    found |= {kind.__name__: kind for kind in (Stack, Named, SetUp, ScanBody, Lift)}
    return MappingProxyType(found)


def lift_options(lift: Any) -> dict[str, Any]:
    """The options of `linen.scan` and `linen.vmap` that a `Lift` describes."""
    return {
        "variable_axes": {"params": lift.axis, **dict.fromkeys(model_variables.STACKED, 0)},
        "split_rngs": {"params": lift.split, "dropout": lift.split},
        "metadata_params": {PARTITION_NAME: lift.name} if lift.named else {},
    }

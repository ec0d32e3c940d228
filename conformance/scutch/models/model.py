"""The description of a training set-up, which its owner writes once.

    setup = scutch.Model(
        lambda: Decoder(),
        jax.ShapeDtypeStruct((8, 16), "int32"),
        rules=(("batch", "data"), ("embed", "data"), ("mlp", "tensor")),
        meshes=({"data": 4, "tensor": 2},),
    )

A *mesh shape* is a dictionary from the name of each mesh axis to its size. Nothing is computed when
a `Model` is made, and it needs no device.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scutch.implementation import Implementation, SetupError
from scutch.loading import find

MeshShape = Mapping[str, int]
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Model:
    """How a model is made and trained; everything but `make` and `inputs` has a default.

    Args:
      make: A Linen module, or a function that makes one; for NNX, a function of an `Rngs` that
        makes the object.
      inputs: The positional arguments of a call: a tuple, or the only one. Arrays or
        `jax.ShapeDtypeStruct`.
      options: Keyword arguments of the call in training, such as `{"train": True}`.
      loss: `(outputs, *inputs)` to a scalar; the mean square of the outputs where left out.
      optimizer: Anything with the `init` and `update` of optax; Adam where left out.
      rules: Pairs of a logical name and a mesh axis, several, or None. Without rules, names are
        axes of the mesh.
      meshes: The intended mesh shapes; eight devices along the axes of the annotations where left
        out.
      input_names: For each input, the name of each axis; where left out, the first axis is `batch`
        if a rule has that name, and lies along the first mesh axis otherwise.
      output_names: The name of each axis of the output, if the step relies on where it lies.
      free: Names that are meant to have no rule.
      streams: Names of the Linen streams of random numbers beside `params`.
      start: `(mesh, key)` to the owner's first state, placed by the owner; made in `jit` with the
        annotated shardings where left out.
      step: `(state, *inputs)` to `(state, loss)`, the owner's own step, with the state that `start`
        makes; a step of `loss` and `optimizer` where left out.
      batches: The number of a step to its inputs; random ones of the shapes of `inputs` otherwise.
      unrolled: Like `make`, the same model without a scan over its layers.
      large: Bytes from which a replicated parameter is reported.
      implementation: An `Implementation`, or a text as for `--implementation`.
      suppressions: A TOML file of findings that the owner accepts.
    """

    make: Any
    inputs: Any
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    loss: Callable[..., Any] | None = None
    optimizer: Any = None
    rules: Sequence[tuple[str, Any]] = ()
    meshes: Sequence[MeshShape] = ()
    input_names: Sequence[Sequence[str | None]] | None = None
    output_names: Sequence[str | None] | None = None
    free: Sequence[str] = ()
    streams: Sequence[str] = ("dropout",)
    start: Callable[..., Any] | None = None
    step: Callable[..., Any] | None = None
    batches: Callable[[int], Any] | None = None
    unrolled: Any = None
    large: int = MEBIBYTE
    implementation: str | Implementation = "flax"
    suppressions: str | Path | None = None

    def __post_init__(self) -> None:
        """Refuse a description that cannot be meant.

        Raises:
          SetupError: A rule is no pair, a mesh has an axis without a size, or a step has no start.
        """
        for rule in self.rules:
            if not (isinstance(rule, tuple | list) and len(rule) == 2):
                raise SetupError(
                    f"Model(rules=...): {rule!r}", "expected a pair such as ('mlp', 'tensor')"
                )
        for mesh in self.meshes:
            if not isinstance(mesh, Mapping) or not all(
                isinstance(size, int) and size > 0 for size in mesh.values()
            ):
                raise SetupError(
                    f"Model(meshes=...): {mesh!r}",
                    "expected axes with positive sizes, such as {'data': 4, 'tensor': 2}",
                )
        if (self.step is None) != (self.start is None):
            raise SetupError(
                f"Model({'start' if self.step is None else 'step'}=...)",
                "expected start= and step= together: one makes the state that the other takes",
            )

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The positional arguments of a call of the model."""
        return self.inputs if isinstance(self.inputs, tuple) else (self.inputs,)


def mesh_text(mesh: MeshShape) -> str:
    """A mesh shape in one word, which names a mesh in reports and lock files.

    >>> mesh_text({"data": 4, "tensor": 2})
    'data=4,tensor=2'
    """
    return ",".join(f"{axis}={size}" for axis, size in mesh.items())


def parse_mesh(text: str) -> dict[str, int]:
    """The mesh shape of a word; `mesh_text` is the inverse.

    Raises:
      SetupError: The text has another form.
    """
    try:
        pairs = [part.split("=") for part in text.split(",")]
        mesh = {axis.strip(): int(size) for axis, size in pairs}
    except ValueError:
        raise SetupError(f"--mesh {text}", "expected such as data=4,tensor=2") from None
    return mesh


def device_count(mesh: MeshShape) -> int:
    """How many devices a mesh shape has."""
    return math.prod(mesh.values())


def scaled(mesh: MeshShape, devices: int) -> dict[str, int]:
    """A mesh shape for another number of devices: its first axis grows or shrinks.

    Args:
      mesh: At least one axis.
      devices: How many there are.

    Raises:
      SetupError: The other axes do not divide the number.
    """
    first, *rest = mesh
    others = math.prod(mesh[axis] for axis in rest)
    if devices % others:
        raise SetupError(
            f"{devices} devices",
            f"the mesh {mesh_text(mesh)} needs a multiple of {others}, so that {first!r} can grow",
        )
    return {first: devices // others, **{axis: mesh[axis] for axis in rest}}


def model_at(where: str) -> Model:
    """The model that a text names.

    Raises:
      SetupError: It names something else.
    """
    model = find(where)
    if not isinstance(model, Model):
        raise SetupError(where, f"it is a {type(model).__name__}; expected a scutch.Model")
    return model

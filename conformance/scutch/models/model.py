"""The description of a model and its optimizer, which its owner writes once.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scutch.implementation import Implementation, SetupError

MeshShape = Mapping[str, int]


@dataclass(frozen=True)
class Model:
    """How a model is made and optimized; everything but `make` and `inputs` has a default.

    Args:
      make: A Linen module, or a function that makes one; for NNX, a function of an `Rngs` that
        makes the object.
      inputs: The positional arguments of a call: a tuple, or the only one. Arrays or
        `jax.ShapeDtypeStruct`.
      options: Keyword arguments of the call, such as `{"train": True}`.
      optimizer: Anything with the `init` of optax; Adam where left out.
      rules: Pairs of a logical name and a mesh axis, several, or None. Without rules, names are
        axes of the mesh.
      meshes: The intended mesh shapes; eight devices along the axes of the annotations where left
        out.
      streams: Names of the Linen streams of random numbers beside `params`.
      implementation: What `--implementation` takes, or an `Implementation`.
    """

    make: Any
    inputs: Any
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    optimizer: Any = None
    rules: Sequence[tuple[str, Any]] = ()
    meshes: Sequence[MeshShape] = ()
    streams: Sequence[str] = ("dropout",)
    implementation: str | Implementation = "flax"

    def __post_init__(self) -> None:
        """Refuse a description that cannot be meant.

        Raises:
          SetupError: A rule is no pair, or a mesh has an axis without a size.
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

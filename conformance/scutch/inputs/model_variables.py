"""The variables that a described Linen model has: their paths, shapes, boxes and contents.

This is what `init` must find, said without running it. A layer has few variables; a lift gives
those of its layers an axis, and a name for it.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

ROWS = 3
"""How many rows an embedding has."""

STACKED = ("batch_stats", "counts", "intermediates")
"""The collections that a lift stacks at the first axis; that of parameters is drawn."""

Path = tuple[str, ...]


@dataclass(frozen=True)
class Slot:
    """What one variable is like.

    Args:
      shape: Of the value.
      box: The kind of its box; empty where it has none.
      names: One for each axis, if it has a box.
    """

    shape: tuple[int, ...]
    box: str = ""
    names: tuple[Any, ...] = ()

    def stacked(self, length: int, axis: int, name: Any) -> "Slot":
        """The slot with an axis more."""
        at = axis if axis >= 0 else axis + len(self.shape) + 1
        names = (*self.names[:at], name, *self.names[at:]) if self.box else ()
        return replace(self, shape=(*self.shape[:at], length, *self.shape[at:]), names=names)

    def value(self, path: Path, seed: int) -> np.ndarray:
        """Contents of the variable at a path; others for another path or seed, all positive."""
        draws = np.random.default_rng([seed, zlib.crc32("/".join(path).encode())])
        return np.asarray(draws.uniform(0.2, 1.2, self.shape), "float32")

    def abstract(self) -> jax.ShapeDtypeStruct:
        """A value without contents."""
        return jax.ShapeDtypeStruct(self.shape, np.dtype("float32"))  # type: ignore[no-untyped-call]


def slots(model: Any) -> dict[Path, Slot]:
    """The variables of a described model, by collection and path."""
    return dict(_of_layers(model.layers, model.width, places=model.form != "compact"))


def part_names(layers: Any, *, places: bool = False) -> list[str]:
    """What the parts of a stack are called: by class and count, or by their places."""
    kinds = ["Lift" if hasattr(layer, "layers") else layer.kind for layer in layers]
    if places:
        return [f"layer_{place}" for place in range(len(kinds))]
    return [f"{kind}_{kinds[:place].count(kind)}" for place, kind in enumerate(kinds)]


def _of_layers(layers: Any, width: int, *, places: bool = False) -> Iterator[tuple[Path, Slot]]:
    for name, layer in zip(part_names(layers, places=places), layers, strict=True):
        for (collection, *path), slot in _of_part(layer, width):
            yield (collection, name, *path), slot


def _of_part(layer: Any, width: int) -> Iterator[tuple[Path, Slot]]:
    if hasattr(layer, "layers"):
        for (collection, *path), slot in _of_layers(layer.layers, width):
            axis = layer.axis if collection == "params" else 0
            yield (collection, "lifted", *path), slot.stacked(layer.length, axis, layer.name)
        return

    def boxed(*shape: int) -> Slot:
        return Slot(shape, layer.box, layer.names if layer.box else ())

    row = Slot((width,))
    match layer.kind:
        case "Dense":
            yield ("params", "kernel"), boxed(width, width)
            yield ("params", "bias"), row
        case "Scale":
            yield ("params", "scale"), boxed(width)
        case "Mix":
            yield ("params", "mix"), boxed(width, width)
        case "Shift":
            yield ("params", "shift"), boxed()
        case "Place":
            yield ("params", "Embed_0", "embedding"), boxed(ROWS, width)
        case "LayerNorm" | "BatchNorm":
            yield ("params", "scale"), boxed(width)
            yield ("params", "bias"), row
            if layer.kind == "BatchNorm":
                yield ("batch_stats", "mean"), row
                yield ("batch_stats", "var"), row
        case "Counter":
            yield ("counts", "calls"), boxed()


def tree(leaves: Mapping[Path, Any]) -> dict[str, Any]:
    """Nested dictionaries with these leaves."""
    root: dict[str, Any] = {}
    for path, leaf in leaves.items():
        inner = root
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = leaf
    return root

"""The variables that a described Linen model declares: their paths, shapes, boxes and contents.

A module *declares* a variable where it asks for it by name and shape. The functions here list the
declarations of a described model without running it, so that laws can compare the result of `init`
with them. A layer declares one or more variables, or none. A lift gives each variable of its layers
a new axis, and a name for that axis:

    model = Model((Lift('scan', (Layer('Scale', 'Partitioned', ('data',)),), 3, name='layers'),))
    declared_variables(model)
    # {('params', 'Lift_0', 'lifted', 'Scale_0', 'scale'):
    #      DeclaredVariable((3, 2), 'Partitioned', ('layers', 'data'))}
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

ROWS = 3
"""The number of rows of the embedding of a layer `Place`."""

STACKED = ("batch_stats", "counts", "intermediates")
"""The collections that a lift stacks at axis 0; parameters are stacked at the axis of the lift."""

Path = tuple[str, ...]
"""The collection of a variable, the names of the modules around it, and its own name."""


@dataclass(frozen=True)
class DeclaredVariable:
    """The shape and the box of one variable, whose dtype is `float32`.

    Args:
      shape: The shape of its value.
      box: The class of its box, as in `Layer`; empty where it has none.
      names: The names of its box, one for each axis; empty where it has no box.
    """

    shape: tuple[int, ...]
    box: str = ""
    names: tuple[Any, ...] = ()

    def stacked(self, length: int, axis: int, name: Any) -> "DeclaredVariable":
        """The same variable stacked along a new axis, as a lift declares it.

        Args:
          length: The size of the new axis.
          axis: The index of the new axis in the stacked value; may be negative.
          name: The name of the new axis in the box.

        Returns:
          A variable with the new axis in its shape, and in the names of its box if it has one.
        """
        at = axis if axis >= 0 else axis + len(self.shape) + 1
        names = (*self.names[:at], name, *self.names[at:]) if self.box else ()
        return replace(self, shape=(*self.shape[:at], length, *self.shape[at:]), names=names)

    def value(self, path: Path, seed: int) -> np.ndarray:
        """Contents for the variable: numbers from 0.2 to 1.2.

        Args:
          path: Where the variable is; another path gives other numbers.
          seed: Another seed gives other numbers.
        """
        draws = np.random.default_rng([seed, zlib.crc32("/".join(path).encode())])
        return np.asarray(draws.uniform(0.2, 1.2, self.shape), "float32")

    def abstract(self) -> jax.ShapeDtypeStruct:
        """The shape and dtype of the variable, as `eval_shape` gives them."""
        return jax.ShapeDtypeStruct(self.shape, np.dtype("float32"))  # type: ignore[no-untyped-call]


def declared_variables(model: Any) -> dict[Path, DeclaredVariable]:
    """The variables that a described model declares, by their paths.

    Args:
      model: A `Model`.
    """
    return dict(_of_layers(model.layers, model.width, by_position=model.form != "compact"))


def part_names(layers: Any, *, by_position: bool = False) -> list[str]:
    """The names of the modules of a stack.

    Args:
      layers: Each is a `Layer` or a `Lift`.
      by_position: Whether they are called `layer_0`, `layer_1`, ... rather than by class and count,
        `Dense_0`, `Lift_0`, `Dense_1`, ...
    """
    kinds = ["Lift" if hasattr(layer, "layers") else layer.kind for layer in layers]
    if by_position:
        return [f"layer_{position}" for position in range(len(kinds))]
    return [f"{kind}_{kinds[:position].count(kind)}" for position, kind in enumerate(kinds)]


def _of_layers(
    layers: Any, width: int, *, by_position: bool = False
) -> Iterator[tuple[Path, DeclaredVariable]]:
    """The variables of the modules of a stack, each under its module's name."""
    for name, layer in zip(part_names(layers, by_position=by_position), layers, strict=True):
        for (collection, *path), declared in _of_part(layer, width):
            yield (collection, name, *path), declared


def _of_part(layer: Any, width: int) -> Iterator[tuple[Path, DeclaredVariable]]:
    """The variables of a layer or a lift, without its module's name in the paths."""
    if hasattr(layer, "layers"):
        for (collection, *path), declared in _of_layers(layer.layers, width):
            axis = layer.axis if collection == "params" else 0
            yield (collection, "lifted", *path), declared.stacked(layer.length, axis, layer.name)
        return

    def boxed(*shape: int) -> DeclaredVariable:
        return DeclaredVariable(shape, layer.box, layer.names if layer.box else ())

    row = DeclaredVariable((width,))
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
    """Nested dictionaries with a leaf at each path; the inverse is to flatten them by paths."""
    root: dict[str, Any] = {}
    for path, leaf in leaves.items():
        inner = root
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = leaf
    return root

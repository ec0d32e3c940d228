"""One side of a comparison, with the arrays and results of a model and the costs of a step.

    first = measure(Examined(model), Request())
    second = measure(Examined(other), Request(first=first))

The second side computes with the weights and inputs of the first. A side holds plain data, so that
another process can measure it, with another Python and another release of Flax.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scutch.implementation import SetupError
from scutch.models.cost import SMALL, cost_on
from scutch.models.examined import Examined
from scutch.models.frameworks import surroundings
from scutch.models.layout import OPTIMIZER, OTHERS, PARAMETERS, layouts
from scutch.models.model import MeshShape, mesh_text
from scutch.models.pairing import Array, PathMap, paired
from scutch.models.runs import arrays_of
from scutch.models.show import reasons_text, size_text
from scutch.models.training import Training, fitted, make_mesh

PARTS = ("parameters", "placement", "values", "costs")
"""The parts of a comparison, in the order of the report."""
ROUNDING = 1e-6


@dataclass(frozen=True)
class Side:
    """The measured values of one model.

    Args:
      title: Where the model is, and the releases that it ran with.
      meshes: The mesh shapes, as text.
      arrays: The arrays of all sections.
      weights: Floating arrays of the parameters and other variables, by path.
      inputs: Arrays of one batch.
      results: Outputs, the loss, gradients, and floating variables after a call, by name.
      noise: The results from weights with a rounding error, on the first side only.
      costs: The costs of a step for each mesh shape.
      untried: Why there are no results, or no costs.
    """

    title: str
    meshes: tuple[str, ...]
    arrays: tuple[Array, ...]
    weights: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Any, ...] = ()
    results: Mapping[str, Any] = field(default_factory=dict)
    noise: Mapping[str, Any] = field(default_factory=dict)
    costs: Mapping[str, Any] = field(default_factory=dict)
    untried: Mapping[str, str] = field(default_factory=dict)

    def of(self, *sections: str) -> list[Array]:
        """The arrays of some sections.

        Args:
          *sections: Of `layout.SECTIONS`.
        """
        return [array for array in self.arrays if array.section in sections]


@dataclass(frozen=True)
class Request:
    """The options of a measurement.

    Args:
      meshes: The mesh shapes; the model's own where there are none.
      skip: Parts that are not compared.
      seed: The seed of weights and inputs.
      first: The side whose weights and inputs this one takes; None for the first side itself.
      maps: Pairs of paths that the owner gives.
    """

    meshes: tuple[MeshShape, ...] = ()
    skip: tuple[str, ...] = ()
    seed: int = 0
    first: Side | None = None
    maps: tuple[PathMap, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an unknown part in `skip`.

        Raises:
          SetupError: The part is not in `PARTS`.
        """
        if wrong := [part for part in self.skip if part not in PARTS]:
            raise SetupError(f"--skip {wrong[0]}", f"expected one of {', '.join(PARTS)}")


def measure(examined: Examined, request: Request, where: str = "the model") -> Side:
    """Measure one side.

    Args:
      examined: The model, with the mesh shapes of the request.
      request: The parts to skip, the seed, the first side and the maps.
      where: The name of the model in messages.

    Returns:
      The side.

    Raises:
      SetupError: The model cannot be made, or a step cannot be compiled on one of the meshes.
    """
    if examined.failure is not None:
        raise SetupError(
            where,
            f"{examined.failure.place} raised {examined.failure.told}; expected a model for which "
            f"`scutch model {where} check` does not say so",
        )
    implementation = examined.training.implementation
    title = f"{where} ({implementation.name} {implementation.version}, JAX {jax.__version__})"
    meshes = tuple(map(mesh_text, examined.meshes))
    arrays = _arrays(examined)
    found: dict[str, Any] = {"untried": {}}
    try:
        found |= {} if "values" in request.skip else _values(examined, arrays, request)
    except Untried as reason:
        found["untried"]["values"] = str(reason)
    if "costs" not in request.skip:
        shapes = map(fitted, examined.meshes)
        remedy = "expected a mesh with the axes of both models: give --mesh, or --skip costs"
        found["costs"] = {
            mesh_text(shape): cost_on(examined.training, shape, where=where, remedy=remedy)
            for shape in shapes
        }
    return Side(title, meshes, arrays, **found)


class Untried(Exception):
    """Values cannot be compared, and the text says why.

    Wrong: a model of 140 GiB is run on the host. Right: its parameters and places are compared.
    """


def _arrays(examined: Examined) -> tuple[Array, ...]:
    """Every array, with its place on each mesh."""
    found: dict[tuple[str, str], Array] = {}
    for layout in layouts(examined.model, examined.meshes, found=examined.abstract, folded=False):
        for row in layout.rows:
            places = found[row.section, row.path].places if (row.section, row.path) in found else {}
            place = (row.spec, reasons_text(row, layout.rules))
            found[row.section, row.path] = Array(
                row.section, row.path, row.shape, row.dtype, {**places, layout.name: place}
            )
    return tuple(found.values())


def _values(examined: Examined, arrays: tuple[Array, ...], request: Request) -> dict[str, Any]:
    """Weights, inputs and results on one device."""
    size = sum(leaf.bytes for leaf in examined.sections[PARAMETERS])
    if size > SMALL:
        raise Untried(f"the parameters have {size_text(size)}; at most {size_text(SMALL)} are run")
    if examined.program.draws:
        place = examined.program.draws[0].place or "the loss"
        raise Untried(
            f"{place} draws random numbers, by other keys in each model; switch it off in options= "
            "of both, such as {'deterministic': True}"
        )
    training, first = examined.training, request.first
    mesh = make_mesh(dict.fromkeys(examined.meshes[0], 1))
    with surroundings(training.implementation, examined.model.rules, mesh):
        inputs = training.batch(0, seed=request.seed)
        leaves, structure = jax.tree_util.tree_flatten(inputs)
        leaves = [np.asarray(leaf) for leaf in leaves]
        if first is None:
            params, rest = examined.variables(request.seed)
            weights = {path: value for tree in (params, rest) for path, value in floating(tree)}
        else:
            leaves, weights = _taken(leaves, arrays, request, first)
            params, rest = _completed(examined, inputs, request.seed, weights)
        inputs = jax.tree_util.tree_unflatten(structure, leaves)
        results = results_of(training, params, rest, inputs)
        noise: dict[str, Any] = {}
        if first is None:
            other = {path: disturbed(value) for path, value in weights.items()}
            noise = results_of(training, given(params, other), given(rest, other), inputs)
    return {"weights": weights, "inputs": tuple(leaves), "results": results, "noise": noise}


def _completed(
    examined: Examined, inputs: Any, seed: int, weights: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Parameters and other variables; those that have no weight yet are initialised."""

    def lacking(key: Any, *inputs: Any) -> dict[str, Any]:
        trees = examined.training.framework.init(key, *inputs)
        found = [pair for tree in trees for pair in arrays_of(tree)]
        return {path: value for path, value in found if path not in weights}

    made = {**weights, **jax.jit(lacking)(jax.random.key(seed), *inputs)}
    return given(examined.abstract.params, made), given(examined.abstract.rest, made)


def _taken(
    leaves: list[Any], arrays: tuple[Array, ...], request: Request, first: Side
) -> tuple[list[Any], dict[str, Any]]:
    """The inputs and weights of the first side, by the paths of this one."""
    ours, theirs = [_text(each) for each in leaves], [_text(each) for each in first.inputs]
    if ours != theirs:
        raise Untried(f"inputs differ: {', '.join(theirs)}, and {', '.join(ours)}")
    one = first.of(PARAMETERS, OTHERS)
    two = [array for array in arrays if array.section != OPTIMIZER]
    pairs = paired(one, two, request.maps).pairs
    shapes = {array.path: array.shape for array in two}
    weights = {
        pairs[path]: value
        for path, value in first.weights.items()
        if path in pairs and shapes[pairs[path]] == value.shape
    }
    ours_only = [a.path for a in two if a.section == PARAMETERS and a.path not in weights]
    lonely = [a.path for a in first.of(PARAMETERS) if pairs.get(a.path) not in weights] + ours_only
    if lonely:
        raise Untried(f"weights cannot be equal: {lonely[0]} has no partner of its shape")
    return list(first.inputs), weights


def _text(value: Any) -> str:
    return f"{value.dtype}[{','.join(map(str, value.shape))}]"


def floating(tree: Any) -> list[tuple[str, Any]]:
    """The floating arrays of a tree as NumPy's, by path.

    Args:
      tree: Any pytree of arrays.
    """
    return [
        (path, np.asarray(value))
        for path, value in arrays_of(tree)
        if hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating)
    ]


def given(tree: Any, weights: Mapping[str, Any]) -> Any:
    """A tree with the arrays of some paths replaced.

    Args:
      tree: Any pytree of arrays.
      weights: By path.
    """
    values = [
        value
        if path not in weights
        else weights[path]
        if weights[path].dtype == value.dtype
        else weights[path].astype(value.dtype)
        for path, value in arrays_of(tree)
    ]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(tree), values)


def results_of(training: Training, params: Any, rest: Any, inputs: Any) -> dict[str, Any]:
    """Outputs, the loss, gradients, and floating variables after a call, by name.

    Args:
      training: Of the model.
      params: Its parameters.
      rest: Its other variables.
      inputs: Of one call.

    Returns:
      Arrays of NumPy.
    """
    key = jax.random.key(1)
    call = jax.jit(jax.value_and_grad(training.loss_and_outputs, has_aux=True))
    (loss, (after, outputs)), gradients = call(params, rest, key, *inputs)
    trees = (("output", outputs), ("the loss", loss), ("gradient of", gradients))
    return {
        f"{name} {path}".strip(): value
        for name, tree in (*trees, ("after a call,", after))
        for path, value in floating(tree)
    }


def disturbed(value: Any) -> Any:
    """An array whose numbers have a rounding error of their dtype, with signs that alternate."""
    signs = np.where(np.arange(value.size) % 2, 1.0, -1.0).reshape(value.shape)
    rounding = max(ROUNDING, float(jnp.finfo(value.dtype).eps))  # type: ignore[no-untyped-call]
    return (value.astype("float64") * (1 + rounding * signs)).astype(value.dtype)

"""The law that a scan over layers gives the results of the layers one after the other.

The owner gives both: `Model(scanned, ..., unrolled=written_out)`. An array of the scanned model is
*stacked*: it holds one of each layer along an axis more.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from scutch.models.annotations import Leaf, leaves
from scutch.models.compare import agree, apart_text
from scutch.models.cost import SMALL
from scutch.models.examined import Examined
from scutch.models.findings import Finding
from scutch.models.frameworks import surroundings
from scutch.models.laws import by_id
from scutch.models.layout import PARAMETERS, pattern
from scutch.models.pairing import words
from scutch.models.show import size_text
from scutch.models.sides import disturbed, floating, given, results_of
from scutch.models.training import Training, make_mesh

UNROLLED = "values/scanned-equals-unrolled"


@dataclass(frozen=True)
class _Part:
    """Where an array of the unrolled model is in the scanned one.

    Args:
      path: In the scanned model.
      axis: Of the layers; None for an array that is not stacked.
      layer: Its number along this axis.
    """

    path: str
    axis: int | None = None
    layer: int = 0

    def of(self, value: Any) -> Any:
        """The part of a stacked array."""
        return value if self.axis is None else np.take(value, self.layer, self.axis)


def findings(examined: Examined, seed: int, skipped: list[tuple[str, str]]) -> Iterator[Finding]:
    """Where a scan over layers differs from the layers one after the other.

    Args:
      examined: The model.
      seed: Of weights and inputs.
      skipped: The law is added with a reason if it is not tried.

    Yields:
      A finding for each result that differs.
    """
    law, model = by_id(UNROLLED), examined.model
    size = sum(leaf.bytes for leaf in examined.sections[PARAMETERS])
    reason = (
        "unrolled= is not given"
        if model.unrolled is None
        else "the loss draws random numbers, by other keys in each"
        if examined.program.draws
        else f"the parameters have {size_text(size)}"
        if size > SMALL
        else ""
    )
    if reason:
        skipped.append((law.id, reason))
        return
    scanned, unrolled = examined.training, Training.of(model, model.unrolled)
    mesh, key = make_mesh(dict.fromkeys(examined.meshes[0], 1)), jax.random.key(seed)
    with surroundings(scanned.implementation, model.rules, mesh):
        inputs = scanned.batch(0, seed=seed)
        trees = jax.jit(scanned.framework.init)(key, *inputs)
        others = jax.jit(unrolled.framework.init)(key, *inputs)
        parts = _parts(
            [leaf for tree in trees for leaf in leaves(scanned.implementation, tree)],
            [leaf for tree in others for leaf in leaves(scanned.implementation, tree)],
        )
        lonely = [path for path, part in parts.items() if part is None]
        if lonely:
            yield Finding(
                law,
                lonely[0],
                "the scanned model has no array of which this one is a layer",
                "give the same layers to unrolled=, with the same names",
            )
            return
        weights = {path: value for tree in trees for path, value in floating(tree)}
        layered = {
            path: part.of(weights[part.path])
            for path, part in parts.items()
            if part is not None and part.path in weights
        }
        noisy = {path: disturbed(value) for path, value in weights.items()}
        wanted = _results(scanned, trees, weights, inputs)
        noise = _results(scanned, trees, noisy, inputs)
        found = _results(unrolled, others, layered, inputs)
    for name, value in found.items():
        kind = next((k for k in ("gradient of ", "after a call, ") if name.startswith(k)), "")
        part = parts.get(name.removeprefix(kind)) or _Part(name.removeprefix(kind))
        one, other = (part.of(each[f"{kind}{part.path}"]) for each in (wanted, noise))
        if not agree(value, one, other):
            yield Finding(
                law,
                part.path,
                f"{name} (scanned first, unrolled second) {apart_text(one, value)}",
                "look for a layer that depends on its number, or variable_axes= and split_rngs= "
                "that give all layers of the scan the same",
            )


def _results(training: Training, trees: Any, weights: Any, inputs: Any) -> dict[str, Any]:
    """Results of a call with the weights of some paths."""
    params, rest = trees
    return results_of(training, given(params, weights), given(rest, weights), inputs)


def _parts(scanned: Sequence[Leaf], unrolled: Sequence[Leaf]) -> Mapping[str, _Part | None]:
    """Where each array of the unrolled model is in the scanned one; None for one that is not."""
    there = {leaf.path: leaf for leaf in scanned}
    found: dict[str, _Part | None] = {}
    groups: dict[Any, list[Leaf]] = defaultdict(list)
    for leaf in unrolled:
        same = there.get(leaf.path)
        if same is not None and same.shape == leaf.shape:
            found[leaf.path] = _Part(leaf.path)
        else:
            groups[pattern(leaf.path), leaf.shape].append(leaf)
    for group in groups.values():
        candidates = [
            (_common_end(leaf.path, group[0].path), leaf.path, axis)
            for leaf in scanned
            if (axis := _layer_axis(leaf, group)) is not None
        ]
        _, path, axis = max(candidates, default=(0, None, None))
        for number, leaf in enumerate(group):
            found[leaf.path] = None if path is None else _Part(path, axis, number)
    return found


def _layer_axis(leaf: Leaf, group: Sequence[Leaf]) -> int | None:
    """The axis along which an array may hold a group of equal ones; names decide between axes."""
    one, shape = group[0], leaf.shape
    axes = [
        axis
        for axis, length in enumerate(shape)
        if length == len(group) and shape[:axis] + shape[axis + 1 :] == one.shape
    ]
    names = leaf.names or ()
    named = [axis for axis in axes if names[:axis] + names[axis + 1 :] == (one.names or ())]
    return next(iter(named or axes), None)


def _common_end(one: str, other: str) -> int:
    """How many words at their ends two paths have in common."""
    pairs = zip(reversed(words(one)), reversed(words(other)), strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), len(words(one)))

"""Compare two models by their parameters, the placement of these, values, and costs of a step.

    found = compare("old.py:setup", "new.py:setup", Request())
    found.equal, found.differences["placement"]

Both models compute from equal weights, on one device. Their outputs, losses, gradients and changed
variables are compared. Two results are equal if rounding errors explain the distance between them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scutch.lawkit.tolerances import TRAINING, near
from scutch.models.elsewhere import measure_elsewhere
from scutch.models.examined import Examined
from scutch.models.layout import OPTIMIZER, OTHERS, PARAMETERS, folded_path, pattern
from scutch.models.lock import dearer
from scutch.models.model import model_at, parse_mesh
from scutch.models.pairing import Array, Paired, paired
from scutch.models.sides import PARTS, Request, Side, measure
from scutch.report.text import count

NOISE = 10
"""How many times farther apart than from a rounding error in the weights two results may be."""
SHOWN = 12
"""The most differences in values that are listed one by one."""


@dataclass(frozen=True)
class Comparison:
    """The differences between two models.

    Args:
      titles: Where each model is, and the releases that it ran with.
      renamed: Arrays that have another path in the second model.
      differences: Sentences, by part.
      compared: For each part, the number and kind of the compared values, in words.
      untried: Why a part was not compared.
    """

    titles: tuple[str, str]
    renamed: tuple[str, ...]
    differences: Mapping[str, tuple[str, ...]]
    compared: Mapping[str, str]
    untried: Mapping[str, str]

    @property
    def equal(self) -> bool:
        """Whether nothing differs in the parts that were compared."""
        return not any(self.differences.values())


def compare(first: str, second: str, request: Request, *, python: str | None = None) -> Comparison:
    """Compare the models that two texts name.

    Args:
      first: `FILE.py:NAME` or `MODULE:NAME` of a `scutch.Model`.
      second: Of another, which is measured in a process of its own.
      request: Meshes (by default the meshes of the first model), maps, seed, parts to skip.
      python: A Python with scutch and another Flax, for the second model.

    Returns:
      The comparison, part by part.

    Raises:
      SetupError: A model cannot be made or compiled, or a map fits no array of a model.
    """
    one = measure(Examined(model_at(first), request.meshes), request, first)
    meshes = tuple(map(parse_mesh, one.meshes))
    other = measure_elsewhere(second, replace(request, meshes=meshes, first=one), python)
    return between(one, other, request)


def between(first: Side, second: Side, request: Request) -> Comparison:
    """Compare two sides.

    Args:
      first: One side.
      second: The side of the other model, measured with the first one's weights.
      request: Maps and parts to skip.

    Returns:
      The comparison, part by part.

    Raises:
      SetupError: A map fits no array of the first model, or leads to none of the second.
    """
    found = paired(first.of(PARAMETERS, OTHERS), second.of(PARAMETERS, OTHERS), request.maps)
    untried = {**first.untried, **second.untried, **dict.fromkeys(request.skip, "skipped")}
    made: dict[str, Callable[[], Iterable[str]]] = {
        "parameters": lambda: _arrays(first, second, found),
        "placement": lambda: _placement(first, second, found),
        "values": lambda: _values(first, second, found),
        "costs": lambda: _costs(first, second),
    }
    differences = {part: tuple(made[part]()) for part in PARTS if part not in untried}
    on = ", ".join(first.costs)
    compared = {
        "parameters": count(len(found.pairs), "array"),
        "placement": f"{count(len(found.pairs), 'array')} and the optimizer's state on "
        + " and ".join(first.meshes),
        "values": f"{count(len(first.results), 'result')} from equal weights",
        "costs": f"a step on {on}",
    }
    return Comparison(
        (first.title, second.title),
        tuple(_renamed(found.pairs)),
        differences,
        {part: compared[part] for part in differences},
        untried,
    )


def _arrays(first: Side, second: Side, found: Paired) -> list[str]:
    """Arrays without partner, and pairs of another shape or dtype."""
    theirs = {array.path: array for array in second.of(PARAMETERS, OTHERS)}
    told = [
        (array.path, f"is {array.text} in the first, and {other.text} in the second")
        for array in first.of(PARAMETERS, OTHERS)
        if array.path in found.pairs
        and (other := theirs[found.pairs[array.path]]).text != array.text
    ]
    for arrays, others, side in (
        (found.first_only, found.second_only, "first"),
        (found.second_only, found.first_only, "second"),
    ):
        told += [
            (array.path, f"is in the {side} only: {array.text}{_hint(array, others)}")
            for array in arrays
        ]
    return list(_folded(told))


def _hint(array: Array, others: Sequence[Array]) -> str:
    """Advice to use --map, if an array of the same shape has no partner either."""
    like = [other for other in others if other.shape == array.shape]
    return "; if it is an array of the same shape, say which with --map OLD=NEW" if like else ""


def _placement(first: Side, second: Side, found: Paired) -> list[str]:
    """Arrays with other shardings; a moment that follows its parameter is left out."""
    told: list[tuple[str, str]] = []
    theirs = {(array.section, array.path): array for array in second.arrays}
    for mesh in first.meshes:
        for array in first.of(PARAMETERS, OTHERS):
            if array.path in found.pairs:
                other = theirs[array.section, found.pairs[array.path]]
                told += _moved(array.path, array, other, mesh)
        told += _moments(first, second, found, mesh)
    return list(_folded(told))


def _moved(path: str, array: Array, other: Array, mesh: str) -> Iterator[tuple[str, str]]:
    (spec, why), (new_spec, new_why) = array.places[mesh], other.places[mesh]
    if spec != new_spec:
        yield (
            path,
            (
                f"lies as {spec} in the first ({why}), as {new_spec} in the second ({new_why})"
                + (f" on {mesh}" if len(array.places) > 1 else "")
            ),
        )


def _moments(first: Side, second: Side, found: Paired, mesh: str) -> Iterator[tuple[str, str]]:
    """Optimizer arrays that one side lacks, or whose type or placement differs by itself."""
    ours = {array.path: array for array in first.of(PARAMETERS)}
    theirs = {array.path: array for array in second.of(PARAMETERS)}
    moments = {array.path: array for array in second.of(OPTIMIZER)}
    seen = set()
    for array in first.of(OPTIMIZER):
        owner = _owner(array.path, ours)
        if owner is not None and owner not in found.pairs:
            continue  # the difference is reported for the parameter
        new = owner and found.pairs[owner]
        other = moments.get(array.path.removesuffix(owner or "") + (new or ""))
        if other is None:
            yield array.path, f"of the optimizer's state is in the first only: {array.text}"
            continue
        seen.add(other.path)
        if other.text != array.text and not (new and ours[owner or ""].text != theirs[new].text):
            yield array.path, f"is {array.text} in the first, and {other.text} in the second"
        if not (
            new and _follows(array, ours[owner or ""], mesh) and _follows(other, theirs[new], mesh)
        ):
            yield from _moved(array.path, array, other, mesh)
    lonely = {array.path for array in found.second_only}
    for path, array in moments.items():
        if path not in seen and _owner(path, theirs) not in lonely:
            yield path, f"of the optimizer's state is in the second only: {array.text}"


def _follows(moment: Array, parameter: Array, mesh: str) -> bool:
    """Whether a moment lies as its parameter does."""
    return moment.places[mesh][0] == parameter.places[mesh][0]


def _owner(path: str, parameters: Mapping[str, Any]) -> str | None:
    """The parameter whose path ends the path of a moment."""
    parts = path.split("/")
    ends = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((end for end in ends if end in parameters), None)


def _values(first: Side, second: Side, found: Paired) -> Iterator[str]:
    """Results that are farther apart than rounding errors bring them, in the order of a step."""
    new_names = {
        f"{kind} {old}": f"{kind} {new}"
        for kind in ("gradient of", "after a call,")
        for old, new in found.pairs.items()
    }
    told = []
    for name, value in first.results.items():
        other = second.results.get(new_names.get(name, name))
        if other is None:
            told.append((name, "is in the first only"))
        elif value.shape != other.shape:
            told.append((name, f"has the shape {value.shape}, and {other.shape} in the second"))
        elif not agree(other, value, first.noise[name]):
            told.append((name, apart_text(value, other)))
    seen = {new_names.get(name, name) for name in first.results}
    told += [(name, "is in the second only") for name in second.results if name not in seen]
    sentences = [f"{name} {text}" for name, text in told]
    yield from sentences[:SHOWN]
    if len(sentences) > SHOWN:
        yield f"{len(sentences) - SHOWN} more"


def agree(found: Any, wanted: Any, other: Any) -> bool:
    """Whether two results are equal within a tolerance, or within the effect of rounding errors.

    Args:
      found: The result of the second model.
      wanted: The result of the first model.
      other: The result of the first model from weights with a rounding error.

    Returns:
      Whether they are equal.
    """
    one, two, noisy = (np.asarray(each).astype("float64") for each in (found, wanted, other))
    if not (np.isfinite(one).all() and np.isfinite(two).all()):
        return bool(np.array_equal(one, two, equal_nan=True))
    scale = np.abs(two).max(initial=0.0)
    if scale == 0.0:
        return bool(not one.any())
    coarse = np.asarray(wanted).dtype, np.asarray(found).dtype
    scaled = ((two / scale).astype(coarse[0]), (one / scale).astype(coarse[1]))
    if near(scaled[1], scaled[0], **TRAINING):
        return True
    return bool(np.abs(one - two).max() <= NOISE * np.abs(noisy - two).max())


def apart_text(value: Any, other: Any) -> str:
    """How far two results of one shape are apart, in words.

    Args:
      value: Of the first model.
      other: Of the second.
    """
    one, two = (np.asarray(each).astype("float64") for each in (value, other))
    if one.ndim == 0:
        return f"is {float(one):.6g} in the first, and {float(two):.6g} in the second"
    apart, scale = np.abs(one - two).max(), np.abs(one).max()
    return f"differs by up to {apart:.3g}; its largest value is {scale:.3g}"


def _costs(first: Side, second: Side) -> Iterator[str]:
    """Sentences about the costs of a step that differ in the second model."""
    for mesh, before in first.costs.items():
        for sentence in dearer(before, second.costs[mesh]):
            yield f"{mesh}: {sentence}" if len(first.costs) > 1 else sentence


def _folded(told: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Merge equal sentences about the arrays of repeated layers."""
    groups: dict[tuple[str, str], list[str]] = {}
    for path, sentence in told:
        groups.setdefault((pattern(path), sentence), []).append(path)
    for (_, sentence), paths in groups.items():
        yield f"{folded_path(paths)} {sentence}"


def _renamed(pairs: Mapping[str, str]) -> Iterator[str]:
    """Arrays with another path in the second model, in one sentence for repeated layers."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for old, new in pairs.items():
        if old != new:
            groups.setdefault((pattern(old), pattern(new)), []).append((old, new))
    for group in groups.values():
        old, new = (folded_path(paths) for paths in zip(*group, strict=True))
        yield f"{old} is {new} in the second"


def text(found: Comparison) -> str:
    """A comparison for a terminal.

    Args:
      found: The comparison.
    """
    lines = [f"first:  {found.titles[0]}", f"second: {found.titles[1]}"]
    lines += [f"  {sentence}" for sentence in found.renamed]
    for part in PARTS:
        if part in found.untried:
            lines.append(f"{part}: not compared: {found.untried[part]}")
            continue
        told = found.differences[part]
        end = f"{count(len(told), 'difference')} in" if told else "equal:"
        lines.append(f"{part}: {end} {found.compared[part]}")
        lines += [f"  {sentence}" for sentence in told]
    return "\n".join(lines)


def document(found: Comparison) -> dict[str, Any]:
    """A comparison for JSON."""
    return {
        "models": list(found.titles),
        "renamed": list(found.renamed),
        "differences": {part: list(told) for part, told in found.differences.items()},
        "compared": dict(found.compared),
        "not_compared": dict(found.untried),
    }

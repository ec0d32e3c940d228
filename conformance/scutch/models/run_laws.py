"""Laws about steps of training: where arrays lie, values on different meshes, compilations.

A law is a generator of findings. It takes an `Examined` and the runs of its training.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import NamedSharding

from scutch.judging.readable import summary
from scutch.lawkit.tolerances import TRAINING, near
from scutch.models.annotations import Leaf, spec_of, spec_text
from scutch.models.examined import Examined
from scutch.models.findings import Finding
from scutch.models.laws import by_id
from scutch.models.layout import OPTIMIZER, PARAMETERS, decisions_of
from scutch.models.model import mesh_text
from scutch.models.program import Program
from scutch.models.runs import Run, Sight, place_text, same_place, sights_of
from scutch.models.training import make_mesh

NOISE = 10
"""How many times the effect of a rounding error two values may be apart."""


def moments(examined: Examined) -> Iterator[Finding]:
    """Arrays of the optimizer's state that have a parameter's path and shape, and another spec."""
    parameters = {leaf.path: leaf for leaf in examined.sections[PARAMETERS]}
    for leaf in examined.sections[OPTIMIZER]:
        parameter = owner_of(leaf.path, leaf.shape, parameters)
        if parameter is None:
            continue
        wanted = spec_text(spec_of(decisions_of(examined.model, parameter)))
        found = spec_text(spec_of(decisions_of(examined.model, leaf)))
        if found != wanted:
            yield Finding(
                by_id("placement/moments-lie-as-parameters"),
                leaf.path,
                f"its spec is {found}, and {parameter.path} has {wanted}",
                "make the optimizer's state from the parameters in their boxes: "
                "optimizer.init(params), with zeros_like of each",
                bytes=leaf.bytes,
            )


def owner_of(path: str, shape: Sequence[int], parameters: Mapping[str, Leaf]) -> Leaf | None:
    """The parameter whose path ends the path of an array of the same shape.

    Args:
      path: Of an array, such as a moment.
      shape: Of the array.
      parameters: By path.

    Returns:
      The parameter, or None.
    """
    parts = path.split("/")
    for first in range(len(parts)):
        found = parameters.get("/".join(parts[first:]))
        if found is not None:
            return found if found.shape == tuple(shape) else None
    return None


def start(examined: Examined, run: Run) -> Iterator[Finding]:
    """Arrays of the owner's first state that do not lie as annotated.

    Args:
      examined: The model.
      run: On one mesh.
    """
    parameters = {leaf.path: leaf for leaf in examined.sections[PARAMETERS]}
    seen: set[str] = set()
    for leaf in run.start:
        sharding = leaf.value.sharding
        owner = owner_of(leaf.path, leaf.shape, parameters)
        annotation = leaf if leaf.names is not None else owner
        if annotation is None or sharding is None:
            continue
        first = owner is None or owner.path not in seen
        seen.update(() if owner is None else (owner.path,))
        spec = spec_of(decisions_of(examined.model, annotation))
        mesh = make_mesh(run.mesh)
        wanted = Sight(leaf.shape, "", False, NamedSharding(mesh, spec))
        found = Sight(leaf.shape, "", False, sharding)
        if not same_place(wanted, found):
            law = "the-state-starts-as-annotated" if first else "moments-lie-as-parameters"
            yield Finding(
                by_id(f"placement/{law}"),
                leaf.path,
                f"it lies as {place_text(found)}, and its annotation asks for {spec_text(spec)}",
                "make the state in jax.jit with out_shardings= of the annotations",
                mesh_text(run.mesh),
                leaf.bytes,
            )


def drift(run: Run) -> Iterator[Finding]:
    """Arrays that lie elsewhere after the steps."""
    for path, before in run.sights.items():
        after = run.end.get(path)
        if after is not None and before.shape == after.shape and not same_place(before, after):
            yield Finding(
                by_id("placement/steps-keep-the-placement"),
                path,
                f"it lay as {place_text(before)}, and after the steps as {place_text(after)}",
                "give the step out_shardings=, those of the state that it takes",
                mesh_text(run.mesh),
            )


def restored(
    before: Any,
    like: Any,
    route: str,
    read_again: Callable[[Any, Any], Any],
    names: Callable[[Any], list[Leaf]],
) -> Iterator[Finding]:
    """Arrays that have other names, or lie elsewhere, after a state was stored and read again.

    Args:
      before: The state.
      like: It without values, with its shardings.
      route: How it is stored, in words.
      read_again: Stores a state and reads it again.
      names: The annotated leaves of a state.

    Yields:
      A finding for each array.
    """
    law = by_id("placement/a-restored-state-lies-as-before")
    try:
        after = read_again(before, like)
    except Exception as error:
        yield Finding(
            law,
            "the state",
            f"{route} raised {summary(error)}",
            "register the classes of the state as pytrees, and how they are stored",
        )
        return
    wanted, found = sights_of(before), sights_of(after)
    ours, theirs = ({leaf.path: leaf.names for leaf in names(each)} for each in (before, after))
    for path, sight in wanted.items():
        other = found.get(path)
        problem = (
            "it is gone"
            if other is None
            else f"it lay as {place_text(sight)} and lies as {place_text(other)}"
            if not same_place(sight, other)
            else f"its names were {ours[path]} and are {theirs.get(path)}"
            if path in ours and ours[path] != theirs.get(path)
            else ""
        )
        if problem:
            yield Finding(
                law,
                path,
                f"{problem}, after {route}",
                "store names and shardings too, or restore into a state that has them",
            )


def losses(run: Run, alone: Run, disturbed: Run) -> Iterator[Finding]:
    """Losses that differ from those of one device.

    Args:
      run: On a mesh.
      alone: On one device.
      disturbed: On one device, from a state with a rounding error.

    Yields:
      A finding for the first loss that differs.
    """
    for number, (found, wanted, other) in enumerate(
        zip(run.losses, alone.losses, disturbed.losses, strict=True)
    ):
        if not _agree(found, wanted, other):
            yield Finding(
                by_id("values/meshes-agree-on-the-loss"),
                f"loss of step {number}",
                f"it is {found:.6g}, and {wanted:.6g} on one device",
                "look for a mean over the part of one device, or a collective that is missing",
                mesh_text(run.mesh),
            )
            return


def updates(run: Run, alone: Run, disturbed: Run) -> Iterator[Finding]:
    """Arrays of the state that differ from those of one device, where rounding does not decide.

    Args:
      run: On a mesh.
      alone: On one device.
      disturbed: On one device, from a state with a rounding error.

    Yields:
      A finding for each array that differs.
    """
    for path, wanted in alone.values.items():
        found, other = run.values.get(path), disturbed.values.get(path)
        if found is None or other is None or _agree(found, wanted, other):
            continue
        apart = float(np.nanmax(np.abs(_wide(found) - _wide(wanted)))) if found.size else 0.0
        yield Finding(
            by_id("values/meshes-agree-on-updates"),
            path,
            f"after {len(run.losses)} steps it differs from one device by up to {apart:.3g}",
            "average gradients and statistics over all axes that divide the batch",
            mesh_text(run.mesh),
            int(wanted.nbytes),
        )


def _agree(found: Any, wanted: Any, other: Any) -> bool:
    """Whether two results are equal, or no farther apart than rounding errors bring them."""
    if near(found, wanted, **TRAINING):
        return True
    apart, noise = np.abs(_wide(found) - _wide(wanted)), np.abs(_wide(other) - _wide(wanted))
    if not np.isfinite(apart).all():
        return bool(np.array_equal(_wide(found), _wide(wanted), equal_nan=True))
    return bool(apart.max(initial=0.0) <= NOISE * noise.max(initial=0.0))


def _wide(value: Any) -> Any:
    return np.asarray(value).astype("float64")


def compilations(run: Run) -> Iterator[Finding]:
    """Steps that compile again, with the argument that changed."""
    for number, changed in run.recompiled:
        place = changed[0].split(": ")[0] if changed else "the step"
        yield Finding(
            by_id("steadiness/steps-compile-once"),
            place,
            f"step {number} compiles again"
            + (
                f", because {'; '.join(changed[:3])}"
                if changed
                else ": no array of its arguments changed, so a static value or a closure did"
            ),
            "keep shapes, dtypes, shardings and static values of the state and the inputs",
            mesh_text(run.mesh),
        )
        return


def donation(run: Run) -> Iterator[Finding]:
    """Donated arrays whose memory no output takes."""
    for path, sight in run.unused:
        yield Finding(
            by_id("steadiness/donated-buffers-are-used"),
            path,
            f"it is donated, and no output has its type {sight.dtype}{list(sight.shape)}",
            "return an array of this shape, dtype and sharding, or do not donate it",
            mesh_text(run.mesh),
        )


def keys(program: Program) -> Iterator[Finding]:
    """Draws of random numbers with one key.

    Args:
      program: Of the loss, or of the owner's step.
    """
    law = by_id("values/a-key-is-used-once")
    first: dict[Any, str] = {}
    for draw in program.draws:
        if draw.loop > 1:
            yield Finding(
                law,
                draw.place,
                f"all {draw.loop} iterations of a scan draw with the same key",
                "split the key: split_rngs={'dropout': True} in Linen, a key of each layer in NNX",
            )
        elif draw.key in first:
            yield Finding(
                law,
                draw.place,
                f"it draws with the key of {first[draw.key] or 'an earlier draw'}",
                "take a new key for each draw: jax.random.split, or make_rng without rng=",
            )
        first.setdefault(draw.key, draw.place)


def callbacks(program: Program) -> Iterator[Finding]:
    """Calls to the host.

    Args:
      program: Of the loss, or of the owner's step.
    """
    for place in program.callbacks:
        yield Finding(
            by_id("steadiness/no-callback-leaves-the-device"),
            place or "the step",
            "it calls back to the host, and devices wait for it",
            "delete the callback or jax.debug.print, or keep it out of training",
        )

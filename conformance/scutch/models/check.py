"""Check a model: every law, its findings in one verdict.

verdict = check(model)
verdict.passes, verdict.findings[0].path
"""

import functools
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax

from scutch.adapters.checkpoints import ROUTES
from scutch.judging.readable import summary
from scutch.models import annotation_laws, crossing_laws, program, run_laws, unrolled_laws
from scutch.models.annotations import leaves, shards, spec_of
from scutch.models.arrays import abstract_of
from scutch.models.examined import INITIALISATION, Examined
from scutch.models.findings import Finding, Verdict, read_suppressions, verdict
from scutch.models.frameworks import NNX, surroundings
from scutch.models.laws import LAWS, by_id
from scutch.models.layout import decisions_of
from scutch.models.model import MeshShape, Model, mesh_text
from scutch.models.runs import Run, abstract_with_places, run_on
from scutch.models.training import Placed, fitted, make_mesh

STEPS = 3
OWN_START = ("placement/the-state-starts-as-annotated", "placement/steps-keep-the-placement")
OF_LOSS = (
    "annotations/layers-constrain-alike",
    "values/a-key-is-used-once",
    "steadiness/no-callback-leaves-the-device",
)
OF_RUNS = frozenset(
    f"models/{name}"
    for name in (
        *OWN_START,
        "placement/a-step-runs",
        "placement/a-restored-state-lies-as-before",
        unrolled_laws.UNROLLED,
        *crossing_laws.CROSSING,
        "values/meshes-agree-on-the-loss",
        "values/meshes-agree-on-updates",
        "steadiness/steps-compile-once",
        "steadiness/donated-buffers-are-used",
    )
)
"""The ids of laws that need steps of training."""


def check(
    model: Model, meshes: Sequence[MeshShape] = (), *, steps: int = STEPS, seed: int = 0
) -> Verdict:
    """Try all laws on a model.

    Args:
      model: The description.
      meshes: Mesh shapes; the model's own where there are none.
      steps: How many steps of training are run on each mesh; 0 for laws from shapes alone.
      seed: Of the drawn mesh, the first state and the inputs.

    Returns:
      The findings, gravest first, and the laws that hold or do not apply.

    Raises:
      SetupError: The description or the file of suppressions is wrong.
    """
    examined = Examined(model, meshes)
    suppressions = () if model.suppressions is None else read_suppressions(model.suppressions)
    skipped: list[tuple[str, str]] = []
    findings: list[Finding] = []
    if (failure := examined.failure) is not None:
        law = by_id("annotations/the-model-is-made-from-shapes")
        untraced = Finding(law, failure.place, failure.told, failure.remedy)
        if failure.place == INITIALISATION:
            skipped += [(each.id, "the model cannot be made") for each in LAWS if each != law]
            return verdict([untraced], skipped, suppressions)
        skipped += [(f"models/{each}", "the loss cannot be traced") for each in OF_LOSS]
    findings += annotation_laws.findings(examined)
    findings += run_laws.moments(examined)
    findings += run_laws.keys(examined.program)
    findings += run_laws.callbacks(examined.program)
    if failure is None and not examined.program.draws:
        skipped.append(("values/a-key-is-used-once", "the loss draws no random numbers"))
    if model.start is None:
        reason = "the check made the state and the step itself; give start= and step="
        skipped += [(law, reason) for law in OWN_START]
    if failure is not None and not any(finding.fails for finding in findings):
        findings.append(untraced)
    refused = failure is not None or any(each.law.harm == "refused" for each in findings)
    if steps == 0 or refused:
        reason = "no steps were asked for" if steps == 0 else "the model cannot be laid out"
        skipped += [(law.id, reason) for law in LAWS if law.id in OF_RUNS]
    else:
        findings += _runs(examined, steps, seed, skipped)
        findings += unrolled_laws.findings(examined, seed, skipped)
        findings += crossing_laws.findings(examined, seed, skipped)
    return verdict(findings, skipped, suppressions)


def _runs(
    examined: Examined, steps: int, seed: int, skipped: list[tuple[str, str]]
) -> Iterator[Finding]:
    """The findings of the laws about steps of training."""
    own = examined.model.start is not None
    training = replace(examined.training, times=drawn_times(examined, seed))
    one = dict.fromkeys(examined.meshes[0], 1)
    shapes: list[MeshShape] = []
    for each in (*map(fitted, examined.meshes), drawn_mesh(examined, seed)):
        if each is not None and each not in (one, *shapes):
            shapes.append(each)
    law = by_id("placement/a-step-runs")
    try:
        with training.on(one) as there:
            first = None if own else _first(examined, seed)
            alone = run_on(there, steps=steps, seed=seed, state=first)
            noise = run_on(there, steps=steps, seed=seed, state=first, disturbed=True)
            if own:
                step = program.read(jax.make_jaxpr(there.step)(there.abstract, *there.batch(0)))
                yield from run_laws.keys(step)
                yield from run_laws.callbacks(step)
    except Exception as error:
        yield Finding(
            law, "the step", summary(error), "see the traceback of the step on one device"
        )
        return
    donated = alone.donated or bool(alone.unused)
    for shape in shapes:
        try:
            with training.on(shape) as there:
                intended = shape == shapes[0]  # on others a first state need not be compiled
                run = run_on(there, steps=steps, seed=seed, state=None if intended else first)
                if intended:
                    yield from _restored(there, seed, skipped)
        except Exception as error:
            yield Finding(law, "the step", summary(error), "see the text of JAX", mesh_text(shape))
            continue
        donated = donated or run.donated or bool(run.unused)
        yield from _on(examined, run, own)
        yield from run_laws.losses(run, alone, noise)
        yield from run_laws.updates(run, alone, noise)
    if not donated:
        skipped.append(("steadiness/donated-buffers-are-used", "the step donates nothing"))


def _first(examined: Examined, seed: int) -> Any:
    """The first state on one device, as the judge makes it."""
    return jax.jit(examined.training.started)(*examined.variables(seed), jax.random.key(seed))


def _restored(there: Placed, seed: int, skipped: list[tuple[str, str]]) -> Iterator[Finding]:
    """The findings about a state that is stored and read again."""
    state = there.start(seed)
    names = functools.partial(leaves, there.training.implementation)
    framework = there.training.framework
    routes = dict(ROUTES)
    if isinstance(framework, NNX) and not there.owner_starts:
        routes["nnx.state"] = framework.restored
    for name, route in routes.items():
        yield from run_laws.restored(state, abstract_with_places(state), name, route, names)
    if not routes:
        reason = "neither Flax nor Orbax is installed"
        skipped.append(("placement/a-restored-state-lies-as-before", reason))


def _on(examined: Examined, run: Run, own: bool) -> Iterator[Finding]:
    if own:
        yield from run_laws.start(examined, run)
        yield from run_laws.drift(run)
    yield from run_laws.compilations(run)
    yield from run_laws.donation(run)


def drawn_times(examined: Examined, seed: int) -> int:
    """The factor by which a batch is larger than described; it is 1 for the seed 0.

    Args:
      examined: The model.
      seed: The seed of the draw; 0 leaves the batch as described.

    Returns:
      1, 2 or 3; 1 where the owner makes the batches or the step, or the model takes one size only.
    """
    model, times = examined.model, random.Random(seed).choice((1, 2, 3)) if seed else 1
    if times == 1 or model.batches is not None or model.step is not None:
        return 1
    training = replace(examined.training, times=times)
    found, key = examined.abstract, jax.eval_shape(lambda: jax.random.key(0))
    params, rest = abstract_of(found.params), abstract_of(found.rest)
    mesh = make_mesh(dict.fromkeys(examined.meshes[0], 1))
    try:
        with surroundings(training.implementation, model.rules, mesh):
            jax.eval_shape(training.loss, params, rest, key, *training.arguments)
    except Exception:
        return 1  # the model is written for the batch that its owner describes
    return times


def drawn_mesh(examined: Examined, seed: int) -> dict[str, int] | None:
    """Another mesh shape that the model's sizes allow, with its axes in any order.

    Args:
      examined: The model.
      seed: Which of them.

    Returns:
      A mesh shape of the present devices; None where the sizes allow one device only.
    """
    axes, present = list(examined.meshes[0]), len(jax.devices())
    sizes = [n for n in range(1, present + 1) if present % n == 0]
    shapes = [
        dict(zip(order, each, strict=True))
        for order in itertools.permutations(axes)
        for each in itertools.product(sizes, repeat=len(axes))
        if 1 < math.prod(each) <= present
    ]
    drawn = random.Random(seed)
    drawn.shuffle(shapes)
    return next((shape for shape in shapes if _divides(examined, shape)), None)


def _divides(examined: Examined, shape: MeshShape) -> bool:
    """Whether every axis of the model's arrays, inputs and constraints can be laid out."""
    model = examined.model
    arrays = [(leaf.shape, spec_of(decisions_of(model, leaf))) for leaf in examined.annotated]
    arrays += [(value.shape, spec) for value, spec in examined.inputs]
    arrays += [(one.shape, one.spec) for one in examined.program.constraints]
    return all(
        length % shards((entry,), shape) == 0
        for lengths, spec in arrays
        for entry, length in zip(spec, lengths, strict=False)
    )

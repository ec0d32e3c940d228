"""Models in the shape of public ones have no findings, and thirty bugs in them are named."""

import numpy as np
import optax
import pytest
from flax.core import meta
from scutch.models import findings
from scutch.models.check import check
from scutch.models.laws import by_id
from trials.models.public import (
    DECODER_RULES,
    MODELS,
    VISION_RULES,
    DecoderOptions,
    LogicalDecoder,
    gemma,
    language,
    logical,
    residual,
    vision,
)

pytestmark = pytest.mark.nightly


def without(name, rules):
    return tuple(rule for rule in rules if rule[0] != name)


def instead(name, axis, rules):
    return tuple((each, axis if each == name else old) for each, old in rules)


def unboxed_moments(rate=1e-3):
    """Adam whose state is made of bare arrays, as `optimizer.init` outside of boxes makes it."""
    adam = optax.adam(rate)

    def update(gradients, state, params):
        updates, state = adam.update(meta.unbox(gradients), state)
        return meta.replace_boxed(params, updates), state

    return optax.GradientTransformation(lambda params: adam.init(meta.unbox(params)), update)


def growing(number):
    return np.ones((8 * (number + 1), 4, 4, 3), "float32")


SHAPES = {
    "no names for a large table": (
        lambda: language(table=None),
        "large-parameters-are-sharded",
        "embed/embedding",
    ),
    "a name too few": (
        lambda: language(out=("model", None)),
        "one-name-for-each-axis",
        "block_0/out",
    ),
    "a mesh axis twice": (
        lambda: language(up=("model", "model")),
        "one-name-for-each-axis",
        "block_0/up/kernel",
    ),
    "a mesh axis misspelt": (
        lambda: language(query=(None, "modle", None)),
        "the-mesh-has-the-axis",
        "block_0/query",
    ),
    "heads that do not divide": (lambda: language(heads=3), "sizes-divide", "block_0/out"),
    "one layer annotated otherwise": (
        lambda: language({"large": 2**20}, odd=(None, None)),
        "siblings-lie-alike",
        "block_1/up/kernel",
    ),
    "one key for two dropouts": (
        lambda: language(one_key=True),
        "values/a-key-is-used-once",
        "block_0/Dropout_1",
    ),
    "a replicated moment": (
        lambda: language({"optimizer": unboxed_moments()}),
        "placement/moments-lie-as-parameters",
        "mu/embed/embedding",
    ),
    "names swapped": (
        lambda: vision(up=("mlp", "embed")),
        "names-are-not-swapped",
        "blocks/0/up/kernel",
    ),
    "a lost rule": (
        lambda: vision(rules=without("mlp", VISION_RULES)),
        "each-name-has-a-rule",
        "blocks/0/",
    ),
    "a name misspelt": (
        lambda: vision(down=("mpl", "embed")),
        "each-name-has-a-rule",
        "blocks/0/down/kernel",
    ),
    "a rule that leads to no axis": (
        lambda: vision(rules=instead("heads", "modle", VISION_RULES)),
        "the-mesh-has-the-axis",
        "blocks/0/attention",
    ),
    "a hidden size that does not divide": (
        lambda: vision(hidden=31),
        "sizes-divide",
        "blocks/0/",
    ),
    "one key for the draws of a block": (
        lambda: vision(repeated_key=True),
        "values/a-key-is-used-once",
        "",
    ),
    "a callback in a block": (
        lambda: vision(callback=True),
        "steadiness/no-callback-leaves-the-device",
        "",
    ),
    "a constraint that one layer lacks": (
        lambda: gemma(unconstrained_layer=1, layers=3),
        "layers-constrain-alike",
        "blocks/1",
    ),
    "no names for the table of an object": (
        lambda: gemma(table=None),
        "large-parameters-are-sharded",
        "table",
    ),
    "heads of an object that do not divide": (
        lambda: gemma(heads=3),
        "sizes-divide",
        "blocks/0/",
    ),
    "a constraint by an axis that the mesh lacks": (
        lambda: gemma(stream=("fsdp", None, "tensr")),
        "the-model-is-made-from-shapes",
        "the loss",
    ),
    "a gate annotated otherwise in one layer": (
        lambda: gemma(odd=("fsdp", None)),
        "siblings-lie-alike",
        "blocks/",
    ),
    "a lost rule of logical names": (
        lambda: logical(rules=without("mlp", DECODER_RULES)),
        "each-name-has-a-rule",
        "layers/",
    ),
    "rules in an order that starves a name": (
        lambda: logical(rules=instead("vocab", ("fsdp", "tensor"), DECODER_RULES)),
        "names-do-not-compete",
        "table/embedding",
    ),
    "names that compete": (
        lambda: logical(rules=instead("mlp", "fsdp", DECODER_RULES)),
        "names-do-not-compete",
        "layers/",
    ),
    "no constraint of the residual stream": (
        lambda: logical(stream=None),
        "layers-constrain-alike",
        "layers",
    ),
    "a constraint by a name misspelt": (
        lambda: logical(inner=("activation_batch", "activation_length", "activation_mpl")),
        "each-name-has-a-rule",
        "public.py",
    ),
    "a scan without partition name": (
        lambda: logical(partition_name=None),
        "the-model-is-made-from-shapes",
        "initialisation",
    ),
    "names swapped below a scan along axis 1": (
        lambda: logical(up=("mlp", "embed")),
        "names-are-not-swapped",
        "layers/",
    ),
}
"""Bugs that are seen from shapes alone."""

STEPS = {
    "batch statistics of one device": (
        lambda: residual(synced=False),
        "values/meshes-agree-on-updates",
        "batch_stats/",
    ),
    "a momentum whose donated memory is of no use": (
        lambda: residual(half=True),
        "steadiness/donated-buffers-are-used",
        "momentum/",
    ),
    "a batch that grows": (
        lambda: residual({"batches": growing}),
        "steadiness/steps-compile-once",
        "input/0",
    ),
    "a layer that differs from the scan": (
        lambda: logical({"unrolled": LogicalDecoder(DecoderOptions(scanned=False, odd_scale=2.0))}),
        "values/scanned-equals-unrolled",
        "layers/",
    ),
}
"""Bugs that take steps of training."""


def law_of(name):
    return by_id(name if "/" in name else f"annotations/{name}")


@pytest.mark.parametrize("name", MODELS)
def test_a_public_model_has_no_findings(name):
    verdict = check(MODELS[name]())
    assert verdict.findings == (), findings.text(verdict)


@pytest.mark.parametrize("bug", SHAPES)
def test_a_bug_in_a_public_model_is_named_first(bug):
    make, name, path = SHAPES[bug]
    verdict = check(make(), steps=0)
    assert verdict.findings, "nothing was found"
    assert verdict.findings[0].law == law_of(name), findings.text(verdict)
    assert any(path in finding.path for finding in verdict.of(law_of(name)))


@pytest.mark.parametrize("bug", STEPS)
def test_a_bug_in_the_step_of_a_public_model_is_named_first(bug):
    make, name, path = STEPS[bug]
    verdict = check(make(), steps=2)
    assert verdict.findings, "nothing was found"
    assert verdict.findings[0].law == law_of(name), findings.text(verdict)
    assert any(path in finding.path for finding in verdict.of(law_of(name)))


def test_thirty_bugs_are_planted():
    assert len(SHAPES) + len(STEPS) >= 30

"""`scutch model check` names each bug that is planted, and none where there is none."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scutch
from flax import linen, nnx, serialization
from jax.sharding import NamedSharding, PartitionSpec
from jax.tree_util import DictKey
from scutch import cli
from scutch.adapters.flax import implementation as FLAX
from scutch.lawkit.training import ADAM
from scutch.models import findings
from scutch.models.check import check, drawn_times
from scutch.models.examined import Examined
from scutch.models.laws import LAWS, by_id
from trials.models import twins
from trials.models.decoder import RULES, decoder, instead, without

ROOT = Path(__file__).parents[3]
LAYERS = "layers/wide/kernel"
PLANTED = {
    "a name without rule": (
        lambda: decoder(rules=without("mlp")),
        "annotations/each-name-has-a-rule",
        LAYERS,
    ),
    "a misspelt name": (
        lambda: decoder(wide=("embed", "mpl")),
        "annotations/each-name-has-a-rule",
        LAYERS,
    ),
    "a constraint by a name without rule": (
        lambda: decoder(rules=without("length")),
        "annotations/each-name-has-a-rule",
        "decoder.py",
    ),
    "names swapped": (
        lambda: decoder(wide=("mlp", "embed")),
        "annotations/names-are-not-swapped",
        LAYERS,
    ),
    "names swapped in each of some layers": (
        lambda: decoder(wide=("mlp", "embed"), scanned=False),
        "annotations/names-are-not-swapped",
        "layer_0/wide/kernel",
    ),
    "a name twice": (
        lambda: decoder(wide=("embed", "embed")),
        "annotations/one-name-for-each-axis",
        LAYERS,
    ),
    "a name too few": (
        lambda: decoder(table=("vocab",)),
        "annotations/one-name-for-each-axis",
        "embed/embedding",
    ),
    "names that compete": (
        lambda: decoder(rules=instead("mlp", "fsdp")),
        "annotations/names-do-not-compete",
        "layers/",
    ),
    "a mesh axis misspelt": (
        lambda: decoder(rules=instead("mlp", "tensr")),
        "annotations/the-mesh-has-the-axis",
        "layers/",
    ),
    "a size that does not divide": (
        lambda: decoder(hidden=33),
        "annotations/sizes-divide",
        "layers/",
    ),
    "a batch that does not divide": (
        lambda: decoder(batch=6),
        "annotations/sizes-divide",
        "input 0",
    ),
    "one layer of several annotated otherwise": (
        lambda: decoder(scanned=False, layers=3, odd_layer=("embed", None)),
        "annotations/siblings-lie-alike",
        "layer_1/wide/kernel",
    ),
    "a large table without names": (
        lambda: decoder(table=None, more={"large": 1024}),
        "annotations/large-parameters-are-sharded",
        "embed/embedding",
    ),
    "no constraint of the residual stream in a scan": (
        lambda: decoder(constrained=False),
        "annotations/layers-constrain-alike",
        "layers",
    ),
    "no constraint in one layer": (
        lambda: decoder(scanned=False, layers=3, odd_constraint=False),
        "annotations/layers-constrain-alike",
        "layer_1",
    ),
    "a scan without partition name": (
        lambda: decoder(partition_name=False),
        "annotations/the-model-is-made-from-shapes",
        "initialisation",
    ),
    "one key for two dropouts": (
        lambda: decoder(dropout=0.5, one_key=True, scanned=False),
        "values/a-key-is-used-once",
        "layer_0",
    ),
    "one key for all layers of a scan": (
        lambda: decoder(dropout=0.5, split_keys=False),
        "values/a-key-is-used-once",
        "layers",
    ),
    "a print in a layer": (
        lambda: decoder(printing=True),
        "steadiness/no-callback-leaves-the-device",
        "",
    ),
}


def named(verdict, law, path):
    return [finding for finding in verdict.of(by_id(law)) if path in finding.path]


@pytest.mark.parametrize(
    ("options", "seed"), [({"dropout": 0.5}, 0), ({"scanned": False}, 3)], ids=str
)
def test_a_decoder_without_bugs_has_no_findings(options, seed):
    verdict = check(decoder(**options), seed=seed)
    assert verdict.findings == ()
    assert verdict.passes


class WithDropout(nnx.Module):
    """Streams of random numbers that a call moves on, and `rngs` by keyword only."""

    def __init__(self, *, rngs):
        self.linear = nnx.Linear(8, 8, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.linear(self.dropout(x))


def test_an_object_whose_call_changes_streams_has_no_findings():
    verdict = check(twins.described(WithDropout, rules=(), meshes=(twins.MESH,)))
    assert verdict.findings == ()


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_named_first(bug):
    make, law, path = PLANTED[bug]
    verdict = check(make(), steps=0)
    assert named(verdict, law, path), findings.text(verdict)
    assert verdict.findings[0].law.id == f"models/{law}", findings.text(verdict)
    assert not verdict.passes


def test_a_rule_that_never_decides_is_told_and_fails_nothing():
    verdict = check(decoder(rules=(*RULES, ("embed", "tensor"), ("lonely", "fsdp"))), steps=0)
    assert [each.path for each in verdict.findings] == ["rule 8", "rule 9"]
    assert verdict.passes


def test_a_rule_that_stands_at_a_variable_too_decides():
    assert check(twins.objects(), steps=0).findings == ()
    verdict = check(twins.objects(rules=(*twins.RULES, ("mlp", "data"))), steps=0)
    assert [each.path for each in verdict.findings] == ["rule 4"]


def stepped(start=None, step=None, **more):
    """A least squares model with an own state and step; `start` and `step` plant a bug."""
    rules = (("batch", "data"), ("in", None), ("out", "model"))
    init = nnx.with_partitioning(nnx.initializers.lecun_normal(), ("in", "out"))

    def make(rngs):
        return nnx.Linear(8, 4, use_bias=False, kernel_init=init, rngs=rngs)

    return scutch.Model(
        make,
        jax.ShapeDtypeStruct((8, 8), "float32"),
        rules=rules,
        meshes=({"data": 4, "model": 2},),
        start=start or honest_start,
        step=step or honest_step,
        **more,
    )


def placed(mesh):
    return NamedSharding(mesh, PartitionSpec(None, "model"))


def honest_start(mesh, key):
    kernel = jax.device_put(jax.random.normal(key, (8, 4)), placed(mesh))
    zeros = jax.device_put(jnp.zeros((8, 4)), placed(mesh))
    return {"kernel": kernel, "momentum": {"kernel": zeros}}


def loss_of(kernel, x):
    return jnp.mean((x @ kernel - 1) ** 2)


def honest_step(state, x):
    loss, gradient = jax.value_and_grad(loss_of)(state["kernel"], x)
    momentum = 0.9 * state["momentum"]["kernel"] + gradient
    return {"kernel": state["kernel"] - 0.1 * momentum, "momentum": {"kernel": momentum}}, loss


def replicated_moment(mesh, key):
    state = honest_start(mesh, key)
    whole = NamedSharding(mesh, PartitionSpec())
    return {**state, "momentum": jax.device_put(state["momentum"], whole)}


def replicated_start(mesh, key):
    return jax.device_put(honest_start(mesh, key), NamedSharding(mesh, PartitionSpec()))


def moving_step(state, x):
    state, loss = honest_step(state, x)
    mesh = jax.sharding.get_abstract_mesh()
    elsewhere = NamedSharding(mesh, PartitionSpec("model"))
    kernel = jax.lax.with_sharding_constraint(state["kernel"], elsewhere)
    return {**state, "kernel": kernel}, loss


def gradient_of_one_device(state, x):
    """A mean over the rows of each device, of which one device's is taken."""
    mesh = jax.sharding.get_abstract_mesh()

    def local(kernel, x):
        return jax.value_and_grad(loss_of)(kernel, x)

    loss, gradient = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(PartitionSpec(), PartitionSpec("data")),
        out_specs=(PartitionSpec(), PartitionSpec()),
        check_vma=False,
    )(state["kernel"], x)
    return {**state, "kernel": state["kernel"] - 0.1 * gradient}, jax.lax.stop_gradient(
        loss_of(state["kernel"], x)
    ) + 0 * loss


def loss_of_one_device(state, x):
    mesh = jax.sharding.get_abstract_mesh()
    loss = jax.shard_map(
        loss_of,
        mesh=mesh,
        in_specs=(PartitionSpec(), PartitionSpec("data")),
        out_specs=PartitionSpec(),
        check_vma=False,
    )(state["kernel"], x)
    return honest_step(state, x)[0], loss


class Store(dict):
    """A pytree that is stored without its shardings."""


def flattened(store):
    return [(DictKey(name), store[name]) for name in store], tuple(store)


jax.tree_util.register_pytree_with_keys(
    Store, flattened, lambda names, values: Store(zip(names, values, strict=True))
)
serialization.register_serialization_state(
    Store, dict, lambda store, state: Store(jax.tree.map(np.asarray, state))
)


def stored_start(mesh, key):
    return Store(honest_start(mesh, key))


def stored_step(state, x):
    state, loss = honest_step(state, x)
    return Store(state), loss


def printing_step(state, x):
    state, loss = honest_step(state, x)
    jax.debug.print("{}", loss)
    return state, loss


def halved_step(state, x):
    state, loss = honest_step(state, x)
    return {**state, "momentum": {"kernel": state["momentum"]["kernel"].astype("float16")}}, loss


def growing(number):
    return np.ones((8 * (number + 1), 8), "float32")


STEPPED = {
    "a replicated moment": (
        {"start": replicated_moment},
        "placement/moments-lie-as-parameters",
        "momentum/kernel",
    ),
    "a state that is made replicated": (
        {"start": replicated_start},
        "placement/the-state-starts-as-annotated",
        "kernel",
    ),
    "a step that moves a parameter": (
        {"step": moving_step},
        "placement/steps-keep-the-placement",
        "kernel",
    ),
    "the gradient of one device": (
        {"step": gradient_of_one_device},
        "values/meshes-agree-on-updates",
        "kernel",
    ),
    "the loss of one device": (
        {"step": loss_of_one_device},
        "values/meshes-agree-on-the-loss",
        "loss",
    ),
    "a state that is stored without its shardings": (
        {"start": stored_start, "step": stored_step},
        "placement/a-restored-state-lies-as-before",
        "kernel",
    ),
    "a print in an own step": (
        {"step": printing_step},
        "steadiness/no-callback-leaves-the-device",
        "",
    ),
    "a dtype that changes": (
        {"step": halved_step},
        "steadiness/steps-compile-once",
        "state/momentum/kernel",
    ),
    "a donated array that no output can use": (
        {"step": halved_step},
        "steadiness/donated-buffers-are-used",
        "momentum/kernel",
    ),
    "a batch that grows": (
        {"batches": growing},
        "steadiness/steps-compile-once",
        "input/0",
    ),
}


def test_an_own_step_without_bugs_has_no_findings():
    verdict = check(stepped())
    assert verdict.findings == ()
    assert {law.id.split("/")[1] for law in verdict.held} == {
        "annotations",
        "placement",
        "values",
        "steadiness",
        "crossing",
    }


@pytest.mark.parametrize("bug", STEPPED)
def test_a_bug_in_an_own_step_is_named(bug):
    options, law, path = STEPPED[bug]
    verdict = check(stepped(**options))
    assert named(verdict, law, path), findings.text(verdict)


def test_a_step_that_was_compiled_before_is_judged_all_the_same():
    step = jax.jit(halved_step, donate_argnums=0)
    first, second = check(stepped(step=step)), check(stepped(step=step))
    assert named(first, "steadiness/donated-buffers-are-used", "momentum/kernel")
    assert named(first, "steadiness/steps-compile-once", "state/momentum/kernel")
    assert second == first


def test_an_optimizer_that_drops_the_boxes_of_its_moments_is_named():
    def init(params):
        return ADAM.init(jax.tree_util.tree_map(jnp.asarray, scutch_unboxed(params)))

    def scutch_unboxed(params):
        from flax.core import meta

        return meta.unbox(params)

    optimizer = type(ADAM)(init, ADAM.update)
    verdict = check(decoder(more={"optimizer": optimizer}), steps=0)
    assert named(verdict, "placement/moments-lie-as-parameters", "mean/embed/embedding")
    assert verdict.findings[0].law.id == "models/placement/moments-lie-as-parameters"


class Bridge:
    """A bridge that changes an object in `ToLinen`."""

    def __init__(self, change):
        self.change = change

    def ToLinen(self, make):
        return FLAX.bridge.ToLinen(lambda *, rngs: self.change(make(rngs=rngs)))


def halved(linear):
    linear.kernel_init = None
    call = type(linear).__call__
    halving = type("Halving", (type(linear),), {"__call__": lambda self, x: call(self, x) / 2})
    linear.__class__ = halving
    return linear


def nameless(linear):
    linear.kernel = nnx.Param(linear.kernel[...])
    return linear


@pytest.mark.parametrize(
    ("change", "law"),
    [(halved, "crossing/the-bridge-keeps-values"), (nameless, "crossing/the-bridge-keeps-places")],
)
def test_what_a_bridge_changes_is_told_and_fails_nothing(change, law):
    verdict = check(stepped(implementation=dataclasses.replace(FLAX, bridge=Bridge(change))))
    assert {finding.law.id for finding in verdict.findings} == {f"models/{law}"}
    assert verdict.passes


class Fixed(linen.Module):
    """A layer that is written for a batch of eight, and constrains it by a spec alone."""

    @linen.compact
    def __call__(self, x):
        x = jax.lax.with_sharding_constraint(x, PartitionSpec("data"))
        return linen.Dense(8)(x) + self.param("offset", linen.initializers.ones, (8, 1))


def test_a_call_may_need_a_mesh():
    assert check(twins.described(Fixed(), rules=()), steps=0).findings == ()


def test_a_seed_draws_the_size_of_the_batch_where_the_model_takes_any():
    examined, fixed = Examined(decoder()), Examined(twins.described(Fixed(), rules=()))
    assert {drawn_times(examined, seed) for seed in range(9)} == {1, 2, 3}
    assert {drawn_times(fixed, seed) for seed in range(9)} == {1}
    assert drawn_times(examined, 0) == 1
    training = dataclasses.replace(examined.training, times=3)
    assert training.batch(0)[0].shape == (24, 4)


def test_the_second_batch_has_extremes():
    training = Examined(twins.linen(), ()).training
    usual, extreme = (training.batch(number)[0] for number in (0, 1))
    assert np.abs(usual).max() < 10
    assert np.abs(extreme).max() == 100


def test_every_law_convicts_some_bug():
    convicted = {law for _, law, _ in (*PLANTED.values(), *STEPPED.values())}
    convicted |= {
        "annotations/every-rule-decides",
        "placement/a-step-runs",
        "values/scanned-equals-unrolled",
        "crossing/the-bridge-keeps-places",
        "crossing/the-bridge-keeps-values",
    }
    assert {law.id.removeprefix("models/") for law in LAWS} == convicted


def test_a_step_that_raises_is_told():
    def broken(state, x):
        raise ValueError("the owner's own text")

    [finding] = check(stepped(step=broken)).findings
    assert finding.law.id == "models/placement/a-step-runs"
    assert "the owner's own text" in finding.problem


def test_a_suppression_keeps_a_finding_from_failing(tmp_path):
    file = tmp_path / "accepted.toml"
    entry = '[[known]]\nrequirement = "models/annotations/each-*"\npath = "{}"\nreason = "small"\n'
    file.write_text(entry.format("layers/*"))
    verdict = check(decoder(wide=("embed", "mpl"), more={"suppressions": file}), steps=0)
    assert verdict.passes
    assert [each.reason for each in verdict.findings] == ["small"]
    file.write_text(entry.format("layers/*") + entry.format("nowhere"))
    verdict = check(decoder(wide=("embed", "mpl"), more={"suppressions": file}), steps=0)
    assert not verdict.passes
    assert "at nowhere: it covers nothing" in findings.text(verdict)
    file.write_text(entry.format("x").replace("models/", "nodels/"))
    with pytest.raises(scutch.SetupError, match="no law has the id"):
        check(decoder(more={"suppressions": file}), steps=0)


def test_the_command_tells_findings_and_fails(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checked_model.py").write_text(
        "from trials.models.decoder import decoder\n"
        "good = decoder()\n"
        "bad = decoder(wide=('embed', 'mpl'))\n"
    )
    assert cli.main(["model", "checked_model.py:good", "check", "--steps", "0"]) == 0
    assert "0 findings to mend" in capsys.readouterr().out
    assert cli.main(["model", "checked_model.py:bad", "check", "--steps", "0"]) == 1
    told = capsys.readouterr().out
    assert "layers/wide/kernel: the name 'mpl' of axis 2 has no rule; 'mlp' has one" in told
    assert cli.main(["model", "checked_model.py:bad", "check", "--steps", "0", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["path"] == "layers/wide/kernel"


def test_a_model_is_judged_in_the_owners_tests():
    assert scutch.judge_model(decoder(), steps=0).passes
    with pytest.raises(scutch.ModelFindings, match="no rule; 'mlp' has one") as caught:
        scutch.judge_model(decoder(wide=("embed", "mpl")), steps=0)
    assert caught.value.verdict.findings


def test_a_class_of_tests_has_an_item_for_each_law(tmp_path):
    (tmp_path / "test_decoder.py").write_text(
        "import scutch\n"
        "from trials.models.decoder import decoder\n"
        "class TestDecoder(scutch.ModelTests):\n"
        "    model = decoder(wide=('embed', 'mpl'))\n"
        "    steps = 0\n"
    )
    report = tmp_path / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        os.devnull,
        "--rootdir",
        tmp_path,
        f"--junitxml={report}",
        tmp_path / "test_decoder.py",
    ]
    paths = os.pathsep.join([str(ROOT / "conformance"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    suite = ElementTree.parse(report).getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == (str(len(LAWS)), "1"), done.stdout


class DotReluDot(linen.Module):
    """Two matrices of opposite shapes, whose names agree with the constraint or with each other."""

    second: tuple

    @linen.compact
    def __call__(self, x):
        init = linen.initializers.xavier_normal()
        first = linen.with_logical_partitioning(init, ("embed", "mlp"))
        y = linen.Dense(16, kernel_init=first, use_bias=False, name="wide")(x)
        y = linen.with_logical_constraint(jax.nn.relu(y), ("batch", "mlp"))
        second = linen.with_logical_partitioning(init, self.second)
        return linen.Dense(8, kernel_init=second, use_bias=False, name="narrow")(y)


def test_a_constraint_tells_which_of_two_arrays_has_its_names_swapped():
    rules = (("batch", "data"), ("embed", None), ("mlp", "model"))
    found = {}
    for second in (("mlp", "embed"), ("embed", "mlp")):
        module = DotReluDot(second)
        described = twins.described(module, rules=rules, meshes=(twins.MESH,))
        found[second] = [each.path for each in check(described, steps=0).findings]
    assert found == {("mlp", "embed"): [], ("embed", "mlp"): ["narrow/kernel"]}


def test_a_text_folds_repeated_layers_and_shows_three_findings_of_a_law():
    layers = check(decoder(scanned=False, layers=4, wide=("embed", "mpl")), steps=0)
    told = findings.text(layers)
    assert len(layers.of(by_id("annotations/each-name-has-a-rule"))) == 4
    assert told.count("layer_{0..3}/wide/kernel: the name 'mpl'") == 1
    assert ", 1 finding to mend" in told, told
    law = by_id("annotations/sizes-divide")
    several = [findings.Finding(law, path, "it is odd", "mend it") for path in "abcde"]
    told = findings.text(findings.verdict(several, []))
    assert told.count("it is odd") == 3
    assert "2 more findings of models/annotations/sizes-divide, at d, e; --json shows all" in told
    assert "5 findings to mend" in told


class Forgetful:
    """NNX whose `state` reads variables without their names."""

    def __getattr__(self, name):
        return getattr(FLAX.nnx, name)

    def state(self, made, *filters):
        return jax.tree.map(
            lambda variable: type(variable)(variable[...]),
            FLAX.nnx.state(made, *filters),
            is_leaf=lambda each: isinstance(each, nnx.Variable),
        )


def test_a_state_of_an_object_that_loses_its_names_is_told():
    verdict = check(twins.objects(implementation=dataclasses.replace(FLAX, nnx=Forgetful())))
    lost = named(verdict, "placement/a-restored-state-lies-as-before", "wide/kernel")
    assert any("after nnx.state" in each.problem for each in lost), findings.text(verdict)

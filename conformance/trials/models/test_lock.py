"""`scutch model lock` keeps layout and cost of a step, and explains their changes."""

import json
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scutch
from flax.core import meta
from jax.sharding import NamedSharding, PartitionSpec
from scutch import cli
from scutch.lawkit.training import ADAM
from scutch.models import cost
from scutch.models import lock as locking
from scutch.models.training import Placed
from trials.models.decoder import LENGTH, decoder, instead, without

NAME = "fsdp=4,tensor=2"


def unboxed_update(grads, state, params):
    updates, state = ADAM.update(meta.unbox(grads), state)
    return meta.replace_boxed(params, updates), state


REPLICATED = type(ADAM)(lambda params: ADAM.init(meta.unbox(params)), unboxed_update)


def longer(number):
    return np.ones((8, LENGTH + number), "int32")


def twice(logits, tokens):
    return jnp.mean(jax.nn.softmax(logits) ** 2) + jnp.mean(jnp.sin(logits))


REGRESSIONS = {
    "a parameter without names": (
        lambda: decoder(table=None),
        "embed/embedding is now replicated (was ('tensor', 'fsdp'))",
    ),
    "a name without rule": (
        lambda: decoder(rules=without("mlp")),
        "layers/wide/kernel lies now as (None, 'fsdp') (was (None, 'fsdp', 'tensor'))",
    ),
    "another mesh axis": (
        lambda: decoder(rules=instead("embed", None)),
        "embed/embedding lies now as ('tensor',) (was ('tensor', 'fsdp'))",
    ),
    "a wider layer": (lambda: decoder(hidden=64), "layers/wide/kernel is now float32[2,16,64]"),
    "another layer": (lambda: decoder(layers=3), "layers/norm/scale is now float32[3,16]"),
    "an unrolled loop": (lambda: decoder(scanned=False), "layers/wide/kernel is gone"),
    "moments without names": (
        lambda: decoder(more={"optimizer": REPLICATED}),
        "mean/embed/embedding lies now as float32[64,16] () (was as embed/embedding)",
    ),
    "activations that are constrained to be whole": (
        lambda: decoder(stream=("length", None, "stream")),
        "more all-",
    ),
    "a shape of each step's own": (
        lambda: decoder(more={"batches": longer}),
        "a step makes 3 compilations (was 1)",
    ),
    "a loss with more terms": (lambda: decoder(more={"loss": twice}), "FLOPs (was "),
}


@pytest.fixture(scope="module")
def accepted():
    return locking.lock(decoder())


def test_a_lock_says_the_same_again(accepted):
    assert locking.text(locking.lock(decoder())) == locking.text(accepted)
    locked = accepted["meshes"][NAME]
    assert locked["parameters"]["layers/wide/kernel"] == "float32[2,16,32] (None, 'fsdp', 'tensor')"
    assert locked["optimizer"]["mean/layers/wide/kernel"] == "as layers/wide/kernel"
    step = locked["step"]
    assert step["compilations"] == 1
    assert step["collectives"]["all-reduce"]["count"] == sum(
        counts.get("all-reduce", 0) for counts in step["places"].values()
    )


@pytest.mark.parametrize("regression", REGRESSIONS)
def test_a_regression_changes_the_lock_and_is_explained(accepted, regression):
    make, told = REGRESSIONS[regression]
    differences = locking.differences(accepted, locking.lock(make()))
    assert any(told in each for each in differences), differences


def test_one_array_that_moves_is_told_with_its_cost():
    def lock(place, count):
        step = {
            "collectives": {"all-gather": {"count": count, "bytes": 2048 * count}},
            "places": {"mlp": {"all-gather": count}},
        }
        mesh = {"parameters": {"mlp/wi": f"float32[8] {place}"}, "optimizer": {}, "step": step}
        return {"jax": "1", "meshes": {NAME: mesh}}

    assert locking.differences(lock("('fsdp',)", 1), lock("()", 3)) == [
        "fsdp=4,tensor=2: mlp/wi is now replicated (was ('fsdp',)): a step has 2 more all-gathers "
        "(mlp +2), 4.0 KiB more"
    ]


def test_costs_of_another_jax_are_not_compared(accepted):
    other = {**accepted, "jax": "0.0.0"}
    [told] = locking.differences(other, accepted)
    assert told.startswith(f"costs are of JAX {jax.__version__} and were of JAX 0.0.0")


def test_a_mesh_grows_along_its_first_axis():
    found = locking.lock(decoder(), [{"fsdp": 1, "tensor": 2}], devices=4)
    assert list(found["meshes"]) == ["fsdp=2,tensor=2"]
    with pytest.raises(scutch.SetupError, match="needs a multiple of 2"):
        locking.lock(decoder(), devices=3)


def test_the_command_writes_compares_and_accepts(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "locked_model.py").write_text(
        "from trials.models.decoder import decoder\n"
        "setup = decoder()\n"
        "other = decoder(table=None)\n"
    )
    command = ["model", "locked_model.py:setup", "lock"]
    assert cli.main(command) == 0
    assert "wrote setup.lock.json" in capsys.readouterr().out
    assert cli.main([*command, "--against", "setup.lock.json"]) == 0
    other = ["model", "locked_model.py:other", "lock"]
    assert cli.main([*other, "--against", "setup.lock.json"]) == 1
    assert "embed/embedding is now replicated" in capsys.readouterr().out
    assert cli.main([*other, "--file", "setup.lock.json"]) == 1
    assert "write it with --reason" in capsys.readouterr().out
    assert cli.main([*other, "--file", "setup.lock.json", "--reason", "it is small"]) == 0
    assert json.loads((tmp_path / "setup.lock.json").read_text())["accepted"] == ["it is small"]
    (tmp_path / "setup.lock.json").write_text("{}")
    assert cli.main([*command, "--against", "setup.lock.json"]) == 2
    assert "expected a lock file" in capsys.readouterr().err


def test_a_lock_for_a_tpu_needs_libtpu(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("importlib.util.find_spec", {}.get)
    with pytest.raises(scutch.SetupError, match=r"--tpu v5e:4x4.*pip install \"scutch\[tpu\]\""):
        locking.lock(decoder(), tpu="v5e:4x4")
    both = ["--tpu", "v5e:4x4", "--devices", "16"]
    assert cli.main(["model", "trials.models.decoder:decoder", "lock", *both]) == 2
    assert "--devices and --tpu: expected one of them" in capsys.readouterr().err


@pytest.fixture
def absent(monkeypatch):
    """The fake devices of the host in the place of TPUs, on which nothing may run."""

    def tpu_devices(name):
        return {"v5e:2x4": jax.devices()[:8], "v5e:2x2": jax.devices()[:4]}[name]

    monkeypatch.setattr(locking, "tpu_devices", tpu_devices)
    monkeypatch.setattr(Placed, "present", False)
    monkeypatch.setattr(cost, "run_on", None)


def test_a_step_for_absent_devices_is_compiled_and_not_run(accepted, absent):
    found = locking.lock(decoder(), tpu="v5e:2x4")
    assert found["tpu"] == "v5e:2x4"
    step = dict(accepted["meshes"][NAME]["step"])
    del step["compilations"], step["python_calls"]
    assert found["meshes"][NAME] == {**accepted["meshes"][NAME], "step": step}
    assert list(locking.lock(decoder(), tpu="v5e:2x2")["meshes"]) == ["fsdp=2,tensor=2"]
    [told] = locking.differences(accepted, found)
    jax_now = f"JAX {jax.__version__}"
    assert told.startswith(f"costs are of {jax_now} for v5e:2x4 and were of {jax_now}:")


def test_a_start_for_absent_devices_is_compiled_and_not_run(absent):
    def start(mesh, key):
        along = NamedSharding(mesh, PartitionSpec("fsdp"))
        return jax.lax.with_sharding_constraint(jax.random.normal(key, (16, 4)), along)

    def step(state, tokens):
        return state - 0.1 * tokens.sum(), state.sum()

    with_start = decoder(more={"start": start, "step": step})
    cost_there = locking.lock(with_start, tpu="v5e:2x4")["meshes"][NAME]["step"]
    assert cost_there["collectives"]["all-reduce"]["count"] >= 1
    assert "compilations" not in cost_there

    def untraced(mesh, key):
        return start(mesh, key) if float(jax.random.uniform(key)) >= 0 else key

    other = decoder(more={"start": untraced, "step": step})
    with pytest.raises(scutch.SetupError, match="expected a function that `jit` can trace"):
        locking.lock(other, tpu="v5e:2x4")


def test_sizes_that_a_topology_does_not_divide_are_an_error(absent):
    with pytest.raises(scutch.SetupError, match=r"IndivisibleError.*check` names them"):
        locking.lock(decoder(batch=6), tpu="v5e:2x4")


@pytest.mark.skipif(find_spec("libtpu") is None, reason="libtpu is not installed")
def test_a_step_is_compiled_for_a_tpu():
    found = locking.lock(decoder(), [{"fsdp": 2, "tensor": 2}], tpu="v5e:2x2")
    assert found["meshes"]["fsdp=2,tensor=2"]["step"]["flops"] > 0
    with pytest.raises(scutch.SetupError, match=r"--tpu v5e:three.*expected such as v5e:16x16"):
        locking.lock(decoder(), tpu="v5e:three")

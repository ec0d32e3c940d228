"""`scutch model A compare B` tells the differences between two models, and nothing else."""

import dataclasses
import json
import pickle

import jax
import numpy as np
import pytest
import scutch
from scutch import cli
from scutch.models import compare as comparing
from scutch.models import elsewhere
from scutch.models.examined import Examined
from scutch.models.pairing import Array, PathMap, paired, words
from scutch.models.sides import Request, measure
from trials.models import twins
from trials.models.decoder import decoder


def scaled_loss(outputs, x):
    return 1.01 * (outputs**2).mean()


def array(path, shape=(4,), section="parameters"):
    return Array(section, path, shape, "float32", {})


def compared(first, second, **options):
    request = Request(**options)
    one = measure(Examined(first, request.meshes), request, "first")
    other = measure(
        Examined(second, request.meshes), dataclasses.replace(request, first=one), "second"
    )
    return comparing.between(one, other, request)


@pytest.fixture(scope="module")
def honest():
    return measure(Examined(twins.linen()), Request(), "first")


def against(honest, second, **options):
    request = Request(first=honest, **options)
    return comparing.between(
        honest, measure(Examined(second, request.meshes), request, "second"), request
    )


def test_a_model_is_equal_to_itself_in_every_part(honest):
    found = against(honest, twins.linen())
    assert found.equal, comparing.text(found)
    assert found.untried == {}
    assert list(found.compared) == ["parameters", "placement", "values", "costs"]
    assert found.renamed == ()


def test_a_network_in_linen_and_in_nnx_differs_in_paths_only(honest):
    found = against(honest, twins.objects(), skip=("costs",))
    assert found.equal, comparing.text(found)
    assert "layers_{0,1}_narrow/kernel is layers/{0,1}/narrow/kernel in the second" in found.renamed
    assert found.compared["parameters"] == "16 arrays"
    assert found.compared["values"] == "18 results from equal weights"
    assert found.untried == {"costs": "skipped"}


PLANTED = {
    "another activation": (
        lambda: twins.linen(activation=jax.nn.relu),
        "values",
        "output differs by up to",
    ),
    "a layer with another scale": (
        lambda: twins.linen(scale=1.01),
        "values",
        "the loss is",
    ),
    "another loss": (
        lambda: twins.linen({"loss": scaled_loss}),
        "values",
        "gradient of layers_0_wide/kernel",
    ),
    "statistics with another momentum": (
        lambda: twins.linen(momentum=0.99),
        "values",
        "after a call, batch_stats/layers_0_norm/mean",
    ),
    "names swapped": (
        lambda: twins.linen(narrow=("embed", "mlp")),
        "placement",
        "layers_{0,1}_narrow/kernel lies as ('model',) in the first",
    ),
    "a name without rule": (
        lambda: twins.linen(narrow=("mpl", "embed")),
        "placement",
        "mpl → unsharded (no rule)",
    ),
    "names swapped, in cost": (
        lambda: twins.linen(narrow=("embed", "mlp")),
        "costs",
        "a step has",
    ),
}


@pytest.mark.parametrize("difference", PLANTED)
def test_a_planted_difference_is_told_in_its_part(honest, difference):
    make, part, told = PLANTED[difference]
    skip = () if part == "costs" else ("costs",)
    found = against(honest, make(), skip=skip)
    assert any(told in each for each in found.differences[part]), comparing.text(found)
    assert not found.equal
    if part == "values":
        assert found.differences["parameters"] == found.differences["placement"] == ()


def test_a_scan_and_a_loop_have_other_arrays_and_so_no_values():
    found = compared(decoder(), decoder(scanned=False), skip=("costs",))
    assert any(
        "layers/wide/kernel is in the first only: float32[2,16,32]" in each
        for each in found.differences["parameters"]
    )
    assert found.untried["values"].startswith(
        "weights cannot be equal: layers/narrow/kernel has no"
    )


def test_an_array_of_another_shape_and_moments_without_boxes_are_told():
    found = compared(decoder(), decoder(hidden=64), skip=("costs",))
    assert found.differences["parameters"] == (
        "layers/narrow/kernel is float32[2,32,16] in the first, and float32[2,64,16] in the second",
        "layers/wide/kernel is float32[2,16,32] in the first, and float32[2,16,64] in the second",
    )
    assert "values" in found.untried


def test_dropout_keeps_values_from_being_compared(honest):
    found = against(honest, twins.linen(rate=0.5), skip=("costs",))
    assert "draws random numbers" in found.untried["values"]


def test_other_inputs_keep_values_from_being_compared(honest):
    found = against(honest, twins.linen({"batch": 4}), skip=("costs",))
    assert found.untried["values"] == "inputs differ: float32[8,8], and float32[4,8]"


def test_results_that_rounding_moves_are_equal_and_others_are_not():
    wanted = np.array([1.0, 1e-6], "float32")
    noise = np.array([1.0, 2e-6], "float32")
    for found, equal in (
        ([1.0, 1e-6], True),
        ([1.001, 1e-6], True),
        ([1.01, 1e-6], False),
        ([np.nan, 1e-6], False),
    ):
        assert comparing.agree(np.array(found, "float32"), wanted, noise) is equal
    small = 1e-7 * wanted
    assert not comparing.agree(1.01 * small, small, small)
    assert not comparing.agree(small, 0 * small, 0 * small)


@pytest.mark.parametrize(
    ("first", "second", "pairs"),
    [
        (["Dense_0/kernel"], ["dense_0/kernel"], {"Dense_0/kernel": "dense_0/kernel"}),
        (
            ["layer_0/k", "layer_1/k"],
            ["layers/1/k", "layers/0/k"],
            {"layer_0/k": "layers/0/k", "layer_1/k": "layers/1/k"},
        ),
        (
            ["up/kernel", "gate/kernel"],
            ["mlp/gate_proj/kernel", "mlp/up_proj/kernel"],
            {"up/kernel": "mlp/up_proj/kernel", "gate/kernel": "mlp/gate_proj/kernel"},
        ),
        (["a/kernel", "b/kernel"], ["c/kernel", "d/kernel"], {}),
        (["a/kernel"], ["b/scale"], {}),
    ],
)
def test_arrays_are_paired_by_words_and_never_guessed(first, second, pairs):
    found = paired([array(path) for path in first], [array(path) for path in second])
    assert found.pairs == pairs
    assert [each.path for each in found.first_only] == [p for p in first if p not in pairs]


def test_arrays_of_another_shape_or_section_are_no_pair():
    assert paired([array("a/kernel", (4,))], [array("b/kernel", (5,))]).pairs == {}
    assert paired([array("a/x")], [array("a/x", section="other variables")]).pairs == {}
    assert paired([array("a/kernel", (4,))], [array("a/kernel", (5,))]).pairs == {
        "a/kernel": "a/kernel"
    }


def test_the_owner_says_which_array_is_meant():
    first = [array("a/kernel"), array("b_0/kernel"), array("b_1/kernel"), array("ab/kernel")]
    second = [array("c/kernel"), array("d/0/kernel"), array("d/1/kernel"), array("ab/kernel")]
    maps = [PathMap.of("a=c"), PathMap.of("b_*=d/*")]
    assert paired(first, second, maps).pairs == {
        "a/kernel": "c/kernel",
        "b_0/kernel": "d/0/kernel",
        "b_1/kernel": "d/1/kernel",
        "ab/kernel": "ab/kernel",
    }
    with pytest.raises(scutch.SetupError, match="no path of the first model begins so; it has a/"):
        paired(first, second, [PathMap.of("x=c")])
    with pytest.raises(scutch.SetupError, match="a/kernel would be e/kernel, which the second"):
        paired(first, second, [PathMap.of("a=e")])
    with pytest.raises(scutch.SetupError, match="expected OLD=NEW"):
        PathMap.of("a")
    with pytest.raises(scutch.SetupError, match=r"no more \* in NEW"):
        PathMap.of("a=b_*")


def test_a_side_of_another_scutch_is_refused(tmp_path):
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    asked.write_bytes(b"0.0\nno pickle")
    elsewhere.main(str(asked), str(answered))
    subject, problem = pickle.loads(answered.read_bytes())
    assert subject.startswith(f"scutch {scutch.__version__} in ")
    assert problem == "expected scutch 0.0"


def test_words_of_a_path():
    assert words("encoder/LayerNorm_0/QKVProj/bias") == [
        "encoder",
        "layer",
        "norm",
        "0",
        "qkv",
        "proj",
        "bias",
    ]


def test_the_command_compares_two_versions_of_a_file(tmp_path, capsys, monkeypatch):
    """Each model has the modules beside it, though they have one name."""
    monkeypatch.chdir(tmp_path)
    for folder, activation in (("old", "gelu"), ("new", "relu")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.py").write_text(
            "from layers import activation\n"
            "from trials.models import twins\n"
            "setup = twins.linen(activation=activation)\n"
        )
        (tmp_path / folder / "layers.py").write_text(
            f"from jax.nn import {activation} as activation\n"
        )
    monkeypatch.setenv("PYTHONPATH", str(twins.__file__).removesuffix("/trials/models/twins.py"))
    command = ["model", "old/net.py:setup", "compare"]
    skip = ["--skip", "costs"]
    assert cli.main([*command, "new/net.py:setup", *skip, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["differences"]["values"][0].startswith("output differs by up to")
    assert told["differences"]["placement"] == []
    assert cli.main([*command, "old/net.py:setup", *skip]) == 0
    told = capsys.readouterr().out
    assert "values: equal: 18 results from equal weights" in told
    assert "costs: not compared: skipped" in told
    assert cli.main([*command, "new/net.py:nothing", *skip]) == 2
    assert "has no attribute 'nothing'" in capsys.readouterr().err
    assert cli.main([*command, "new/net.py:setup", "--skip", "nothing"]) == 2
    assert "expected one of parameters, placement, values, costs" in capsys.readouterr().err
    assert cli.main([*command, "new/net.py:setup", *skip, "--python", "/no/python"]) == 2
    assert "expected a Python" in capsys.readouterr().err
    assert cli.main(command) == 2
    assert "expected a second model after `compare`" in capsys.readouterr().err

"""`scutch model show` tells where each array lies, and the rule that decided."""

import json

import flax.linen as nn
import jax
import pytest
import scutch
from flax import nnx
from scutch import cli
from scutch.models import show
from scutch.models.annotations import spec_text
from scutch.models.layout import OPTIMIZER, PARAMETERS, layouts

RULES = (("embed", "data"), ("mlp", "tensor"))
MESH = {"data": 4, "tensor": 2}


def logical(*names):
    return nn.with_logical_partitioning(nn.initializers.lecun_normal(), names)


class Stack(nn.Module):
    """Three layers, each with a wide and a narrow matrix."""

    names: tuple = ("embed", "mlp")

    @nn.compact
    def __call__(self, x):
        for number in range(3):
            wide = nn.Dense(16, kernel_init=logical(*self.names), name=f"wide_{number}")(x)
            x = nn.Dense(8, kernel_init=logical("mlp", "embed"), name=f"narrow_{number}")(wide)
        return x


def described(**options):
    return scutch.Model(
        Stack(**options), jax.ShapeDtypeStruct((4, 8), "float32"), rules=RULES, meshes=(MESH,)
    )


def row(layout, path, section=PARAMETERS):
    return next(each for each in layout.section(section) if each.path == path)


def test_repeated_layers_are_one_row_with_the_bytes_of_all():
    [layout] = layouts(described())
    wide = row(layout, "wide_{0..2}/kernel")
    assert (wide.count, wide.spec) == (3, "('data', 'tensor')")
    assert (wide.bytes, wide.per_device) == (3 * 8 * 16 * 4, 3 * 8 * 16 * 4 // 8)
    assert show.reasons_text(wide, layout.rules) == "embed → data (rule 1), mlp → tensor (rule 2)"


def test_totals_are_those_of_the_arrays():
    [layout] = layouts(described())
    kernels, biases = 3 * 2 * 8 * 16 * 4, 3 * (8 + 16) * 4
    assert layout.total(PARAMETERS) == kernels + biases
    assert layout.along(PARAMETERS) == {"data": kernels, "tensor": kernels}
    assert layout.replicated_share(PARAMETERS) == biases / (kernels + biases)


def test_moments_lie_as_their_parameters():
    [layout] = layouts(described())
    for moment in ("mean", "variance"):
        assert row(layout, f"{moment}/wide_{{0..2}}/kernel", OPTIMIZER).spec == "('data', 'tensor')"


def test_a_name_that_loses_its_axis_and_a_name_without_rule_are_told():
    [layout] = layouts(described(names=("mlp", "lonely")))
    assert row(layout, "wide_{0..2}/kernel").spec == "('tensor',)"
    assert "lonely → unsharded (no rule)" in show.text([layout])


def test_the_specs_are_those_of_flax():
    model = described()
    variables = jax.eval_shape(lambda: Stack().init(jax.random.key(0), jax.numpy.ones((4, 8))))
    specs = nn.logical_to_mesh(nn.get_partition_spec(variables), RULES)["params"]
    [layout] = layouts(model)
    assert row(layout, "wide_{0..2}/kernel").spec == spec_text(specs["wide_0"]["kernel"])
    assert row(layout, "narrow_{0..2}/kernel").spec == spec_text(specs["narrow_0"]["kernel"])


def test_an_object_of_nnx_is_shown_too():
    init = nnx.with_partitioning(nnx.initializers.lecun_normal(), ("embed", "tensor"))
    model = scutch.Model(
        lambda rngs: nnx.Linear(8, 16, kernel_init=init, rngs=rngs),
        jax.ShapeDtypeStruct((4, 8), "float32"), rules=RULES, meshes=(MESH,),
    )  # fmt: skip
    [layout] = layouts(model)
    assert row(layout, "kernel").spec == "('data', 'tensor')"


def test_the_command_prints_tables_and_json(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shown_model.py").write_text(
        "import flax.linen as nn, jax, scutch\n"
        "setup = scutch.Model(nn.Dense(4), jax.ShapeDtypeStruct((2, 8), 'float32'))\n"
    )
    assert cli.main(["model", "shown_model.py:setup", "show", "--mesh", "data=2"]) == 0
    assert "parameters: 2 arrays, 144 B in total, 144 B a device, 100.0%" in capsys.readouterr().out
    assert cli.main(["model", "shown_model.py:setup", "show", "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)
    assert told["mesh"] == {"data": 8}
    assert told["sections"]["parameters"]["bytes"] == 144
    assert cli.main(["model", "shown_model.py:nn", "show"]) == 2
    assert "expected a scutch.Model" in capsys.readouterr().err
    assert cli.main(["model", "shown_model.py:setup", "show", "--mesh", "data"]) == 2
    assert "expected such as data=4,tensor=2" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [{"rules": ("embed",)}, {"meshes": ({"data": 0},)}])
def test_a_description_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(scutch.SetupError, match="expected"):
        scutch.Model(Stack(), jax.ShapeDtypeStruct((4, 8), "float32"), **wrong)

"""`scutch model show` tells where each array lies, and the rule that decided."""

import dataclasses
import json

import flax.linen as nn
import jax
import pytest
import scutch
from flax import nnx
from scutch import cli
from scutch.models import show
from scutch.models.annotations import spec_text
from scutch.models.layout import OPTIMIZER, PARAMETERS, abstract, layouts
from scutch.models.page import page
from scutch.models.picture import pictures

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


class Axes(nn.Module):
    """One array of three axes, with these names."""

    names: tuple

    @nn.compact
    def __call__(self, x):
        init = nn.with_logical_partitioning(nn.initializers.normal(), self.names)
        return x + self.param("value", init, (8, 4, 8)).sum()


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
        jax.ShapeDtypeStruct((4, 8), "float32"),
        rules=RULES,
        meshes=(MESH,),
    )
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


def test_a_page_has_every_row_and_the_pictures_and_loads_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paged_model.py").write_text(
        "from trials.models.test_show import described\nsetup = described()\n"
    )
    command = ["model", "paged_model.py:setup", "show", "--html", "pages/layout.html"]
    assert cli.main([*command, "--array", "wide_1/kernel"]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith("wrote pages/layout.html\n")
    page = (tmp_path / "pages" / "layout.html").read_text("utf-8")
    [layout] = layouts(described())
    for each in layout.rows:
        assert f"<code>{each.path}</code>" in page
    for text in ("default-src &#39;none&#39;", "divided along tensor", "embed → data (rule 1)"):
        assert text in page
    title = "wide_1/kernel, axes 0 (length 8) and 1 (length 16), on data=4,tensor=2"
    assert title in page
    drawn = printed.partition(title)[2].partition("wrote")[0]
    assert [f"CPU {number}" in drawn for number in range(9)] == [*[True] * 8, False]
    assert drawn.strip() in page
    (tmp_path / "file").touch()
    assert cli.main([*command[:4], "file/layout.html"]) == 2
    assert "--html file/layout.html: " in capsys.readouterr().err


def test_a_page_shows_what_a_model_is_called_and_never_obeys_it():
    name = "<script>alert(1)</script>"
    model = described(names=(name, "mlp"))
    text = page("<b>m.py</b>:setup", layouts(model))
    assert name not in text
    assert "<b>m.py" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; → unsharded" in text


def test_an_array_is_drawn_along_its_divided_axes():
    model = scutch.Model(
        Axes(("embed", None, "mlp")),
        jax.ShapeDtypeStruct((8,), "float32"),
        rules=RULES,
        meshes=(MESH,),
    )
    [[drawn]] = pictures(model, ["value"], [], abstract(model))
    assert drawn.title == "value, axes 0 (length 8) and 2 (length 8), on data=4,tensor=2"
    lines = [line for line in drawn.drawing.splitlines() if "CPU" in line]
    assert [line.split("│")[1:-1] for line in lines] == [
        [f"{f'CPU {2 * row + column}': ^{len(cell)}}" for column, cell in enumerate(cells)]
        for row, cells in enumerate(line.split("│")[1:-1] for line in lines)
    ]


@pytest.mark.parametrize(
    ("names", "path", "told"),
    [
        (("embed", "mlp", None), "values", "no such array; there are value"),
        (("a", "b", "c"), "value", "3 of its 3 axes are divided; JAX draws one or two"),
        ((None, "odd", None), "value", "JAX cannot draw it: IndivisibleError"),
    ],
)
def test_an_array_that_cannot_be_drawn_is_an_error(names, path, told):
    model = scutch.Model(
        Axes(names),
        jax.ShapeDtypeStruct((8,), "float32"),
        rules=(*RULES, ("odd", "c")),
        meshes=({"data": 1, "tensor": 1, "a": 1, "b": 1, "c": 3},),
    )
    if names == ("a", "b", "c"):
        model = dataclasses.replace(model, rules=())
    with pytest.raises(scutch.SetupError, match=told):
        pictures(model, [path], [], abstract(model))

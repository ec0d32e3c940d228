"""`scutch upgrade` and `scutch changes`: interfaces, programs, and the places in a user's code."""

import json
import textwrap

import pytest
from scutch import cli
from scutch.releases import interface, programs, records
from scutch.releases.interface import Interface, history_text, of_text
from scutch.releases.interface_changes import compare
from scutch.upgrades.code import of_source
from scutch.upgrades.findings import find, releases_of
from scutch.upgrades.report import FORMATS


def changed(old, new):
    """Kind and sentence of each change between two small interfaces."""
    module = {"lib": "module"}
    one, other = (
        Interface("lib", name, module | names) for name, names in (("1", old), ("2", new))
    )
    return {(each.kind, each.name, each.text) for each in compare(one, other)}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"lib.f": "def (x)"}, {}, ("removed", "lib.f", "is gone")),
        ({"lib.f": "def (x)"}, {"lib.f": "def (y)"}, ("parameter", "lib.f", "`x` is now `y`")),
        ({"lib.f": "def (x)"}, {"lib.f": "def (x, y)"}, ("required", "lib.f", "`y` must be given")),
        (
            {"lib.f": "def (x, y=1)"},
            {"lib.f": "def (x)"},
            ("parameter", "lib.f", "`y` is gone"),
        ),
        (
            {"lib.f": "def (x, y=1)"},
            {"lib.f": "def (x, *, y=1)"},
            ("parameter", "lib.f", "`y` can be given by keyword only"),
        ),
        (
            {"lib.f": "def (x=1)"},
            {"lib.f": "def (x)"},
            ("required", "lib.f", "`x` has no default any more (was 1)"),
        ),
        (
            {"lib.f": "def (x=1)"},
            {"lib.f": "def (x=2)"},
            ("default", "lib.f", "`x` is by default 2 (was 1)"),
        ),
        (
            {"lib.f": "def (x)"},
            {"lib.f": "def (x)  # deprecated: use g"},
            ("deprecated", "lib.f", "use g"),
        ),
        (
            {"metadata[old]": "key"},
            {"metadata[old]": "= metadata[new]"},
            ("renamed", "metadata[old]", "the metadata key 'old' is now 'new'"),
        ),
        (
            {"lib.C": "class (A)"},
            {"lib.C": "class (B)"},
            ("base", "lib.C", "class (A) is now class (B)"),
        ),
        ({}, {"lib.f": "def (x)"}, ("new", "lib.f", "def (x)")),
    ],
)
def test_each_kind_of_change_is_told(old, new, expected):
    assert expected in changed(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"lib.f": "def (x)"}, {"lib.f": "def (x, y=1)"}),
        ({"lib.f": "def (x)"}, {"lib.f": "= lib.sub.f", "lib.sub.f": "def (x)"}),
        ({"lib.f": "def (a, /)"}, {"lib.f": "def (b, /)"}),
        ({"lib.f": "def (x, y)"}, {"lib.f": "def (x, **more)"}),
        ({"lib.sub.deeper.f": "def (x)"}, {}),
    ],
)
def test_code_that_still_works_is_no_change(old, new):
    assert {each for each in changed(old, new) if each[0] != "new"} == set()


def test_a_history_of_interfaces_comes_back_whole():
    found = [
        Interface("lib", "1", {"lib.f": "def ()", "lib.g": "value"}),
        Interface("lib", "2", {"lib.f": "def (x=1)"}),
        Interface("lib", "3", {"lib.f": "def (x=1)", "lib.g": "value"}),
    ]
    assert of_text(history_text(found)) == tuple(found)


def test_every_recorded_release_of_flax_has_an_interface_and_ran_every_program():
    releases = {each.release for each in records("flax")}
    assert {each.release for each in interface.interfaces("flax")} == releases
    assert [each.name for each in programs.programs("flax") if releases - set(each.outcomes)] == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("0.11.2", "0.12.0", "made where no mesh is set"),
        ("0.12.3", "0.12.4", "'sharding_names' is now 'out_sharding'"),
        ("0.12.4", "0.12.9", "A plain list of modules that hold no arrays"),
        ("0.10.7", "0.11.0", "An optimizer is made from a model and a transformation alone"),
        ("0.10.7", "0.11.0", "`Optimizer.update` takes the gradients alone"),
    ],
)
def test_upgrades_that_users_complained_of_are_named_at_the_top(old, new, words, capsys):
    assert cli.main(["changes", "flax", old, new]) == 0
    top = "\n".join(capsys.readouterr().out.splitlines()[:10])
    assert words in top
    assert cli.main(["changes", "flax", old, new, "--fail-on", "breaking"]) == 1


def test_another_spelling_of_a_spec_is_no_other_result():
    """JAX prints `P('data')` for a spec since 0.9.1, and printed `PartitionSpec('data')`."""
    found = {each.program.name: each.kind for each in programs.changes("flax", "0.12.4", "0.12.9")}
    assert "linen_partitioning" not in found
    assert found["list_of_objects_without_arrays"] == "refused"


def test_changes_are_data_too(capsys):
    assert cli.main(["changes", "flax", "0.12.3", "0.12.4", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    renamed = next(each for each in data["interface"] if each["name"] == "metadata[sharding_names]")
    assert renamed["kind"] == "renamed"
    assert renamed["new"] == "out_sharding"
    assert renamed["since"] == "0.12.4"


def places(code, old, new):
    """Line and gravity of each finding in a piece of code."""
    from scutch.upgrades.code import Code

    uses = tuple(of_source(textwrap.dedent(code), "flax", "model.py"))
    found = find(Code(uses, 1, code.count("\n"), ()), *releases_of(f"flax=={old}", f"flax=={new}"))
    return {(each.use.line, each.gravity) for each in found.found}, found


LAYERS = """
    from flax import nnx
    class Model(nnx.Module):
        def __init__(self, rngs):
            self.layers = [nnx.Linear(2, 2, rngs=rngs)]
            self.count = 0
"""
OPTIMIZER = """
    import flax.nnx as nn
    import optax
    def train(model):
        optimizer = nn.Optimizer(model, optax.sgd(0.1))
        optimizer.update(gradients)
"""
METADATA = """
    from flax import nnx
    kernel = nnx.Param(value, sharding_names=("data", None))
    names = kernel.get_metadata()["sharding_names"]
"""
ANNOTATED = """
    from flax import nnx
    class Model(nnx.Module):
        def __init__(self, rngs):
            init = nnx.with_partitioning(nnx.initializers.ones_init(), ("data", "model"))
            self.layer = nnx.Linear(2, 2, kernel_init=init, rngs=rngs)
"""


@pytest.mark.parametrize(
    ("code", "old", "new", "expected"),
    [
        (LAYERS, "0.11.2", "0.12.12", (5, "breaks")),
        (OPTIMIZER, "0.10.7", "0.11.0", (5, "breaks")),
        (OPTIMIZER, "0.10.7", "0.11.0", (6, "breaks")),
        (METADATA, "0.12.3", "0.12.4", (3, "differs")),
        (ANNOTATED, "0.11.2", "0.12.0", (5, "breaks")),
    ],
)
def test_the_line_that_an_upgrade_breaks_is_found(code, old, new, expected):
    assert expected in places(code, old, new)[0]


@pytest.mark.parametrize(
    "code",
    [
        """
        import flax.linen as nn
        class Model(nn.Module):
            @nn.compact
            def __call__(self, x):
                return nn.Dense(features=4, use_bias=False)(nn.relu(x))
        """,
        """
        from flax import nnx
        class Model(nnx.Module):
            def __init__(self, rngs):
                self.linear = nnx.Linear(2, 4, rngs=rngs)
                self.dropout = nnx.Dropout(0.1, rngs=rngs)
            def __call__(self, x):
                return self.dropout(self.linear(x))
        """,
        """
        from flax.training import train_state
        state = train_state.TrainState.create(apply_fn=f, params=p, tx=tx)
        state = state.apply_gradients(grads=grads)
        """,
    ],
)
@pytest.mark.parametrize(("old", "new"), [("0.11.2", "0.12.12"), ("0.12.3", "0.12.4")])
def test_code_that_works_on_both_releases_is_not_charged(code, old, new):
    assert places(code, old, new)[1].found == ()


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_names_the_place(form):
    found = places(OPTIMIZER, "0.10.7", "0.11.0")[1]
    assert "model.py" in FORMATS[form](found)


def test_the_command_reads_files_and_says_what_it_cannot_read(tmp_path, capsys):
    (tmp_path / "good.py").write_text(textwrap.dedent(OPTIMIZER))
    (tmp_path / "bad.py").write_text("from flax import (")
    command = ["upgrade", "--from", "flax==0.10.7", "--to", "flax==0.11.0"]
    assert cli.main([*command, str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "good.py:5" in printed
    assert "bad.py was not read: SyntaxError" in printed
    assert cli.main([*command, str(tmp_path / "none.py")]) == 2
    assert "none.py does not exist" in capsys.readouterr().err
    assert cli.main(["upgrade", "--from", "flax==9", str(tmp_path)]) == 2
    assert "flax 9 is not recorded" in capsys.readouterr().err

"""Scripts that show a fault without the suite: they fail where it is, and nowhere else."""

import ast
import dataclasses
import os
import re
import subprocess
import sys

import pytest
from scutch import cli, reproduce
from scutch.judging import known, scripts
from scutch.loading import load
from scutch.reproduce import layout

ADDED = (
    "test_a_negative_index_adds_the_axis_of_the_array"
    "(box=Box(Array((2,)), ('data',)), back=1, name='model')"
)
HONEST = "from scutch_reference.meta import *\nfrom scutch_reference.meta import Partitioned\n"
FAULTY = """

class Partitioned(Partitioned):
    def add_axis(self, index, params):
        return super().add_axis(max(index, 0), params)
"""
ASSERTING = """

class Partitioned(Partitioned):
    def remove_axis(self, index, params):
        removed = self
        assert (removed := super().remove_axis(index, params)) is not None
        return removed
"""
ADAPTER = """
import forked.core.meta
from scutch.implementation import Implementation

implementation = Implementation("forked", "1", meta=forked.core.meta)
"""


@pytest.fixture
def fork(tmp_path, monkeypatch):
    """A package with Flax's layout, in which `add_axis` takes a negative index for 0."""
    (tmp_path / "forked" / "core").mkdir(parents=True)
    (tmp_path / "forked" / "core" / "meta.py").write_text(HONEST + FAULTY)
    (tmp_path / "adapter.py").write_text(ADAPTER)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    monkeypatch.setenv("PYTHONPATH", path)
    return tmp_path


def run(text, folder):
    (folder / "script.py").write_text(text)
    command = [sys.executable, str(folder / "script.py")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_script_fails_while_the_fault_is_there_and_not_after(fork):
    text = reproduce.script(
        "metadata/box-axes/negative-index-counts-array-axes", ADDED, str(fork / "adapter.py")
    )
    assert "import scutch" not in text
    assert "from scutch" not in text
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 100
    found = run(text, fork)
    assert (found.returncode, found.stdout) == (
        1,
        "expected ('data', 'model'), got ('model', 'data')\n",
    )
    (fork / "forked" / "core" / "meta.py").write_text(HONEST)
    assert run(text, fork).returncode == 0


FLAX = {(e.requirement, e.witness): e for e in known.shipped() if e.implementation == "flax"}


def test_every_known_failure_of_flax_has_a_script_that_imports_no_suite():
    assert not FLAX.keys() ^ scripts.shipped("flax").keys(), "ci/matrix --scripts writes them"
    for script in scripts.shipped("flax").values():
        lines = script.text.splitlines()
        assert 0 < script.length <= scripts.LONGEST
        told = ast.get_docstring(ast.parse(script.text))
        shown = [line for line in told.splitlines() if not line.startswith("https://")]
        assert max(map(len, [*shown, *script.program])) <= 100
        heading = " ".join(told.split())
        assert f"({script.requirement}, a " in heading
        assert FLAX[script.requirement, script.witness].cause.effect in heading
        assert re.search(r"""print\(f?["']expected """, script.text)
        assert layout.OTHERWISE in lines
        asks = layout.ASKS_FOR_DEVICES.search(script.text)
        assert (layout.DEVICES in lines) == bool(asks)
        tree = ast.walk(ast.parse(script.text))
        names = [a.name for node in tree if isinstance(node, ast.Import) for a in node.names]
        names += [node.module for node in tree if isinstance(node, ast.ImportFrom)]
        assert not [name for name in names if name.startswith("scutch")]


@pytest.mark.parametrize("key", FLAX, ids=lambda key: f"{key[0]}-{key[1].partition('(')[0]}")
def test_a_script_ended_as_it_must_on_each_release(key):
    found = scripts.shipped("flax")[key].exits
    assert found == {release: int(FLAX[key].applies("flax", release)) for release in found}
    assert 1 in found.values()


def test_a_script_ends_with_1_through_its_own_comparison_alone(tmp_path):
    for error in ("1 / 0", "raise SystemError", "import nothing_of_this_name"):
        found = run(layout.prepared(f"import sys\n\nprint('begun')\n{error}\n"), tmp_path)
        assert (found.returncode, found.stdout) == (2, "begun\n")
        assert error in found.stderr


@pytest.mark.parametrize("asked", ["jax.devices()[7].id", "jax.make_mesh((8,), ('x',)).size - 1"])
def test_a_script_starts_the_devices_that_it_asks_for(asked, tmp_path, monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    found = run(layout.prepared(f"import sys\nimport jax\n\nprint({asked})\n"), tmp_path)
    assert found.stdout == "7\n", found.stderr


def test_a_script_is_about_one_implementation():
    requirement, witness = next(iter(FLAX))
    assert scripts.script_of("flax", requirement, witness)
    assert scripts.script_of("my-fork", requirement, witness) is None
    assert scripts.script_of("flax", requirement, "test_another(x=1)") is None


@pytest.mark.parametrize(
    "requirement",
    ["metadata/box-axes/removal-works-without-assertions", "bridge/wrappers/tolinen-finds-methods"],
)
def test_a_shipped_script_fails_on_the_flax_that_is_installed(requirement, tmp_path):
    key = next(key for key in FLAX if key[0] == requirement)
    broken = FLAX[key].applies("flax", load("flax").version)
    found = run(scripts.shipped("flax")[key].text, tmp_path)
    assert found.returncode == int(broken), found.stdout + found.stderr


def test_the_program_of_an_entry_is_tried_before_it_counts(monkeypatch):
    entry = next(
        e for e in FLAX.values() if e.requirement == "bridge/wrappers/tolinen-finds-methods"
    )
    for program, problem in (
        ("", "ended with 0"),
        ("1 / 0", "ended with 2"),
        ("import sys\nsys.exit(1)", "fails on the reference"),
    ):
        other = dataclasses.replace(entry, script=program)
        monkeypatch.setattr(known, "shipped", lambda other=other: (other,))
        with pytest.raises(reproduce.NotReproducible, match=problem):
            reproduce.script(entry.requirement, entry.witness)


def test_a_law_about_python_without_assertions_is_searched_too(fork):
    (fork / "forked" / "core" / "meta.py").write_text(HONEST + ASSERTING)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "scutch",
            "reproduce",
            "--implementation",
            "adapter.py",
            "metadata/box-axes/removal-works-without-assertions",
        ],
        cwd=fork,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "'-O', __file__" in done.stdout
    assert run(done.stdout, fork).returncode == 1
    (fork / "forked" / "core" / "meta.py").write_text(HONEST)
    assert run(done.stdout, fork).returncode == 0


def test_an_issue_has_the_text_the_script_and_the_versions():
    text = reproduce.issue(
        "metadata/box-axes/negative-index-counts-array-axes",
        '"""A title (BOX-11).\n\nflax 1, jax 2.\nit came\n"""\nprint(1)\n',
    )
    assert text.startswith("# A negative index names the axis that the array gains\n")
    assert "```python\nprint(1)\n```" in text
    assert "## What came\n\n```text\nit came\n```" in text
    assert "## Versions\n\nflax 1, jax 2.\n" in text


def test_the_issue_of_a_known_failure_is_headed_by_its_fault():
    (entry, *_) = (each for each in known.shipped() if each.cause.name == "negative-axis-of-boxes")
    text = reproduce.issue(
        entry.requirement, '"""A title.\n\nflax 1.\n"""\nprint(1)\n', entry.cause
    )
    assert text.startswith(f"# {entry.cause.fault}\n\n{entry.cause.effect}\n")
    assert "Where: `flax/core/meta.py:Partitioned.add_axis`" in text


def test_where_nothing_is_broken_there_is_no_script():
    with pytest.raises(
        reproduce.NotReproducible,
        match=r"does not break metadata/box-axes/negative-index\S+ of reference",
    ):
        reproduce.script("metadata/box-axes/negative-index-counts-array-axes", ADDED, "reference")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["BOX-99"], "no requirement 'BOX-99'"),
        (["test_nothing(x=1)"], "no law 'test_nothing'"),
        (["test_x(__import__('os'))"], "the call"),
        (["processes/shardings/jit-shards-as-asked"], "only a job of several processes tries it"),
        ([], "expected either ID|CALL or --report REPORT.json"),
    ],
)
def test_what_is_unknown_is_refused(words, message, capsys):
    assert cli.main(["reproduce", *words]) == 2
    assert message in capsys.readouterr().err

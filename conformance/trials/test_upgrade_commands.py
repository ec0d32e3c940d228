"""`scutch upgrade --fix`, `--diff` and `--run`, and which of Flax and JAX makes a change."""

import os
import sys
from dataclasses import replace

import pytest
from scutch import cli, releases
from scutch.catalogue import HARMS, by_id
from scutch.releases import changes, programs, record, summary
from scutch.report.changes import page
from scutch.upgrades import fixing

UPGRADE = ["upgrade", "--from", "flax==0.12.3", "--to", "flax==0.12.9"]
BEFORE = """\
from flax import nnx

def make(value):
    return nnx.Param(value, sharding_names=("däta", None)), nnx.Param(value, sharding_names=())

def names(param):
    return param.get_metadata("sharding_names"), param.get_metadata()["sharding_names"]

def hooked(init):
    return nnx.with_metadata(init, set_value_hooks=print)
"""
AFTER = BEFORE.replace("sharding_names", "out_sharding").replace("set_value_hooks", "on_set_value")


def test_keywords_and_keys_are_renamed_in_the_files(tmp_path, capsys):
    file = tmp_path / "model.py"
    file.write_text(BEFORE)
    assert cli.main([*UPGRADE, "--diff", str(file)]) == 1
    assert "+    return nnx.with_metadata(init, on_set_value=print)" in capsys.readouterr().out
    assert file.read_text() == BEFORE
    assert cli.main([*UPGRADE, "--fix", str(file)]) == 0
    assert "renamed in 1 file" in capsys.readouterr().out
    assert file.read_text() == AFTER


def test_either_all_files_are_renamed_or_none(tmp_path, monkeypatch, capsys):
    files = [tmp_path / "one.py", tmp_path / "two.py"]
    for file in files:
        file.write_text(BEFORE)
    replace = os.replace

    def refuse(draft, path):
        if path == files[1]:
            raise OSError("no space")
        replace(draft, path)

    monkeypatch.setattr(fixing.os, "replace", refuse)
    assert cli.main([*UPGRADE, "--fix", str(tmp_path)]) == 2
    assert "nothing was written: no space" in capsys.readouterr().err
    assert [file.read_text() for file in files] == [BEFORE, BEFORE]
    assert sorted(tmp_path.iterdir()) == files


RUN = """\
def with_metadata(): ...
class nnx: with_metadata = staticmethod(lambda **_: 0)
"""
USED = """\
try:
    from flax import nnx
except ImportError:
    from stand_in import nnx

def reached():
    return nnx.with_metadata(set_value_hooks=print)

def left_out():
    return nnx.with_metadata(get_value_hooks=print)

if __name__ == "__main__":
    reached()
"""


def test_a_command_says_which_places_it_reaches(tmp_path, capsys, monkeypatch):
    """The user's `sitecustomize` runs all the same, and the stand-in saves the import of Flax."""
    (tmp_path / "stand_in.py").write_text(RUN)
    (tmp_path / "flax.py").write_text("")
    (tmp_path / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    file = tmp_path / "used.py"
    file.write_text(USED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert cli.main([*UPGRADE, "--run", f"{sys.executable} {file}", str(file)]) == 1
    printed = capsys.readouterr().out
    assert f"{file}:7  (run)" in printed
    assert f"{file}:10  (not run)" in printed
    assert "The command ran 1 of 2 places." in printed
    assert (tmp_path / "ran").exists()
    assert cli.main([*UPGRADE, "--run", f"{sys.executable} -S -c 0", str(file)]) == 2
    assert "started no Python that loads sitecustomize" in capsys.readouterr().err
    assert cli.main([*UPGRADE, "--run", "no-such-command-there-is", str(file)]) == 2
    assert "could not be started" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "program", "origin"),
    [
        ("0.11.2", "0.12.0", "list_of_layers", "Flax"),
        ("0.10.7", "0.12.12", "optimizer_without_wrt", "Flax"),
        ("0.12.8", "0.12.8-jax-0.11.1", "list_of_layers", ""),
        ("0.12.8", "0.12.8-jax-0.11.1", "pure_dictionary", "JAX"),
    ],
)
def test_a_change_of_a_program_comes_from_flax_or_from_jax(old, new, program, origin):
    found = {each.program.name: each.origin for each in programs.changes("flax", old, new)}
    assert found.get(program, "") == origin


def test_a_record_with_another_jax_tells_whose_change_it_is():
    upgrade = changes.compare(record("flax", "0.12.10"), record("flax", "0.12.12"))
    broken = {each.requirement: each.origin for each in upgrade.of("broken")}
    assert broken["bridge/variables/nnxmeta-knows-spec"] == "Flax"
    beside = record("flax", "0.12.10-jax-0.12.0.1")
    assert changes.compare(record("flax", "0.12.10"), beside).of("broken") == ()


def test_changes_of_jax_itself_are_told(capsys):
    assert cli.main(["changes", "jax", "0.8.0", "0.8.1"]) == 0
    printed = capsys.readouterr().out
    assert "accepted   `jit` with options alone is a decorator. prints 8.0" in printed
    assert "transformations/options/jit-of-objects[signature]  must" in printed
    assert "[from JAX]" in printed


@pytest.mark.parametrize("each", programs.programs("jax"), ids=lambda each: each.name)
def test_a_program_of_plain_jax_is_accepted_by_a_release(each):
    """A program that every release refuses shows no change."""
    assert any(not outcome.error for outcome in each.outcomes.values())


def test_the_changes_of_a_release_are_a_page(tmp_path, capsys):
    file = tmp_path / "changes.html"
    assert cli.main(["changes", "flax", "0.12.3", "0.12.4", "--html", str(file)]) == 0
    text = file.read_text()
    assert "the metadata key &#39;sharding_names&#39; is now &#39;out_sharding&#39;" in text
    found = summary.summarize(record("flax", "0.12.3"), record("flax", "0.12.4"))
    assert found.upgrade.changes
    assert all(each.requirement in text for each in found.upgrade.changes)
    assert "<script" not in text
    assert cli.main(["changes", "flax", "0.12.3", "--html", str(tmp_path / "no" / "a.html")]) == 0
    assert cli.main(["changes", "flax", "0.12.3", "--html", str(tmp_path)]) == 2
    assert "cannot write the page to" in capsys.readouterr().err


def test_a_page_shows_what_an_implementation_said_without_obeying_it():
    old, new = record("flax", "0.12.3"), record("flax", "0.12.4")
    hostile = new.requirements | {
        name: releases.Finding(
            "failed", (releases.Counterexample("t", "t()", "<script>x</script>"),)
        )
        for name in list(new.requirements)[:1]
    }
    text = page(summary.summarize(old, replace(new, requirements=hostile)))
    assert "<script>" not in text
    assert "&lt;script&gt;x" in text


def test_changes_of_requirements_begin_with_the_gravest_harm():
    upgrade = changes.compare(record("flax", "0.11.2"), record("flax", "0.12.12"))
    harms = [by_id()[each.requirement].harm for each in upgrade.of("new")]
    assert harms == sorted(harms, key=HARMS.index)
    assert len(set(harms)) > 3

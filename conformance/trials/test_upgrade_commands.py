"""`scutch upgrade --fix`, `--diff` and `--run`, and which of Flax and JAX makes a change."""

import os
import sys

import pytest
from scutch import cli
from scutch.releases import changes, programs, record
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
    found = {each.program.name: each.origin for each in programs.changes(old, new)}
    assert found.get(program, "") == origin


def test_a_record_with_another_jax_tells_whose_change_it_is():
    upgrade = changes.compare(record("flax", "0.12.10"), record("flax", "0.12.12"))
    (broken,) = upgrade.of("broken")
    assert broken.origin == "Flax"
    beside = record("flax", "0.12.10-jax-0.12.0.1")
    assert changes.compare(record("flax", "0.12.10"), beside).of("broken") == ()

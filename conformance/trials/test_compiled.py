"""Compiled programs are kept between runs, for one subject each, and not for ever."""

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest
from jax._src.interpreters import mlir
from scutch.judging import compiled, costs
from scutch.judging.jax_parts import lower_quickly
from scutch.judging.trials import Cost, Trial

ROOT = Path(__file__).parents[2]
LAW = ("--requirement", "LIN-9a", "--examples", "8", "--no-traces")


def _judge(folder, *options):
    """Judge the reference; gives the output, and the report's cost."""
    report = folder / "report.json"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "scutch",
            "run",
            "-q",
            "-p",
            "no:cacheprovider",
            *LAW,
            f"--report={report}",
            *options,
        ],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(report.read_text())["requirements"]
    return done.stdout, sum((Cost(**row["cost"]) for row in rows), Cost())


def _folders(folder):
    return sorted((folder / "cache" / "scutch" / "compiled").glob("*"))


def test_a_second_run_compiles_nothing_and_says_so(tmp_path):
    first, spent = _judge(tmp_path)
    assert spent.compiled > 0
    (folder,) = _folders(tmp_path)
    assert f"kept for the next run in {folder}" in first
    again, spent = _judge(tmp_path)
    assert (spent.compiled, spent.reused > 0) == (0, True)
    assert "programs: 0 compiled" in again
    assert _folders(tmp_path) == [folder]


def test_nothing_is_kept_or_read_where_that_is_asked_for(tmp_path, monkeypatch):
    """Nor is the folder used that JAX would use by itself."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "shared"))
    printed, spent = _judge(tmp_path, "--no-cache")
    assert "not kept for the next run" in printed
    assert spent.compiled > 0
    assert _folders(tmp_path) == []
    assert not (tmp_path / "shared").exists()


def test_nothing_is_kept_where_no_folder_can_be_made(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file, in which there are no folders")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with compiled.kept("mine") as folder:
        assert folder == ""
        assert Path(jax.config.jax_compilation_cache_dir).is_dir()


def test_a_subject_reads_no_folder_but_its_own(tmp_path, monkeypatch):
    """A program that another subject compiled is compiled again, also in one process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "shared"))
    costs_of = []
    for name in ("one", "other", "one"):
        with compiled.kept(name):
            meter = costs.Meter()
            jax.jit(lambda x: x * 41 + 23)(2.5)
            costs_of.append((meter.cost().compiled, meter.cost().reused))
    assert costs_of == [(1, 0), (1, 0), (0, 1)]


def test_the_content_of_an_implementation_is_that_of_its_packages(tmp_path, monkeypatch):
    """A file counts also where it is not imported yet."""
    (tmp_path / "fork_of_today").mkdir()
    late = tmp_path / "fork_of_today" / "late.py"
    for file in (late, late.with_name("__init__.py")):
        file.write_text("")
    before = compiled.content()
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("fork_of_today")
    imported = compiled.content()
    late.write_text("edited = True\n")
    assert len({before, imported, compiled.content()}) == 3
    monkeypatch.delitem(sys.modules, "fork_of_today")
    assert compiled.content() == before


@pytest.mark.parametrize("changed", range(4))
def test_a_subject_is_known_by_name_version_content_and_devices(changed):
    parts = ["flax", "0.12.8", "abc", "8 of cpu"]
    other = [f"{part}x" if place == changed else part for place, part in enumerate(parts)]
    assert compiled.subject(*parts) != compiled.subject(*other)
    assert compiled.subject(*parts) == compiled.subject(*parts)


def test_flags_of_xla_are_a_part_of_the_subject(monkeypatch):
    before = compiled.subject("flax", "0.12.8", "abc", "8 of cpu")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert compiled.subject("flax", "0.12.8", "abc", "8 of cpu") != before


def test_a_name_that_is_no_name_of_a_folder_leads_to_no_other_folder():
    assert "/" not in compiled.subject("../../etc", "1/../2", "abc", "8 of cpu")


def _kept(name, days, size):
    folder = compiled.kept_in() / name
    folder.mkdir(parents=True)
    (folder / "program").write_bytes(b"x" * size)
    (folder / "used").touch()
    used = time.time() - days * 86400
    os.utime(folder / "used", (used, used))


def test_folders_go_that_are_old_or_do_not_fit(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiled, "MOST_BYTES", 1000)
    for name, days, size in [("new", 0, 600), ("next", 1, 300), ("third", 2, 300), ("old", 31, 1)]:
        _kept(name, days, size)
    compiled.prune()
    assert {folder.name for folder in compiled.kept_in().iterdir()} == {"new", "next"}


def test_a_folder_that_has_outgrown_the_limit_goes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiled, "MOST_BYTES", 1000)
    _kept("huge", 0, 1001)
    compiled.prune()
    assert list(compiled.kept_in().iterdir()) == []


def test_a_relative_cache_folder_is_passed_over(monkeypatch):
    """The XDG specification asks for absolute paths."""
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert compiled.kept_in() == Path.home() / ".cache" / "scutch" / "compiled"


def test_settings_of_jax_are_as_they_were_afterwards(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = jax.config.jax_compilation_cache_dir, dict(os.environ)
    with compiled.kept("mine") as folder:
        assert jax.config.jax_compilation_cache_dir == folder
    assert (jax.config.jax_compilation_cache_dir, dict(os.environ)) == before


def test_a_meter_counts_the_programs_of_one_trial():
    jax.jit(lambda x: x * 31 + 17)(2.5)
    meter = costs.Meter()
    jax.jit(lambda x: x * 37 + 19)(2.5)
    assert meter.cost().compiled + meter.cost().reused == 1
    assert meter.cost().peak > 50 << 20


def test_time_that_compiled_programs_save_is_told(monkeypatch, tmp_path):
    """JAX itself tells whole seconds only, and a small program takes less."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def cost():
        jax.clear_caches()
        meter = costs.Meter()
        jax.jit(lambda x: jax.numpy.sort(x @ x.T) * 41 + 23)(jax.numpy.ones((50, 50)))
        return meter.cost()

    with compiled.kept("mine"):
        first = cost()
        measured = compiled.typical()
        compiled.note(1, 1000.0)  # more than any machine takes to read one
        again = cost()
        typical = compiled.typical()
    assert (first.reused, again.compiled) == (0, 0)
    assert first.saved == 0.0 < measured < typical
    assert again.reused > 0
    assert 0 < again.saved <= typical * again.reused


def test_folder_without_programs_tells_no_time(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with compiled.kept("mine") as folder:
        compiled.note(0, 0.0)
        assert compiled.typical() == 0.0
        compiled.note(3, 1.5)
        with (Path(folder) / "used").open("a") as file:
            file.write("cut")
        assert compiled.typical() == 0.5


def test_costs_of_trials_add_up_and_the_peak_is_the_highest():
    total = Cost(1.5, 2, 3, 4.0, 700) + Cost(0.25, 1, 0, 0.5, 500)
    assert total == Cost(1.75, 3, 3, 4.5, 700)


def test_a_trial_without_a_cost_can_be_read():
    """A file of an earlier version, from which a run goes on, has none."""
    data = json.loads(Trial("test_x", "BOX-5", "passed", cost=Cost(1.0)).to_data())
    assert Trial.from_data(json.dumps(data)).cost == Cost(1.0)
    del data["cost"]
    assert Trial.from_data(json.dumps(data)).cost == Cost()


def test_a_process_that_has_grown_forgets_what_it_compiled(monkeypatch):
    monkeypatch.setattr(costs, "MUCH", 0)
    traces = []
    function = jax.jit(lambda x: traces.append(1) or x + 1)
    memory = costs.Memory()
    for expected in (1, 2, 2):  # after it has forgotten, it must grow before it forgets again
        function(1.0)
        assert len(traces) == expected
        memory.slim()
    assert memory.left > 0


def test_a_process_that_is_small_forgets_nothing():
    assert costs.resident() < costs.MUCH
    traces = []
    function = jax.jit(lambda x: traces.append(1) or x + 1)
    function(1.0)
    costs.Memory().slim()
    function(1.0)
    assert len(traces) == 1


def test_programs_are_lowered_in_one_context(monkeypatch):
    """JAX makes a context for each program, or for a few."""
    monkeypatch.setattr(mlir, "make_ir_context", mlir.make_ir_context)  # put back at the end
    lower_quickly()
    assert mlir.make_ir_context() is mlir.make_ir_context()
    assert jax.jit(lambda x: x + 1).lower(1.0).compile()(1.0) == 2


def test_lowered_operations_name_no_lines_unless_the_user_asks(monkeypatch):
    """The names of files and functions are a tenth of the cost of lowering."""
    named = "jax_traceback_in_locations_limit"
    before = getattr(jax.config, named)
    jax.config.update(named, 100)
    try:
        monkeypatch.setenv(named.upper(), "100")
        lower_quickly()
        asked = jax.jit(lambda x: x + 1).lower(1.0).as_text(debug_info=True)
        monkeypatch.delenv(named.upper())
        lower_quickly()
        quick = jax.jit(lambda x: x + 1).lower(1.0).as_text(debug_info=True)
    finally:
        jax.config.update(named, before)
    assert Path(__file__).name in asked
    assert Path(__file__).name not in quick

"""The gate names each planted regression, and names none where none is planted."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scutch_ci import checkout, gate

ROOT = Path(__file__).parents[2]
COUNTED = r"^dispatch\.(Dispatch.*forward, (4|32)\)|Traces).*"
ALL_GATHERS = r"^compilation\.Compilation\.track_all_gathers\(reference, train"
TIMED = "dispatch.Dispatch.time_call(reference, forward, 32)"


@pytest.fixture
def planted(tmp_path):
    """A copy of the tree in which one line has become another."""

    def plant(file, line, worse, *, end=""):
        for name in ("reference", "conformance"):
            shutil.copytree(ROOT / name, tmp_path / name)
        path = tmp_path / "reference" / "scutch_reference" / file
        text = path.read_text()
        assert text.count(line) == 1, f"{file} has {text.count(line)} lines {line!r}"
        path.write_text(text.replace(line, worse) + end)
        return tmp_path.resolve()

    return plant


def worse(head, select):
    before, after = gate.counted((ROOT, head), select)
    return {one.benchmark for one in gate.worse_counts(before, after)}


def test_a_list_walk_in_the_forward_dispatch_is_caught_by_name(planted):
    line = "        transformed = self._transformed.get(key)\n"
    head = planted("nnx/lifting.py", line, f"        sum(1 for _ in values)\n{line}")
    name = "dispatch.Dispatch.track_python_calls(reference, forward, 32)"
    assert name in worse(head, COUNTED)


def test_an_extra_trace_is_caught_by_name(planted):
    line = "            self._transformed[key] = transformed\n"
    head = planted("nnx/lifting.py", line, f"            self._transformed.clear()\n{line}")
    assert "dispatch.Traces.track_traces(reference)" in worse(head, COUNTED)


@pytest.mark.nightly
def test_an_extra_all_gather_in_the_guide_is_caught_by_name(planted):
    line = "class TrainState("
    # XLA gathers whole rows for a Fourier transform.
    gathering = """
_apply = TrainState.apply_gradients
TrainState.apply_gradients = lambda self, **given: _apply(
    self.replace(params=jax.tree.map(lambda p: jax.numpy.fft.fft(p).real, self.params)), **given
)
"""
    head = planted("linen/train_state.py", line, line, end=gathering)
    found = worse(head, ALL_GATHERS)
    name = "compilation.Compilation.track_all_gathers(reference, train, unrolled, 2x4)"
    assert name in found


@pytest.mark.nightly
def test_a_dispatch_that_takes_twice_the_time_is_caught_by_name(planted):
    """From which share on the gate is sure is a trial of its own, on figures without noise."""
    with gate.timers(ROOT) as (timer,):
        number = int(timer.ask(0, TIMED))
        once = min(timer.ask(number, TIMED) for _ in range(20))
    line = "        return self.execute(self.prepared(args, kwargs))"
    wait = f"        stop = _clock() + {once}\n        while _clock() < stop:\n            pass\n"
    clock = "\nfrom time import perf_counter as _clock\n"
    head = planted("nnx/lifting.py", line, wait + line, end=clock)
    timed, findings = gate.slower(ROOT, head, [TIMED])
    assert (timed, [one.benchmark for one in findings]) == (1, [TIMED])


def test_a_tree_is_not_slower_than_itself():
    assert gate.slower(ROOT, ROOT, [TIMED]) == (1, [])


@pytest.mark.nightly
def test_counts_of_two_processes_in_three_are_the_same(tmp_path):
    """See `gate.RECOUNTS` for the process that may differ."""
    files = [tmp_path / "first", tmp_path / "second", tmp_path / "third"]
    select = rf"^(bridge|metadata).*\(reference|{COUNTED}"
    for file in files:
        command = [sys.executable, "-m", "benchmarks.counts", str(file), "--select", select]
        subprocess.run(command, cwd=ROOT, check=True)
    counts = [json.loads(file.read_text()) for file in files]
    assert min(counts[0].values()) >= 0
    figures = {name: [each.get(name) for each in counts] for name in counts[0]}
    differing = {name: three for name, three in figures.items() if len(set(three)) > 1}
    assert any(counts.count(each) > 1 for each in counts), differing


def test_a_worse_count_fails_until_it_is_accepted(capsys):
    findings = list(gate.worse_counts({"a": 1, "b": 2, "c": 3}, {"a": 2, "b": 1, "d": 4}))
    assert [(one.benchmark, one.text) for one in findings] == [
        ("a", "1 before, 2 now"),
        ("c", "3 before, and not counted any more"),
    ]
    assert gate.report(findings, {}) == 1
    shown = capsys.readouterr().out
    assert 'ci/accepted.toml:\n\n[[accepted]]\nbenchmark = "a"\nfigure = 2.0\nreason = ' in shown
    assert gate.report(findings, {"a": 2.0, "c": float("inf")}) == 0
    assert gate.report(findings, {"a": 1.5, "c": float("inf")}) == 1


def test_a_worse_count_fails_only_when_new_processes_count_it_again(monkeypatch):
    chance, regression = iter([5, 1]), {"a": 1, "b": 2}
    selected = []

    def counted(trees, select):
        selected.append(select)
        return [regression, {"a": next(chance, 1), "b": 3}]

    monkeypatch.setattr(gate, "counted", counted)
    before, after = gate.confirmed_counts(Path("base"), Path("head"), "^.$")
    assert [one.benchmark for one in gate.worse_counts(before, after)] == ["b"]
    assert selected == ["^.$", "^(a|b)$", "^(b)$", "^(b)$"]


@pytest.mark.parametrize("arguments", [["no-such-commit"], ["HEAD", "--select", "no such name"]])
def test_a_gate_that_measures_nothing_fails(capsys, arguments):
    assert gate.main(arguments) == 2
    assert "nothing was measured" in capsys.readouterr().err


@pytest.fixture
def repository(monkeypatch, tmp_path):
    """A repository of its own, in which commands of git run."""
    identity = ["-c", "user.name=trial", "-c", "user.email=trial@localhost"]

    def git(*arguments):
        command = ["git", *identity, *arguments]
        return subprocess.check_output(command, cwd=tmp_path, text=True).strip()

    git("init", "--quiet", "--initial-branch", "main")
    (tmp_path / "reference").mkdir()
    (tmp_path / "conformance").mkdir()
    monkeypatch.setattr(checkout, "ROOT", tmp_path)

    def commit(text):
        (tmp_path / "reference" / "file").write_text(text)
        git("add", ".")
        git("commit", "--quiet", "--message", text)
        return git("rev-parse", "HEAD")

    return git, commit, tmp_path


def test_without_a_base_the_change_at_hand_is_compared(repository):
    git, commit, folder = repository
    commit("first")
    with pytest.raises(gate.NothingMeasured, match="the commit before it is not in this cl"):
        gate.default_base()
    (folder / "reference" / "file").write_text("changed")
    assert gate.default_base() == "HEAD"
    first = git("rev-parse", "HEAD")
    second = commit("second")
    assert gate.default_base() == first
    git("switch", "--quiet", "--create", "change")
    assert gate.default_base() == first
    commit("third")
    commit("fourth")
    assert gate.default_base() == second


@pytest.mark.nightly
def test_a_tree_is_compared_with_itself_again_and_again(monkeypatch, capsys):
    """Until the first false alarm."""
    arguments = ["--against-itself", "2", "--select", r"^dispatch\.Traces.*\(reference"]
    assert gate.main(arguments) == 0
    shown = capsys.readouterr().out
    assert "run   1: 0 alarms, 2 counts and 0 times, " in shown
    assert "no false alarm in 2 runs" in shown
    alarm = gate.Comparison([gate.Finding("a", 2.0, "1 before, 2 now")], 1, 0, {})
    monkeypatch.setattr(gate, "compared", lambda *_: alarm)
    assert gate.main(arguments) == 1
    assert capsys.readouterr().out.count("run ") == 1


def test_noise_is_not_slower_and_a_tenth_is():
    assert not gate.is_slower([[0.9, 1.1] * 10] * 5)
    assert not gate.is_slower([[1.04] * 20] * 5)
    assert not gate.is_slower([[1.1] * 20] * 3 + [[1.0] * 20] * 2)
    assert not gate.is_slower([[1.1] * 5])
    assert gate.is_slower([[1.0, 1.1, 1.1] * 7] * 5)

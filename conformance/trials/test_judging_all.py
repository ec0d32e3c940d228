"""`ci/conformance` shows how far the judging of each implementation has come."""

import functools
import sys

import pytest
from scutch.judging.trials import Trial
from scutch_ci import conformance
from scutch_ci import test as checks
from scutch_ci.waiting import waiting

HELD = Trial("test_x", "a/b/c", "passed").to_data()
BROKEN = Trial("test_y", "a/b/d", "failed").to_data()
KNOWN = Trial("test_z", "a/b/e", "failed", broke=True).to_data()

JUDGE = """
import sys, time
from pathlib import Path
Path(sys.argv[1]).write_text(sys.argv[2])
print(".....", flush=True)
time.sleep(1.0)
print("=== scutch ===\\nit conforms")
sys.exit(int(sys.argv[3]))
"""


def test_trials_are_counted_when_their_lines_are_whole(tmp_path):
    tried = conformance.Tried(tmp_path / "flax.trials")
    written = f"the settings\n{HELD}\n{BROKEN}\n{KNOWN}\n"
    seen = []
    for end in range(0, len(written) + 1, 7):
        tried.file.write_text(written[:end])
        tried.look()
        seen.append((tried.laws, tried.broken))
    tried.file.write_text(written)
    tried.look()
    assert sorted({*seen, (tried.laws, tried.broken)}) == [(0, 0), (1, 0), (2, 1), (3, 1)]
    assert (str(tried), tried.first) == ("3 laws tried, 1 broken", "a/b/c passed")


@pytest.mark.parametrize("code", [0, 1])
def test_a_part_shows_its_first_verdict_then_what_the_judge_found(
    tmp_path, monkeypatch, capsys, code
):
    def command(*options):
        kept = options[-1].removeprefix("--resume=")
        return (sys.executable, "-c", JUDGE, kept, f"the settings\n{HELD}\n", str(code))

    monkeypatch.setattr(conformance, "OUTPUT", tmp_path)
    monkeypatch.setattr(conformance, "EVERY", 0.4)
    monkeypatch.setattr(conformance, "command", command)
    monkeypatch.setattr(
        conformance, "waiting", functools.partial(waiting, kept=tmp_path / "durations.json")
    )
    assert conformance.judge_part("flax") == code
    printed = capsys.readouterr().out
    assert "first verdict after " in printed
    assert ": a/b/c passed\n" in printed
    assert "1 laws tried, 0 broken" in printed
    assert printed.endswith("=== scutch ===\nit conforms\n\n")
    assert "....." not in printed


@pytest.mark.parametrize("options", [[], ["-k", "boxes"]])
def test_an_interruption_is_told_in_one_line(options, monkeypatch, capsys):
    def interrupted(*options):
        raise KeyboardInterrupt

    monkeypatch.setenv("SCUTCH_COMMAND", "ci/conformance")  # which it would leave set
    monkeypatch.setattr(conformance, "judge", interrupted)
    monkeypatch.setattr(conformance, "judge_all", interrupted)
    assert conformance.main(options) == 2
    assert capsys.readouterr().err == (
        "ci/conformance: interrupted; the reports are not complete\n"
    )


def test_the_checks_tell_an_interruption_in_one_line(monkeypatch, capsys):
    def interrupted(chosen):
        raise KeyboardInterrupt

    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setattr(checks, "prepare_browser", lambda: None)
    monkeypatch.setattr(checks, "run", interrupted)
    assert checks.main(["lint"]) == 2
    assert capsys.readouterr().err == "ci/test: interrupted; checks without a line did not end\n"

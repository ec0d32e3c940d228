"""A long step shows that it goes on, and how much is left."""

import os
import pty
import subprocess
import sys
import time

import pytest
from scutch_ci import waiting
from scutch_ci.history import read_json, write_json

STEP = """
import sys, time
from pathlib import Path
from scutch_ci.waiting import waiting
with waiting("a step", kept=Path(sys.argv[1])):
    time.sleep(1.6)
"""


def test_a_log_gets_a_line_now_and_then(tmp_path, capsys):
    kept = tmp_path / "durations.json"
    write_json({"another": 7.0, "a step": 61.0}, kept)
    with waiting.waiting("a step", kept=kept, every=0.3, told=lambda: "7 laws tried"):
        time.sleep(1.0)
    lines = capsys.readouterr().out.splitlines()
    assert 1 <= len(lines) <= 3
    assert lines[0] == "    a step: 0:00  7 laws tried  about 1:01 left"
    found = read_json(kept)
    assert found["another"] == 7.0
    assert 1.0 <= found["a step"] < 30.0


def test_a_quick_step_says_nothing_more(tmp_path, capsys):
    with waiting.waiting("a step", kept=tmp_path / "durations.json"):
        pass
    assert capsys.readouterr().out == ""


def test_a_step_that_failed_is_no_measure(tmp_path):
    kept = tmp_path / "durations.json"
    with pytest.raises(ValueError, match="no"), waiting.waiting("a step", kept=kept):
        raise ValueError("no")
    assert not kept.exists()


def test_a_terminal_gets_a_bar_with_the_time_that_is_left(tmp_path):
    kept = tmp_path / "durations.json"
    write_json({"a step": 90.0}, kept)
    screen, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, "-c", STEP, str(kept)],
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        os.close(terminal)
        shown = b""
        while True:
            try:
                part = os.read(screen, 4096)
            except OSError:  # how Linux says that nobody writes any more
                break
            if not part:
                break
            shown += part
    os.close(screen)
    assert process.returncode == 0
    assert b"a step" in shown
    assert b"about 1:29 left" in shown or b"about 1:28 left" in shown
    assert "━".encode() in shown

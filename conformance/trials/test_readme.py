"""The README runs: its Python as it stands, its commands with what they are said to print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w+)(?: title=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language):
    return [(title, text) for found, title, text in BLOCK.findall(README) if found == language]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the README tells its reader to write."""
    made = tmp_path_factory.mktemp("readme")
    for language in ("python", "toml"):
        for title, text in blocks(language):
            if title:
                (made / title).write_text(text, "utf-8")
    return made


def run(command, folder):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "120"}
    environment.pop("SCUTCH_COMMAND", None)
    return subprocess.run(
        command, shell=True, cwd=folder, env=environment, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


@pytest.mark.parametrize("text", [text for title, text in blocks("python") if not title])
def test_a_snippet_runs(text, folder):
    done = run(f"{sys.executable} - <<'END'\n{text}\nEND", folder)
    assert done.returncode == 0, done.stdout


def test_commands_do_what_is_shown(folder):
    """A line of output must appear, `...` stands for any lines; `echo $?` shows the exit code."""
    code = 0
    for _, text in blocks("console"):
        for shown in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = shown.partition("\n")
            done = run(f"(exit {code}); {command}", folder)
            if command != "echo $?":
                code = done.returncode
            for line in expected.splitlines():
                assert line == "..." or line.strip() in done.stdout, f"{command}: {done.stdout}"


def test_every_file_that_is_linked_is_there():
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []

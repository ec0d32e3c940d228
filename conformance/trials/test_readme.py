"""The README runs: its Python as it stands, its commands with the output that it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import table

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
        command,
        shell=True,
        cwd=folder,
        env=environment,
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


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


def test_the_law_that_is_shown_is_one_of_the_laws():
    (law,) = [text for _, text in blocks("text") if text.startswith("@requirement")]
    laws = (ROOT / "conformance/scutch/laws").rglob("test_*.py")
    assert any(law in file.read_text("utf-8") for file in laws)


def test_every_file_that_is_linked_is_there():
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_table_and_picture_of_speed_are_what_their_command_writes(tmp_path, monkeypatch):
    """All but the figures."""

    def measured(benchmark, parameters):
        values = (1, 2, 4, 3) if ".track_" in benchmark else (1e-6, 2e-3, 4e-3, 3.0)
        return dict(zip(table.COLUMNS, values, strict=True))

    def masked(text):
        begin, end = table.marks("cpu")
        section = text.partition(begin)[2].partition(end)[0].strip()
        rows, _, under = section.rpartition("\n\n")
        assert re.search(r" CPU cores .* Python .* JAX .* Flax .*, \d{4}-\d\d-\d\d\.$", under)
        return re.sub(r"\| (-|[\d.,]+( [mµ]?s)?) (?=\|)", "| # ", rows)

    monkeypatch.setattr(table, "measured", measured)
    copy, picture = tmp_path / "README.md", tmp_path / "picture.svg"
    copy.write_text(README, "utf-8")
    assert table.main(["--readme", str(copy), "--picture", str(picture)]) == 0
    assert "| 1.0 µs | 2.0 ms | 4.0 ms | 3.0 s |" in copy.read_text("utf-8")
    assert masked(copy.read_text("utf-8")) == masked(README)
    drawn = (ROOT / "benchmarks" / "dispatch.svg").read_text("utf-8")
    of_figures = "<title>"  # the text before it is the same for all figures
    assert drawn.partition(of_figures)[0] == picture.read_text("utf-8").partition(of_figures)[0]
    assert len(drawn) < 100_000


def test_the_table_of_an_accelerator_stands_under_that_of_the_host():
    once = table.replaced(README, "| first |", "cuda")
    twice = table.replaced(once, "| second |", "cuda")
    begin, end = table.marks("cuda")
    assert table.marks("cpu")[1] in twice.partition(begin)[0]
    assert twice.partition(begin)[2].partition(end)[0].strip() == "| second |"
    assert twice.replace("| second |", "| first |") == once


def test_a_platform_without_devices_is_refused_before_anything_is_measured(tmp_path):
    copy = tmp_path / "README.md"
    copy.write_text(README, "utf-8")
    command = f"{sys.executable} -m benchmarks.table --platform nonsense --readme {copy}"
    done = run(command, ROOT)
    assert done.returncode == 2
    assert "--platform nonsense: Unable to initialize backend 'nonsense'" in done.stdout
    assert "..." not in done.stdout
    assert copy.read_text("utf-8") == README

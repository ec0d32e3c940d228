"""A run that was cut off goes on from the trials that it kept."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTIONS = (
    "--requirement",
    "metadata/box-values/only-boxes-are-metadata",
    "--requirement",
    "metadata/box-axes/removing-undoes-adding",
    "--profile",
    "nightly",
)


@pytest.fixture(scope="module")
def judge(command):
    """Judges with few inputs; gives the exit code, the output, and the report."""

    def run(folder, *options, examples=15):
        report = folder / "report.json"
        code, printed = command(
            ROOT,
            "pytest",
            "conformance",
            "-q",
            "-p",
            "no:cacheprovider",
            *OPTIONS,
            f"--resume={folder / 'trials'}",
            f"--report={report}",
            f"--examples={examples}",
            *options,
        )
        return code, printed, json.loads(report.read_text()) if report.exists() else None

    return run


@pytest.fixture(scope="module")
def whole(judge, tmp_path_factory):
    """The report of a run that was not cut off, and the lines that it kept."""
    folder = tmp_path_factory.mktemp("whole")
    code, printed, report = judge(folder)
    assert (code, "3 passed" in printed) == (0, True), printed
    return report, (folder / "trials").read_text().splitlines()


def _without_times(report):
    rows = [row | {"seconds": 0, "cost": {}} for row in report["requirements"]]
    return report | {"requirements": rows}


def test_only_what_was_not_tried_is_tried_when_a_run_goes_on(judge, whole, tmp_path):
    report, lines = whole
    file = tmp_path / "trials"
    file.write_text("\n".join(lines)[:-20])  # the last trial was cut off in the middle
    code, printed, resumed = judge(tmp_path, "-n", "2")
    assert (code, "1 passed" in printed) == (0, True), printed
    assert resumed["seed"] == report["seed"]
    assert _without_times(resumed) == _without_times(report)
    assert len(file.read_text().splitlines()) == len(lines)


def test_what_crashed_is_tried_again_and_what_failed_is_not(judge, whole, tmp_path):
    first, one, other, *rest = map(json.loads, whole[1])
    kept = [first, one | {"outcome": "crashed"}, other | {"outcome": "failed"}, *rest]
    (tmp_path / "trials").write_text("".join(f"{json.dumps(each)}\n" for each in kept))
    code, printed, report = judge(tmp_path)
    assert (code, "1 passed" in printed) == (1, True), printed
    assert sorted(r["verdict"] for r in report["requirements"] if r["tests"]) == [
        "failed",
        "passed",
    ]


def test_another_run_does_not_go_on_from_it(judge, whole, tmp_path):
    (tmp_path / "trials").write_text("\n".join(whole[1]) + "\n")
    code, printed, _ = judge(tmp_path, examples=16)
    assert code == 2
    assert (
        "its run had examples 15, and this one has 16; expected a file of the same run" in printed
    )


ADAPTER = """
from scutch.adapters.reference import implementation as honest
from scutch import Implementation
import beside

implementation = Implementation("mine", "1", meta=honest.meta)
"""


@pytest.mark.parametrize("edited", ["adapter.py", "beside.py", "later.py", "package/part.py"])
def test_a_run_of_edited_code_is_another_run(judge, tmp_path, edited):
    (tmp_path / "package").mkdir()
    for name in ("beside.py", "later.py", "package/__init__.py", "package/part.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "adapter.py").write_text(ADAPTER)
    (tmp_path / "notes.txt").write_text("")
    chosen = f"--implementation={tmp_path / 'adapter.py'}"
    only = "--requirement=metadata/box-values/only-boxes-are-metadata"
    code, printed, _ = judge(tmp_path, chosen, only)
    assert code == 0, printed
    (tmp_path / "notes.txt").write_text("no code")
    code, printed, _ = judge(tmp_path, chosen, only)
    assert code == 0, printed
    with (tmp_path / edited).open("a") as file:
        file.write("x = 1\n")
    code, printed, _ = judge(tmp_path, chosen, only)
    assert (code, "its run had code" in printed) == (2, True), printed


FULL = """
from pathlib import Path
from trials.hostile import hostile

def remove_the_file(method, *args, **options):
    file = Path(__file__).with_name("trials")
    if file.is_file():
        file.unlink()
        file.mkdir()
    return method(*args, **options)

implementation = hostile({"test_removing_an_added_axis_restores_the_box": remove_the_file})
"""


def test_a_file_that_can_no_longer_be_written_ends_no_run(judge, tmp_path):
    (tmp_path / "adapter.py").write_text(FULL)
    code, printed, report = judge(tmp_path, f"--implementation={tmp_path / 'adapter.py'}")
    assert (code, "3 passed" in printed) == (0, True), printed
    assert report["complete"]
    assert printed.count("Is a directory; what follows is not kept") == 1

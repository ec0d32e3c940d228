"""The distribution: a wheel's files, version and size, and the pins of its environment."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
import scutch
import scutch_reference
from packaging.requirements import Requirement
from packaging.version import Version
from scutch_ci import release
from trials.borrowing import ALONE, borrowing_environment

ROOT = Path(__file__).parents[2]


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of the files that git knows."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", str(made), str(source))
    run(sys.executable, *build)
    return next(made.glob("*.whl"))


def test_a_wheel_holds_two_packages_and_a_command_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    about = f"scutch-{scutch.__version__}.dist-info"
    packages = {"scutch", "scutch_reference", "scutch_command.py"}
    assert {name.partition("/")[0] for name in names} == {*packages, about}
    assert f"{about}/licenses/LICENSE" in names


def test_a_wheel_holds_every_file_of_its_packages(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("conformance/scutch", "reference/scutch_reference"):
        listed = run("git", "ls-files", package, cwd=ROOT).splitlines()
        expected = {str(Path(name).relative_to(Path(package).parent)) for name in listed}
        assert expected
        assert expected <= names


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The commands of an environment that has the wheel, and lacks pytest-xdist and Flax."""
    folder = tmp_path_factory.mktemp("installed")
    python = borrowing_environment(folder, "xdist", "flax")
    run(python, "-m", "pip", "install", "-qq", "--no-index", "--no-deps", str(wheel), env=ALONE)
    return python.parent


def test_an_installed_wheel_judges(installed, tmp_path):
    """In an environment of its own, beside the packages that this one has, on no other path."""
    find = (installed / "python", "-c", "import scutch; print(scutch.__file__)")
    where = run(*find, cwd=tmp_path, env=ALONE)
    assert Path(where.strip()).is_relative_to(installed.parent)
    chosen = ("--profile", "quick", "--requirement", "BOX-5", "-p", "no:cacheprovider")
    output = run(installed / "scutch", "run", *chosen, cwd=tmp_path, env=ALONE)
    assert "conforms in all that it claims" in output


def test_a_judge_without_what_is_judged_says_what_to_install(installed, tmp_path):
    done = subprocess.run(
        [installed / "scutch", "run", "--implementation", "flax"],
        cwd=tmp_path,
        env=ALONE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "expected it beside scutch: pip install flax, or uvx --with flax" in done.stderr


@pytest.mark.parametrize(
    "theirs",
    [
        "scutch.py",
        *(
            pytest.param(f"scutch/{name}.py", marks=pytest.mark.nightly)
            for name in ("__init__", "other")
        ),
    ],
)
def test_a_module_of_the_users_that_is_called_scutch_is_no_verdict(installed, tmp_path, theirs):
    """In the folder of the run it is not in the way; on the path it is refused by its name."""
    (tmp_path / "scutch").mkdir()
    (tmp_path / theirs).write_text("raise SystemExit(1)\n")
    (tmp_path / "mine.py").write_text("from scutch.adapters.reference import implementation\n")
    command = (
        installed / "scutch",
        "run",
        "--implementation",
        "mine.py",
        "--requirement",
        "BOX-9b",
    )
    output = run(*command, "-p", "no:cacheprovider", cwd=tmp_path, env=ALONE)
    assert "conforms in all that it claims" in output
    if theirs == "scutch/other.py":
        return  # which Python imports only where no package has that name
    done = subprocess.run(
        command,
        env={**ALONE, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"scutch: Python finds {tmp_path / theirs} under the name scutch")
    assert len(done.stderr.splitlines()) == 1


def test_what_is_needed_at_least_is_what_the_lowest_pins_have():
    about = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = map(Requirement, about["dependencies"])
    least = {each.name: Version(str(each.specifier).removeprefix(">=")) for each in needed}
    lines = (ROOT / "ci" / "pins" / "lowest.txt").read_text("utf-8").splitlines()
    pins = dict(line.split("==") for line in lines)
    assert least == {name: Version(pins[name]) for name in least}


STRANGERS = ("jax.py", "jax/__init__.py", "numpy.py", "hypothesis.py", "psutil.py", "pytest.py")


@pytest.mark.parametrize("words", [("list",), ("run",)], ids=" ".join)
@pytest.mark.parametrize("theirs", STRANGERS)
def test_a_module_with_the_name_of_a_package_is_no_verdict(installed, tmp_path, theirs, words):
    path = tmp_path / theirs
    path.parent.mkdir(exist_ok=True)
    path.write_text("raise SystemExit(0)\n")
    done = subprocess.run(
        [installed / "scutch", *words],
        env={**ALONE, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    name = path.relative_to(tmp_path).parts[0].removesuffix(".py")
    assert done.stderr.startswith(f"scutch: Python finds {path} under the name {name}, and not")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "code"),
    [(("-m", "pytest", ROOT / "conformance"), 4), (("-c", "from scutch import judge_box"), 1)],
    ids=["pytest conformance", "judge_box"],
)
def test_whoever_needs_a_package_names_the_module_in_its_place(tmp_path, command, code):
    (tmp_path / "hypothesis.py").write_text("raise SystemExit(0)\n")
    path = os.pathsep.join(map(str, (tmp_path, ROOT / "conformance", ROOT / "reference")))
    done = subprocess.run(
        [sys.executable, *command],
        env={**ALONE, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert f"Python finds {tmp_path / 'hypothesis.py'} under the name hypothesis" in done.stderr


@pytest.mark.parametrize("word", ["-n2", "--numprocesses=2", "--dist=load"])
def test_workers_without_xdist_are_refused_with_what_to_install(installed, tmp_path, word):
    done = subprocess.run(
        [installed / "scutch", "run", "--requirement", "BOX-5", word],
        cwd=tmp_path,
        env=ALONE,
        capture_output=True,
        text=True,
        check=False,
    )
    message = f'scutch: {word} needs pytest-xdist: pip install "scutch[report]"\n'
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


class Limit(NamedTuple):
    """The most statements that the Python files of a folder, or one file, may hold.

    Args:
      statements: Counted by `ast`, docstrings left out: text, blank lines and names are free.
        Delete before you raise it. The message of the commit that raises it says why.
      holds: The work that this code does.
      without: A folder or a file inside that is not counted.
    """

    statements: int
    holds: str
    without: tuple[str, ...] = ()


LIMITS = {
    "reference/scutch_reference": Limit(
        5434, "boxes, rules, objects, Linen, lifts and the bridge", without=("export",)
    ),
    "reference/scutch_reference/export": Limit(551, "both backends of document 003"),
    "conformance/scutch": Limit(
        12259, "the judge without its laws", without=("laws", "models", "upgrades")
    ),
    "conformance/scutch/models": Limit(
        2575, "laws about a user's own model, where it lies, its lock, its page, and a comparison"
    ),
    "conformance/scutch/upgrades": Limit(568, "the lines of a user's code that a release changes"),
    "ci": Limit(
        3368,
        "checks, gate, mutants, matrix, pages and release",
        without=("scutch_ci/docstyle.py", "programs"),
    ),
    "ci/scutch_ci/docstyle.py": Limit(88, "the rules of docstrings that ruff lacks"),
}
JUDGE = "conformance/scutch"
ONE_SITTING = 260
"""The most statements of one file of the reference: about 400 lines with their text."""


def statements(file):
    """Statements of a Python file; a text that stands alone, as a docstring does, is none."""
    return sum(map(is_statement, ast.walk(ast.parse(file.read_text("utf-8")))))


def is_statement(node):
    return isinstance(node, ast.stmt) and not is_text(node)


def is_text(statement):
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def python_files(folder, without=()):
    """The Python files in a folder of the checkout, or the file itself, without some parts."""
    left_out = {ROOT / folder / part for part in without}
    files = sorted((ROOT / folder).rglob("*.py")) or [ROOT / folder]
    return [file for file in files if left_out.isdisjoint((file, *file.parents))]


@pytest.mark.parametrize(("folder", "limit"), LIMITS.items(), ids=LIMITS)
def test_code_stays_compact(folder, limit):
    counts = [statements(file) for file in python_files(folder, limit.without)]
    assert counts, f"{folder} holds no Python"
    assert sum(counts) <= limit.statements, f"{folder}: {limit.holds}"


def test_a_file_of_the_reference_is_read_in_one_sitting():
    counts = {file.name: statements(file) for file in python_files("reference/scutch_reference")}
    assert {name: count for name, count in counts.items() if count > ONE_SITTING} == {}


LONGEST_FILE, LONGEST_FUNCTION = 400, 40
"""The most lines of a file of the judge, and the most statements of one function."""


def test_a_file_of_the_judge_is_read_in_one_sitting():
    files = {file: len(file.read_text("utf-8").splitlines()) for file in python_files(JUDGE)}
    assert {str(file): lines for file, lines in files.items() if lines > LONGEST_FILE} == {}


def test_a_function_of_the_judge_fits_on_a_screen():
    """The functions that it defines inside count as its own."""
    found = {
        f"{file}:{node.lineno} {node.name}": length
        for file in python_files(JUDGE)
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := sum(map(is_statement, ast.walk(node))) - 1) > LONGEST_FUNCTION
    }
    assert found == {}


def test_docstrings_and_comments_are_no_statements(tmp_path):
    file = tmp_path / "file.py"
    file.write_text('"""Module."""\n\n# why\ndef f():\n    """Function."""\n    return 1\n')
    assert statements(file) == 2


def test_both_packages_have_one_version():
    assert scutch.__version__ == scutch_reference.__version__


def test_the_changelog_tells_of_this_version_in_at_most_fifteen_lines_for_each_release():
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    releases = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert scutch.__version__ in releases
    lines = {name: len(release.notes(changelog, name).splitlines()) for name in releases}
    assert {name: count for name, count in lines.items() if count > 15} == {}


@pytest.mark.parametrize("file", sorted((ROOT / "ci" / "pins").glob("*.txt")), ids=lambda f: f.name)
def test_a_pin_is_a_name_and_a_version(file):
    """No address, path, hash or option: packages come from the index of whoever installs them."""
    lines = file.read_text("utf-8").splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "there is no python3.12 on the path"),
        ("echo shim: not chosen >&2; echo more >&2; exit 127", "it says: shim: not chosen; set"),
        ('test "$1" = -c || exec echo Python 3.12.1; exit 1', "does not start, as a shim or a"),
        (
            "case $2 in *'print(\"Python\"'*) echo Python 3.9.1 ;; esac",
            "is Python 3.9.1, which is too old",
        ),
    ],
    ids=["absent", "shim", "broken", "old"],
)
def test_a_python_that_cannot_be_used_is_refused_with_what_to_do(tmp_path, script, message):
    if script:
        (tmp_path / "python3.12").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "python3.12").chmod(0o755)
    for name in ("sh", "dirname", "ls", "sort", "tail"):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = subprocess.run(
        [tmp_path / "sh", ROOT / "ci" / "environment"],
        env={"PATH": str(tmp_path), "PYTHON": "python3.12"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.endswith("; set PYTHON to a name or a path of Python 3.11, 3.12 or 3.13\n")


def test_tolerances_come_from_one_place():
    """No law, and no part of the judge, compares floating numbers in a way of its own."""
    own = re.compile(r"allclose|isclose|assert_almost|pytest\.approx")
    files = python_files(JUDGE)
    found = {file.name for file in files if own.search(file.read_text("utf-8"))}
    assert found == {"tolerances.py"}

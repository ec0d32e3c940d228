"""The distribution: what a wheel holds, its version, and what its environment is pinned to."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import scutch
import scutch_reference

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


def test_a_wheel_holds_two_packages_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    about = f"scutch-{scutch.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"scutch", "scutch_reference", about}
    assert f"{about}/licenses/LICENSE" in names


def test_a_wheel_holds_every_file_of_its_packages(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("conformance/scutch", "reference/scutch_reference"):
        listed = run("git", "ls-files", package, cwd=ROOT).splitlines()
        expected = {str(Path(name).relative_to(Path(package).parent)) for name in listed}
        assert expected
        assert expected <= names


def test_an_installed_wheel_judges(wheel, tmp_path):
    """In an environment of its own, beside the packages that this one has."""
    python = tmp_path / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    run(python, "-m", "pip", "install", "-qq", "--no-index", "--no-deps", str(wheel))
    packages = next(p for p in map(Path, sys.path) if p.name == "site-packages")
    borrowed = tmp_path / "borrowed"
    borrowed.mkdir()
    for entry in packages.iterdir():
        if "scutch" not in entry.name:
            (borrowed / entry.name).symlink_to(entry)
    here = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    (here / "borrowed.pth").write_text(f"{borrowed}\n")
    where = run(python, "-c", "import scutch; print(scutch.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(here)
    chosen = ("--profile", "quick", "--requirement", "BOX-5", "-p", "no:cacheprovider")
    output = run(python.parent / "scutch", "run", *chosen, cwd=tmp_path)
    assert "conforms in all that it claims" in output


def test_the_reference_stays_compact():
    """Lines with text, docstrings and comments included; blank ones are the formatter's."""
    files = sorted((ROOT / "reference" / "scutch_reference").rglob("*.py"))
    lines = {file: file.read_text("utf-8").splitlines() for file in files}
    assert sum(bool(line.strip()) for each in lines.values() for line in each) < 5000
    assert {file.name: len(each) for file, each in lines.items() if len(each) > 500} == {}


def test_both_packages_have_one_version():
    assert scutch.__version__ == scutch_reference.__version__


def test_the_changelog_tells_of_this_version():
    assert f"## [{scutch.__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.parametrize("file", sorted((ROOT / "ci" / "pins").glob("*.txt")), ids=lambda f: f.name)
def test_a_pin_is_a_name_and_a_version(file):
    """No address, path, hash or option: packages come from the index of whoever installs them."""
    lines = file.read_text("utf-8").splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []

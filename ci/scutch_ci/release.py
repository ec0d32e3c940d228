"""The command `ci/release`: build the distributions, and check them as a user would install them.

1. `ci/release --prepare 0.2.0` writes the version into both packages and the README, and moves the
   changelog's entries under Unreleased to a section for 0.2.0. Commit that, and tag it `v0.2.0`.
2. `ci/release` builds the wheel and the source distribution of HEAD in `dist`, checks their
   metadata and long description, installs `scutch==0.2.0` from there in a fresh environment of each
   Python, judges the reference and Flax in it, and follows the README.

The workflow `release` runs the second for a tag, and publishes the two distributions.
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from email import message_from_string
from email.message import Message
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.version import InvalidVersion, Version

from scutch_ci.checkout import ROOT, NothingMeasured, git, last_line, output_of

DIST = ROOT / "dist"
PACKAGES = ("conformance/scutch/__init__.py", "reference/scutch_reference/__init__.py")
PINS = {"3.11": "py311.txt", "3.12": "py312.txt", "3.13": "py312.txt"}
"""The Pythons that a release is tried on, with the pins that say which JAX and Flax."""

FIELDS = {
    "Name": "scutch",
    "License-Expression": "Apache-2.0",
    "Requires-Python": ">=3.11",
    "Description-Content-Type": "text/markdown",
}

_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_UNRELEASED = "## [Unreleased]\n"
_LINK = re.compile(r"(!?\[[^\]]*\]\()(?!https?://|#|mailto:)([^)\s]+)\)")
_SOMEBODY = "OWNER/scutch"
"""How the README names a repository whose address it does not know."""


class CheckFailed(Exception):
    """A distribution is not fit to be published; the text says why."""


def main(arguments: Sequence[str]) -> int:
    """Prepare or build a release.

    Args:
      arguments: The command's options.

    Returns:
      An exit code: 0 all is fine, 1 a check failed, 2 the set-up is wrong.
    """
    parser = argparse.ArgumentParser(
        "ci/release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: 0 all is fine, 1 a check failed, 2 the set-up is wrong",
    )
    add = parser.add_argument
    add("--prepare", metavar="VERSION", help="write the version and the changelog's section")
    add(
        "--repository",
        metavar="URL",
        default=address(),
        help="where pictures and links of the long description lead (%(default)s)",
    )
    add(
        "--python",
        action="append",
        choices=PINS,
        metavar="X.Y",
        help=f"try it on this Python only; repeatable ({', '.join(PINS)})",
    )
    options = parser.parse_args(arguments)
    try:
        if options.prepare:
            prepare(options.prepare, ROOT)
        else:
            release(options.repository, options.python or list(PINS))
    except CheckFailed as reason:
        print(f"ci/release: {reason}", file=sys.stderr)
        return 1
    except NothingMeasured as reason:
        print(f"ci/release: {reason}", file=sys.stderr)
        return 2
    return 0


def address() -> str:
    """Where the repository is, as the CI or git says; empty where neither knows."""
    if name := os.environ.get("GITHUB_REPOSITORY"):
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
    try:
        url = git("remote", "get-url", "origin")
    except NothingMeasured:
        return ""
    url = re.sub(r"^git@([^:]+):", r"https://\1/", url).removesuffix(".git")
    return url if url.startswith("https://") else ""


def version_of(tree: Path) -> str:
    """The version of the packages in a checkout.

    Raises:
      NothingMeasured: The two packages have different versions.
    """
    found = {_VERSION.findall((tree / file).read_text("utf-8"))[0] for file in PACKAGES}
    if len(found) != 1:
        raise NothingMeasured(f"the packages have several versions: {', '.join(sorted(found))}")
    return str(found.pop())


# ---------------------------------------------------------------- the version and the changelog


def prepare(version: str, tree: Path) -> None:
    """Write a new version, and move the changelog's entries under Unreleased to its section.

    Raises:
      NothingMeasured: `version` is no version or is not newer than the old one, or the changelog
        has no entries under Unreleased.
    """
    old = version_of(tree)
    try:
        newer = Version(version) > Version(old)
    except InvalidVersion as error:
        raise NothingMeasured(f"--prepare {version!r} is no version") from error
    file = tree / "CHANGELOG.md"
    text = file.read_text("utf-8")
    if not newer or f"## [{version}]" in text:
        raise NothingMeasured(f"--prepare {version}: expected a version that is newer than {old}")
    if not notes(text, "Unreleased"):
        raise NothingMeasured(f"nothing stands under Unreleased in {file.name}")
    today = datetime.now(UTC).date().isoformat()
    file.write_text(text.replace(_UNRELEASED, f"{_UNRELEASED}\n## [{version}] - {today}\n", 1))
    for name in PACKAGES:
        code = (tree / name).read_text("utf-8")
        (tree / name).write_text(_VERSION.sub(f'__version__ = "{version}"', code))
    readme = tree / "README.md"
    readme.write_text(readme.read_text("utf-8").replace(f"v{old}", f"v{version}"), "utf-8")
    print(f"scutch {version}: commit this, and tag it v{version}")


def notes(changelog: str, version: str) -> str:
    """The text of a version's section in a changelog; empty where there is none."""
    begin = rf"^## \[{re.escape(version)}\][^\n]*\n"
    found = re.search(rf"{begin}(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


# ---------------------------------------------------------------- the distributions


def release(repository: str, pythons: Sequence[str]) -> None:
    """Build HEAD, check the two distributions, and use them in fresh environments.

    Args:
      repository: Its address, for links of the long description.
      pythons: The versions of Python to try it on.

    Raises:
      NothingMeasured: The set-up is wrong.
      CheckFailed: A distribution is not fit to be published.
    """
    if not repository:
        raise NothingMeasured("the address of the repository is not known: pass --repository URL")
    interpreters = {name: interpreter(name) for name in pythons}
    version, tag = version_of(ROOT), os.environ.get("GITHUB_REF_NAME", "")
    if os.environ.get("GITHUB_REF_TYPE") == "tag" and tag != f"v{version}":
        raise NothingMeasured(f"the tag is {tag}, and the packages are {version}")
    changes = notes((ROOT / "CHANGELOG.md").read_text("utf-8"), version)
    if not changes:
        raise NothingMeasured(f"CHANGELOG.md has no section for {version}")
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        git("archive", "--format=tar", f"--output={tree / 'head.tar'}", "HEAD")
        with tarfile.open(tree / "head.tar") as archive:
            archive.extractall(tree / "head", filter="data")
        build(tree / "head", repository, DIST)
        check_metadata(DIST, version)
        said("twine check", check_with_twine(tree))
        for name, python in interpreters.items():
            said(f"Python {name}", use(python, name, version, tree))
    (DIST / "notes.md").write_text(f"{changes}\n", "utf-8")
    print(f"{DIST}: scutch {version} is fit to be published")


def said(what: str, result: str) -> None:
    """Print the name of a step and its result, on one line."""
    print(f"{what:16} {result}", flush=True)


def build(tree: Path, repository: str, folder: Path) -> None:
    """Build the wheel and the source distribution of a tree, which is changed, in a new folder."""
    version = version_of(tree)
    readme = tree / "README.md"
    readme.write_text(published(readme.read_text("utf-8"), repository, f"v{version}"), "utf-8")
    settings = tree / "pyproject.toml"
    addresses = {
        "Repository": "",
        "Changelog": f"/blob/v{version}/CHANGELOG.md",
        "Issues": "/issues",
    }
    urls = "".join(f'{name} = "{repository}{path}"\n' for name, path in addresses.items())
    text = settings.read_text("utf-8")
    settings.write_text(f"{text}\n[project.urls]\n{urls}", "utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(tree)]
    output_of(command, "nothing was built")


def published(readme: str, repository: str, tag: str) -> str:
    """The README for a page elsewhere, with links and pictures from the repository at a tag."""
    owned = readme.replace(_SOMEBODY, "/".join(repository.split("/")[-2:]))

    def absolute(found: re.Match[str]) -> str:
        picture, path = found[1].startswith("!"), found[2]
        sanitized = "?sanitize=true" if path.endswith(".svg") else ""  # else it is sent as text
        kind = "raw" if picture else "blob"
        return f"{found[1]}{repository}/{kind}/{tag}/{path}{sanitized if picture else ''})"

    return _LINK.sub(absolute, owned)


def check_metadata(folder: Path, version: str) -> None:
    """Refuse a wheel or a source distribution with wrong metadata or a wrong long description.

    Raises:
      CheckFailed: A field is missing or wrong, or the long description has a relative link, has no
        picture, or names no owner of the repository.
    """
    for path in (one_of(folder, "*.whl"), one_of(folder, "*.tar.gz")):
        found = metadata(path)
        description = str(found.get_payload())
        for field, value in (FIELDS | {"Version": version}).items():
            if found[field] != value:
                raise CheckFailed(f"{path.name}: {field} is {found[field]!r}; expected {value!r}")
        if left := [link[1] for link in _LINK.findall(description)]:
            raise CheckFailed(
                f"{path.name}: its description links to {left[0]}, which is no address"
            )
        if not re.search(r"!\[[^\]]*\]\(https://", description) or _SOMEBODY in description:
            raise CheckFailed(f"{path.name}: its description has no pictures, or names no owner")


def one_of(folder: Path, pattern: str) -> Path:
    """The only file of a folder that matches a pattern.

    Raises:
      CheckFailed: No file matches, or several do.
    """
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise CheckFailed(f"{folder} has {len(found)} files {pattern}; expected one")
    return found[0]


def metadata(path: Path) -> Message:
    """The fields and the long description of a wheel or a source distribution."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            name = next(each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
            return message_from_string(wheel.read(name).decode())
    with tarfile.open(path) as archive:
        file = archive.extractfile(f"{path.name.removesuffix('.tar.gz')}/PKG-INFO")
        if file is None:
            raise CheckFailed(f"{path.name} has no PKG-INFO")
        return message_from_string(file.read().decode())


# ---------------------------------------------------------------- as a user has it


def interpreter(version: str) -> str:
    """The path of a Python that starts, from `PATH` or else from pyenv's folder.

    Raises:
      NothingMeasured: No Python of this version starts.
    """
    name = f"python{version}"
    held = glob.glob(f"{os.environ.get('PYENV_ROOT', Path.home() / '.pyenv')}/versions/{version}.*")
    for python in filter(None, (shutil.which(name), *(f"{each}/bin/{name}" for each in held))):
        if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return python
    raise NothingMeasured(f"no {name} starts; install it, or choose others with --python")


def fresh(python: str, folder: Path, *packages: str) -> Path:
    """Make an environment and install packages in it; returns the path of its Python.

    Args:
      python: The interpreter that makes the environment.
      folder: The folder of the environment.
      *packages: Requirements and options for `pip install`.

    Raises:
      CheckFailed: pip cannot install the packages.
    """
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    made = folder / "bin" / "python"
    carried_out([made, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *packages])
    return made


def carried_out(command: Sequence[str | Path], folder: Path | None = None, **more: str) -> str:
    """Run a command that cannot import this checkout; returns its output.

    Raises:
      CheckFailed: The command ended with an exit code other than 0.
    """
    alone = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SCUTCH_"))}
    done = subprocess.run(
        command,
        cwd=folder or DIST,
        env={**alone, **more},
        stdin=subprocess.DEVNULL,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        shown = " ".join(map(str, command))
        raise CheckFailed(f"{shown} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def check_with_twine(folder: Path) -> str:
    """Check metadata and long description with twine; returns the last line of its output."""
    python = fresh(sys.executable, folder / "twine", "twine>=6")
    files = [str(one_of(DIST, pattern)) for pattern in ("*.whl", "*.tar.gz")]
    return last_line(
        carried_out([python, "-m", "twine", "--no-color", "check", "--strict", *files])
    )


def use(python: str, name: str, version: str, folder: Path) -> str:
    """Install by name and version, judge, and follow the README; gives the verdicts in one line."""
    pins = ROOT / "ci" / "pins" / PINS[name]
    wanted = (f"--find-links={DIST}", f"--constraint={pins}", f"scutch[flax,report]=={version}")
    made = fresh(python, folder / name, *wanted)
    work = folder / f"work-{name}"
    work.mkdir()
    where = carried_out([made, "-P", "-c", "import scutch; print(scutch.__file__)"], work)
    if not Path(where.strip()).is_relative_to(folder / name):
        raise CheckFailed(f"scutch was imported from {where.strip()}, not from what was built")
    verdicts = []
    for implementation in ("reference", "flax"):
        chosen = (
            "--implementation",
            implementation,
            "--requirement",
            "metadata",
            "--profile",
            "quick",
        )
        printed = carried_out([made.with_name("scutch"), "run", *chosen], work)
        verdicts.append(next(line for line in printed.splitlines() if " conforms in " in line))
    trial = ROOT / "conformance" / "trials" / "test_readme.py"
    options = ("-q", "-c", os.devnull, f"--rootdir={work}", "-p", "no:cacheprovider")
    following = [str(made), "-m", "pytest", *options, "-k", "commands", str(trial)]
    verdicts.append(f"README: {last_line(carried_out(following, work, PYTHONPATH=str(ROOT)))}")
    return "; ".join(verdicts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

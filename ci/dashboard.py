"""asv's own page, made to open from disk without a network.

asv's page gets its libraries from elsewhere, and its data by requests that a browser refuses to a
page that was opened from disk. So the libraries are fetched from npm, once, and put beside the
page; and each file of data gets a twin that is a script, which `offline.js` loads in the place of
the request. asv's page and asv's scripts stay as they are.
"""

import html
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import judgment
import measurements
from asv.commands.publish import Publish
from asv.config import Config
from asv.console import log
from asv.plugins.git import Git
from nights import History

OFFLINE = judgment.ROOT / "ci" / "offline.js"
NPM_TIMEOUT = 300
PACKAGES = {
    "jquery-3.3.1.min.js": ("jquery@3.3.1", "dist/jquery.min.js"),
    "jquery.flot.min.js": ("flot@0.8.3", "jquery.flot.js"),
    "jquery.flot.time.min.js": ("flot@0.8.3", "jquery.flot.time.js"),
    "jquery.flot.selection.min.js": ("flot@0.8.3", "jquery.flot.selection.js"),
    "jquery.flot.categories.min.js": ("flot@0.8.3", "jquery.flot.categories.js"),
    "jquery.flot.orderBars.js": ("flot-orderbars@1.0.0", "js/jquery.flot.orderBars.js"),
    "stupidtable.min.js": ("stupid-table-plugin@1.1.3", "stupidtable.min.js"),
    "md5.min.js": ("blueimp-md5@2.19.0", "js/md5.min.js"),
    "bootstrap.min.js": ("bootstrap@3.1.1", "dist/js/bootstrap.min.js"),
    "bootstrap.min.css": ("bootstrap@3.1.1", "dist/css/bootstrap.min.css"),
}
"""What asv's page names, by the last part of its address: the npm package, and the file in it."""

_CORRECTIONS = {
    # Between names on the x axis it finds no number, and hides all series but the middle one.
    "jquery.flot.orderBars.js": (
        b"AxeSize = minMaxValues[1] - minMaxValues[0];",
        b"AxeSize = minMaxValues[1] - minMaxValues[0] || 0;",
    )
}
_ELSEWHERE = re.compile(r'<(script|link)\b[^>]*?\b(?:src|href)="(https://[^"]+)"[^>]*>')


class Ancestry(Git):
    """A repository in which every ancestor belongs to a branch, not only first parents.

    The tip of last night need not be a first parent of tonight's: a branch may have taken it over.
    """

    dvcs = "git with all ancestors"

    def get_branch_commits(self, branch: str) -> list[str]:
        """Every commit that led to the branch."""
        command = ["rev-list", self.get_branch_name(branch)]
        return str(self._run_git(command, dots=False)).split()


class Incomplete(Exception):
    """The page is there, and needs a network to be seen; the text says why."""


def publish(history: History, folder: Path, cache: Path) -> None:
    """Write asv's page about all nights.

    Args:
      folder: Is made.
      cache: Keeps the libraries from night to night.

    Raises:
      Incomplete: The libraries could not be fetched.
    """
    with history.scratch() as scratch:
        results = scratch / "results"
        measurements.assemble(history, results)
        settings = measurements.configuration(results, folder) | {"dvcs": Ancestry.dvcs}
        with log.set_level("WARNING"):
            Publish.run(Config.from_json(settings), pull=False)
    for path in sorted(folder.rglob("*.json")):
        name = json.dumps(path.relative_to(folder).as_posix())
        data = path.read_text("utf-8").replace("<", "\\u003c")
        path.with_name(f"{path.name}.js").write_text(f"offline({name}, {data});\n", "utf-8")
    page = (folder / "index.html").read_text("utf-8")
    page = page.replace(
        '<ul class="nav navbar-nav navbar-left">',
        '<ul class="nav navbar-nav navbar-left">\n'
        '        <li><a href="../index.html">scutch nightly</a></li>',
    )
    shutil.copy(OFFLINE, folder)
    try:
        page = with_libraries(page, folder, cache)
    finally:
        loader = '<script src="offline.js"></script>\n    <script language="javascript"'
        page = page.replace('<script language="javascript"', loader, 1)
        (folder / "index.html").write_text(page, "utf-8")


def with_libraries(page: str, folder: Path, cache: Path) -> str:
    """The page with every address elsewhere replaced by one beside it.

    Raises:
      Incomplete: npm is absent, cannot fetch a package, or asv's page names what is not listed.
    """

    def beside(found: re.Match[str]) -> str:
        kind, address = found[1], html.unescape(found[2])
        name = address.rpartition("/")[2]
        if name not in PACKAGES:
            raise Incomplete(f"asv's page needs {address}, which ci/dashboard.py does not know")
        package, member = PACKAGES[name]
        (folder / "libraries").mkdir(exist_ok=True)
        wrong, right = _CORRECTIONS.get(name, (b"", b""))
        text = _fetched(package, member, cache).replace(wrong, right)
        (folder / "libraries" / name).write_bytes(text)
        if kind == "link":
            return f'<link rel="stylesheet" href="libraries/{name}">'
        return f'<script src="libraries/{name}">'

    return _ELSEWHERE.sub(beside, page)


def _fetched(package: str, member: str, cache: Path) -> bytes:
    """A file of an npm package."""
    packed = cache / f"{package.replace('@', '-')}.tgz"
    if not packed.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as folder:
            _pack(package, Path(folder))
            os.replace(Path(folder, packed.name), packed)
    with tarfile.open(fileobj=io.BytesIO(packed.read_bytes())) as archive:
        found = archive.extractfile(f"package/{member}")
        if found is None:
            raise Incomplete(f"{package} has no file {member}")
        return found.read()


def _pack(package: str, folder: Path) -> None:
    """Have npm put a package in a folder, as one file."""
    npm = shutil.which("npm")
    if npm is None:
        raise Incomplete("npm is not installed")
    try:
        done = subprocess.run(
            [npm, "pack", "--loglevel=error", package], cwd=folder, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=NPM_TIMEOUT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Incomplete(f"npm pack {package} took longer than {NPM_TIMEOUT} s") from error
    if done.returncode:
        said = done.stderr.strip().partition("\n")[0]
        raise Incomplete(f"npm pack {package} failed: {said}")

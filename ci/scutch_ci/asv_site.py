"""asv's own site, made to open from disk without a network.

asv's page loads its libraries from the web, and its data by requests that a browser refuses to a
page opened from disk. So the libraries are fetched once, by npm, and put beside the page; and each
JSON file gets a copy that is a script, which `offline.js` loads in place of the request. Of asv's
own files only the first page is changed.
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

from asv.commands.publish import Publish
from asv.config import Config
from asv.console import log
from asv.plugins.git import Git

from scutch_ci.history import History
from scutch_ci.measurements import assemble, asv_settings

OFFLINE = Path(__file__).with_name("offline.js")
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
"""The npm package and the file in it, by the last part of the address that asv's page has."""

_CORRECTIONS = {
    # Where the x axis has names it finds no number, and hides all series but the middle one.
    "jquery.flot.orderBars.js": (
        b"AxeSize = minMaxValues[1] - minMaxValues[0];",
        b"AxeSize = minMaxValues[1] - minMaxValues[0] || 0;",
    )
}
_WEB_LINK = re.compile(r'<(script|link)\b[^>]*?\b(?:src|href)="(https://[^"]+)"[^>]*>')
_MENU = '<ul class="nav navbar-nav navbar-left">'
BACK = '<li><a href="../index.html">scutch nightly</a></li>'
"""The link from asv's page to the site that it is a part of."""
_OWN_SCRIPT = '<script language="javascript"'


class AllAncestors(Git):
    """asv's view of a git repository in which every ancestor of HEAD belongs to the branch.

    asv itself follows first parents only. The commit of an earlier night need not be one: a merge
    may have made it a second parent.
    """

    dvcs = "git with all ancestors"

    def get_branch_commits(self, branch: str) -> list[str]:
        """Every commit that led to the branch."""
        command = ["rev-list", self.get_branch_name(branch)]
        return str(self._run_git(command, dots=False)).split()


class NeedsNetwork(Exception):
    """The site was made, but its graphs need a network to be seen; the text says why."""


def publish(history: History, folder: Path, cache: Path) -> None:
    """Write asv's site about all nights.

    Args:
      history: The nights.
      folder: Is made, and holds the site.
      cache: Keeps the libraries from night to night.

    Raises:
      NeedsNetwork: The libraries could not be fetched; all else was written.
    """
    with history.scratch() as scratch:
        results = scratch / "results"
        assemble(history, results)
        settings = asv_settings(results, folder) | {"dvcs": AllAncestors.dvcs}
        with log.set_level("WARNING"):
            Publish.run(Config.from_json(settings), pull=False)
    for path in sorted(folder.rglob("*.json")):
        copy_as_script(path, folder)
    shutil.copy(OFFLINE, folder)
    index = folder / "index.html"
    loader = '<script src="offline.js"></script>'
    page = index.read_text("utf-8").replace(_MENU, f"{_MENU}\n        {BACK}")
    try:
        page = with_libraries(page, folder, cache)
    finally:  # with the libraries or without: the script goes before asv's own, and after jQuery
        page = page.replace(_OWN_SCRIPT, f"{loader}\n    {_OWN_SCRIPT}", 1)
        index.write_text(page, "utf-8")


def copy_as_script(path: Path, folder: Path) -> None:
    """Write a script beside a JSON file that hands its data to `offline.js`."""
    name = json.dumps(path.relative_to(folder).as_posix())
    data = path.read_text("utf-8").replace("<", "\\u003c")
    path.with_name(f"{path.name}.js").write_text(f"offline({name}, {data});\n", "utf-8")


def with_libraries(page: str, folder: Path, cache: Path) -> str:
    """The page with every address on the web replaced by a file beside it.

    Args:
      page: The HTML text.
      folder: Of the page; the libraries are written there.
      cache: Keeps the libraries from night to night.

    Returns:
      The changed text.

    Raises:
      NeedsNetwork: npm is absent or cannot fetch a package, or the page names an address that is
        not in `PACKAGES`.
    """

    def local_link(found: re.Match[str]) -> str:
        kind, address = found[1], html.unescape(found[2])
        name = address.rpartition("/")[2]
        if name not in PACKAGES:
            raise NeedsNetwork(f"asv's page needs {address}, which {__name__} does not know")
        (folder / "libraries").mkdir(exist_ok=True)
        (folder / "libraries" / name).write_bytes(_library(name, cache))
        if kind == "link":
            return f'<link rel="stylesheet" href="libraries/{name}">'
        return f'<script src="libraries/{name}">'

    return _WEB_LINK.sub(local_link, page)


def _library(name: str, cache: Path) -> bytes:
    """A file of an npm package, corrected where it has to be."""
    package, member = PACKAGES[name]
    packed = cache / f"{package.replace('@', '-')}.tgz"
    if not packed.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as folder:
            _pack(package, Path(folder))
            os.replace(Path(folder, packed.name), packed)
    with tarfile.open(fileobj=io.BytesIO(packed.read_bytes())) as archive:
        file = archive.extractfile(f"package/{member}")
        if file is None:
            raise NeedsNetwork(f"{package} has no file {member}")
        wrong, right = _CORRECTIONS.get(name, (b"", b""))
        return file.read().replace(wrong, right)


def _pack(package: str, folder: Path) -> None:
    """Have npm put a package in a folder, as one file."""
    npm = shutil.which("npm")
    if npm is None:
        raise NeedsNetwork("npm is not installed")
    try:
        done = subprocess.run(
            [npm, "pack", "--loglevel=error", package],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=NPM_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NeedsNetwork(f"npm pack {package} took longer than {NPM_TIMEOUT} s") from error
    if done.returncode:
        message = done.stderr.strip().partition("\n")[0]
        raise NeedsNetwork(f"npm pack {package} failed: {message}")

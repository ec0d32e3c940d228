"""The static site: a matrix of requirements by implementations, and a page for each requirement.

Every page stands alone: its style is inside it, and its content security policy forbids the browser
to load anything and to run any script but two of ours: the search of the first page, and the button
that copies a program. So a page opens from disk, and text that an implementation chose is shown and
never run.
"""

import functools
import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import jinja2
from markupsafe import Markup, escape

from scutch.catalogue import file_name, group_of, sentence_of
from scutch.catalogue import index as laws
from scutch.judging.verdicts import ROOTS, VERDICTS
from scutch.report.document import Report, ReportError, suite
from scutch.report.matrix import MARKS, MEANINGS, Matrix, matrix
from scutch.report.text import count, publish, visible

if TYPE_CHECKING:
    from scutch.catalogue import Requirement

_GENERATOR = '<meta name="generator" content="scutch'


def write(
    reports: Sequence[Report],
    catalogue: Iterable["Requirement"],
    folder: str | Path,
    *,
    above: str | None = None,
) -> Path:
    """Write the site.

    Everything is rendered before anything is written, each file is replaced whole, and no file is
    deleted.

    Args:
      reports: The reports to show, in the order of the columns.
      catalogue: The source of the requirements' text, domain and documents. A requirement that is
        not in it is shown with the title and the level of the reports.
      folder: Made when missing.
      above: Address of a page that this site belongs to, as seen from the folder.

    Returns:
      The path of `index.html`.

    Raises:
      ReportError: The folder cannot be written, or holds an `index.html` that is not of scutch.
    """
    folder = Path(folder)
    written = render(reports, catalogue, above=above)
    try:
        for name in written:
            _refuse_foreign(folder / name)
        for name, text in written.items():
            publish(text, folder / name)
    except OSError as error:
        raise ReportError(
            folder, f"{error.filename}: {error.strerror}", "cannot write the site to "
        ) from error
    return folder / "index.html"


def _refuse_foreign(path: Path) -> None:
    if path.exists() and _GENERATOR not in path.read_text(encoding="utf-8", errors="replace"):
        raise ReportError(
            path.parent,
            f"{path} is there and is not a page of scutch; "
            "expected an empty folder or a site of scutch",
            "cannot write the site to ",
        )


def render(
    reports: Sequence[Report], catalogue: Iterable["Requirement"], *, above: str | None = None
) -> dict[str, str]:
    """The pages of the site, unwritten.

    Args:
      reports: As in `write`.
      catalogue: As in `write`.
      above: As in `write`.

    Returns:
      The text of each page, by its path inside the site.
    """
    lined_up = matrix(reports)
    known = {requirement.id: requirement for requirement in catalogue}
    rows = {row.id: row for row in lined_up.rows}
    texts = {entry.id: f"{entry.text} {entry.source} {entry.quote}" for entry in known.values()}
    environment = pages(lined_up, texts, above=above)
    index = environment.get_template("index.html.jinja")
    written = {"index.html": index.render(root="", script=Markup(search()), total=len(known))}
    page = environment.get_template("requirement.html.jinja")
    order = list(rows)
    for place, (identifier, row) in enumerate(rows.items()):
        written[_address(identifier)] = page.render(
            root="../",
            row=row,
            entry=known.get(identifier),
            laws={law: laws.code_of(law) for law in laws.laws_of(identifier)}
            if identifier in known
            else {},
            needed_by=[other for other in order if identifier in rows[other].needs],
            outcomes=[column.outcomes.get(identifier) for column in lined_up.columns],
            previous=order[place - 1] if place else None,
            following=order[place + 1] if place + 1 < len(order) else None,
            script=Markup(copying()),
        )
    return written


@functools.cache
def search() -> str:
    """The script of the first page, which shows the requirements that contain all typed words."""
    return _own("search.js")


@functools.cache
def copying() -> str:
    """The script of the pages with programs, which copies one to the clipboard."""
    return _own("copy.js")


def _own(name: str) -> str:
    return resources.files("scutch.report").joinpath("templates", name).read_text("utf-8")


def _digest(text: str) -> str:
    return b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _address(identifier: str, run: int | None = None) -> str:
    """The page of a requirement, or the place on it where the verdict of a run stands."""
    return f"requirement/{file_name(identifier)}.html" + (f"#run-{run}" if run else "")


def pages(
    lined_up: Matrix, texts: Mapping[str, str], *, above: str | None = None
) -> jinja2.Environment:
    """The templates of the pages about some reports.

    Args:
      lined_up: The reports.
      texts: The texts that the search reads beside id and title, by the id of the requirement.
      above: As in `write`.

    Returns:
      The templates; their filter `address` says where the page of a requirement is.
    """
    environment = templates()
    environment.filters |= {"prose": _prose, "address": _address}
    environment.filters |= {"sentence": sentence_of, "group": group_of, "file_name": file_name}
    environment.tests["web"] = _is_web
    environment.globals |= {
        "matrix": lined_up,
        "prefix": "",
        "above": above,
        "ids": {row.id for row in lined_up.rows},
        "texts": texts,
        "verdicts": (*VERDICTS, "absent"),
        "broken": ROOTS,
        "marks": MARKS,
        "meanings": MEANINGS,
    }
    return environment


def templates(*loaders: jinja2.BaseLoader, style: str = "") -> jinja2.Environment:
    """Templates that escape all text, refuse undefined names and show invisible characters.

    Args:
      loaders: Of templates that extend `base.html.jinja`.
      style: Is added to the site's own.
    """
    own = _own("site.css") + _own("verdicts.css") + style
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([*loaders, jinja2.PackageLoader("scutch.report")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": count, "code": _code}
    environment.globals |= {
        "suite": suite(),
        "above": None,
        "style": Markup(own),  # ours, from files beside the templates
        "policy": f"default-src 'none'; style-src 'sha256-{_digest(own)}'; "
        f"script-src 'sha256-{_digest(search())}' 'sha256-{_digest(copying())}'",
    }
    return environment


def _visible(value: Any) -> str:
    return value if isinstance(value, Markup) else visible(str(value))


def _code(text: str) -> Markup:
    """One line of prose, with the text between backticks set as code."""
    parts = re.split(r"`([^`]+)`", visible(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )


def _prose(text: str) -> Markup:
    """Paragraphs, which blank lines divide."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return Markup("\n").join(Markup("<p>{}</p>").format(_code(part)) for part in paragraphs)


def _is_web(address: str) -> bool:
    """Whether an address may become a link: no scheme but http and https can run anything here."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)

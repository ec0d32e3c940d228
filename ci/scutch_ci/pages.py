"""The sources of the documentation, written from the templates in `docs/` and from data.

Each page in `docs/` is a Jinja template of Markdown. It may include a section of the README or of
CONTRIBUTING, so that each text has one home. It may show verdicts, known failures and planted
faults. Further pages are written from data, one for each part and group of the catalogue, for each
finding and for each recorded release.
"""

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
from scutch import catalogue
from scutch.catalogue import Requirement
from scutch.catalogue import index as laws
from scutch.judging import causes, known
from scutch.judging.causes import Cause
from scutch.judging.known import Known
from scutch.judging.scripts import script_of
from scutch.releases import BROKEN, Record, changes, everything, records, summary
from scutch.releases.summary import Summary
from scutch.report import changes as report_changes
from scutch.report import site
from scutch.report.document import Report
from scutch.report.matrix import Matrix, matrix
from scutch.report.text import publish, visible

from scutch_ci import mutants
from scutch_ci.checkout import ROOT
from scutch_ci.mutants import Result

SOURCES = ROOT / "docs"
VERDICTS_STYLE = ROOT / "conformance" / "scutch" / "report" / "templates" / "verdicts.css"
COPYING = VERDICTS_STYLE.with_name("copy.js")
GUIDE = ROOT / "reference" / "examples" / "scaling_guide.py"
COPIED = (".json", ".yml", ".svg", ".png")
"""Files of the checkout that a page may show or offer; a link to another file becomes text."""
_LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)\)")
_CHAPTER = re.compile(r"^# (\d+)\. (.+?) -+$", re.MULTILINE)


@dataclass(frozen=True)
class Evidence:
    """The results that the pages show.

    Args:
      reports: Conformance reports, in the order of the columns.
      planted: The results of planted faults, by implementation.
      night: The page of the last nightly, as HTML; empty without one.
    """

    reports: Sequence[Report] = ()
    planted: Mapping[str, Sequence[Result]] = field(default_factory=dict)
    night: str = ""


@dataclass(frozen=True)
class Group:
    """A group of the catalogue, with the requirements that one page shows.

    Args:
      id: Such as `objects/graphs`.
      entries: Its requirements, without the variants on logical boxes.
      inherited: The variants of its requirements on logical boxes.
    """

    id: str
    entries: tuple[Requirement, ...]
    inherited: tuple[Requirement, ...]

    @property
    def title(self) -> str:
        """The topic of the group, in a few words."""
        return catalogue.about(self.id)

    @property
    def about(self) -> str:
        """The topic of the group, in whole sentences."""
        return catalogue.groups()[self.id]

    @property
    def page(self) -> str:
        """The name of its page, without an ending."""
        return catalogue.file_name(self.id)


def write(evidence: Evidence, folder: Path) -> None:
    """Write all sources to a folder; a file that would stay the same is not touched.

    Args:
      evidence: The results that the pages show.
      folder: The folder of the sources; every other file in it is deleted.
    """
    written = {folder / name: text for name, text in Pages(evidence).all()}
    copied = {folder / name: ROOT / name for name in sorted(Pages.files())}
    copied |= {folder / p.relative_to(SOURCES): p for p in SOURCES.glob("_static/*")}
    copied |= {folder / "conf.py": SOURCES / "conf.py"}
    copied |= {folder / "_static" / path.name: path for path in (VERDICTS_STYLE, COPYING)}
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path not in written and path not in copied:
            path.unlink()
    for path, text in written.items():
        if not path.exists() or path.read_text("utf-8") != text:
            publish(text, path)
    for path, origin in copied.items():
        data = origin.read_bytes()
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


class Pages:
    """All pages, made from the same evidence.

    Args:
      evidence: The results that the pages show.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.lined_up = matrix(evidence.reports)
        self.html = html_templates(self.lined_up)
        self.markdown = jinja2.Environment(
            loader=jinja2.FileSystemLoader(SOURCES),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self.markdown.filters |= {"md": escaped, "label": label, "fenced": fenced, "raw": raw}
        self.markdown.globals |= {
            "readme": functools.partial(section, ROOT / "README.md"),
            "contributing": functools.partial(section, ROOT / "CONTRIBUTING.md"),
            "changelog": changelog,
            "guide": guide(),
            "parts": parts(),
            "titles": catalogue.PARTS,
            "total": len(catalogue.load()),
            "laws_of": laws.laws_of,
            "code_of": laws.code_of,
            "law_count": len({law for one in catalogue.load() for law in laws.laws_of(one.id)}),
            "needed_by": needed_by(),
            "known": known.shipped(),
            "findings": findings,
            "stances": causes.STANCES,
            "counted": causes.counted,
            "script_of": script_of,
            "entries": catalogue.by_id(),
            "twins": twins(),
            "plain": catalogue.plain,
            "file_name": catalogue.file_name,
            "by_file": by_file,
            "score": mutants.score,
            "releases": released(),
            "broken": BROKEN,
            "timeline_of": self.timeline_of,
            "strip": self.strip,
            "evidence": evidence,
            "matrix": self.lined_up,
            "fragment": self.fragment,
            "runs": self.runs,
            "search": site.search(),
        }

    def all(self) -> Iterator[tuple[str, str]]:
        """The address and the text of each page."""
        for path in sorted(SOURCES.rglob("*.md")):
            name = path.relative_to(SOURCES).as_posix()
            yield name, self.markdown.get_template(name).render()
        for part, groups in parts().items():
            page = self.markdown.get_template("_templates/part.md.jinja")
            yield f"requirements/{part}.md", page.render(part=part, groups=groups)
            page = self.markdown.get_template("_templates/group.md.jinja")
            for group in groups:
                yield f"requirements/{group.page}.md", page.render(group=group)

        page = self.markdown.get_template("_templates/cause.md.jinja")
        for implementation in known.shipped_names():
            for cause, broken in findings(implementation).items():
                text = page.render(cause=cause, broken=broken, implementation=implementation)
                yield f"findings/{implementation}-{cause.name}.md", text

        page = self.markdown.get_template("_templates/release.md.jinja")
        for implementation, found in released().items():
            for before, record in zip((None, *found), found, strict=False):
                since = summary.summarize(before, record) if before else None
                text = page.render(record=record, since=since, changed=self.changed(since))
                yield f"releases/{implementation}-{record.release}.md", text

    def changed(self, since: Summary | None) -> str:
        """The changes of a release as a block of HTML; empty for the first release."""
        if since is None:
            return ""
        template = self.html.get_template("changes.html.jinja")
        return raw(template.render(**report_changes.facts(since)))

    def timeline_of(self, implementation: str) -> str:
        """The requirements that its releases break, newest release first, as a block of HTML."""
        rows = changes.timeline(implementation)
        titles = {one.id: one.title for one in catalogue.load()}
        rendered = self.html.get_template("timeline.html.jinja").render(
            found=records(implementation)[::-1],
            rows={
                name: row[::-1] for name, row in rows.items() if name in titles and {*row} & BROKEN
            },
            titles=titles,
        )
        return raw(rendered)

    def strip(self, identifier: str) -> str:
        """A requirement's verdicts over the releases that break it anywhere, as HTML."""
        strips = {
            name: [(r.release, f.verdict) for r in found if (f := r.requirements.get(identifier))]
            for name, found in released().items()
        }
        shown = {name: row for name, row in strips.items() if {v for _, v in row} & BROKEN}
        return raw(self.html.get_template("strip.html.jinja").render(strips=shown)) if shown else ""

    def fragment(self, name: str) -> str:
        """A part of the report's pages, such as `cards`, as a block of HTML."""
        rendered = self.html.get_template(f"{name}.html.jinja").render(
            root="../", total=len(catalogue.load())
        )
        return raw(rendered)

    def runs(self, identifier: str) -> str:
        """The verdicts on a requirement, as a block of HTML; empty where no report has it."""
        row = next((row for row in self.lined_up.rows if row.id == identifier), None)
        if row is None:
            return ""
        outcomes = [column.outcomes.get(identifier) for column in self.lined_up.columns]
        rendered = self.html.get_template("runs.html.jinja").render(
            root="../", row=row, outcomes=outcomes, prefix=f"{label(identifier)}-"
        )
        return raw(f'<div class="runs">{rendered}</div>')

    @staticmethod
    def files() -> set[str]:
        """The files of the checkout that a page shows or offers, as the README links them."""
        text = (ROOT / "README.md").read_text("utf-8")
        return {name for name in _LINK.findall(text) if Path(name).suffix in COPIED}


def html_templates(lined_up: Matrix) -> jinja2.Environment:
    """The templates of the report's pages, with addresses of pages of the documentation."""
    texts = {one.id: f"{one.text} {one.source} {one.quote}" for one in catalogue.load()}
    environment = site.pages(lined_up, texts)
    environment.filters["address"] = address
    own = jinja2.FileSystemLoader(SOURCES / "_templates")
    environment.loader = jinja2.ChoiceLoader([own, environment.loader or own])
    return environment


def address(identifier: str, run: int | None = None) -> str:
    """The address of a requirement, or of its verdict in a run, relative to a folder beside it."""
    page = catalogue.file_name(catalogue.group_of(identifier))
    place = label(identifier) + (f"-run-{run}" if run else "")
    return f"../requirements/{page}.html#{place}"


def label(identifier: str) -> str:
    """The anchor of a requirement on its page."""
    return catalogue.file_name(identifier).lower()


def escaped(text: str) -> str:
    """A text of the catalogue, escaped for Markdown so that only backticks keep their meaning."""
    parts = re.split(r"(`[^`]+`)", visible(text).strip())
    return "".join(
        part if index % 2 else re.sub(r"([\\*_\[\]<>{}#|$~])", r"\\\1", part)
        for index, part in enumerate(parts)
    )


def fenced(text: str, language: str = "python") -> str:
    """A block of code, whatever it holds."""
    longest = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def raw(html: str) -> str:
    """A block of HTML for the page to hold as it is."""
    return fenced(html, "{raw} html")


@functools.cache
def section(file: Path, title: str) -> str:
    """The text under a heading of a file of the checkout, up to the next heading of its level.

    Args:
      file: Markdown.
      title: A heading of the second level; empty for the text between the file's first line and the
        first such heading.

    Raises:
      KeyError: The file has no such heading.
    """
    parts = re.split(r"^## (.+)$", file.read_text("utf-8"), flags=re.MULTILINE)
    titles = ["", *parts[1::2]]
    if title not in titles:
        raise KeyError(f"{file.name} has no section {title!r}; it has {', '.join(titles[1:])}")
    text = parts[2 * titles.index(title)]
    return linked(text.partition("\n")[2] if not title else text).strip()


def changelog() -> str:
    """The changelog, without its heading."""
    return linked((ROOT / "CHANGELOG.md").read_text("utf-8").partition("\n")[2]).strip()


def linked(text: str) -> str:
    """Rewrite the links in Markdown of the checkout's root so that they work from a page.

    A link to a page leads there; one to a file that is not copied there becomes plain words.
    """

    def rewritten(found: re.Match[str]) -> str:
        words, path = found.groups()
        if path.startswith("docs/"):
            return f"{words}(/{path.removeprefix('docs/')})"
        if Path(path).suffix in COPIED:
            return f"{words}(/{path})"
        return words.removeprefix("[").removesuffix("]")

    return re.sub(r"(!?\[[^\]]*\])\((?!https?://|#)([^)#\s]+)\)", rewritten, text)


@functools.cache
def parts() -> Mapping[str, tuple[Group, ...]]:
    """The groups of the catalogue, by part."""
    groups: dict[str, list[Requirement]] = {}
    for entry in catalogue.load():
        groups.setdefault(entry.group, []).append(entry)
    found: dict[str, tuple[Group, ...]] = {}
    for name, entries in groups.items():
        own = tuple(entry for entry in entries if entry.id == catalogue.plain(entry.id))
        inherited = tuple(entry for entry in entries if entry not in own)
        part = entries[0].part
        found[part] = (*found.get(part, ()), Group(name, own, inherited))
    return found


@functools.cache
def released() -> Mapping[str, tuple[Record, ...]]:
    """The recorded releases of each implementation, oldest first."""
    names = dict.fromkeys(one.implementation for one in everything())
    return {name: records(name) for name in names}


def twins() -> Mapping[str, Requirement]:
    """The variants on logical boxes, by the id of the requirement without the variant."""
    everything = catalogue.load()
    return {catalogue.plain(one.id): one for one in everything if catalogue.plain(one.id) != one.id}


def needed_by() -> Mapping[str, tuple[str, ...]]:
    """The ids of the requirements that need a requirement, by its id."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in catalogue.load():
        for need in entry.needs:
            found[need] = (*found.get(need, ()), entry.id)
    return found


def findings(implementation: str) -> Mapping[Cause, list[Known]]:
    """The known failures of an implementation by cause, the gravest harm first."""
    found: dict[Cause, list[Known]] = {}
    for entry in known.shipped():
        if entry.implementation == implementation and entry.cause:
            found.setdefault(entry.cause, []).append(entry)
    order = catalogue.HARMS.index
    return dict(sorted(found.items(), key=lambda pair: (order(pair[0].harm), pair[0].at)))


def by_file(results: Sequence[Result]) -> Mapping[str, list[Result]]:
    """The results of planted faults, by the file that holds the fault."""
    files = sorted({result.file for result in results})
    return {file: [result for result in results if result.file == file] for file in files}


@dataclass(frozen=True)
class Chapter:
    """A chapter of the guide, as prose and the code that follows it.

    Args:
      title: Its heading.
      prose: Markdown.
      code: Python.
    """

    title: str
    prose: str
    code: str


def guide() -> list[Chapter]:
    """The chapters of the scaling guide; the first is its opening, with the imports as code."""
    text = GUIDE.read_text("utf-8")
    opening, *rest = _CHAPTER.split(text.partition('\nif __name__ == "__main__":')[0])
    docstring = ast.get_docstring(ast.parse(opening)) or ""
    chapters = [Chapter("", docstring, opening.split('"""', 2)[2].strip())]
    for title, body in zip(rest[1::3], rest[2::3], strict=True):
        lines = body.strip("\n").splitlines()
        end = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
        prose = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[:end])
        chapters.append(Chapter(title, prose.strip(), "\n".join(lines[end:]).strip()))
    return chapters

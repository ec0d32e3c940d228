"""The requirements on a conforming implementation, as parts, groups and sentences.

A requirement's id is a path, `objects/graphs/merge-undoes-split`: the part, the group, and a short
sentence. The entries of a group are in one file, `objects/graphs.toml`, beside this one. Variants
of a requirement have a name in brackets:

- `[message]`: the error message of the requirement says all that the catalogue asks for;
- `[logical]`: the requirement, tried on logically partitioned boxes (`metadata/inherits.toml`).

Until 0.1 ids had another form, such as `BOX-5` and `LOG-9.BOX-5`. They stand in the field `was`,
and `current` and `select` take them.
"""

import functools
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any, Final

from scutch.implementation import SetupError
from scutch.namespaces import CAPABILITIES

PARTS: Final = {
    "metadata": "boxed axis metadata and logical axis names",
    "objects": "objects, variables, graphs, filters and states",
    "linen": "Linen modules, collections and training",
    "transformations": "lifted transformations of objects and of Linen modules",
    "bridge": "the Linen and NNX bridge",
    "export": "export",
    "processes": "meshes that span processes",
}
"""The parts of the catalogue, in order, each with its subject."""

LEVELS = ("must", "should")
HARMS = ("wrong-value", "lost", "wrong-placement", "accepted", "refused", "retrace", "message")
"""The kinds of harm to a user if an implementation breaks a requirement."""

MESSAGE: Final = "message"
"""The variant of a requirement that asks for the words of its error."""

LOGICAL: Final = "logical"
"""The variant of a requirement of boxes on logically partitioned boxes."""


@dataclass(frozen=True)
class Document:
    """A document that requirements rest on.

    Args:
      title: The title of the document.
      address: Where the public can read it; another release may have moved a sentence.
      version: The release that the quotes come from.
      installed: Its file in an installed package; empty where it has none.
      copy: The file with the cited passages among the trials; empty where it has none.
    """

    title: str
    address: str
    version: str = ""
    installed: str = ""
    copy: str = ""


@dataclass(frozen=True)
class Requirement:
    """One requirement of the catalogue, as its TOML file has it.

    Args:
      id: Such as `metadata/box-axes/removing-undoes-adding`.
      level: `must` or `should`.
      title: One line for tables.
      text: The precise statement of the requirement.
      source: The documents that `quote` is from, and the place in them; empty without a quote.
      domain: The inputs for which it is claimed; empty for all inputs.
      capability: The namespace that it judges.
      needs: Ids of requirements whose failure explains a failure of this one.
      since: The edition of the catalogue that first asked for as much: a law that becomes stricter
        has a later one.
      quote: The document's own sentence that asks for it.
      was: The ids that it had until 0.1.
      harm: The harm to a user if an implementation breaks it, one of `HARMS`.
      jax: A program of plain JAX that shows that JAX does so.
      jax_since: The first JAX on which that program runs; empty for all.
      loss: The thing that a user silently loses if an implementation breaks it.
    """

    id: str
    level: str
    title: str
    text: str
    source: str
    domain: str
    capability: str
    needs: tuple[str, ...]
    since: str
    quote: str = ""
    was: tuple[str, ...] = ()
    harm: str = "wrong-value"
    jax: str = ""
    jax_since: str = ""
    loss: str = ""

    @property
    def part(self) -> str:
        """The first word of the path, a key of `PARTS`."""
        return self.id.partition("/")[0]

    @property
    def group(self) -> str:
        """The path without the sentence, such as `metadata/box-axes`."""
        return group_of(self.id)

    @property
    def documents(self) -> tuple[Document, ...]:
        """The documents that `source` cites, in its order."""
        cited = dict.fromkeys(re.findall(r"[\w.-]+", self.source))
        return tuple(documents()[name] for name in cited if name in documents())

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Everything that an implementation must claim for this to be tried."""
        others = {
            "logical": ("meta",),
            "linen": ("logical", "meta"),
            "transforms": ("nnx",),
            "bridge": ("meta", "logical", "nnx"),
        }
        found = (self.capability, *others.get(self.capability, ()))
        found += ("logical", "meta") if self.group.startswith("metadata/logical") else ()
        return tuple(dict.fromkeys(found))


def edition(text: str) -> tuple[int, ...]:
    """The numbers of an edition such as `0.2`, which put editions in their order."""
    return tuple(map(int, text.split(".")))


def group_of(identifier: str) -> str:
    """The path of an id without the sentence; empty for an id that is no path."""
    return identifier.partition("[")[0].rpartition("/")[0]


def file_name(identifier: str) -> str:
    """An id as the name of a file, without its ending: other characters become hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", identifier).strip("-")


def sentence_of(identifier: str) -> str:
    """The part of an id after its group, which is the sentence and any variant."""
    return identifier.removeprefix(f"{group_of(identifier)}/")


@functools.cache
def load() -> tuple[Requirement, ...]:
    """Every requirement, in the order of parts, groups and their files."""
    spec = _toml("metadata/inherits.toml")
    rows: list[Requirement] = []
    for group in groups():
        for entry in _toml(f"{group}.toml")["requirement"]:
            for row in _entry(entry):
                rows.append(row)
                rows += _logical(row, spec)
    further = spec["needs_variant"]
    return tuple(
        replace(row, needs=(*row.needs, *(variant(need, LOGICAL) for need in further[row.id])))
        if row.id in further
        else row
        for row in rows
    )


@functools.cache
def groups() -> dict[str, str]:
    """The subject of every group, by its path, in order."""
    found: dict[str, str] = {}
    for part in PARTS:
        names = sorted(each.name for each in files(__name__).joinpath(part).iterdir())
        for name in names:
            file = _toml(f"{part}/{name}")
            if "about" in file:
                found[f"{part}/{name.removesuffix('.toml')}"] = file["about"]
    return found


def about(group: str) -> str:
    """The subject of a group in a few words; empty for a group that the catalogue lacks."""
    return re.split(r"[:.] |\.$", groups().get(group, ""))[0]


@functools.cache
def documents() -> dict[str, Document]:
    """Every document, by the name that `source` cites it by, such as `000_` or `flax-graph`."""
    return {name: Document(**entry) for name, entry in _toml("documents.toml").items()}


@functools.cache
def retired() -> dict[str, str]:
    """The ids of 0.1 that nothing asks for any more, with the reason."""
    return {old: entry["reason"] for old, entry in _toml("retired.toml").items()}


def by_id() -> dict[str, Requirement]:
    """Every requirement, by its id."""
    return {row.id: row for row in load()}


@functools.cache
def _renamed() -> dict[str, str]:
    return {old: row.id for row in load() for old in row.was}


def current(identifier: str) -> str:
    """The id that a requirement has today.

    Args:
      identifier: Of today, or of 0.1, such as `BOX-5`.

    Returns:
      The id of today; the argument, where the catalogue does not know it.
    """
    return _renamed().get(identifier, identifier)


def variant(identifier: str, name: str) -> str:
    """The id of a variant of a requirement: `a/b/c[logical]`, or `a/b/c[message,logical]`.

    Args:
      identifier: Of the requirement, which may be a variant itself.
      name: Of the variant, such as `logical`.
    """
    plain, bracket, names = identifier.partition("[")
    return f"{plain}[{names.removesuffix(']')},{name}]" if bracket else f"{plain}[{name}]"


def plain(identifier: str) -> str:
    """The id without the variant on logical boxes, which shares its laws, text and page."""
    own = identifier.removesuffix(f"[{LOGICAL}]")
    return f"{own.removesuffix(f',{LOGICAL}]')}]" if own.endswith(f",{LOGICAL}]") else own


def in_order(identifiers: Iterable[str]) -> list[str]:
    """Ids in the order of the catalogue; ids that the catalogue lacks come last."""
    places = {identifier: number for number, identifier in enumerate(by_id())}
    return sorted(identifiers, key=lambda each: (places.get(each, len(places)), place(each)))


def place(identifier: str) -> tuple[str | int, ...]:
    """A sort key that compares the numbers in ids as numbers.

    >>> sorted(["BOX-10", "BOX-2b", "BOX-2a"], key=place)
    ['BOX-2a', 'BOX-2b', 'BOX-10']
    """
    words = re.split(r"([0-9]+)", identifier)
    return tuple(int(word) if word.isdigit() else word for word in words)


def named(name: str) -> tuple[Requirement, ...]:
    """The requirements of a name, whose case does not matter; empty if none has it.

    Args:
      name: An id, a group, or an id (`BOX-9a`) or a row (`BOX-9`) of 0.1.
    """
    wanted = name.lower()
    return tuple(
        row
        for row in load()
        if wanted in (row.id.lower(), row.group)
        or any(wanted in (old.lower(), _old_names(old)[0].lower()) for old in row.was)
    )


def select(patterns: str | Iterable[str]) -> tuple[Requirement, ...]:
    """The requirements that any of the patterns names.

    A pattern is an id, a group (`objects/graphs`), a part (`objects`), or a shell-style pattern
    over ids, in which brackets stand for themselves. It may also be of 0.1: an id (`BOX-5`),
    a row (`BOX-2` is BOX-2a, BOX-2b, ...), an area (`BOX`), or a shell-style pattern over old ids.

    Raises:
      SetupError: A pattern names no requirement, or a retired one.
    """
    patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    for pattern in patterns:
        if pattern in retired():
            raise SetupError(f"requirement {pattern!r}", f"it is retired: {retired()[pattern]}")
        if not any(_matches(row, pattern) for row in load()):
            raise SetupError(
                f"no requirement matches {pattern!r}",
                "expected an id (objects/graphs/merge-undoes-split), a group (objects/graphs), a "
                "part (objects) or a pattern (metadata/box-*): `scutch list` shows all",
            )
    return tuple(row for row in load() if any(_matches(row, p) for p in patterns))


def _matches(row: Requirement, pattern: str) -> bool:
    if pattern in (row.id, row.group, row.part):
        return True
    if fnmatchcase(row.id, pattern.replace("[", "[[]")):
        return True
    return any(pattern in _old_names(old) or fnmatchcase(old, pattern) for old in row.was)


def _old_names(old: str) -> tuple[str, str]:
    """The row and the area of an id of 0.1: `LOG-9` and `LOG` of `LOG-9.BOX-2a`."""
    area, _, rest = old.partition("-")
    return f"{area}-{re.match('[0-9]*', rest)[0]}", area  # type: ignore[index]


def _toml(path: str) -> dict[str, Any]:
    return tomllib.loads(files(__name__).joinpath(path).read_text("utf-8"))


def _entry(entry: dict[str, Any]) -> Iterator[Requirement]:
    """The requirement of an entry, and its variant about the error's message if it has one."""
    fields = {**entry, "needs": tuple(entry["needs"]), "was": tuple(entry.get("was", ()))}
    message, message_was = fields.pop("message", ""), fields.pop("message_was", ())
    row = Requirement(**{"source": "", **fields})
    if row.level not in LEVELS or row.capability not in CAPABILITIES or row.harm not in HARMS:
        raise ValueError(
            f"{row.id}: level {row.level!r}, capability {row.capability!r} or harm {row.harm!r} is "
            f"not in {LEVELS}, {CAPABILITIES}, {HARMS}"
        )
    yield row
    if message:
        yield replace(
            row,
            id=variant(row.id, MESSAGE),
            level="should",
            harm="message",
            text=message,
            title=f"Error message: {row.title}",
            needs=(row.id,),
            was=tuple(message_was),
            source="",
            quote="",
            jax="",
            loss="",
        )


def _logical(row: Requirement, spec: dict[str, Any]) -> Iterator[Requirement]:
    """The requirement as it is tried on logically partitioned boxes, if it is."""
    if row.group not in spec["groups"] or row.id.partition("[")[0] in spec["except"]:
        return
    inherited = spec["groups"]
    yield replace(
        row,
        id=variant(row.id, LOGICAL),
        title=f"{row.title} (logical box)",
        capability=spec["capability"],
        was=tuple(f"{spec['was']}{old}" for old in row.was),
        needs=(
            row.id,
            *(variant(n, LOGICAL) if group_of(n) in inherited else n for n in row.needs),
            *spec["further_needs"].get(row.id, ()),
        ),
    )

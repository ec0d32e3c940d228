"""The public interface of released libraries, and its changes from one release to another.

    interface("flax", "0.12.8").names["flax.nnx.jit"]
    compare(interface("flax", "0.12.3"), interface("flax", "0.12.4"))

A *definition* is a line of text: `def (x, *, axis=0)` for a function, `class (Module)` and
`dataclass (Base)` for a class, `field = 1` for an annotated attribute, `value`, `module`,
`key` for a key of variables' metadata, and `= flax.linen.linear.Dense` for a name that stands for
another one. `# deprecated: ...` after it holds the message of a deprecation. `ci/matrix
--interfaces` reads the definitions from the wheels, without importing them.
"""

import ast
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files

from packaging.version import Version

from scutch.releases import NotRecorded

KINDS = {
    "removed": "Removed",
    "renamed": "Renamed",
    "required": "Newly required",
    "parameter": "Parameter removed or renamed",
    "default": "Default changed",
    "base": "Base class changed",
    "deprecated": "Deprecated",
    "new": "New",
}
"""The kinds of changes of an interface, gravest first."""

BREAKING = ("removed", "renamed", "required", "parameter")
"""Kinds that end code which worked."""


@dataclass(frozen=True)
class Interface:
    """The public names of one release.

    Args:
      package: Such as `flax`.
      release: Its version.
      names: By full name, the definition.
    """

    package: str
    release: str
    names: Mapping[str, str] = field(repr=False)

    def target(self, name: str) -> str:
        """The full name that a name stands for, through any number of aliases.

        Args:
          name: Such as `flax.linen.Dense` or `flax.linen.Dense.features`.

        Returns:
          Such as `flax.linen.linear.Dense.features`; the name itself where it is not an alias.
        """
        if name not in self._targets:
            seen, reached = set(), name
            while reached not in seen:
                seen.add(reached)
                reached = self._step(reached)
            self._targets[name] = reached
        return self._targets[name]

    @cached_property
    def _targets(self) -> dict[str, str]:
        return {}

    def _step(self, name: str) -> str:
        head, tail = name, ""
        while head:
            found = self.names.get(head, "")
            if found.startswith("= "):
                return found[2:] + tail
            head, dot, last = head.rpartition(".")
            tail = f"{dot}{last}{tail}"
        return name

    def find(self, name: str) -> str | None:
        """The definition of a name, resolved through aliases and base classes; `None` for none."""
        name = self.target(name)
        if name in self.names:
            return self.names[name]
        owner, _, last = name.rpartition(".")
        found = self.names.get(owner, "")
        if found.startswith(("class", "dataclass")):
            for base in self.bases(owner):
                inherited = self.find(f"{base}.{last}")
                if inherited is not None:
                    return inherited
        return None

    def owner(self, name: str) -> str:
        """The full name of the definition that a name reaches: in a class that inherits it, too.

        Args:
          name: Such as `flax.nnx.Linear.train`.

        Returns:
          Such as `flax.nnx.module.Module.train`; for a name that is not there, its target.
        """
        if name not in self._owners:
            self._owners[name] = self._found(self.target(name))
        return self._owners[name]

    @cached_property
    def _owners(self) -> dict[str, str]:
        return {}

    def _found(self, name: str) -> str:
        owner, _, last = name.rpartition(".")
        is_class = self.names.get(owner, "").startswith(("class", "dataclass"))
        if name not in self.names and is_class:
            for base in self.bases(owner):
                inherited = self.owner(f"{base}.{last}")
                if inherited in self.names:
                    return inherited
        return name

    def bases(self, name: str) -> Iterator[str]:
        """The full names of a class's bases, as far as they belong to the package."""
        module = name
        text = self.names[name].partition("(")[2].partition(")  #")[0].removesuffix(")")
        for base in filter(None, (each.strip().partition("[")[0] for each in text.split(","))):
            module = name.rpartition(".")[0]
            while module:
                candidate = self.target(f"{module}.{base}")
                if candidate in self.names and candidate != name:
                    yield candidate
                    break
                module = module.rpartition(".")[0]

    @cached_property
    def aliases(self) -> Mapping[str, tuple[str, ...]]:
        """By full name of a definition, all names that stand for it, the shortest first."""
        found: dict[str, list[str]] = {}
        for name in self.names:
            is_key = name.startswith("metadata[")
            found.setdefault(name if is_key else self.target(name), []).append(name)
        return {
            target: tuple(sorted({target, *names}, key=lambda n: (n.count("."), len(n), n)))
            for target, names in found.items()
        }

    @cached_property
    def by_last_part(self) -> Mapping[str, tuple[str, ...]]:
        """By the last part of a name, such as `Dense`, the full names that end with it."""
        found: dict[str, list[str]] = {}
        for name in self.names:
            found.setdefault(name.rpartition(".")[2], []).append(name)
        return {last: tuple(names) for last, names in found.items()}

    @cached_property
    def is_known_module(self) -> frozenset[str]:
        """The names of modules."""
        return frozenset(
            {self.package} | {name for name, each in self.names.items() if each == "module"}
        )


@dataclass(frozen=True)
class Signature:
    """The parameters of a function.

    Args:
      positional: Names that may be given by position, in order, `self` left out.
      keywords: Names that may be given by keyword.
      defaults: By name, the default's text; a parameter that is missing here is required.
      more_positional: Whether `*args` takes any number of further positions.
      more_keywords: Whether `**kwargs` takes any other keyword.
    """

    positional: tuple[str, ...]
    keywords: frozenset[str]
    defaults: Mapping[str, str]
    more_positional: bool
    more_keywords: bool

    @property
    def required(self) -> frozenset[str]:
        """The parameters that have no default."""
        return (self.keywords | set(self.positional)) - self.defaults.keys()


@cache
def signature(text: str) -> Signature | None:
    """The parameters that a definition has; `None` if it is not one of a function."""
    if not text.startswith("def "):
        return None
    try:
        node = ast.parse(f"def f{text[4:].partition('  # deprecated')[0]}: ...").body[0]
    except SyntaxError:
        return None
    assert isinstance(node, ast.FunctionDef)
    arguments = node.args
    first = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    texts = [ast.unparse(each) for each in arguments.defaults]
    defaults = dict(zip(first[len(first) - len(texts) :], texts, strict=True))
    only = [each.arg for each in arguments.kwonlyargs]
    values = zip(only, arguments.kw_defaults, strict=True)
    defaults |= {name: ast.unparse(value) for name, value in values if value is not None}
    by_name = {each.arg for each in arguments.args} | set(only)
    own = {"self", "cls"} & set(first[:1])
    return Signature(
        tuple(name for name in first if name not in own),
        frozenset(by_name - own),
        defaults,
        arguments.vararg is not None,
        arguments.kwarg is not None,
    )


def deprecation(definition: str) -> str:
    """The message of a deprecation; empty if the name is not deprecated."""
    return definition.partition("# deprecated: ")[2]


# ---------------------------------------------------------------- changes


@dataclass(frozen=True)
class InterfaceChange:
    """One difference between the interfaces of two releases.

    Args:
      name: Full name, as users write it most shortly.
      kind: A key of `KINDS`.
      text: The change, as a sentence.
      old: The old spelling, where there is one: a parameter, a key, or the name itself.
      new: The spelling to write instead; empty where it is not known.
      since: The first recorded release with the change.
      targets: All full names by which the same thing is reached.
    """

    name: str
    kind: str
    text: str
    old: str = ""
    new: str = ""
    since: str = ""
    targets: tuple[str, ...] = ()

    @property
    def breaks(self) -> bool:
        """Whether code that worked may end with an error."""
        return self.kind in BREAKING


def compare(old: Interface, new: Interface) -> tuple[InterfaceChange, ...]:
    """The changes of an interface; `between` adds the first release with each change.

    Args:
      old: Of any release.
      new: Of another one.

    Returns:
      Changes of public names, gravest first, then by name.
    """
    changes = dict.fromkeys((*_names(old, new), *_signatures(old, new), *_new(old, new)))
    places = {kind: place for place, kind in enumerate(KINDS)}
    public = [each for each in changes if _is_public(each.name)]
    return tuple(sorted(public, key=lambda each: (places[each.kind], each.name)))


def _is_public(name: str) -> bool:
    """Whether users reach a name by a front door: `flax.nnx.jit`, `flax.struct.field`.

    A name that only a module below the front doors has, `flax.nnx.extract.check_prefix`, is the
    library's own, though no underscore says so.
    """
    parts = name.split(".")
    owners = [number for number, part in enumerate(parts) if part[:1].isupper()]
    depth = owners[0] if owners else len(parts) - 1
    return name.startswith("metadata[") or depth <= 2 or parts[1] in ("core", "training")


def _names(old: Interface, new: Interface) -> Iterator[InterfaceChange]:
    for target, names in old.aliases.items():
        name, before = names[0], old.names.get(target, "")
        if not before:
            continue
        if name.startswith("metadata["):
            yield from _keys(name, before, new)
            continue
        after = new.find(name)
        if after is None:
            owner = name.rpartition(".")[0]
            if owner in old.names and new.find(owner) is None:
                continue  # the change of the owner says so
            other = _successor(name, old, new)
            text = f"is now `{other}`" if other else "is gone"
            kind = "renamed" if other else "removed"
            yield InterfaceChange(name, kind, text, name, other, targets=names)
        elif deprecation(after) and not deprecation(before):
            yield InterfaceChange(name, "deprecated", deprecation(after), name, targets=names)


def _keys(name: str, before: str, new: Interface) -> Iterator[InterfaceChange]:
    """The renaming of a key of variables' metadata; nothing if the key was not renamed."""
    after = new.names.get(name, "")
    if before == "key" and after.startswith("= "):
        key, other = name[9:-1], after[11:-1]
        text = f"the metadata key {key!r} is now {other!r}"
        yield InterfaceChange(name, "renamed", text, key, other)


def _successor(name: str, old: Interface, new: Interface) -> str:
    """The new name of a definition that moved within the same package; empty if none is sure."""
    definition = old.names.get(old.target(name), "")
    last = name.rpartition(".")[2]
    if not definition.startswith(("class", "dataclass", "def ")):
        return ""
    found = [
        other
        for other in new.by_last_part.get(last, ())
        for text in [new.names[other]]
        if text.partition("  # ")[0] == definition.partition("  # ")[0]
        and other not in old.names
        and other.count(".") <= name.count(".")
        and other.rpartition(".")[0] in new.is_known_module
    ]
    return min(found, key=lambda each: (each.count("."), each)) if found else ""


def _signatures(old: Interface, new: Interface) -> Iterator[InterfaceChange]:
    names = old.aliases
    for name, before in old.names.items():
        after = new.names.get(name)
        if after is None or after == before or before.startswith("= ") or after.startswith("= "):
            continue
        shown = names.get(name, (name,))
        left, right = signature(before), signature(after)
        if left is not None and right is not None:
            for kind, text, one, other in _parameters(left, right):
                yield InterfaceChange(shown[0], kind, text, one, other, targets=shown)
        elif {before.partition(" ")[0], after.partition(" ")[0]} <= {"class", "dataclass"}:
            text = f"{before.partition('  #')[0]} is now {after.partition('  #')[0]}"
            if before.partition("  #")[0] != after.partition("  #")[0]:
                yield InterfaceChange(shown[0], "base", text, targets=shown)
        elif before.startswith("field") and after.startswith("field"):
            one, other = (each.partition("  #")[0].partition(" = ")[2] for each in (before, after))
            if one and not other:
                text = f"`{name.rpartition('.')[2]}` has no default any more (was {one})"
                yield InterfaceChange(shown[0], "required", text, targets=shown)
            elif one != other:
                text = f"the default is now {other} (was {one or 'none'})"
                yield InterfaceChange(shown[0], "default", text, targets=shown)


def _parameters(old: Signature, new: Signature) -> Iterator[tuple[str, str, str, str]]:
    """Of each changed parameter: kind, sentence, old spelling, new spelling."""
    before, after = ({*each.keywords} for each in (old, new))
    gone, added = sorted(before - after), sorted(after - before)
    pairs = _same_place(old, new)
    for name in gone:
        other = pairs.get(name, "")
        if new.more_keywords and not other:
            continue  # the function still takes any keyword
        if name in new.positional:
            yield "parameter", f"`{name}` can be given by position only", name, ""
        else:
            text = f"`{name}` is now `{other}`" if other else f"`{name}` is gone"
            yield "parameter", text, name, other
    for name in added:
        if name in new.required and name not in pairs.values() and name not in old.positional:
            yield "required", f"`{name}` must be given", "", name
    if not new.more_positional:
        for name in [each for each in old.positional if each in after - set(new.positional)]:
            yield "parameter", f"`{name}` can be given by keyword only", name, ""
    for name in sorted(before & after):
        before_it, after_it = old.defaults.get(name), new.defaults.get(name)
        if before_it is not None and after_it is None:
            yield "required", f"`{name}` has no default any more (was {before_it})", "", name
        elif before_it is not None and after_it and before_it.lower() != after_it.lower():
            yield "default", f"`{name}` is by default {after_it} (was {before_it})", name, ""


def _same_place(old: Signature, new: Signature) -> dict[str, str]:
    """By name of a parameter that is gone, the name of the new parameter at its position."""
    return {
        one: other
        for one, other in zip(old.positional, new.positional, strict=False)
        if one not in (*new.positional, *new.keywords) and other in new.keywords
        and other not in (*old.positional, *old.keywords)
    }  # fmt: skip


def _new(old: Interface, new: Interface) -> Iterator[InterfaceChange]:
    for name, text in new.names.items():
        owner = name.rpartition(".")[0]
        is_new = name not in old.names and old.find(name) is None
        if is_new and (owner in old.names or owner == new.package):
            yield InterfaceChange(name, "new", text.partition("  #")[0], new=name)


# ---------------------------------------------------------------- the recorded interfaces


def history_text(interfaces: Sequence[Interface]) -> str:
    """The text of a file that holds the interfaces of releases, oldest first.

    A name has one pair for each release in which its definition changed: the release's number and
    the definition, or null where the name is gone.
    """
    history: dict[str, list[list[int | str | None]]] = {}
    for number, each in enumerate(interfaces):
        for name in history.keys() | each.names.keys():
            text = each.names.get(name)
            rows = history.setdefault(name, [])
            if (rows[-1][1] if rows else None) != text:
                rows.append([number, text])
    head = json.dumps([each.release for each in interfaces])
    lines = [
        f"{json.dumps(name)}: {json.dumps(history[name], ensure_ascii=False)}"
        for name in sorted(history)
    ]
    package = json.dumps(interfaces[0].package)
    body = ",\n".join(lines)
    return f'{{"package": {package},\n"releases": {head},\n"names": {{\n{body}\n}}}}\n'


@cache
def interfaces(package: str) -> tuple[Interface, ...]:
    """The recorded interfaces of a package, oldest release first; empty if there are none."""
    file = files(__name__.rpartition(".")[0]) / "interfaces" / f"{package}.json"
    return of_text(file.read_text("utf-8")) if file.is_file() else ()


def of_text(text: str) -> tuple[Interface, ...]:
    """The interfaces that `history_text` wrote as one text."""
    data = json.loads(text)
    found: list[dict[str, str]] = [{} for _ in data["releases"]]
    for name, rows in data["names"].items():
        ends = [row[0] for row in rows[1:]] + [len(found)]
        for (start, definition), end in zip(rows, ends, strict=True):
            if definition is not None:
                for number in range(start, end):
                    found[number][name] = definition
    return tuple(
        Interface(data["package"], release, names)
        for release, names in zip(data["releases"], found, strict=True)
    )


def interface(package: str, release: str) -> Interface:
    """The interface of one release.

    Args:
      package: Such as `flax`.
      release: Such as `0.12.8`.

    Raises:
      NotRecorded: The release is not recorded; the message lists the recorded ones.
    """
    found = interfaces(package)
    for each in found:
        if Version(each.release) == Version(release):
            return each
    said = ", ".join(each.release for each in found) or "no release"
    raise NotRecorded(f"the interface of {package} {release} is not recorded; expected {said}")


def between(old: Interface, new: Interface) -> tuple[InterfaceChange, ...]:
    """As `compare`, and each change with the first recorded release that has it.

    Args:
      old: Of any release.
      new: Of another one.
    """
    steps: Iterable[Interface] = [
        each
        for each in interfaces(new.package)
        if Version(old.release) < Version(each.release) < Version(new.release)
    ]
    first: dict[tuple[str, str, str], str] = {}
    for step in steps:
        for change in compare(old, step):
            first.setdefault((change.name, change.kind, change.text), step.release)
    return tuple(
        replace(each, since=first.get((each.name, each.kind, each.text), new.release))
        for each in compare(old, new)
    )

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files

from packaging.version import Version

from scutch.releases import NotRecorded


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

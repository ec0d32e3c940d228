"""The uses of a library that an upgrade changes, how gravely, and the code to write instead.

old, new = releases_of("flax==0.12.6", "flax==0.12.12")
find(read([Path("src")], "flax"), old, new).found
"""

import importlib.metadata
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scutch import releases
from scutch.releases import interface, interface_changes, programs
from scutch.releases.interface import Interface, Signature
from scutch.releases.interface_changes import InterfaceChange
from scutch.releases.programs import ProgramChange
from scutch.upgrades.code import Code, Use

GRAVITIES = {
    "breaks": "Breaks",
    "differs": "Means another thing",
    "deprecated": "Deprecated",
}
"""How grave a finding is, gravest first."""

TOUCHES = re.compile(r"(?P<name>[\w.]+)(?:\((?P<arguments>[\w!*,]+)\)|\[(?P<held>\w+)\])?$")


@dataclass(frozen=True)
class Finding:
    """A use that an upgrade changes.

    Args:
      use: The place.
      gravity: A key of `GRAVITIES`.
      text: The change, as a sentence.
      instead: The code that the new release accepts; empty where that is not recorded.
      since: The first recorded release with the change.
      renames: The old and the new name of a keyword or a metadata key, where the change is a
        rename that can be written without asking; empty otherwise.
      reached: Whether the observed command ran the line; `None` if no command was observed.
    """

    use: Use
    gravity: str
    text: str
    instead: str
    since: str
    renames: tuple[str, str] | tuple[()] = ()
    reached: bool | None = None


@dataclass(frozen=True)
class Findings:
    """Everything that an upgrade changes in code.

    Args:
      code: The uses that were read from the user's files.
      old: The interface of the release that the code works with.
      new: The interface of the release to go to.
      found: Gravest first, then by place.
    """

    code: Code
    old: Interface
    new: Interface
    found: tuple[Finding, ...]

    @property
    def breaks(self) -> bool:
        """Whether some code that works ends with an error, or means another thing."""
        return any(each.gravity != "deprecated" for each in self.found)


def releases_of(old: str | None, new: str | None) -> tuple[Interface, Interface]:
    """The interfaces of two releases.

    Args:
      old: Such as `flax==0.12.6`; the installed release of the other's package where left out.
      new: Such as `flax==0.12.12`; the newest recorded one where left out.

    Raises:
      NotRecorded: There is no such release.
    """
    package = (old or new or "flax").partition("==")[0]
    if old is None:
        try:
            old = f"{package}=={importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            raise releases.NotRecorded(
                f"{package} is not installed; expected --from {package}==RELEASE"
            ) from None
    if new is None:
        known = interface.interfaces(package)
        if not known:
            raise releases.NotRecorded(f"no interface of {package!r} is recorded; expected flax")
        new = f"{package}=={known[-1].release}"
    found = []
    for text in (old, new):
        name, equals, release = text.partition("==")
        if not equals or name != package:
            raise releases.NotRecorded(
                f"{text!r} names no release; expected one like 'flax==0.12.6'"
            )
        found.append(interface.interface(name, release))
    return found[0], found[1]


def find(code: Code, old: Interface, new: Interface) -> Findings:
    """The uses in code that an upgrade changes.

    Args:
      code: The user's.
      old: The interface that the code works with.
      new: The interface of the release to go to.

    Returns:
      A finding for each line and change, gravest first.
    """
    changes = interface_changes.between(old, new)
    by_target: dict[str, list[InterfaceChange]] = {}
    for change in changes:
        if change.kind in (*interface_changes.BREAKING, "deprecated"):
            for name in {change.name, *change.targets}:
                by_target.setdefault(old.target(name) if "[" not in name else name, []).append(
                    change
                )
    ran = [
        each
        for each in programs.changes("flax", old.release, new.release)
        if each.kind != "accepted"
    ]
    attributes = {text for each in ran for text in each.program.touches if text[0] == "."}
    names = _names_by_file(code, old)
    found: dict[tuple[str, int, int, str], Finding] = {}
    for use in code.uses:
        if use.name[0] == "." and use.name not in attributes:
            continue  # of an object whose class is unknown
        chosen = [each for each in ran if _has_beside(each, names[use.file], old)]
        for finding in (*_of_interface(use, by_target, old, new), *_of_programs(use, chosen, old)):
            found.setdefault((use.file, use.line, use.column, finding.text), finding)
    places = {gravity: place for place, gravity in enumerate(GRAVITIES)}
    ordered = sorted(
        found.values(), key=lambda f: (places[f.gravity], f.use.file, f.use.line, f.text)
    )
    return Findings(code, old, new, tuple(ordered))


def _of_interface(
    use: Use, changes: dict[str, list[InterfaceChange]], old: Interface, new: Interface
) -> Iterator[Finding]:
    names = [use.name]
    if use.is_call and "[" not in use.name:
        names.append(f"{old.owner(use.name)}.__init__")
    for name in names:
        target = name if "[" in name else old.owner(name)
        for change in changes.get(target, ()):
            if _meets(use, change, old, new):
                gravity = "deprecated" if change.kind == "deprecated" else "breaks"
                gravity = "differs" if use.name.startswith("metadata[") else gravity
                text = change.text if "[" in change.name else f"{use.name}: {change.text}"
                yield Finding(use, gravity, text, change.new, change.since, _renames(change))
    owner = old.find(old.owner(use.name)) if "[" not in use.name else None
    if owner is not None and use.is_call:  # a key that is given as a keyword
        for key in use.keywords:
            for change in changes.get(f"metadata[{key}]", ()):
                if _takes_metadata(use, key, old):
                    yield Finding(
                        use, "differs", change.text, change.new, change.since, _renames(change)
                    )


def _renames(change: InterfaceChange) -> tuple[str, str] | tuple[()]:
    """The old and the new keyword or key; empty if the change renames neither of the two."""
    is_name = change.kind == "renamed" and not change.name.startswith("metadata[")
    return (change.old, change.new) if change.old and change.new and not is_name else ()


def _meets(use: Use, change: InterfaceChange, old: Interface, new: Interface) -> bool:
    """Whether a change of a definition affects this use of it, by the arguments of a call."""
    if change.kind in ("removed", "renamed", "deprecated"):
        return True
    if not use.is_call:
        return False
    if change.kind == "required":
        return _lacks(use, change.new, new.find(change.targets[0] if change.targets else use.name))
    return change.old in use.keywords or _given_by_position(use, change, old)


def _lacks(use: Use, parameter: str, definition: str | None) -> bool:
    signature = interface.signature(definition or "")
    if signature is None or not parameter or use.open_keywords or parameter in use.keywords:
        return False
    position = _position(signature, parameter)
    return use.positions >= 0 and (position < 0 or use.positions <= position)


def _given_by_position(use: Use, change: InterfaceChange, old: Interface) -> bool:
    if "by keyword only" not in change.text:
        return False
    signature = interface.signature(old.find(change.name) or "")
    return signature is not None and use.positions > _position(signature, change.old) >= 0


def _position(signature: Signature, parameter: str) -> int:
    return signature.positional.index(parameter) if parameter in signature.positional else -1


def _takes_metadata(use: Use, key: str, old: Interface) -> bool:
    """Whether a call hands keywords that it does not name itself to a variable, as metadata."""
    target = old.owner(use.name)
    for name in (target, f"{target}.__init__"):
        signature = interface.signature(old.find(name) or "")
        if signature is not None:
            return signature.more_keywords and key not in signature.keywords
    return False


# ---------------------------------------------------------------- programs


def _of_programs(use: Use, ran: Sequence[ProgramChange], old: Interface) -> Iterator[Finding]:
    for change in ran:
        if any(_touches(use, text, old) for text in change.program.touches):
            gravity = {"refused": "breaks", "result": "differs", "warns": "deprecated"}[change.kind]
            text = f"{change.program.title} {change.text}"
            yield Finding(use, gravity, text, change.program.instead, change.since)


def _names_by_file(code: Code, old: Interface) -> dict[str, set[str]]:
    """The definitions that each file uses."""
    found: dict[str, set[str]] = {}
    for use in code.uses:
        names = found.setdefault(use.file, set())
        if use.name[0] != "." and "[" not in use.name:
            names.add(old.owner(use.name))
    return found


def _has_beside(change: ProgramChange, names: set[str], old: Interface) -> bool:
    """Whether a file uses one of a program's `Beside:` names, or a name in it; true if it has none.

    Args:
      change: The change of the program.
      names: The definitions that the file uses.
      old: The interface in which the names are resolved.
    """
    wanted = tuple(old.owner(each) for each in change.program.beside)
    inside = tuple(f"{each}." for each in wanted)
    return not wanted or any(each in wanted or each.startswith(inside) for each in names)


def _touches(use: Use, text: str, old: Interface) -> bool:
    """Whether a use matches an entry of a program's `Touches:` line.

    Args:
      use: Of the user's code.
      text: `NAME`, `NAME[list]`, or `NAME(one,!other,!*)` for a call that has the first keyword
        and not the second, nor any argument by position.
      old: The interface in which both names are found.
    """
    if text.startswith("metadata["):
        return use.name == text
    match = TOUCHES.match(text)
    if match is None or "[" in use.name or not _is(use.name, match["name"], old):
        return False
    if match["held"]:
        return use.container == match["held"]
    if use.container:
        return False
    if not match["arguments"]:
        return True
    if not use.is_call or use.open_keywords:
        return False
    return all(
        _given(use, each.lstrip("!")) != each.startswith("!")
        for each in match["arguments"].split(",")
    )


def _given(use: Use, argument: str) -> bool:
    return use.positions != 0 if argument == "*" else argument in use.keywords


def _is(name: str, wanted: str, old: Interface) -> bool:
    """Whether a name reaches a definition, or a class that inherits from it."""
    if name.startswith("."):
        return name == wanted
    name, wanted = old.owner(name), old.owner(wanted)
    if name == wanted:
        return True
    if not old.names.get(name, "").startswith(("class", "dataclass")):
        return False
    return any(_is(base, wanted, old) for base in old.bases(name))

"""The changes of a library's public interface from one release to another.

compare(interface("flax", "0.12.3"), interface("flax", "0.12.4"))
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from packaging.version import Version

from scutch.releases.interface import Interface, Signature, deprecation, interfaces, signature

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
        if one not in (*new.positional, *new.keywords)
        and other in new.keywords
        and other not in (*old.positional, *old.keywords)
    }


def _new(old: Interface, new: Interface) -> Iterator[InterfaceChange]:
    for name, text in new.names.items():
        owner = name.rpartition(".")[0]
        is_new = name not in old.names and old.find(name) is None
        if is_new and (owner in old.names or owner == new.package):
            yield InterfaceChange(name, "new", text.partition("  #")[0], new=name)


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

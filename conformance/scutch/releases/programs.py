"""Programs that users write, and their outcome on each recorded release.

    next(each for each in programs("flax") if each.name == "list_of_layers").outcomes["0.12.8"]

`ci/matrix --interfaces` runs the programs of `ci/programs` in the environment of each release: the
Flax programs on each Flax, and the plain JAX programs on each JAX.
"""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from packaging.version import Version

from scutch.releases import WITH_INTERFACE

KINDS = {
    "refused": "Refused now",
    "result": "Another result",
    "warns": "Warns now",
    "accepted": "Accepted now",
}
"""The kinds of changes of a program's outcome from one release to another, gravest first."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program on one release.

    Args:
      error: Class and first line of the exception that ended it; empty if it was accepted.
      prints: The lines that it printed.
      warns: The messages of its warnings of deprecation.
    """

    error: str
    prints: str
    warns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """A program, with its outcome on each release.

    Args:
      name: Of its file.
      text: Its source. The docstring has its title and, where they apply, three lines: `Touches:`
        lists the uses of names that the program tests; `Beside:` lists names, one of which a file
        must use as well; `Instead:` has the code to write instead.
      outcomes: By release; with a JAX other than the one of its day, by `RELEASE-jax-JAX`.
    """

    name: str
    text: str
    outcomes: Mapping[str, Outcome]

    @property
    def title(self) -> str:
        """The sentence that it begins with: the claim that it is about."""
        return self._lines[0]

    @property
    def touches(self) -> tuple[str, ...]:
        """The uses of names that it is about, as `scutch.upgrades` finds them in code."""
        return tuple(filter(None, self._line("Touches: ").split(", ")))

    @property
    def beside(self) -> tuple[str, ...]:
        """The names of `Beside:`, one of which a file must use as well; empty for no condition."""
        return tuple(filter(None, self._line("Beside: ").split(", ")))

    @property
    def instead(self) -> str:
        """The code to write where a release refuses the program; empty if that is not known."""
        return self._line("Instead: ")

    @property
    def _lines(self) -> list[str]:
        return (ast.get_docstring(ast.parse(self.text)) or self.name).splitlines()

    def _line(self, start: str) -> str:
        return next((each[len(start) :] for each in self._lines if each.startswith(start)), "")


@dataclass(frozen=True)
class ProgramChange:
    """A program that two releases do not treat alike.

    Args:
      program: The program.
      kind: A key of `KINDS`.
      text: The new outcome: the error, the printed lines (and the old ones), or the warning.
      since: The first recorded release with the change.
      origin: `Flax` or `JAX`, whichever changes it; empty where that is not known.
    """

    program: Program
    kind: str
    text: str
    since: str
    origin: str = ""


@cache
def programs(package: str) -> tuple[Program, ...]:
    """All programs that the releases of a package ran, by name; none if it is not recorded.

    Args:
      package: Such as `flax`.
    """
    if package not in WITH_INTERFACE:
        return ()
    file = files(__name__.rpartition(".")[0]) / "interfaces" / f"{package}-programs.json"
    found = json.loads(file.read_text("utf-8"))
    return tuple(
        Program(
            name,
            each["text"],
            {
                release: Outcome(o["error"], o["prints"], tuple(o["warns"]))
                for release, o in each["outcomes"]
            },
        )
        for name, each in sorted(found.items())
    )


def changes(package: str, old: str, new: str) -> tuple[ProgramChange, ...]:
    """The programs that two releases do not treat alike, gravest first.

    Args:
      package: Such as `flax`.
      old: A recorded release, or one with another JAX: `RELEASE-jax-JAX`.
      new: Another one.

    Returns:
      Nothing for a program that was not run on both.
    """
    found = []
    for each in programs(package):
        if old in each.outcomes and new in each.outcomes:
            kind, text = _change(each.outcomes[old], each.outcomes[new])
            if kind:
                before, since = _step(each, old, new, kind)
                origin = _origin(each, before, since) if package != "jax" else "JAX"
                found.append(ProgramChange(each, kind, text, since, origin))
    places = {kind: place for place, kind in enumerate(KINDS)}
    return tuple(sorted(found, key=lambda change: (places[change.kind], change.program.name)))


def _change(old: Outcome, new: Outcome) -> tuple[str, str]:
    if bool(old.error) != bool(new.error):
        return ("refused", new.error) if new.error else ("accepted", f"prints {new.prints}")
    if old.error:
        return "", ""
    if _spelled(old.prints) != _spelled(new.prints):
        return "result", f"prints {new.prints} (was {old.prints})"
    added = [each for each in new.warns if each not in old.warns]
    return ("warns", added[0]) if added else ("", "")


def _spelled(printed: str) -> str:
    """The output of a program, with `P(` for `PartitionSpec(`, as newer releases of JAX print."""
    return printed.replace("PartitionSpec(", "P(")


def _step(program: Program, old: str, new: str, kind: str) -> tuple[str, str]:
    """The two neighbouring releases between which a program changes in that way for good."""
    if "-jax-" in old + new:
        return old, new
    recorded = sorted((key for key in program.outcomes if "-jax-" not in key), key=Version)
    between = [key for key in recorded if Version(old) < Version(key) < Version(new)]
    since = new
    for release in reversed(between):
        if _change(program.outcomes[old], program.outcomes[release])[0] != kind:
            return release, since
        since = release
    return old, since


def _origin(program: Program, old: str, new: str) -> str:
    """Whether Flax or JAX changes the outcome of a program from one release to the next.

    Where the two releases have different JAX, a third run had the old release with another JAX. If
    its outcome equals the old one, Flax makes the change. If it differs from the old one as the new
    outcome does, JAX makes it. Without a third run both releases had the same JAX, so Flax does.

    Returns:
      `Flax` or `JAX`; empty if the third run shows neither, or if several such runs exist.
    """
    if old.partition("-jax-")[0] == new.partition("-jax-")[0]:
        return "JAX"
    bridges = [key for key in program.outcomes if key.startswith(f"{old}-jax-")]
    if "-jax-" in old + new or len(bridges) > 1:
        return ""
    if not bridges:  # the two releases were run with the same JAX
        return "Flax"
    before, bridge, after = (program.outcomes[key] for key in (old, bridges[0], new))
    jax_changes, flax_changes = (
        _change(before, bridge) == _change(before, after),
        _change(bridge, after)[0],
    )
    if jax_changes:
        return "JAX"
    return "Flax" if flax_changes and not _change(before, bridge)[0] else ""

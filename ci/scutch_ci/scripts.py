"""The scripts of the known failures, written and run in the environments of releases.

`ci/matrix --scripts` takes each known failure in turn. Its script is written in the environment of
the newest release that has the failure. It is run without this suite on that release, on those that
were asked for, and on the release that mended the failure. It must end with 1 where the failure is
known and with 0 where it was mended. `known/NAME.scripts.json` keeps the text and the exit codes. A
script whose witness is still the same is kept, and run only on releases that it was not run on yet.
"""

import fnmatch
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version
from scutch import reproduce
from scutch.judging import known
from scutch.judging.known import Known
from scutch.judging.scripts import LONGEST, SUFFIX, Script, from_text, to_text
from scutch.report.text import count, publish

from scutch_ci.known_ranges import KNOWN
from scutch_ci.targets import ADAPTERS, Target, targets

SECONDS = 300
NAME = "flax"
"""The implementation whose known failures have scripts."""


@dataclass(frozen=True)
class Survey:
    """Where scripts are written and run.

    Args:
      python: Returns the interpreter of a release's environment.
      asked: Releases that a script is run on if they have its failure, besides those that it needs.
      patterns: The requirements whose known failures get scripts; empty for all.
      again: Whether to write kept scripts anew.
      folder: The folder of the known failures.
    """

    python: Callable[[Target], str]
    asked: Sequence[Target] = ()
    patterns: Sequence[str] = ()
    again: bool = False
    folder: Path = KNOWN

    def update(self) -> int:
        """Write and run all scripts; returns how many known failures have no right script."""
        file = self.folder / f"{NAME}{SUFFIX}"
        entries = known.read(self.folder / f"{NAME}.toml")
        held = from_text(file.read_text("utf-8")) if file.exists() else ()
        wanted = [_key(entry) for entry in entries]
        stored = {_key(script): script for script in held if _key(script) in wanted}
        pinned = [t for t in targets(()) if t.implementation == NAME and not t.jax]
        problems = 0
        for entry in entries:
            key = _key(entry)
            if self.patterns and not any(fnmatch.fnmatch(key[0], each) for each in self.patterns):
                continue
            try:
                script = self.script(entry, stored.get(key), pinned)
            except reproduce.NotReproducible as problem:
                print(problem, flush=True)
                stored.pop(key, None)
                problems += 1
            else:
                stored[key] = script
                wrong = [*wrong_exits(entry, script)]
                problems += bool(wrong)
                lines = count(script.length, "line")
                print(f"{entry.requirement}: {lines}", *wrong, sep="; ", flush=True)
            publish(to_text([stored[each] for each in wanted if each in stored]), file)
        print(f"{count(len(stored), 'script')} of {count(len(entries), 'known failure')}")
        return problems

    def script(self, entry: Known, kept: Script | None, pinned: Sequence[Target]) -> Script:
        """Write or keep the script of a known failure, and run it on releases without an exit code.

        Args:
          entry: The known failure.
          kept: Its script from before, if it has one.
          pinned: The releases that have pins, newest first.

        Raises:
          NotReproducible: No release with pins has the failure, no script can be written for it, or
            the script is too long.
        """
        about = [target for target in pinned if entry.applies(NAME, target.release)]
        if not about:
            raise reproduce.NotReproducible(entry.requirement, "no release with pins has it")
        home = next((target for target in about if target in self.asked), about[0])
        if kept is None or self.again:
            text = reproduce.script(
                entry.requirement, entry.witness, ADAPTERS[NAME], python=self.python(home)
            )
            kept = Script(entry.requirement, entry.witness, text, {})
            if kept.length > LONGEST:
                lines = f"it has {kept.length} lines, expected {LONGEST} at most:\n{text}"
                raise reproduce.NotReproducible(entry.requirement, lines)
        exits = dict(kept.exits)
        on = [home, *(t for t in self.asked if t in about), *mended(entry, pinned)]
        for target in on:
            if target.release not in exits:
                exits[target.release] = run(kept.text, self.python(target))
        return replace(kept, exits={name: exits[name] for name in sorted(exits, key=Version)})


def _key(each: Known | Script) -> tuple[str, str | None]:
    """The requirement and the witness, which a known failure and its script share."""
    return each.requirement, each.witness


def mended(entry: Known, pinned: Sequence[Target]) -> Iterator[Target]:
    """The release that mended a failure, which is the first one after all that have it.

    Args:
      entry: The known failure.
      pinned: Releases, newest first.
    """
    newer: list[Target] = []
    for target in pinned:
        if entry.applies(NAME, target.release):
            yield from newer[-1:]
            return
        newer.append(target)


def wrong_exits(entry: Known, script: Script) -> Iterator[str]:
    """A complaint for each release on which a script ended with an unexpected exit code."""
    for release, code in script.exits.items():
        wanted = int(entry.applies(NAME, release))
        if code != wanted:
            yield f"it ends with {code} on {release}, expected {wanted}"


def run(text: str, python: str) -> int:
    """The exit code of a script, in a process that cannot import this suite.

    Args:
      text: The script.
      python: An interpreter.
    """
    shown: Mapping[str, str] = {
        name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "script.py")
        file.write_text(text, "utf-8")
        done = subprocess.run(
            [python, "-I", str(file)], cwd=folder, env=shown, capture_output=True, timeout=SECONDS
        )
    return done.returncode

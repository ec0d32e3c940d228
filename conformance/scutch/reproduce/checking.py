"""Drafts of a script, tried in new processes.

`Nursery` forks before JAX has looked for devices. Each draft then runs in a child of that fork,
which has all modules and no state: once unchanged, and once with the reference's namespaces in the
place of the modules that it imports.
"""

import ast
import contextlib
import functools
import io
import os
import pickle
import re
import signal
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scutch.implementation import RENAMED, Implementation
from scutch.reproduce import layout
from scutch.reproduce.names import Names
from scutch.reproduce.running import Ran
from scutch.reproduce.syntax import CHECK, NOTE, SCRIPT, copied, statements

SECONDS = 120.0
"""How long a script may take."""
Value = tuple[str, tuple[str, ...]]
"""The text of a value, empty if it has none, and the imports that the text needs."""
_SPACES = ("nnx", "linen", "meta", "logical", "bridge", "transforms")
_SPACE_OF = {"nn": "linen", "meta": "meta", "bridge": "bridge", "bridge_variables": "bridge"}
"""Where a name of a module is sought first."""


@dataclass(frozen=True)
class Outcome:
    """How a script ended.

    Args:
      code: Its exit code; 2 for an error that it does not catch.
      printed: Its output, with the message of that error.
      values: By number, the text and the imports of each value that it passed to `syntax.NOTE`.
      steps: The lines that it ran, as `Ran.steps` has them; empty if that was not asked for.
    """

    code: int
    printed: str
    values: Mapping[int, Value] = field(default_factory=dict)
    steps: Mapping[str, Counter[tuple[int, int]]] = field(default_factory=dict)


class Anything:
    """All names of an implementation, whatever the namespace."""

    def __init__(self, implementation: Implementation, alias: str = "") -> None:
        """Order the namespaces of an implementation by the alias that a script uses.

        Args:
          implementation: The one whose namespaces are searched.
          alias: The script's name for the module that this object replaces. It decides the
            namespace that is searched first: in `nn`, `Embed` is Linen's; elsewhere it is NNX's.
        """
        self._implementation = implementation
        self._spaces = sorted(_SPACES, key=lambda name: name != _SPACE_OF.get(alias))

    def __getattr__(self, name: str) -> Any:
        for capability in self._spaces:
            space = getattr(self._implementation, capability, None)
            if space is not None and hasattr(space, name):
                return getattr(space, name)
        for old, (today, _) in RENAMED.items():
            if name == today:
                found = getattr(self, old)
                return lambda *args, allow_register=True, **named: found(*args, **named)
        raise AttributeError(name)


class Nursery:
    """A process that has forked early, in whose children scripts are tried."""

    def __init__(self, implementation: Implementation, reference: Implementation) -> None:
        """Fork.

        Args:
          implementation: The one that scripts are about.
          reference: Stands for it where a script is run on the reference.
        """
        self.limit = SECONDS
        ours, theirs = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(ours[1])
            os.close(theirs[0])
            scripts = _Scripts(implementation, reference)
            scripts.serve(os.fdopen(ours[0], "rb"), os.fdopen(theirs[1], "wb"))
            os._exit(0)
        os.close(ours[0])
        os.close(theirs[1])
        self.requests, self.answers = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")

    def run(
        self, source: str, aliases: Mapping[str, str] | None = None, *, tracing: bool = False
    ) -> Outcome:
        """Run a script.

        Args:
          source: Its text. It may call `syntax.NOTE` with a number and a value.
          aliases: Imports that are left out, by the name that stands for the reference instead.
          tracing: Whether the lines that it runs are noted.

        Returns:
          How it ended.
        """
        pickle.dump((source, dict(aliases or {}), tracing, self.limit), self.requests)
        self.requests.flush()
        answer: Outcome = pickle.load(self.answers)
        return answer

    def expect(self, seconds: float) -> None:
        """End each further script that takes ten times as long as one has taken.

        Args:
          seconds: How long it took.
        """
        self.limit = min(SECONDS, 2 + 10 * seconds)

    def close(self) -> None:
        """End it."""
        self.requests.close()
        os.waitpid(self.pid, 0)


@dataclass(frozen=True)
class _Scripts:
    """Runs scripts, each in a child of this process."""

    implementation: Implementation
    reference: Implementation

    def serve(self, requests: Any, answers: Any) -> None:
        """Read requests until the pipe is closed, and answer with outcomes."""
        while True:
            try:
                *request, limit = pickle.load(requests)
            except EOFError:
                return
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(reading)
                signal.setitimer(signal.ITIMER_REAL, limit)
                with os.fdopen(writing, "wb") as out:
                    pickle.dump(self.run(*request), out)
                os._exit(0)
            os.close(writing)
            with os.fdopen(reading, "rb") as found:
                text = found.read()
            os.waitpid(child, 0)
            pickle.dump(pickle.loads(text) if text else Outcome(70, ""), answers)
            answers.flush()

    def run(self, source: str, aliases: Mapping[str, str], tracing: bool) -> Outcome:
        """Run a script in this process."""
        values: dict[int, Value] = {}
        space: dict[str, Any] = {"__name__": "__main__"}
        if NOTE in source:
            space[NOTE] = functools.partial(_note, Names(self.implementation), values)
        for alias, line in aliases.items():
            if line in source:
                source = source.replace(f"{line}\n", "")
                space[alias] = Anything(self.reference, alias)
        ran, out, code = Ran(), io.StringIO(), 0
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            try:
                program = compile(source, SCRIPT, "exec")
                if tracing:
                    ran.call(lambda: exec(program, space), SCRIPT)
                    if ran.error is not None:
                        raise ran.error
                else:
                    exec(program, space)
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
                if isinstance(stop.code, str):
                    print(stop.code)
            except BaseException as raised:
                code = 2
                print(f"{type(raised).__name__}: {raised}")
        return Outcome(code, out.getvalue()[:4000], values, ran.steps)


def _note(names: Names, values: dict[int, Value], number: int, value: Any) -> Any:
    """Keep the text of the value of an expression, and no text where it has had another value."""
    names.imports.clear()
    try:
        text = names.text(value)
        compile(text, SCRIPT, "eval")
    except Exception:  # it has no text, or is an object that raises when it is asked for one
        text = ""
    found = (text, tuple(names.imports)) if text else ("", ())
    if values.setdefault(number, found) != found:
        values[number] = "", ()
    return value


class Drafts:
    """Programs about one failure, tried on the implementation and on the reference."""

    def __init__(self, nursery: Nursery, aliases: Mapping[str, str], *, unasserted: bool) -> None:
        """Start with no draft.

        Args:
          nursery: Runs them.
          aliases: As `Nursery.run` takes them, for runs on the reference.
          unasserted: Whether a script starts itself again under `python -O`.
        """
        self.nursery, self.aliases, self.unasserted = nursery, aliases, unasserted
        self.told = ""
        self.problem = ""

    def text(self, tree: ast.Module) -> str:
        """A program as a script without its heading."""
        lines = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
        rest = [each for each in tree.body if each not in lines]
        text = ast.unparse(ast.Module(rest, [])).splitlines()
        return layout.program(text, map(ast.unparse, lines), unasserted=self.unasserted)

    def shows(self, tree: ast.Module) -> bool:
        """Whether a program ends with 1 on the implementation and with 0 on the reference.

        On the reference it must come to the comparison with which it ends. An error must have the
        message that the first program had, but for numbers.
        """
        begun = time.monotonic()
        own = self.nursery.run(self.text(tree))
        taken = time.monotonic() - begun
        if own.code != 1:
            self.problem = f"a program ended with {own.code}: {own.printed[-300:]}"
            return False
        marked, is_marked = _marked(tree)
        if not is_marked and self.told and _plain(own.printed) != _plain(self.told):
            return False
        other = self.nursery.run(self.text(marked), self.aliases)
        if other.code != 0 or (is_marked and _REACHED not in other.printed):
            self.problem = f"a program fails on the reference, too: {other.printed[-300:]}"
            return False
        self.told = own.printed
        self.nursery.expect(taken)
        return True

    def values(self, tree: ast.Module) -> Mapping[int, Value]:
        """The texts of the values that a program notes, with their imports."""
        return self.nursery.run(ast.unparse(tree)).values

    def ran(self, tree: ast.Module) -> Ran:
        """The lines of its own text that a program runs, on both implementations."""
        found = Ran()
        for aliases in ({}, self.aliases):
            outcome = self.nursery.run(ast.unparse(tree), aliases, tracing=True)
            for file, steps in outcome.steps.items():
                found.steps.setdefault(file, Counter()).update(steps)
        return found


_REACHED = "the comparison was reached"


def _marked(tree: ast.Module) -> tuple[ast.Module, bool]:
    """A program that prints `_REACHED` before its comparison, if it ends with one."""
    marked = copied(tree)
    for block, node in list(statements(marked)):
        if isinstance(node, ast.If) and getattr(node, CHECK, False):
            block.insert(block.index(node), ast.parse(f"print({_REACHED!r})").body[0])
            return ast.fix_missing_locations(marked), True
    return marked, False


def _plain(told: str) -> str:
    """An output without its numbers and addresses."""
    return re.sub(r"0x[0-9a-f]+|\d+", "#", told)[:200]

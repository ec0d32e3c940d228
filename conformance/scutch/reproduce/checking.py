"""Drafts of a script, tried in new processes.

`Nursery` forks before JAX has looked for devices. Each draft then runs in a child of that fork,
which has all modules and no state: once unchanged, and once with the reference's namespaces in the
place of the modules that it imports.
"""

import contextlib
import io
import os
import pickle
import signal
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scutch.implementation import RENAMED, Implementation

SECONDS = 120
_SPACES = ("nnx", "linen", "meta", "logical", "bridge", "transforms")
_SPACE_OF = {"nn": "linen", "meta": "meta", "bridge": "bridge", "bridge_variables": "bridge"}
"""Where a name of a module is sought first."""


@dataclass(frozen=True)
class Outcome:
    """How a script ended.

    Args:
      code: Its exit code; 2 for an error that it does not catch.
      printed: Its output, with the message of that error.
    """

    code: int
    printed: str


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

    def __init__(self, reference: Implementation) -> None:
        """Fork.

        Args:
          reference: Stands for the implementation where a script is run on the reference.
        """
        ours, theirs = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(ours[1])
            os.close(theirs[0])
            _serve(os.fdopen(ours[0], "rb"), os.fdopen(theirs[1], "wb"), reference)
            os._exit(0)
        os.close(ours[0])
        os.close(theirs[1])
        self.requests, self.answers = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")

    def run(self, source: str, aliases: Mapping[str, str] | None = None) -> Outcome:
        """Run a script.

        Args:
          source: Its text.
          aliases: Imports that are left out, by the name that stands for the reference instead.
        """
        pickle.dump((source, dict(aliases or {})), self.requests)
        self.requests.flush()
        answer: Outcome = pickle.load(self.answers)
        return answer

    def close(self) -> None:
        """End it."""
        self.requests.close()
        os.waitpid(self.pid, 0)


def _serve(requests: Any, answers: Any, reference: Implementation) -> None:
    """Read requests until the pipe is closed; run each script in a child and answer its outcome."""
    while True:
        try:
            source, aliases = pickle.load(requests)
        except EOFError:
            return
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            signal.alarm(SECONDS)
            with os.fdopen(writing, "wb") as out:
                pickle.dump(_run(source, aliases, reference), out)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as found:
            text = found.read()
        os.waitpid(child, 0)
        pickle.dump(pickle.loads(text) if text else Outcome(70, ""), answers)
        answers.flush()


def _run(source: str, aliases: Mapping[str, str], reference: Implementation) -> Outcome:
    """Run a script in this process."""
    space: dict[str, Any] = {"__name__": "__main__"}
    for alias, line in aliases.items():
        if line in source:
            source = source.replace(f"{line}\n", "")
            space[alias] = Anything(reference, alias)
    out = io.StringIO()
    code = 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # `printed` is quoted in the heading: no warnings there.
        try:
            exec(compile(source, "script.py", "exec"), space)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
            if isinstance(stop.code, str):
                print(stop.code)
        except BaseException as raised:
            code = 2
            print(f"{type(raised).__name__}: {raised}")
    return Outcome(code, out.getvalue()[:4000])

"""How a script is laid out: its heading, its imports, lines that are not too long.

heading(requirement, versions, told)
folded("box = nn.Partitioned(...)")
"""

import io
import re
import textwrap
import tokenize
from collections.abc import Iterable

from scutch.catalogue import Requirement
from scutch.judging.causes import Cause
from scutch.judging.readable import without_folders

WIDTH = 96
SAID = 3
"""How many lines of a script's output are shown in its heading."""

DEVICES = (
    'os.environ.update(JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=8")'
)
ASKS_FOR_DEVICES = re.compile(r"\b(make_mesh|Mesh|devices|local_devices|device_count)\(")
"""Calls in a program that depend on how many devices there are."""
OTHERWISE = (
    "sys.excepthook = lambda *error: (sys.__excepthook__(*error), sys.exit(2))  # other errors: 2"
)
"""Makes 1 the exit code of a program's own comparison alone: any other error ends it with 2."""
UNASSERTED = ("if __debug__:", "    os.execv(sys.executable, [sys.executable, '-O', __file__])")


def program(lines: Iterable[str], imports: Iterable[str], *, unasserted: bool = False) -> str:
    """Statements with their imports before them.

    Args:
      lines: The statements.
      imports: Import statements, in any order.
      unasserted: Whether the program starts itself again under `python -O`.

    Returns:
      The text, without a heading.
    """
    text = "\n".join(lines)
    wanted = {*imports, "import sys"}
    wanted |= {"import functools"} if "functools." in text else set()
    outside = ("jax", "numpy", "flax")
    plain = sorted(w for w in wanted if w.startswith("import ") and not w[7:].startswith(outside))
    rest = sorted(wanted.difference(plain))
    body = spaced(part for line in lines for part in folded(line))
    return prepared("\n".join([*plain, *rest, "", *body, ""]), unasserted=unasserted)


def prepared(text: str, *, unasserted: bool = False) -> str:
    """A program with the lines after `import sys` that do not depend on its subject.

    They let an error that it does not catch end it with 2, and start fake devices where it asks
    for devices.

    Args:
      text: The program, which imports `sys` and not `os`.
      unasserted: Whether it starts itself again under `python -O`.
    """
    devices = ASKS_FOR_DEVICES.search(text)
    first = ["import os"] if devices or unasserted else []
    first += ["import sys", OTHERWISE]
    first += [DEVICES] if devices else []
    first += UNASSERTED if unasserted else ()
    return text.replace("import sys\n", "".join(f"{line}\n" for line in first), 1)


def spaced(lines: Iterable[str]) -> list[str]:
    """Lines with a blank one around each definition, and none after the head of a class."""
    found: list[str] = []
    inside = False
    for line in lines:
        if not line:
            if found and not found[-1].startswith("class "):
                found.append(line)
            continue
        outermost = not line.startswith((" ", ")"))
        begins = outermost and line.startswith(("class ", "def ", "@"))
        decorated = bool(found) and found[-1].startswith("@")
        if found and found[-1] and not decorated and (begins or (inside and outermost)):
            found.append("")
        inside = begins or (inside and not outermost)
        found.append(line)
    return found


def folded(line: str) -> list[str]:
    """A line as several where it is too long, broken after commas in as few brackets as can be."""
    if len(line) <= WIDTH:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    breaks = _commas(line)
    found, start = [], 0
    while len(line) - start > WIDTH - (len(indent) if start else 0):
        room = start + WIDTH - (len(indent) if start else 0)
        fitting = {place: depth for place, depth in breaks.items() if start < place <= room}
        if not fitting:
            break
        end = min(fitting, key=lambda place: (fitting[place], -place))
        found.append((indent if start else "") + line[start:end].rstrip())
        start = end
        start += len(line[start:]) - len(line[start:].lstrip())
    return [*found, (indent if start else "") + line[start:]]


def _commas(line: str) -> dict[int, int]:
    """The places after commas that stand in brackets, and in how many."""
    depth, found = 0, {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(line.strip() + "\n").readline):
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
                if token.string == "," and depth:
                    found[token.end[1] + len(line) - len(line.lstrip())] = depth
    except (tokenize.TokenError, IndentationError):  # such as the head of a compound statement
        pass
    return found


def heading(requirement: Requirement, versions: str, told: str, cause: Cause | None = None) -> str:
    """The docstring of a script.

    Args:
      requirement: The requirement that the script shows to be broken.
      versions: Of the implementation, JAX, NumPy and Python.
      told: The output of the script when it is run.
      cause: Of the failure, where it is known; its fault and its effect come first.

    Returns:
      The docstring, with its quotes.
    """
    expected = f"{requirement.text} ({requirement.id}, a {requirement.level})"
    if cause:
        lines = [*_filled(cause.fault), "", *_filled(cause.effect), *_filled(f"Asked: {expected}")]
    else:
        lines = [*_filled(f"{requirement.title}."), "", *_filled(expected)]
        lines += _filled(f"What is lost: {requirement.loss}") if requirement.loss else []
    if requirement.quote:
        lines += _filled(f'The document: "{requirement.quote}"')
        lines += [document.address for document in requirement.documents]
    lines += ["", versions, *said(told)]
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{text}\n"""\n'


def said(told: str) -> list[str]:
    """The first `SAID` lines of a script's output, without the folders of the machine."""
    told = without_folders(told)
    lines = [part for line in told.splitlines()[:SAID] for part in _filled(line)]
    return lines[:SAID] if len(lines) <= SAID else [*lines[: SAID - 1], f"{lines[SAID - 1]} ..."]


def _filled(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), WIDTH, break_on_hyphens=False)

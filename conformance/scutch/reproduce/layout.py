"""How a script is laid out: its heading, its imports, lines that are not too long.

heading(requirement, versions, told)
folded("box = nn.Partitioned(...)")
"""

import io
import textwrap
import tokenize
from collections.abc import Iterable

from scutch.catalogue import Requirement

WIDTH = 96
SAID = 3
"""How many lines of what a script prints are shown in its heading."""

DEVICES = (
    "import os",
    'os.environ.update(JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=8")',
)
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
    wanted = set(imports)
    wanted |= {"import sys"} if "sys." in text or unasserted else set()
    wanted |= {"import functools"} if "functools." in text else set()
    meshes = "make_mesh(" in text
    wanted |= {"import os"} if meshes or unasserted else set()
    outside = ("jax", "numpy", "flax")
    plain = sorted(w for w in wanted if w.startswith("import ") and not w[7:].startswith(outside))
    rest = sorted(wanted.difference(plain))
    first = [*plain, *([DEVICES[1]] if meshes else []), *(UNASSERTED if unasserted else ())]
    return "\n".join([*first, *rest, "", *(part for line in lines for part in folded(line)), ""])


def folded(line: str) -> list[str]:
    """A line as several, broken after commas in brackets, where it is too long."""
    if len(line) <= WIDTH:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    breaks = _commas(line)
    found, start = [], 0
    while len(line) - start > WIDTH - (len(indent) if start else 0):
        room = start + WIDTH - (len(indent) if start else 0)
        fitting = [place for place in breaks if start < place <= room]
        if not fitting:
            break
        found.append((indent if start else "") + line[start : fitting[-1]].rstrip())
        start = fitting[-1]
        start += len(line[start:]) - len(line[start:].lstrip())
    return [*found, (indent if start else "") + line[start:]]


def _commas(line: str) -> list[int]:
    """The places after commas that stand in brackets."""
    depth, found = 0, []
    try:
        for token in tokenize.generate_tokens(io.StringIO(line.strip() + "\n").readline):
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
                if token.string == "," and depth:
                    found.append(token.end[1] + len(line) - len(line.lstrip()))
    except (tokenize.TokenError, IndentationError):  # such as the head of a compound statement
        pass
    return found


def heading(requirement: Requirement, versions: str, told: str) -> str:
    """The docstring of a script.

    Args:
      requirement: What the script shows to be broken.
      versions: Of the implementation, JAX, NumPy and Python.
      told: What the script says when it is run.

    Returns:
      The docstring, with its quotes.
    """
    level = "must" if requirement.level == "must" else "should"
    lines = [f"{requirement.title} ({requirement.id}, a {level}).", ""]
    lines += _filled(requirement.text)
    if requirement.quote:
        lines += _filled(f'The document: "{requirement.quote}"')
    lines += _filled(f"Source: {requirement.source}")
    lines += ["", versions, *said(told)]
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{text}\n"""\n'


def said(told: str) -> list[str]:
    """What a script prints, shortened."""
    lines = [part for line in told.splitlines()[:SAID] for part in _filled(line)]
    return lines[:SAID] if len(lines) <= SAID else [*lines[: SAID - 1], f"{lines[SAID - 1]} ..."]


def _filled(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), WIDTH)

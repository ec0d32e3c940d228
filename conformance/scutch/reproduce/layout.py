"""How a script is laid out: its heading, its imports, lines that are not too long.

heading(requirement, versions, told)
folded("box = nn.Partitioned(...)")
"""

import io
import textwrap
import tokenize
from collections.abc import Iterable

from scutch.catalogue import Requirement
from scutch.judging.readable import without_folders

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
    return "\n".join(
        [*first, *rest, "", *spaced(part for line in lines for part in folded(line)), ""]
    )


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
    lines = [*_filled(f"{requirement.title} ({requirement.id}, a {level})."), ""]
    lines += _filled(requirement.text)
    if requirement.quote:
        lines += _filled(f'The document: "{requirement.quote}"')
    if requirement.source:
        lines += _filled(f"Source: {requirement.source}")
    if requirement.loss and not requirement.quote:
        lines += _filled(f"What is lost: {requirement.loss}")
    lines += ["", versions, *said(told)]
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{text}\n"""\n'


def said(told: str) -> list[str]:
    """What a script prints, shortened, and without the folders of the machine that ran it."""
    told = without_folders(told)
    lines = [part for line in told.splitlines()[:SAID] for part in _filled(line)]
    return lines[:SAID] if len(lines) <= SAID else [*lines[: SAID - 1], f"{lines[SAID - 1]} ..."]


def _filled(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), WIDTH, break_on_hyphens=False)

"""Commands that ask the catalogue.

scutch list objects/graphs
scutch explain objects/graphs/merge-undoes-split
"""

import argparse
import difflib
import textwrap
from collections import Counter
from collections.abc import Sequence

from scutch import catalogue
from scutch.catalogue import Requirement, index
from scutch.commands.command import Add, UsageError
from scutch.report.text import count


def add(command: Add) -> None:
    """Add the commands about the catalogue.

    Args:
      command: Adds one; see `command.adder`.
    """
    added = command(
        "list", "list the parts and groups of the catalogue, or the requirements of one", _list
    )
    what = "a part, a group or ids: objects, objects/graphs or 'metadata/box-*'; old ids do, too"
    added.add_argument("pattern", metavar="PATTERN", nargs="?", help=what)
    added.add_argument("--requirement", metavar="PATTERN", help="the same")

    added = command("explain", "say what a requirement asks for, why, and what tests it", _explain)
    added.add_argument("id", metavar="ID", help="a requirement or a group; an old id does, too")


def _list(arguments: argparse.Namespace) -> int:
    pattern = arguments.pattern or arguments.requirement
    if pattern is None:
        return _list_groups()
    chosen = catalogue.select(pattern)
    width = max(len(requirement.id) for requirement in chosen)
    for requirement in chosen:
        print(f"{requirement.id:{width}}  {requirement.level:6}  {requirement.title}")
    return 0


def _list_groups() -> int:
    """Print the parts and groups, each with the number of its requirements."""
    everything = catalogue.load()
    of_part = Counter(one.part for one in everything)
    of_group = Counter(one.group for one in everything)
    names = {group: group.partition("/")[2] for group in of_group}
    width = max(map(len, [*catalogue.PARTS, *(f"  {name}" for name in names.values())]))
    for part in of_part:
        print(f"{part:{width}}  {of_part[part]:3}  {catalogue.PARTS.get(part, '')}")
        for group in (each for each in of_group if each.startswith(f"{part}/")):
            print(f"{'  ' + names[group]:{width}}  {of_group[group]:3}  {catalogue.about(group)}")
    print(f"{count(len(everything), 'requirement')}; `scutch list objects/graphs` lists a group")
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    everything = catalogue.load()
    chosen = catalogue.named(arguments.id)
    retired = {old.lower(): reason for old, reason in catalogue.retired().items()}
    if reason := retired.get(arguments.id.lower()):
        print(textwrap.fill(f"{arguments.id} is not asked for any more. {reason}", 90))
        return 0
    if not chosen:
        ids = {old.lower(): one.id for one in everything for old in (one.id, *one.was)}
        close = [ids[name] for name in difflib.get_close_matches(arguments.id.lower(), ids)]
        remedy = f"did you mean {' or '.join(close)}?" if close else "`scutch list` shows all"
        raise UsageError(f"no requirement {arguments.id!r}; {remedy}")
    print("\n\n".join(_explanation(one, everything) for one in chosen))
    return 0


def _explanation(requirement: Requirement, everything: Sequence[Requirement]) -> str:
    facts = {
        "level": requirement.level,
        "harm": requirement.harm,
        "domain": requirement.domain,
        "source": requirement.source,
        "documents": "\n".join(f"{d.title}\n{d.address}" for d in requirement.documents),
        "quote": requirement.quote,
        "loss": requirement.loss,
        "capability": requirement.capability,
        "since": requirement.since,
        "until 0.1": ", ".join(requirement.was),
        "needs": ", ".join(requirement.needs),
        "needed by": ", ".join(one.id for one in everything if requirement.id in one.needs),
        "laws": "\n".join(index.laws_of(requirement.id)) or "none yet",
    }
    lines = [f"{requirement.id}  {requirement.title}", ""]
    for paragraph in requirement.text.strip().split("\n\n"):
        lines += [textwrap.fill(" ".join(paragraph.split()), 90), ""]
    for name, value in facts.items():
        for number, part in enumerate(value.splitlines()):
            filled = textwrap.wrap(part, 90, break_long_words=False, break_on_hyphens=False)
            for again, piece in enumerate(filled):
                lines.append(f"  {name if number == again == 0 else '':12}{piece}")
    if requirement.jax:
        lines += ["", "  JAX does so:", "", textwrap.indent(requirement.jax.rstrip(), "    ")]
    for law in index.laws_of(requirement.id):
        lines += ["", textwrap.indent(index.code_of(law), "    ")]
    return "\n".join(lines)

"""Text of reports: on one line, with a number, and published as a file.

publish(f"{count(3, 'law')} of {line(name)}", Path("site/index.html"))
"""

import os
from pathlib import Path

from scutch.judging.readable import (
    line as line,
    visible as visible,
)


def count(number: int, noun: str) -> str:
    """A number and its noun in the right form.

    Args:
      number: Zero or more.
      noun: In the singular; its plural ends in `s`.

    >>> count(1, "root cause"), count(2, "root cause")
    ('1 root cause', '2 root causes')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def publish(text: str, path: Path) -> None:
    """Put `text` at `path`, whole or not at all; missing folders are made.

    Args:
      text: Written as UTF-8, half of a character as its escape; lines end as they do in it.
      path: The file to write; an older file is replaced.

    Raises:
      OSError: The file cannot be written; an older file at `path` is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def command_message(text: str) -> str:
    """Text of a workflow command, on one line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(text: str) -> str:
    """A property of a workflow command, which may hold no `:` and no `,` either."""
    return command_message(text).replace(":", "%3A").replace(",", "%2C")

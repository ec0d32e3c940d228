"""Text that others wrote, made safe to show.

Names, reasons, inputs and errors come from the implementation under judgement. They may hold
terminal escapes, lone surrogates or characters that turn a line around; each of these is shown as
the escape that a Python literal would use, so that a reader sees what is there.
"""

import os
import re
from pathlib import Path

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for tab and newline
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # zero width, and direction
    "\ud800-\udfff]"  # half a character
)


def visible(text: str) -> str:
    r"""`text` with every character that would not be seen written as its escape.

    >>> print(visible("one\x1b[31mtwo"))
    one\x1b[31mtwo
    """
    return _INVISIBLE.sub(lambda match: ascii(match[0])[1:-1], text)


def line(text: str) -> str:
    r"""`text` on one line: `visible`, and line breaks and tabs escaped too.

    >>> print(line("one\ntwo"))
    one\ntwo
    """
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


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
      text: Written as UTF-8; lines end as they do in it.
      path: Of a file, which is replaced if it is there.

    Raises:
      OSError: The place cannot be written; what was there before is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)

"""Text that others wrote, made safe to show and to send.

Names, reasons, inputs and errors come from the implementation under judgement. They may hold
terminal escapes, lone surrogates or characters that turn a line around; each of these is shown as
the escape that a Python literal would use, so that a reader sees every character.
"""

import re
import shlex
from typing import Any

LONGEST = 8_000
"""Characters of an error's message that are kept."""

LONGEST_LABEL = 100
"""Characters of a name or a version that are kept."""

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for tab and newline
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # zero width, and direction
    "\ud800-\udfff]"  # half a character
)

_COMMAND = re.compile(r"^(\s*):(?=:)|#(?=#\[)", re.MULTILINE)
"""Where a log has a command of GitHub Actions, such as `::error::` or `##[add-mask]`."""

_PACKAGES = re.compile(r"""[^\s"'(]*/site-packages/""")
"""The folder of an environment's installed packages."""


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


def summary(error: BaseException) -> str:
    r"""The class of an error and the first lines of its text, on one line.

    >>> print(summary(ValueError("one\n\n  two")))
    ValueError: one two
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])[:400]}"


def label(text: str) -> str:
    r"""A name or a version: `inert`, on one `line`, and of `LONGEST_LABEL` characters at most.

    >>> print(label("::error::mine\n1"))
    \x3a:error::mine\n1
    """
    return shortened(inert(line(text)), LONGEST_LABEL)


def inert(text: str) -> str:
    r"""`text` as a log may print it: no line of it is a command of GitHub Actions.

    >>> print(inert("a\n::error::b"))
    a
    \x3a:error::b
    """
    return _COMMAND.sub(lambda match: f"{match[1] or ''}\\x{ord(match[0][-1]):x}", text)


def without_folders(text: str) -> str:
    """`text` without the folder of the environment that paths in it begin with.

    >>> without_folders("/home/me/.venv/lib/python3.12/site-packages/flax/core/meta.py:305")
    'flax/core/meta.py:305'
    """
    return _PACKAGES.sub("", text)


def shortened(text: str, most: int = LONGEST) -> str:
    """`text`, or its first characters and how many there were.

    Args:
      text: Of any length.
      most: How many characters are kept, above 0.

    >>> shortened("a long story", most=6)
    'a long ... (12 characters)'
    """
    return text if len(text) <= most else f"{text[:most]} ... ({len(text)} characters)"


def readable(data: Any) -> Any:
    """Data of JSON with every text in it `visible` and `inert`.

    Args:
      data: A dictionary, list, text, number, truth value or `None`.
    """
    if isinstance(data, str):
        return inert(visible(data))
    if isinstance(data, list):
        return [readable(each) for each in data]
    if isinstance(data, dict):
        return {visible(key): readable(value) for key, value in data.items()}
    return data


def quoted(text: str) -> str:
    """A text as one word of a shell, in double quotes where that is safe: they read best.

    >>> print(quoted("test_a(name='data')"), quoted("test_a(name='$')"))
    "test_a(name='data')" 'test_a(name='"'"'$'"'"')'
    """
    plain = not set(text) & set('"$`\\!')
    return f'"{text}"' if plain else shlex.quote(text)

"""Docstrings, comments and pages name the thing: the word "what" marks sentences that do not."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = (
    "reference/scutch_reference",
    "conformance/scutch",
    "benchmarks",
    "ci/scutch_ci",
    "conformance/trials",
    "reference/tests",
    "README.md",
    "CONTRIBUTING.md",
)
MOST = 1.5
"""How often the word may stand in 1,000 words; it is 0.2 to 0.4 in Equinox and Penzai."""
RIDDLES = re.compile(r"\b(what|that of|those of|comes of it)\b", re.IGNORECASE)


def texts(file):
    """The docstrings and comments of a module, or a page, each with its first line's number."""
    text = file.read_text("utf-8")
    if file.suffix != ".py":
        return [(1, text)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = [(each.start[0], each.string) for each in tokens if each.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(ast.Constant(str() as words)):
                found.append((node.lineno, words))
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_written_in_plain_words(room):
    place = ROOT / room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    total, hits, listed = 0, 0, []
    for file in files:
        for first, text in texts(file):
            total += len(re.findall(r"[A-Za-z']+", text))
            for number, line in enumerate(text.splitlines(), first):
                found = [each.lower() for each in RIDDLES.findall(line)]
                hits += found.count("what")
                listed += [f"{file.relative_to(ROOT)}:{number}: {line.strip()}"] * bool(found)
    assert total
    assert 1000 * hits / total < MOST, "\n".join(listed)

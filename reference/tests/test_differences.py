"""The page of differences from Flax: each example gives what the page says, on both libraries."""

import ast
import re
import textwrap
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
LISTED_RELEASE = "0.12.8"
SECTION = re.compile(
    r"^## (?P<title>.+?)\n.*?```python\n(?P<code>.*?)```\n\n"
    r"Reference: `(?P<reference>.+?)`\. Flax: `(?P<flax>.+?)`\.$",
    re.DOTALL | re.MULTILINE,
)
IMPORTS, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
EXAMPLES = [match.groupdict() for match in SECTION.finditer(PAGE.read_text())]


def outcome(code, library):
    """The last expression of an example as text, or the classes of the error that it raises."""
    given = {"__name__": "example"}
    exec(IMPORTS.replace("flax", library), given)
    *statements, last = ast.parse(code).body
    try:
        exec(compile(ast.Module(statements, []), PAGE.name, "exec"), given)
        return [repr(eval(ast.unparse(last), given))]
    except Exception as error:
        return [each.__name__ for each in type(error).__mro__]


def test_every_section_has_an_example():
    """No example of the page is left out by the pattern that reads it."""
    assert len(EXAMPLES) == PAGE.read_text().count("\n## ") > 0


@pytest.mark.parametrize("library", ["scutch_reference", "flax"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["title"])
def test_an_example_gives_what_the_page_says(example, library):
    """The result of an example is the one that the page has for the library."""
    if library == "flax":
        flax = pytest.importorskip("flax", reason="Flax, which is compared, is not installed")
        if flax.__version__ != LISTED_RELEASE:
            pytest.skip(f"the page is about Flax {LISTED_RELEASE}, not {flax.__version__}")
    expected = example["reference" if library == "scutch_reference" else "flax"]
    assert expected in outcome(textwrap.dedent(example["code"]), library)

"""Causes of known failures: the shipped files, refusals of malformed ones, and counts."""

import ast
import importlib.metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from scutch.catalogue import HARMS, by_id
from scutch.implementation import SetupError
from scutch.judging import known
from scutch.judging.causes import Cause, counted, parse

TABLE = {
    "at": "flax/core/meta.py:Partitioned.remove_axis",
    "fault": "It asserts.",
    "effect": "A name stays.",
    "harm": "wrong-placement",
    "stance": "bug",
}
SHIPPED = {entry.cause: entry for entry in known.shipped() if entry.cause}


def cause(name, **changes):
    return Cause(name, **(TABLE | changes))


def test_every_shipped_failure_has_a_cause_whose_harm_its_requirement_may_have():
    assert all(entry.cause for entry in known.shipped())
    for entry in known.shipped():
        if by_id()[entry.requirement].harm == "message":
            assert entry.cause.harm in ("message", "lost"), entry.place


@pytest.mark.parametrize("name", ["flax", "orbax"])
def test_every_cause_of_a_file_breaks_a_requirement(name):
    text = (Path(known.__file__).parents[1] / "known" / f"{name}.toml").read_text("utf-8")
    tables = [line[7:-1] for line in text.splitlines() if line.startswith("[cause.")]
    named = {each.name for each, entry in SHIPPED.items() if entry.implementation == name}
    assert tables
    assert set(tables) == named


@pytest.mark.parametrize(
    "found",
    [
        each
        for each, entry in SHIPPED.items()
        if entry.applies("flax", importlib.metadata.version("flax"))
    ],
    ids=lambda each: each.name,
)
def test_a_place_is_in_the_release_that_is_installed(found):
    file, _, name = found.at.partition(":")
    package = Path(find_spec("flax").submodule_search_locations[0])
    body = ast.parse((package.parent / file).read_text("utf-8")).body
    for part in name.split("."):
        (*_, node) = [n for n in body if getattr(n, "name", None) == part]
        body = node.body


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({**TABLE, "harm": "bad"}, f"harm is 'bad'; expected one of {', '.join(HARMS)}"),
        ({**TABLE, "stance": "design"}, "'document' is missing, which the stance 'design' needs"),
        ({**TABLE, "stance": "reported"}, "'upstream' is missing, which the stance 'reported'"),
        ({**TABLE, "at": 3}, "at is 3; expected a string"),
        ({**TABLE, "why": "x"}, "unknown key 'why'"),
        ({"at": "a.py:f"}, "'fault' is missing"),
        ([], "got []; expected a table"),
    ],
)
def test_a_malformed_cause_is_refused_by_name_and_key(table, said):
    with pytest.raises(SetupError) as caught:
        parse({"asserts": table}, "known.toml")
    assert "known.toml, cause asserts" in str(caught.value)
    assert said in str(caught.value)


def test_an_entry_has_a_reason_or_a_cause_of_its_file():
    entry = '[[known]]\nrequirement = "BOX-5"\nversions = ""\nwitness = "test_f(x=1)"\n'
    start = 'implementation = "mine"\n'
    with pytest.raises(SetupError, match="either 'reason' or 'cause'"):
        known.parse(start + entry, "known.toml")
    with pytest.raises(SetupError, match=r"the file has no \[cause.other\]"):
        known.parse(f'{start}{entry}cause = "other"\n', "known.toml")
    table = "\n".join(f'{key} = "{value}"' for key, value in TABLE.items())
    (found,) = known.parse(
        f'{start}[cause.asserts]\n{table}\n{entry}cause = "asserts"\n', "known.toml"
    )
    assert found.cause == cause("asserts")
    assert found.reason == "A name stays. It asserts."


def test_causes_are_counted_by_stance():
    found = [
        cause("a"),
        cause("b", stance="reported", upstream="https://example.org"),
        cause("c", harm="message"),
        cause("d", stance="disputed"),
        cause("e", stance="design", document="FLIP 4844"),
    ]
    said = "5 known causes: 2 bugs (1 reported), 1 minor, 1 disputed, 1 by design"
    assert counted(found) == said
    assert counted([cause("a")]) == "1 known cause: 1 bug"

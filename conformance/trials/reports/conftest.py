"""Reports and a catalogue to show: small, made up, and with text that means harm."""

import pytest
import scutch.catalogue
from scutch.catalogue import Requirement
from scutch.report import Counterexample, Environment, Outcome, Product, Report
from scutch.report.document import write


def requirement(identifier, title, *needs, level="must", text="`box.unbox()` gives the value."):
    return Requirement(
        identifier, level, title, text, "000_ boxes", "`0 <= i <= rank`", "meta", needs, "0.1.0"
    )


CATALOGUE = (
    requirement("boxes/all/b-1", "Only boxes are axis metadata"),
    requirement(
        "boxes/all/b-2a", "A box is a pytree node", "boxes/all/b-1", text="First.\n\nThen `second`."
    ),
    requirement("boxes/all/b-9a", "A wrong name is refused"),
    requirement("boxes/all/b-10", "A method touches nothing", "boxes/all/b-9a"),
    requirement("boxes/all/b-11", "A negative index counts from the end", level="should"),
    requirement("rules/all/l-1", "Rules are tried in order"),
    requirement("boxes/all/b-2a[logical]", "A logical box is a pytree node", "boxes/all/b-2a"),
)


def make_outcome(identifier, verdict, **fields):
    """An outcome that has the catalogue's level, title and needs."""
    entry = next((one for one in CATALOGUE if one.id == identifier), None)
    facts = (
        {"level": entry.level, "title": entry.title, "needs": entry.needs}
        if entry
        else {"level": "must", "title": f"The law {identifier}"}
    )
    return Outcome(id=identifier, verdict=verdict, **(facts | fields))


def make_report(verdicts, *, name="flax", version="0.12.8", complete=True, **fields):
    """A report from a mapping of ids to a verdict, or to an outcome's fields."""
    outcomes = tuple(
        make_outcome(key, **(value if isinstance(value, dict) else {"verdict": value}))
        for key, value in verdicts.items()
    )
    facts = {
        "suite": Product("scutch", "0.1.0"),
        "environment": Environment("0.10.2", "3.11.7", "cpu", 8),
        "profile": "ci",
        "seed": 0,
        "level": "must",
    }
    return Report(
        implementation=Product(name, version),
        requirements=outcomes,
        complete=complete,
        **(facts | fields),
    )


HARM = Counterexample(
    test="test_a_wrong_name_is_refused",
    input="\nbox = Partitioned(\n"
    "    names=('<script>document.title = \"taken\"</script>', '&amp;')\n)",
    error="\x1b[31mAssertionError\x1b[0m: '\u202ereversed\ud800' <img src=x onerror=alert(1)>",
)


@pytest.fixture(scope="session")
def report():
    return make_report


@pytest.fixture
def flax():
    """A run in which something is broken, with text that must not be obeyed."""
    return make_report(
        {
            "boxes/all/b-1": {"verdict": "passed", "tests": ("test_boxes.py::test_only_boxes",)},
            "boxes/all/b-2a": "passed",
            "boxes/all/b-9a": {
                "verdict": "failed",
                "tests": ("test_boxes.py::test_a_wrong_name_is_refused",),
                "examples": 37,
                "seconds": 1.25,
                "counterexample": HARM,
                "replay": "pytest -p scutch.plugin --implementation flax "
                "--requirement boxes/all/b-9a",
            },
            "boxes/all/b-10": {"verdict": "blocked", "blocked_by": ("boxes/all/b-9a",)},
            "boxes/all/b-11": {
                "verdict": "known",
                "reason": "Flax counts from the front <b>only</b>",
                "upstream": "https://example.org/issues/1?a=1&b=2",
            },
            "rules/all/l-1": {
                "verdict": "known",
                "reason": "late",
                "upstream": "javascript:alert(1)",
            },
            "boxes/all/b-2a[logical]": "unclaimed",
        }
    )


@pytest.fixture
def reference():
    """A run in which everything holds."""
    return make_report(
        {entry.id: "passed" for entry in CATALOGUE}, name="reference", version="0.1.0"
    )


@pytest.fixture
def entries():
    return CATALOGUE


@pytest.fixture
def catalogue(monkeypatch):
    """The catalogue above in the place of the real one."""
    monkeypatch.setattr(scutch.catalogue, "load", lambda: CATALOGUE)
    uncached = scutch.catalogue._renamed.__wrapped__  # or later trials would read this catalogue
    monkeypatch.setattr(scutch.catalogue, "_renamed", uncached)


@pytest.fixture
def saved(tmp_path):
    """Writes reports to files and returns their paths."""

    def save(name, saved_report):
        path = tmp_path / f"{name}.json"
        write(saved_report, path)
        return str(path)

    return save

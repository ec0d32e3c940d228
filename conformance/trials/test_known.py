"""Known failures: files that are written and read back, and entries that a fork inherits."""

import functools
import inspect
import json
import re
from pathlib import Path

import pytest
import scutch
from scutch import Implementation, cli, flax_shaped
from scutch.catalogue import by_id
from scutch.implementation import SetupError
from scutch.judging import hypothesis_parts, known, suite, ways
from scutch.judging.known import Known, applicable, parse, toml, with_errors
from scutch.judging.run import settle
from scutch.judging.trials import Trial
from scutch.judging.trying import try_law
from scutch.judging.verdicts import FIXED_UPSTREAM, Expectation, exit_code, rule
from scutch.loading import check, load
from scutch_reference import meta

COMMUTE = "metadata/box-values/axes-commute-with-replacing"
WAY = "TypeError: no at `f(x)`"
JUDGE = Path(scutch.__file__).parent
WITNESS = "test_axes_commute_with_replacing(box=Box(1, ()), index=0, name=None, value=2)"


def entry_about(
    implementation="flax",
    requirement=COMMUTE,
    versions="",
    reason="why",
    **rest,
):
    entry = Known(implementation, requirement, versions, reason, WITNESS, None, "known.toml:3")
    return Known(**{**vars(entry), **rest})


def test_a_file_is_read_back_as_it_was_written():
    odd = '\x1b[31m \x7f \ud800 \\ " 名 \n'
    entries = [
        entry_about(),
        entry_about(
            requirement="metadata/box-axes/removing-undoes-adding",
            reason=odd,
            upstream="https://example.org/1",
        ),
    ]
    found = parse(toml("flax", entries), "file")
    assert [entry.requirement for entry in found] == [
        COMMUTE,
        "metadata/box-axes/removing-undoes-adding",
    ]
    assert (found[0].witness, found[0].reason, found[0].upstream) == (WITNESS, "why", None)
    assert (found[1].reason, found[1].upstream) == (
        odd.replace("\ud800", "\\ud800"),
        "https://example.org/1",
    )


def test_a_file_of_0_1_is_read_with_the_ids_of_today():
    """An entry about a requirement that is gone is left out: it can neither fail nor be fixed."""
    old = [entry_about(requirement="BOX-22"), entry_about(requirement="OBJ-1l")]
    found = parse(toml("flax", old), "file")
    assert [entry.requirement for entry in found] == [COMMUTE]


def test_a_list_of_ways_has_one_at_least():
    """Into an empty one `scutch known --update` would write a file that cannot be read."""
    entry = {
        "requirement": "metadata/box-axes/removing-undoes-adding",
        "versions": ">=0.12",
        "reason": "why",
        "witness": WITNESS,
    }
    lines = [f'{name} = """{value}"""' for name, value in entry.items()]
    text = "\n".join(['implementation = "flax"', "[[known]]", *lines, "errors = [", "]"])
    with pytest.raises(SetupError, match="errors is empty; expected a string at least"):
        parse(text, "mine.toml")


def test_a_fork_inherits_and_its_own_entries_come_first():
    ours, theirs = entry_about("mine", reason="ours"), entry_about(reason="theirs")
    other = entry_about(
        requirement="metadata/box-axes/removing-undoes-adding",
        witness=WITNESS.replace("commute", "differ"),
    )
    releases = ("mine", "3.1"), ("flax", "0.12.8")
    assert applicable([theirs, other, ours], *releases) == (ours, other)
    assert applicable([entry_about(versions="<0.12")], *releases) == ()
    assert applicable([theirs, other], ("mine", "3.1")) == ()
    with pytest.raises(SetupError, match="is known already"):
        applicable([theirs, entry_about(reason="again")], *releases)


@functools.cache
def statements_of_the_judge():
    files = map(str, JUDGE.rglob("*.py"))
    return {statement for file in files for statement in ways.statements(file).values()}


@pytest.mark.parametrize("entry", known.shipped(), ids=lambda entry: entry.place)
def test_an_entry_has_ways_in_which_its_law_breaks_now(entry):
    """A statement that was edited is in no entry any more: `scutch known --update` renews it."""
    (law,) = (law for law in suite.laws() if law.name == entry.test)
    assert law.requirement == entry.requirement
    assert law.takes(entry.witness)
    own = set(
        ways.statements(inspect.getsourcefile(hypothesis_parts.written(law.function))).values()
    )
    assert entry.errors
    for error in entry.errors:
        places = error.partition(" at `")[2].removesuffix("`").split("` > `")
        assert places[0] in own
        assert statements_of_the_judge().issuperset(places)


def test_an_adapter_says_what_it_descends_from():
    fork = Implementation("mine", "0.12.8", meta=meta, known="flax")
    assert fork.upstream == ("flax", "0.12.8")
    assert Implementation("mine", "3", meta=meta, known="flax==0.12.8").upstream[1] == "0.12.8"
    assert Implementation("mine", "3", meta=meta).upstream is None
    claims = ("meta",)
    assert flax_shaped("mine", version="1", package="flax", claims=claims, known="flax").known
    with pytest.raises(SetupError, match="known is 3; expected a string"):
        check(Implementation("mine", "3", meta=meta, known=3), "mine.py")


def test_what_a_fork_has_fixed_does_not_fail_its_run():
    trial = Trial("test_x", COMMUTE, "passed", 3, expected=WITNESS)
    for inherited, verdict, code in ((True, "passed", 0), (False, "fixed", 1)):
        expected = Expectation(COMMUTE, WITNESS, "why", inherited=inherited)
        (ruling,) = rule(
            [by_id()[COMMUTE]],
            [trial],
            claims=("meta",),
            expectations=[expected],
        )
        assert (ruling.verdict, exit_code([ruling], level="must")) == (verdict, code)
        assert (ruling.reason == FIXED_UPSTREAM) is inherited


def test_the_failures_of_a_run_become_a_file(tmp_path, capsys, flax_report):
    file = tmp_path / "flax.toml"
    assert cli.main(["known", str(file), "--from", flax_report]) == 0
    assert "known failures of flax" in capsys.readouterr().out
    (entry,) = parse(file.read_text(), "flax.toml")
    assert (entry.requirement, entry.witness, entry.reason) == (
        COMMUTE,
        WITNESS,
        "TypeError: no",
    )
    assert cli.main(["known", str(file), "--from", flax_report]) == 2
    assert "is there already" in capsys.readouterr().err


def test_an_entry_gets_the_ways_in_which_a_run_broke_its_law(tmp_path, capsys, flax_report):
    file = tmp_path / "flax.toml"
    text = toml(
        "flax",
        [
            entry_about(),
            entry_about(versions="<0.12"),
            entry_about(requirement="metadata/box-axes/removing-undoes-adding"),
        ],
    )
    file.write_text(f"# Seen by us.\n\n{text}# The end.\n")
    for said in (f"{file}:5: {COMMUTE} also breaks by TypeError: no at `f(x)`\n", ""):
        assert cli.main(["known", str(file), "--from", flax_report, "--update"]) == 0
        assert capsys.readouterr().out == said
    updated = file.read_text()
    assert updated.startswith("# Seen by us.\n\nimplementation")
    assert updated.endswith("# The end.\n")
    assert [each.errors for each in parse(updated, "flax.toml")] == [(WAY,), (), ()]


def test_ways_are_added_to_those_that_an_entry_has():
    text = toml(
        "flax",
        [
            entry_about(errors=("TypeError at `a`",)),
            entry_about(requirement="metadata/box-axes/removing-undoes-adding"),
        ],
    )
    broken = {
        (COMMUTE, "test_axes_commute_with_replacing"): [
            "TypeError at `a`",
            WAY,
        ]
    }
    updated = with_errors(text, "file", ("flax", "0.12.8"), broken)
    assert [each.errors for each in parse(updated, "file")] == [("TypeError at `a`", WAY), ()]
    assert with_errors(updated, "file", ("flax", "0.12.8"), broken) == updated


TABLES = (
    f"""\
# Seen by us.
implementation = "flax"  # not ours
cause.wrong.at = "flax/core/meta.py:Partitioned"  # dotted
cause.wrong.fault = "It raises."
cause.wrong.effect = "None."
cause.wrong.harm = "lost"
cause.wrong.stance = "bug"

# The first.
[[known]]
witness  = '{WITNESS}'
requirement = "{COMMUTE}"
versions = ""  # all of them
cause = "wrong"
«errors = [
    "{WAY}",
]
»
# About the next.
[[known]]
requirement = "{COMMUTE}"
errors = [
  "TypeError at `a`",  # seen twice
  # and no more
«  "{WAY}"
»]
versions = ""
reason = """
    + f"""\'\'\'
[[known]]
\'\'\'
witness = "{WITNESS}"

[[known]]  # which is not asked for any more
requirement = "OBJ-1l"
# The end.
"""
)
INLINE = f"""\
known = [
  # The first.
  {{ requirement = "{COMMUTE}", versions = "", reason = "why", witness = "{WITNESS}"«, errors = [
     "{WAY}",
 ]» }},  # ours
]
implementation = "flax"
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("text", [TABLES, INLINE], ids=["tables", "inline"])
def test_a_file_keeps_its_comments_its_order_and_its_line_ends(text, end, tmp_path, flax_report):
    """The text in guillemets is added."""
    text, file = text.replace("\n", end), tmp_path / "flax.toml"
    file.write_bytes(re.sub("«.*?»", "", text, flags=re.DOTALL).encode())
    assert cli.main(["known", str(file), "--from", flax_report, "--update"]) == 0
    assert file.read_bytes().decode() == re.sub("[«»]", "", text)


@pytest.fixture
def flax_report(tmp_path):
    """A report of one failure with an input, and one without."""

    def outcome(identifier, given):
        return {
            "id": identifier,
            "level": "must",
            "title": "t",
            "verdict": "failed",
            "needs": [],
            "blocked_by": [],
            "tests": ["test_x"],
            "examples": 0,
            "seconds": 0.1,
            "reason": "r",
            "upstream": None,
            "replay": None,
            "counterexample": {
                "test": "test_x",
                "input": given,
                "error": "TypeError: no",
                "way": WAY,
            },
        }

    path = tmp_path / "report.json"
    document = {
        "schema": "scutch-report/1",
        "suite": {"name": "scutch", "version": "0.1.0"},
        "implementation": {"name": "flax", "version": "0.12.8"},
        "environment": {"jax": "1", "python": "3", "platform": "cpu", "devices": 8},
        "profile": "quick",
        "seed": 0,
        "level": "must",
        "requirements": [
            outcome("metadata/box-axes/removing-undoes-adding", ""),
            outcome(COMMUTE, WITNESS),
        ],
        "complete": True,
    }
    path.write_text(json.dumps(document))
    return str(path)


def test_a_fork_of_flax_that_accepts_every_structure_is_not_excused(tmp_path):
    """Flax takes updates that go deeper, which breaks no law; taking all others does."""
    pytest.importorskip("flax")
    (tmp_path / "fork.py").write_text(
        "import types, flax\n"
        "from flax.core import meta\n"
        "from scutch import Implementation, Namespace\n"
        "own = types.SimpleNamespace(replace_boxed=lambda tree, updates: updates)\n"
        "boxes = Namespace('fork: meta', own, meta)\n"
        "implementation = Implementation('fork', flax.__version__, meta=boxes, known='flax')\n"
    )
    name = "test_updates_of_another_structure_are_refused"
    run = settle(str(tmp_path / "fork.py"), isolate=False, profile="quick")
    law = suite.named(name)
    expected = run.known_of(law)
    trial = try_law(law, load(run.where), examples=15, known=expected)
    assert run.known
    assert trial.outcome == "failed"

"""From trials to verdicts, counts and exit codes."""

import itertools

import pytest
from scutch.catalogue import Requirement, by_id, load, select
from scutch.catalogue.index import laws_of
from scutch.implementation import SetupError
from scutch.judging.verdicts import (
    VERDICTS,
    Counterexample,
    Expectation,
    Trial,
    exit_code,
    rule,
    summarize,
)

META = ("meta",)


def row(identifier, needs=(), level="must", capability="meta"):
    return Requirement(identifier, level, "title", "text", "000_", "", capability, needs, "0.1")


def trial(identifier, outcome="passed", examples=3, **rest):
    return Trial("test_law", identifier, outcome, examples, **rest)


def verdict(trials, requirement=None, **options):
    requirement = requirement or row("BOX-5")
    (ruling,) = rule([requirement], trials, claims=META, **options)
    return ruling


def test_a_law_that_holds_passes():
    assert verdict([trial("BOX-5")]).verdict == "passed"


@pytest.mark.parametrize("outcome", ["failed", "crashed", "timeout"])
def test_a_law_that_does_not_hold_decides(outcome):
    ruling = verdict([trial("BOX-5"), trial("BOX-5", outcome, reason="why")])
    assert (ruling.verdict, ruling.reason) == (outcome, "why")


def test_a_law_without_an_input_in_its_domain_tests_nothing():
    assert verdict([trial("BOX-5", examples=0)]).verdict == "untested"


def test_an_input_that_never_came_up_leaves_it_untested():
    ruling = verdict([trial("BOX-5", unmet=("nested",))])
    assert (ruling.verdict, ruling.reason) == ("untested", "never came up: nested")


def test_what_has_a_law_and_was_not_tried_is_untested():
    assert verdict([]).verdict == "untested"


def test_what_has_no_law_yet_is_unclaimed():
    ruling = verdict([], row("BOX-99"))
    assert (ruling.verdict, ruling.reason) == ("unclaimed", "the suite has no law for it yet")


def test_what_is_not_claimed_is_unclaimed():
    assert verdict([], row("LOG-1", capability="logical")).verdict == "unclaimed"


def test_what_the_environment_lacks_is_unclaimed():
    ruling = verdict([trial("BOX-5", "skipped", examples=0, reason="no such axes")])
    assert (ruling.verdict, ruling.reason) == ("unclaimed", "no such axes")


KNOWN = Expectation("BOX-5", "test_law()", "it pops in an assert", "https://example.org/1")


def test_a_failure_that_is_expected_is_known():
    broken = trial("BOX-5", "failed", expected="test_law()", broke=True)
    ruling = verdict([broken], expectations=[KNOWN])
    assert (ruling.verdict, ruling.reason) == ("known", KNOWN.reason)
    assert ruling.upstream == KNOWN.upstream


def test_another_law_of_a_known_requirement_still_counts():
    trials = [trial("BOX-5", "failed", expected="test_law()", broke=True), trial("BOX-5", "failed")]
    assert verdict(trials, expectations=[KNOWN]).verdict == "failed"


def test_an_expected_failure_that_passes_is_fixed():
    ruling = verdict([trial("BOX-5", expected="test_law()")], expectations=[KNOWN])
    assert ruling.verdict == "fixed"
    assert exit_code([ruling], level="must") == 1


def test_consequences_are_blocked_and_name_the_root():
    rows = [row("BOX-1"), row("BOX-2a", ("BOX-1",)), row("BOX-2b", ("BOX-2a",))]
    trials = [broken(r.id) for r in rows]
    rulings = rule(rows, trials, claims=META, retry=lambda broken, needed: trial("BOX-1"))
    assert [r.verdict for r in rulings] == ["failed", "blocked", "blocked"]
    assert rulings[2].blocked_by == ("BOX-1",)
    assert [r.requirement.id for r in summarize(rulings).roots] == ["BOX-1"]
    assert all(r.counterexample.input == "t(x=1)" for r in rulings)


def broken(identifier, text="t(x=1)"):
    return trial(identifier, "failed", counterexample=Counterexample("t", text, "E: why"))


def again(broken_on):
    """A retry that breaks the law on another input, or not at all for `None`."""
    return lambda *_: broken("BOX-2a", broken_on) if broken_on else trial("BOX-2a")


@pytest.mark.parametrize(
    ("levels", "retry", "expected"),
    [
        (("must", "must"), again(None), ["failed", "blocked"]),
        (("must", "must"), again("t(x=2)"), ["failed", "failed"]),
        (("must", "must"), lambda *_: None, ["failed", "failed"]),
        (("should", "must"), again(None), ["failed", "failed"]),
        (("should", "should"), again(None), ["failed", "blocked"]),
        (("must", "should"), again(None), ["failed", "blocked"]),
    ],
)
def test_a_consequence_was_tried_where_what_it_needs_holds(levels, retry, expected):
    rows = [row("BOX-1", level=levels[0]), row("BOX-2a", ("BOX-1",), level=levels[1])]
    rulings = rule(rows, [broken(r.id) for r in rows], claims=META, retry=retry)
    assert [r.verdict for r in rulings] == expected


def test_a_failure_of_its_own_shows_the_input_on_which_what_it_needs_holds():
    rows = [row("BOX-1"), row("BOX-2a", ("BOX-1",))]
    rulings = rule(rows, [broken(r.id) for r in rows], claims=META, retry=again("t(x=2)"))
    assert rulings[1].counterexample.input == "t(x=2)"
    assert [found.input for found in rulings[1].also] == ["t(x=1)"]


@pytest.mark.parametrize(("outcome", "expected"), [("failed", "known"), ("passed", "fixed")])
def test_what_an_owner_tolerates_is_known(outcome, expected):
    assert verdict([trial("BOX-5", outcome)], tolerated={"BOX-5": "why"}).verdict == expected


def test_a_known_failure_hides_no_other():
    """What follows from a known failure has to be known itself."""
    rows = [row("BOX-5"), row("BOX-13c", ("BOX-5",))]
    trials = [
        trial("BOX-5", "failed", expected="test_law()", broke=True),
        trial("BOX-13c", "failed"),
    ]
    rulings = rule(rows, trials, claims=META, expectations=[KNOWN])
    assert [r.verdict for r in rulings] == ["known", "failed"]


@pytest.mark.parametrize("level", ["must", "should"])
@pytest.mark.parametrize("strict", ["must", "should"])
def test_the_level_decides_the_exit_code(level, strict):
    ruling = verdict([trial("BOX-5", "failed")], row("BOX-5", level=level))
    assert exit_code([ruling], level=strict) == int(level == "must" or strict == "should")


def test_a_run_that_tested_nothing_has_a_code_of_its_own():
    assert exit_code([verdict([], row("LOG-1", capability="logical"))], level="must") == 2
    assert exit_code([], level="must") == 2


def test_trials_survive_the_way_between_processes():
    before = trial(
        "BOX-5",
        "failed",
        unmet=("a", "b"),
        counterexample=Counterexample("t", "t(x=1)", "E: \n\x1b"),
    )
    assert Trial.from_data(before.to_data()) == before


# ---------------------------------------------------------------- the catalogue


def test_identifiers_are_unique_and_needs_exist_without_cycles():
    rows = load()
    assert len(by_id()) == len(rows)
    order = {}

    def depth(identifier, path=()):
        assert identifier not in path, f"a cycle: {path}"
        if identifier not in order:
            needs = by_id()[identifier].needs
            order[identifier] = 1 + max((depth(n, (*path, identifier)) for n in needs), default=0)
        return order[identifier]

    assert all(depth(r.id) for r in rows)


CONTRACT = {
    "BOX": 24, "LOG": 9, "LIN": 8, "OBJ": 6, "JIT": 9, "SHM": 5, "BRG": 8, "EXP": 6, "DST": 1,
}  # fmt: skip


def test_no_row_of_the_contract_has_vanished():
    rows = {r.row for r in load()}
    wanted = {f"{area}-{n}" for area, size in CONTRACT.items() for n in range(1, size + 1)}
    assert wanted <= rows


def test_every_row_says_what_it_must():
    for r in load():
        assert 0 < len(r.title) <= 90, r.id
        assert r.text.endswith((".", ")")), r.id
        assert r.source, r.id


def test_every_requirement_of_boxes_and_logical_axes_has_a_law():
    lawless = [r.id for r in load() if r.area in ("BOX", "LOG") and not laws_of(r.id)]
    assert lawless in ([], ["LOG-7c"])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("BOX-5", ["BOX-5"]),
        ("BOX-4", ["BOX-4a", "BOX-4b"]),
        ("LOG-9.BOX-4?", ["LOG-9.BOX-4a", "LOG-9.BOX-4b"]),
        (("BOX-5", "BOX-4a"), ["BOX-4a", "BOX-5"]),
    ],
)
def test_patterns_select(pattern, expected):
    assert [r.id for r in select(pattern)] == expected


def test_a_pattern_that_names_nothing_is_refused():
    with pytest.raises(SetupError, match="no requirement matches 'BOX-99'"):
        select(["BOX-5", "BOX-99"])


def test_the_verdicts_are_those_of_the_schema():
    from scutch.report import schema

    found = list(itertools.chain.from_iterable(_enums(schema())))
    assert set(VERDICTS) <= set(found)


def _enums(node):
    if isinstance(node, dict):
        if "enum" in node:
            yield node["enum"]
        for value in node.values():
            yield from _enums(value)
    elif isinstance(node, list):
        for value in node:
            yield from _enums(value)

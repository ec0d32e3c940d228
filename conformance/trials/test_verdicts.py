"""From trials to verdicts, counts and exit codes."""

import itertools
import re
from dataclasses import replace

import pytest
from scutch.catalogue import Requirement, by_id, load, select
from scutch.catalogue.index import laws_of
from scutch.implementation import SetupError
from scutch.judging.faults import of_one_fault
from scutch.judging.trials import Counterexample, Trial
from scutch.judging.verdicts import VERDICTS, Expectation, Ruling, exit_code, rule, summarize

META = ("meta",)


def row(identifier, needs=(), level="must", capability="meta"):
    return Requirement(identifier, level, "title", "text", "000_", "", capability, needs, "0.1")


def trial(identifier, outcome="passed", examples=3, **rest):
    return Trial("test_law", identifier, outcome, examples, **rest)


def verdict(trials, requirement=None, **options):
    requirement = requirement or row("metadata/box-axes/removing-undoes-adding")
    (ruling,) = rule([requirement], trials, claims=META, **options)
    return ruling


def test_a_requirement_is_judged_by_its_laws_that_lack_no_option():
    lacking = trial(
        "metadata/box-axes/removing-undoes-adding",
        "skipped",
        0,
        reason="does not claim transforms.vmap.axis_name",
        unmet=("name",),
    )
    ruling = verdict([trial("metadata/box-axes/removing-undoes-adding"), lacking])
    assert (ruling.verdict, ruling.reason) == ("passed", lacking.reason)
    assert verdict([lacking]).verdict == "unclaimed"


def test_a_law_that_holds_passes():
    assert verdict([trial("metadata/box-axes/removing-undoes-adding")]).verdict == "passed"


@pytest.mark.parametrize("outcome", ["failed", "crashed", "timeout"])
def test_a_law_that_does_not_hold_decides(outcome):
    ruling = verdict(
        [
            trial("metadata/box-axes/removing-undoes-adding"),
            trial("metadata/box-axes/removing-undoes-adding", outcome, reason="why"),
        ]
    )
    assert (ruling.verdict, ruling.reason) == (outcome, "why")


def test_a_law_without_an_input_in_its_domain_tests_nothing():
    assert (
        verdict([trial("metadata/box-axes/removing-undoes-adding", examples=0)]).verdict
        == "untested"
    )


def test_an_input_that_never_came_up_leaves_it_untested():
    ruling = verdict([trial("metadata/box-axes/removing-undoes-adding", unmet=("nested",))])
    assert (ruling.verdict, ruling.reason) == ("untested", "never came up: nested")


def test_what_has_a_law_and_was_not_tried_is_untested():
    assert verdict([]).verdict == "untested"


def test_what_has_no_law_yet_is_unclaimed():
    ruling = verdict([], row("BOX-99"))
    assert (ruling.verdict, ruling.reason) == ("unclaimed", "the suite has no law for it yet")


def test_what_is_not_claimed_is_unclaimed():
    assert (
        verdict(
            [], row("metadata/logical-rules/first-free-rule-wins", capability="logical")
        ).verdict
        == "unclaimed"
    )


def test_what_the_environment_lacks_is_unclaimed():
    ruling = verdict(
        [
            trial(
                "metadata/box-axes/removing-undoes-adding",
                "skipped",
                examples=0,
                reason="no such axes",
            )
        ]
    )
    assert (ruling.verdict, ruling.reason) == ("unclaimed", "no such axes")


KNOWN = Expectation(
    "metadata/box-axes/removing-undoes-adding",
    "test_law()",
    "it pops in an assert",
    "https://example.org/1",
)


def test_a_failure_that_is_expected_is_known():
    broken = trial(
        "metadata/box-axes/removing-undoes-adding", "failed", expected="test_law()", broke=True
    )
    ruling = verdict([broken], expectations=[KNOWN])
    assert (ruling.verdict, ruling.reason) == ("known", KNOWN.reason)
    assert ruling.upstream == KNOWN.upstream


def test_another_law_of_a_known_requirement_still_counts():
    trials = [
        trial(
            "metadata/box-axes/removing-undoes-adding", "failed", expected="test_law()", broke=True
        ),
        trial("metadata/box-axes/removing-undoes-adding", "failed"),
    ]
    assert verdict(trials, expectations=[KNOWN]).verdict == "failed"


def test_an_expected_failure_that_passes_is_fixed():
    ruling = verdict(
        [trial("metadata/box-axes/removing-undoes-adding", expected="test_law()")],
        expectations=[KNOWN],
    )
    assert ruling.verdict == "fixed"
    assert exit_code([ruling], level="must") == 1


def test_an_expected_failure_stays_known_where_its_witness_needs_more_devices():
    few = "needs 8 devices, and there are 1"
    for outcome, examples, expected in [
        ("passed", 3, "known"),
        ("passed", 0, "known"),
        ("failed", 3, "failed"),
    ]:
        ruling = verdict(
            [
                trial(
                    KNOWN.requirement,
                    outcome,
                    examples,
                    expected=KNOWN.witness,
                    beyond=few,
                    witness_untried=few,
                )
            ],
            expectations=[KNOWN],
        )
        assert ruling.verdict == expected
    assert (
        verdict(
            [trial(KNOWN.requirement, expected=KNOWN.witness, witness_untried=few)],
            expectations=[KNOWN],
        ).reason
        == f"{KNOWN.reason}; not tried: {few}"
    )


def raising(identifier, *places, level="must", verdict="failed", way="TypeError at `x`", **rest):
    """A ruling whose law was broken at these places of an implementation."""
    first, *also = [Counterexample("test_law", "x", "TypeError", way, place) for place in places]
    trials = (Trial("test_law", identifier, "failed", counterexample=first, also=tuple(also)),)
    return Ruling(row(identifier, level=level), verdict, trials, **rest)


def test_failures_with_one_error_at_one_place_have_one_root():
    found = of_one_fault(
        [
            raising("a", "f.py:1", level="should"),
            raising("b", "f.py:1"),
            raising("c", "f.py:1", "f.py:1", way="TypeError at `another statement of a law`"),
            raising("d", "f.py:2"),
            raising("e", "f.py:9", verdict="blocked", blocked_by=("c", "b")),
        ]
    )
    assert [r.verdict for r in found] == ["blocked", "failed", "blocked", "failed", "blocked"]
    assert [r.blocked_by for r in found] == [("b",), (), ("b",), (), ("b",)]
    assert [r.id for r in summarize(found).roots] == ["b", "d"]
    assert found[0].reason == "fails as b does: the same error at f.py:1"


@pytest.mark.parametrize(
    "other",
    [
        raising("b", ""),
        raising("b", "f.py:2"),
        raising("b", "f.py:1", "f.py:2"),
        raising("b", "f.py:1", ""),
        raising("b", "f.py:1", way="TypeError: of another kind at `x`"),
        raising("b", "f.py:1", verdict="known"),
        raising("b", "f.py:1", verdict="crashed"),
    ],
)
def test_a_failure_of_its_own_stays_a_root(other):
    found = of_one_fault([raising("a", "f.py:1"), other])
    assert found[1] is other


def test_a_way_that_differs_in_the_line_of_a_law_alone_is_shown_once():
    ways = [Counterexample("test_law", "test_law(x=1)", "AssertionError", way) for way in "abc"]
    ways[2] = replace(ways[2], input="test_law(x=2)")
    identifier = "metadata/box-axes/removing-undoes-adding"
    (ruling,) = rule(
        [row(identifier)],
        [trial(identifier, "failed", counterexample=ways[0], also=tuple(ways[1:]))],
        claims=META,
    )
    assert (ruling.counterexample, ruling.also) == (ways[0], (ways[2],))


def test_consequences_are_blocked_and_name_the_root():
    rows = [
        row("metadata/box-values/only-boxes-are-metadata"),
        row(
            "metadata/box-nodes/leaves-are-the-value",
            ("metadata/box-values/only-boxes-are-metadata",),
        ),
        row(
            "metadata/box-nodes/unflattening-restores-the-box",
            ("metadata/box-nodes/leaves-are-the-value",),
        ),
    ]
    trials = [broken(r.id) for r in rows]
    rulings = rule(
        rows,
        trials,
        claims=META,
        retry=lambda broken, needed: trial("metadata/box-values/only-boxes-are-metadata"),
    )
    assert [r.verdict for r in rulings] == ["failed", "blocked", "blocked"]
    assert rulings[2].blocked_by == ("metadata/box-values/only-boxes-are-metadata",)
    assert [r.requirement.id for r in summarize(rulings).roots] == [
        "metadata/box-values/only-boxes-are-metadata"
    ]
    assert all(r.counterexample.input == "t(x=1)" for r in rulings)


def broken(identifier, text="t(x=1)"):
    return trial(identifier, "failed", counterexample=Counterexample("t", text, "E: why"))


def again(broken_on):
    """A retry that breaks the law on another input, or not at all for `None`."""
    return lambda *_: (
        broken("metadata/box-nodes/leaves-are-the-value", broken_on)
        if broken_on
        else trial("metadata/box-nodes/leaves-are-the-value")
    )


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
    rows = [
        row("metadata/box-values/only-boxes-are-metadata", level=levels[0]),
        row(
            "metadata/box-nodes/leaves-are-the-value",
            ("metadata/box-values/only-boxes-are-metadata",),
            level=levels[1],
        ),
    ]
    rulings = rule(rows, [broken(r.id) for r in rows], claims=META, retry=retry)
    assert [r.verdict for r in rulings] == expected


def test_a_failure_of_its_own_shows_the_input_on_which_what_it_needs_holds():
    rows = [
        row("metadata/box-values/only-boxes-are-metadata"),
        row(
            "metadata/box-nodes/leaves-are-the-value",
            ("metadata/box-values/only-boxes-are-metadata",),
        ),
    ]
    rulings = rule(rows, [broken(r.id) for r in rows], claims=META, retry=again("t(x=2)"))
    assert rulings[1].counterexample.input == "t(x=2)"
    assert [found.input for found in rulings[1].also] == ["t(x=1)"]


@pytest.mark.parametrize(("outcome", "expected"), [("failed", "known"), ("passed", "fixed")])
def test_what_an_owner_tolerates_is_known(outcome, expected):
    assert (
        verdict(
            [trial("metadata/box-axes/removing-undoes-adding", outcome)],
            tolerated={"metadata/box-axes/removing-undoes-adding": "why"},
        ).verdict
        == expected
    )


def test_a_known_failure_hides_no_other():
    """A failure that follows from a known failure has to be known itself."""
    rows = [
        row("metadata/box-axes/removing-undoes-adding"),
        row(
            "metadata/box-trees/reverse-removal-restores-tree",
            ("metadata/box-axes/removing-undoes-adding",),
        ),
    ]
    trials = [
        trial(
            "metadata/box-axes/removing-undoes-adding", "failed", expected="test_law()", broke=True
        ),
        trial("metadata/box-trees/reverse-removal-restores-tree", "failed"),
    ]
    rulings = rule(rows, trials, claims=META, expectations=[KNOWN])
    assert [r.verdict for r in rulings] == ["known", "failed"]


@pytest.mark.parametrize("level", ["must", "should"])
@pytest.mark.parametrize("strict", ["must", "should"])
def test_the_level_decides_the_exit_code(level, strict):
    ruling = verdict(
        [trial("metadata/box-axes/removing-undoes-adding", "failed")],
        row("metadata/box-axes/removing-undoes-adding", level=level),
    )
    assert exit_code([ruling], level=strict) == int(level == "must" or strict == "should")


def test_a_run_that_tested_nothing_has_a_code_of_its_own():
    assert (
        exit_code(
            [verdict([], row("metadata/logical-rules/first-free-rule-wins", capability="logical"))],
            level="must",
        )
        == 2
    )
    assert exit_code([], level="must") == 2


@pytest.mark.parametrize(("others", "code"), [((), 2), (("passed",), 2), (("failed",), 1)])
def test_a_fault_of_the_judge_is_no_verdict_on_the_implementation(others, code):
    identifiers = ("metadata/box-axes/removing-undoes-adding", "metadata/box-axes/none-is-a-name")
    trials = map(trial, identifiers, ("untried", *others))
    rulings = [verdict([t], row(t.requirement)) for t in trials]
    assert rulings[0].verdict == "untested"
    assert exit_code([*rulings, verdict([trial(identifiers[0])])], level="must") == code


def test_trials_survive_the_way_between_processes():
    before = trial(
        "metadata/box-axes/removing-undoes-adding",
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
    "BOX": 24,
    "LOG": 9,
    "LIN": 8,
    "OBJ": 6,
    "JIT": 9,
    "SHM": 5,
    "BRG": 8,
    "EXP": 6,
    "DST": 1,
}


def test_no_row_of_the_contract_has_vanished():
    rows = {
        old.partition(".")[0].rstrip("abcdefghijklmnopqrstuvwxyz") for r in load() for old in r.was
    }
    wanted = {f"{area}-{n}" for area, size in CONTRACT.items() for n in range(1, size + 1)}
    assert wanted <= rows


def test_every_row_says_what_it_must():
    for r in load():
        assert 0 < len(r.title) <= 110, r.id
        assert r.text.endswith((".", ")", "`")), r.id


def test_every_requirement_of_boxes_and_logical_axes_has_a_law():
    assert [r.id for r in select("metadata") if not laws_of(r.id)] == []


UNDOES = "metadata/box-axes/removing-undoes-adding"
REPLACING = "metadata/box-values/replacing-keeps-metadata"
UNCHANGED = "metadata/box-values/inputs-stay-unchanged"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("BOX-5", [UNDOES]),
        (UNDOES, [UNDOES]),
        ("BOX-4", [REPLACING, UNCHANGED]),
        ("LOG-9.BOX-4?", [f"{REPLACING}[logical]", f"{UNCHANGED}[logical]"]),
        (f"{REPLACING}[*", [f"{REPLACING}[logical]"]),
        (("BOX-5", "BOX-4a"), [UNDOES, REPLACING]),
    ],
)
def test_patterns_select(pattern, expected):
    assert [r.id for r in select(pattern)] == expected


@pytest.mark.parametrize(
    ("pattern", "takes"),
    [
        ("objects", lambda r: r.part == "objects"),
        ("objects/graphs", lambda r: r.group == "objects/graphs"),
        ("JIT", lambda r: any(old.startswith("JIT-") for old in r.was)),
        ("JIT-1", lambda r: any(re.fullmatch("JIT-1[a-z]*", old) for old in r.was)),
        ("*", lambda r: True),
    ],
)
def test_a_part_a_group_and_an_old_area_select(pattern, takes):
    chosen = select(pattern)
    assert chosen
    assert chosen == tuple(r for r in load() if takes(r))


def test_a_retired_requirement_is_refused_with_the_reason():
    with pytest.raises(SetupError, match="it is retired: A state taken by"):
        select("OBJ-1l")


def test_a_pattern_that_names_nothing_is_refused():
    with pytest.raises(SetupError, match="no requirement matches 'BOX-99'"):
        select(["metadata/box-axes/removing-undoes-adding", "BOX-99"])


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

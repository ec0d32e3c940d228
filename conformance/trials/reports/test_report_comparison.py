"""The changes between two reports, and the changes that a gate must refuse."""

import pytest
from scutch.report import VERDICTS, Counterexample, Product, compare

GROUPS = ("regressions", "consequences", "improvements", "added", "gone", "witnesses", "other")
LATER = Product("scutch", "0.2.0")
HELD, EXCUSED, BROKEN = {"passed", "fixed"}, {"known"}, {"failed", "crashed", "timeout"}


def groups(comparison):
    found = {name: [one.latest.id for one in getattr(comparison, name)] for name in GROUPS}
    return {name: ids for name, ids in found.items() if ids}


@pytest.mark.parametrize("before", VERDICTS)
@pytest.mark.parametrize("after", VERDICTS)
def test_a_regression_is_what_was_vouched_for_and_is_not_any_more(before, after, report):
    compared = compare(report({"boxes/all/b-1": before}), report({"boxes/all/b-1": after}))
    lost = before in HELD and after not in HELD
    worse = lost or (before in EXCUSED and after in BROKEN)
    assert compared.regressed() == worse
    if before == after:
        assert groups(compared) == {}
    elif worse:
        assert groups(compared) == {"regressions": ["boxes/all/b-1"]}
    else:
        better = after in HELD and before not in HELD
        assert groups(compared) == {"improvements" if better else "other": ["boxes/all/b-1"]}


def test_a_new_known_failure_can_be_allowed(report):
    old, new = report({"boxes/all/b-1": "passed"}), report({"boxes/all/b-1": "known"})
    assert compare(old, new).regressed()
    assert groups(compare(old, new, allow_known=True)) == {"other": ["boxes/all/b-1"]}


def test_what_waits_for_a_regression_is_its_consequence(report):
    old = report(dict.fromkeys(["boxes/all/b-1", "boxes/all/b-2", "boxes/all/b-3"], "passed"))
    new = report(
        {
            "boxes/all/b-1": "failed",
            "boxes/all/b-2": {"verdict": "blocked", "blocked_by": ("boxes/all/b-1",)},
            "boxes/all/b-3": {"verdict": "blocked", "blocked_by": ("boxes/all/b-2",)},
        }
    )
    assert groups(compare(old, new)) == {
        "regressions": ["boxes/all/b-1"],
        "consequences": ["boxes/all/b-2", "boxes/all/b-3"],
    }
    assert "1 regression" in compare(old, new).text().splitlines()[-1]


def test_what_waits_for_nothing_new_is_a_regression_itself(report):
    old = report({"boxes/all/b-1": "failed", "boxes/all/b-2": "passed"})
    new = report(
        {
            "boxes/all/b-1": "failed",
            "boxes/all/b-2": {"verdict": "blocked", "blocked_by": ("boxes/all/b-1",)},
        }
    )
    assert groups(compare(old, new)) == {"regressions": ["boxes/all/b-2"]}


def test_laws_that_wait_for_each_other_do_not_hide(report):
    old = report({"boxes/all/b-1": "passed", "boxes/all/b-2": "passed"})
    new = report(
        {
            "boxes/all/b-1": {"verdict": "blocked", "blocked_by": ("boxes/all/b-2",)},
            "boxes/all/b-2": {"verdict": "blocked", "blocked_by": ("boxes/all/b-1",)},
        }
    )
    assert compare(old, new).regressed()


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_new_requirement_is_no_regression(verdict, report):
    compared = compare(report({}), report({"boxes/all/b-1": verdict}))
    assert groups(compared) == {"added": ["boxes/all/b-1"]}
    assert not compared.regressed()


def test_only_what_both_runs_were_asked_for_is_compared(report):
    old = report({"boxes/all/b-1": "passed", "boxes/all/b-2": "failed", "boxes/all/b-3": "passed"})
    for new in (
        report({"boxes/all/b-3": "failed"}),
        report({"boxes/all/b-3": "failed"}, suite=LATER),
    ):
        compared = compare(old, new)
        assert groups(compared) == {
            "regressions": ["boxes/all/b-3"],
            "gone": ["boxes/all/b-1", "boxes/all/b-2"],
        }
        assert "Only in the old report (2):" in compared.text()


def test_many_requirements_that_one_report_lacks_are_counted(report):
    passed = {f"boxes/all/b-{number}": "passed" for number in range(1, 8)}
    compared = compare(
        report({"boxes/all/b-8": "passed"}), report(passed | {"objects/a/b": "failed"})
    )
    assert compared.text().splitlines()[3:-2] == [
        "Only in the new report (8):",
        "  objects/a/b  must  absent -> failed  The law objects/a/b",
        "  boxes/all: 7 requirements absent -> passed",
        "",
        "Only in the old report (1):",
        "  boxes/all/b-8  must  passed -> absent  The law boxes/all/b-8",
    ]


def test_what_is_broken_in_another_way_is_listed_and_is_no_regression(report):
    def broken(error):
        found = {"test": "test_x", "input": "test_x(a=1)", "error": error}
        return report(
            {"boxes/all/b-1": {"verdict": "failed", "counterexample": Counterexample(**found)}}
        )

    compared = compare(broken("AssertionError"), broken("TypeError: no"))
    assert groups(compared) == {"witnesses": ["boxes/all/b-1"]}
    assert "Broken in another way (1):" in compared.text()
    assert not compared.regressed()
    assert groups(compare(broken("TypeError"), broken("TypeError"))) == {}


def test_a_new_report_that_is_not_complete_is_refused(report):
    full, part = (
        report({"boxes/all/b-1": "passed"}),
        report({"boxes/all/b-1": "passed"}, complete=False),
    )
    assert compare(full, part).regressed()
    assert not compare(part, full).regressed()
    assert "the new report is not complete" in compare(full, part).text()


def test_a_should_counts_when_asked_for(report):
    old = report({"boxes/all/b-11": "passed"})
    compared = compare(old, report({"boxes/all/b-11": "failed"}))
    assert groups(compared) == {"regressions": ["boxes/all/b-11"]}
    assert not compared.regressed()
    assert compared.regressed("should")
    assert compared.text().endswith("no regression (1 regression of a should not counted)")


@pytest.mark.parametrize("levels", [("must", "should"), ("should", "must")])
def test_changing_the_level_excuses_nothing(levels, report):
    before, after = levels
    old = report({"boxes/all/b-1": {"verdict": "passed", "level": before}})
    new = report({"boxes/all/b-1": {"verdict": "failed", "level": after}})
    assert compare(old, new).regressed()


def test_a_change_of_level_alone_is_listed(report):
    old = report({"boxes/all/b-1": {"verdict": "passed", "level": "should"}})
    compared = compare(old, report({"boxes/all/b-1": "passed"}))
    assert groups(compared) == {"other": ["boxes/all/b-1"]}
    assert "passed (should -> must)" in compared.text()


def test_the_text_names_both_runs_and_every_change(reference, flax):
    text = compare(reference, flax).text()
    assert "old: reference 0.1.0, scutch 0.1.0, jax 0.10.2, python 3.11.7, cpu x 8" in text
    assert "new: flax 0.12.8" in text
    assert "Regressions (4):" in text
    assert "  boxes/all/b-9a  must  passed -> failed  A wrong name is refused" in text
    assert "Consequences of these regressions (1):" in text
    assert "passed -> blocked  A method touches nothing  [needs boxes/all/b-9a]" in text
    assert text.endswith("3 regressions (1 regression of a should not counted)")


def test_nothing_changed_says_so(flax):
    assert compare(flax, flax).text().endswith("no regression, no change")

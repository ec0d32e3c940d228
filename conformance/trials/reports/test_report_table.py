"""The terminal table and the badge."""

import io
import json
from xml.etree import ElementTree

import pytest
from scutch.catalogue import PARTS
from scutch.report import VERDICTS, Product, badge, table
from scutch.report.matrix import matrix

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    """The same width wherever the trials run."""
    monkeypatch.setenv("COLUMNS", "120")


def shown(*reports):
    file = io.StringIO()
    table.show(reports, file)
    return file.getvalue()


def test_the_table_has_a_row_for_each_requirement_and_a_column_for_each_run(reference, flax):
    lines = shown(reference, flax).splitlines()
    row = next(one for one in lines if one.startswith("  b-9a"))
    assert " ".join(row.split()) == "b-9a must A wrong name is refused passed failed"
    assert any("(6 requirements)" in one for one in lines)


def test_the_headline_counts_root_causes_and_not_cascades(flax):
    expected = "2 of 5 must, 0 of 1 should, 1 root cause, 2 known, 1 blocked, 1 unclaimed"
    assert matrix([flax]).columns[0].headline == expected
    text = shown(flax)
    assert f"flax 0.12.8: {expected}" in text
    assert "  boxes/all/b-9a failed  A wrong name is refused" in text
    assert "replay: pytest -p scutch.plugin --implementation flax" in text


def test_a_run_that_was_cut_short_says_so(report):
    assert "the run was not complete" in shown(report({"boxes/all/b-1": "passed"}, complete=False))


def test_a_group_that_nobody_claims_is_one_line(report):
    text = shown(
        report(
            {"boxes/all/b-1": "passed", "linen/all/n-1": "unclaimed", "linen/all/n-2": "unclaimed"}
        )
    )
    assert "(2 requirements)" in text
    assert "n-1" not in text


def test_a_missing_requirement_is_absent(report):
    rows = matrix(
        [report({"boxes/all/b-1": "passed"}), report({"boxes/all/b-2": "failed"}, name="other")]
    ).rows
    assert {row.id: row.verdicts for row in rows} == {
        "boxes/all/b-1": ("passed", "absent"),
        "boxes/all/b-2": ("absent", "failed"),
    }


def test_what_no_longer_fails_is_a_root_cause_and_what_is_untested_is_none(report):
    """As the judge counts: every verdict that keeps a run from conforming, except consequences."""
    column = matrix(
        [report({f"boxes/all/b-{i}": verdict for i, verdict in enumerate(VERDICTS)})]
    ).columns[0]
    causes = [cause.verdict for cause in column.root_causes]
    assert causes == ["failed", "fixed", "crashed", "timeout"]
    assert "4 root causes, 1 known, 1 blocked, 1 untested, 1 unclaimed" in column.headline


def test_a_should_is_a_departure_unless_the_run_asks_for_it(report):
    lax = matrix([report({"boxes/all/b-11": "failed"})]).columns[0]
    assert "0 root causes, departs from 1 should" in lax.headline
    strict = matrix([report({"boxes/all/b-11": "failed"}, level="should")]).columns[0]
    assert strict.headline == "0 of 0 must, 0 of 1 should, 1 root cause"


def test_groups_come_in_the_order_of_the_catalogue(report):
    groups = ["XYZ", "processes/shardings", "linen/names", "metadata/box-axes"]
    ids = ["XYZ-1", *(f"{group}/x" for group in groups[1:])]
    found = matrix([report(dict.fromkeys(ids, "passed"))])
    assert [group.name for group in found.groups] == groups[::-1]
    assert found.groups[0].title.startswith("Axes that a lifted transformation adds")


def test_a_group_has_the_gravest_verdict_of_its_rows(report):
    one = report({"boxes/all/a": "passed", "boxes/all/b": "known", "boxes/all/c": "known"})
    other = report({"boxes/all/a": "known", "boxes/all/b": "crashed"})
    [group] = matrix([one, other]).groups
    assert group.gravest == [("known", 2), ("crashed", 1)]


def test_columns_have_different_labels(report):
    runs = [report({"boxes/all/b-1": "passed"}) for _ in range(2)] + [report({}, version="0.12.12")]
    assert [column.label for column in matrix(runs).columns] == [
        "flax 0.12.8 (jax 0.10.2, python 3.11.7) #1",
        "flax 0.12.8 (jax 0.10.2, python 3.11.7) #2",
        "flax 0.12.12",
    ]


def test_text_of_an_implementation_cannot_steer_the_terminal(report):
    entry = {"verdict": "failed", "title": "[red]\x1b[31m:smile:", "replay": "a\nb"}
    text = shown(report({"boxes/all/b-1": entry}, name="\x1b]0;title"))
    assert "\x1b" not in text
    assert r"[red]\x1b[31m:smile:" in text
    assert r"replay: a\nb" in text


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_no_column_is_lost_at_any_width(columns, reference, flax, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    text = shown(reference, flax)
    row = next(one for one in text.splitlines() if one.startswith("  b-9a"))
    assert row.split()[-2:] == ["passed", "failed"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("silent", [True, False])
def test_colours_are_for_terminals_that_want_them(silent, flax, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if silent:
        monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    table.show([flax], terminal)
    assert ("\x1b[32m" in terminal.getvalue()) is not silent


def drawn(report):
    root = ElementTree.fromstring(badge.svg(report))
    return root, [text.text for text in root.iter(f"{SVG}text")]


def test_a_badge_says_how_much_holds(flax):
    root, words = drawn(flax)
    assert words == ["scutch", "2 of 5 must"]
    assert root.find(f"{SVG}title").text.startswith("scutch: flax 0.12.8: 2 of 5 must, ")
    assert root.get("role") == "img"
    assert root.get("aria-label") == root.find(f"{SVG}title").text


@pytest.mark.parametrize(
    ("verdicts", "complete", "colour"),
    [
        (["passed"], True, "#1a7f37"),
        (["passed", "known"], True, "#0a5cb8"),
        (["passed", "untested"], True, "#8a5a00"),
        (["passed", "fixed"], True, "#8a5a00"),
        (["passed"], False, "#8a5a00"),
        (["passed", "known", "blocked"], True, "#b3261e"),
        (["crashed"], False, "#b3261e"),
        (["unclaimed"], True, "#57606a"),
    ],
)
def test_a_badge_has_the_colour_of_what_was_found(verdicts, complete, colour, report):
    run = report({f"boxes/all/b-{i}": v for i, v in enumerate(verdicts, 1)}, complete=complete)
    assert colour in badge.svg(run)


def test_every_part_has_an_endpoint_with_the_message_and_the_colour_of_its_badge(report):
    verdicts = {
        "metadata": ["passed"],
        "objects": ["passed", "known"],
        "linen": ["passed", "fixed"],
        "transformations": ["passed", "failed"],
        "bridge": ["unclaimed"],
    }
    runs = {
        part: report({f"{part}/all/b-{i}": v for i, v in enumerate(chosen)})
        for part, chosen in verdicts.items()
    }
    whole = report({one.id: one.verdict for run in runs.values() for one in run.requirements})
    found = {name: json.loads(text) for name, text in badge.endpoints(whole).items()}
    assert found.keys() == {"scutch", *PARTS}
    for name, run in {"scutch": whole, **runs}.items():
        root, (_, message) = drawn(run)
        colours = {each.get("fill") for each in root.iter(f"{SVG}rect")}
        assert f"#{found[name].pop('color')}" in colours
        label = name if name == "scutch" else f"scutch {name}"
        assert found[name] == {"schemaVersion": 1, "label": label, "message": message}
    assert found["export"]["message"] == "not judged"
    assert json.loads(badge.endpoints(report({}, complete=False))["scutch"])["message"] == (
        "not judged, incomplete"
    )


def test_a_badge_escapes_what_it_shows(report):
    root, _ = drawn(report({"boxes/all/b-1": "passed"}, name='"><script>&\x00'))
    assert root.get("aria-label").startswith(r'scutch: "><script>&\x00')
    assert not list(root.iter(f"{SVG}script"))


def test_names_and_versions_make_a_label(report):
    assert str(report({}).implementation) == str(Product("flax", "0.12.8")) == "flax 0.12.8"

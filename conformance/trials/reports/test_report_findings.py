"""A report for tools: SARIF, and the annotations and the summary of a GitHub job.

`sarif-2.1.0-part.json` is the part of SARIF's schema that is used. The whole one, from its standard
at OASIS, is tried too where `SARIF_SCHEMA` names the file.
"""

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from scutch import cli
from scutch.judging.trials import Counterexample
from scutch.report import ReportError, github, junit, load, sarif
from scutch.report.findings import Place, findings

PART = Path(__file__).with_name("sarif-2.1.0-part.json")
SCHEMAS = [PART, *map(Path, filter(None, [os.environ.get("SARIF_SCHEMA")]))]
AT = Place("adapter.py", 5)
ADAPTER = '"""Mine."""\n\nimport flax\n\nimplementation = 3\nother: int = 4\n'


@pytest.fixture
def adapter(tmp_path, monkeypatch):
    """An adapter in the folder that the command is run in; its name has a space and a percent."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adapters").mkdir()
    (tmp_path / "adapters" / "my fork%.py").write_text(ADAPTER)
    return "adapters/my fork%.py"


def check(text):
    document = json.loads(text)
    for path in SCHEMAS:
        schema = json.loads(path.read_text("utf-8"))
        jsonschema.validators.validator_for(schema)(schema).validate(document)
    return document["runs"][0]


def test_what_is_not_as_it_should_be_is_a_result_at_the_adapter(flax, adapter):
    run = check(sarif.text(flax, Place.of(adapter, "flax")))
    levels = {each["ruleId"]: each["level"] for each in run["results"]}
    assert levels == {
        "boxes/all/b-9a": "error",
        "boxes/all/b-10": "note",
        "boxes/all/b-11": "note",
        "rules/all/l-1": "note",
    }
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "adapters/my%20fork%25.py"
        assert place["region"]["startLine"] == 5
    worst = run["results"][0]["message"]["text"]
    assert worst.startswith("boxes/all/b-9a A wrong name is refused: failed\ninput: ")
    assert "error: \\x1b[31mAssertionError" in worst
    assert "\nreplay: pytest -p scutch.plugin --implementation flax" in worst


def test_an_honest_run_has_no_result(reference, adapter):
    run = check(sarif.text(reference, Place.of(adapter, "reference")))
    assert (run["results"], run["invocations"]) == ([], [{"executionSuccessful": True}])


@pytest.mark.parametrize(("level", "severity"), [("must", "warning"), ("should", "error")])
def test_a_departure_from_a_should_weighs_what_the_run_says(report, level, severity):
    found = findings(report({"boxes/all/b-11": "failed"}, level=level), None)
    assert [each.severity for each in found] == [severity]


@pytest.mark.parametrize(
    ("text", "where", "line"),
    [
        (ADAPTER, ":other", 5),
        ("flax-extra==1\nFlax>=0.12\n", "", 2),
        ('dependencies = [\n  "flax==0.12.8",\n]\n', "", 2),
        ("nothing of the kind\n", "", 1),
        ("", "", 1),
    ],
)
def test_the_line_is_the_one_that_names_the_implementation(tmp_path, text, where, line):
    (tmp_path / "file").write_text(text)
    assert Place.of(f"{tmp_path / 'file'}{where}", "flax").line == line


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("my_fork.py:31", Place("my_fork.py", 31)),
        ("no_file.py:31", AT),
        ("../my_fork.py:31", AT),
        ("/my_fork.py:31", AT),
        ("", AT),
    ],
)
def test_a_failure_is_shown_where_the_implementation_raised(
    report, tmp_path, monkeypatch, place, shown
):
    (tmp_path / "my_fork.py").write_text("")
    monkeypatch.chdir(tmp_path)
    raised = Counterexample("test_x", "x", "TypeError: x", "TypeError", place)
    made = report({"boxes/all/b-9a": {"verdict": "failed", "counterexample": raised}})
    (found,) = findings(made, AT)
    assert found.place == shown


def test_a_place_in_no_file_is_refused(tmp_path):
    with pytest.raises(ReportError, match=r"--at .*expected a text file"):
        Place.of(str(tmp_path / "none.py"), "flax")


def unescaped(text):
    """The text that the runner of GitHub's jobs reads from an escaped text."""
    for escape, character in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n")):
        text = text.replace(escape, character)
    return text.replace("%25", "%")


def test_annotations_stand_at_the_adapter_and_hold_no_command_of_anyone_else(flax, adapter):
    lines = github.annotations(flax, Place.of(adapter, "flax")).splitlines()
    assert [line.split()[0] for line in lines] == ["::error", "::notice", "::notice", "::notice"]
    for line in lines:
        properties, _, message = line.removeprefix("::").partition(" ")[2].partition("::")
        given = dict(each.split("=", 1) for each in properties.split(","))
        assert unescaped(given["file"]) == adapter
        assert given["line"] == "5"
        assert message
    assert "title=boxes/all/b-9a A wrong name is refused%3A failed::" in lines[0]


def test_an_implementation_cannot_write_a_workflow_command(report):
    harm = {"verdict": "crashed", "reason": "gone\r\n::add-mask::x\n::error file=a,line=1::lie"}
    printed = github.annotations(report({"boxes/all/b-1": harm}), None)
    assert printed.count("\n") == 1
    assert re.findall(r"^::(\w+)", printed, re.MULTILINE) == ["error"]


def test_no_more_annotations_than_are_shown(report):
    many = {f"rules/all/l-{number}": "failed" for number in range(1, 30)}
    assert len(github.annotations(report(many), None).splitlines()) == github.MOST


def test_the_summary_is_a_table_in_which_nothing_is_obeyed(flax):
    text = github.summary(flax)
    assert "| boxes | | 2 | 1 | 1 | 1 | 1 |" in text.replace("|  |", "| |")
    assert "Root causes: 1" in text
    rows = [line for line in text.splitlines() if line.startswith("| boxes/")]
    assert len(rows) == 3
    assert all(line.count("|") == 4 for line in rows)
    assert not re.search(r"<(?!/?(details|summary|code|br)\b)", text)
    assert "](" not in text


def test_the_summary_tells_the_changes_since_the_vouched_report(flax, report):
    old = report({one.id: "passed" for one in flax.requirements}, name="<b>|")
    lines = github.summary(flax, old).splitlines()
    (sentence,) = (line for line in lines if line.startswith("Since the vouched report of "))
    assert " of &lt;b&gt;&#124; 0.12.8: 3 regressions (1 regression of a should" in sentence
    heading = lines.index("<details open><summary>Regressions: 4</summary>")
    rows = lines[heading + 4 : lines.index("</details>")]
    assert [row.split(" | ")[:4] for row in rows if row] == [
        ["| boxes/all/b-2a&#91;logical&#93;", "passed", "unclaimed", "must"],
        ["| boxes/all/b-9a", "passed", "failed", "must"],
        ["| boxes/all/b-11", "passed", "known", "should"],
        ["| rules/all/l-1", "passed", "known", "must"],
    ]
    assert "Since" not in github.summary(flax)


def test_the_command_adds_to_the_summary_of_the_job(flax, adapter, tmp_path, saved, monkeypatch):
    path = saved("flax", flax)
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert cli.main(["github", str(path), "--at", adapter]) == 0
    assert summary.read_text("utf-8") == f"before\n{github.summary(flax)}"
    assert cli.main(["github", str(path), "--vouched", str(path)]) == 0
    assert summary.read_text("utf-8").endswith(github.summary(flax, flax))


def test_junit_has_a_case_for_each_requirement(reference, flax, report):
    suite = ElementTree.fromstring(junit.text(flax))
    cases = {case.get("name"): case for case in suite}
    assert [*cases] == [one.id for one in flax.requirements]
    broken, known = cases["boxes/all/b-9a"].find("failure"), cases["boxes/all/b-11"].find("skipped")
    assert broken.get("message") == "A wrong name is refused: failed"
    for part in ("input: ", "error: ", "replay: "):
        assert part in broken.text
    assert known.get("type") == "known"
    assert "Flax counts from the front <b>only</b>" in known.text
    assert not [*cases["boxes/all/b-1"]]
    counted = {kind: len(suite.findall(f"*/{kind}")) for kind in ("failure", "skipped", "error")}
    assert counted["failure"] == int(suite.get("failures")) > 0
    assert counted["skipped"] == int(suite.get("skipped")) > 0
    assert counted["error"] == int(suite.get("errors")) == (not flax.complete)
    assert len(suite) == int(suite.get("tests"))


def test_junit_of_a_run_that_was_cut_short_has_an_error(report):
    suite = ElementTree.fromstring(junit.text(report({"boxes/all/b-1": "passed"}, complete=False)))
    assert suite.get("errors") == "1"
    assert suite[-1].find("error").get("message") == "the run was not complete"


def test_the_command_writes_junit(flax, tmp_path, saved, capsys):
    path = saved("flax", flax)
    assert cli.main(["junit", str(path), "-o", str(tmp_path / "flax.xml")]) == 0
    assert (tmp_path / "flax.xml").read_text("utf-8") == junit.text(load(path))
    assert cli.main(["junit", str(path), "-o", str(tmp_path)]) == 2


def test_the_command_writes_sarif(flax, adapter, tmp_path, saved, capsys):
    path = saved("flax", flax)
    assert cli.main(["sarif", str(path), "--at", adapter, "-o", "flax.sarif"]) == 0
    assert (tmp_path / "flax.sarif").read_text("utf-8") == sarif.text(
        flax, Place.of(adapter, "flax")
    )
    assert cli.main(["sarif", str(path), "-o", "adapters"]) == 2
    assert "cannot write the SARIF file to adapters: " in capsys.readouterr().err

"""The JSON report: written whole, read strictly, refused with the place and the remedy."""

import json
import os
import re

import jsonschema
import pytest
from scutch.catalogue import place
from scutch.report import VERDICTS, ReportError, load, schema, suite, write
from scutch.report.matrix import MARKS, MEANINGS
from scutch.report.text import line, publish, visible


@pytest.fixture
def document(flax):
    return flax.to_json()


def stored(path, document):
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(schema())


def test_a_written_report_is_read_back(flax, tmp_path):
    write(flax, tmp_path / "new" / "folder" / "flax.json")
    assert load(tmp_path / "new" / "folder" / "flax.json").to_json() == flax.to_json()


def test_the_document_is_the_published_form(document):
    assert list(document) == [
        *("schema", "suite", "implementation", "environment", "profile", "seed"),
        *("level", "requirements", "complete", "shard"),
    ]
    assert document["schema"] == "scutch-report/1"
    assert document["environment"] == {
        "jax": "0.10.2",
        "python": "3.11.7",
        "platform": "cpu",
        "devices": 8,
    }
    assert list(document["requirements"][0]) == [
        *("id", "level", "title", "verdict", "needs", "blocked_by", "tests", "examples"),
        *("seconds", "reason", "upstream", "counterexample", "also", "replay", "script", "cost"),
    ]


def test_the_same_report_gives_the_same_bytes_in_any_order(report, tmp_path):
    write(report({"boxes/all/b-10": "passed", "boxes/all/b-9": "failed"}), tmp_path / "a.json")
    write(report({"boxes/all/b-9": "failed", "boxes/all/b-10": "passed"}), tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert [one.id for one in load(tmp_path / "a.json").requirements] == [
        "boxes/all/b-9",
        "boxes/all/b-10",
    ]


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict_is_in_the_schema_and_has_a_mark_and_a_meaning(verdict, report, tmp_path):
    write(report({"boxes/all/b-1": verdict}), tmp_path / "r.json")
    assert load(tmp_path / "r.json").requirements[0].verdict == verdict
    assert MARKS[verdict]
    assert MEANINGS[verdict]


def test_half_a_character_survives(report, tmp_path):
    write(
        report({"boxes/all/b-1": {"verdict": "known", "reason": "\ud800\x00é"}}),
        tmp_path / "r.json",
    )
    assert load(tmp_path / "r.json").requirements[0].reason == "\ud800\x00é"


def test_half_a_character_is_published_as_its_escape(tmp_path):
    publish("half \ud800 é", tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text("utf-8") == "half \\ud800 é"


@pytest.mark.parametrize("name", ["report.txt", "report", "report.JSON"])
def test_a_report_is_written_to_json_only(name, flax, tmp_path):
    with pytest.raises(ReportError, match=r"expected a name that ends in \.json"):
        write(flax, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_write_that_fails_leaves_the_old_report_and_no_draft(flax, tmp_path, monkeypatch):
    path = tmp_path / "flax.json"
    path.write_text("old")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(ReportError, match=r"flax\.json: Permission denied"):
        write(flax, path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("flax.json", "old")]


FIRST = ("requirements", 0)


def drop(*keys):
    def change(document):
        *way, last = keys
        for key in way:
            document = document[key]
        del document[last]

    return change


def put(value, *keys):
    def change(document):
        *way, last = keys
        for key in way:
            document = document[key]
        document[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "where", "found", "expected"),
    [
        (drop("complete"), "the top level", "no complete", "a report: an object with"),
        (put(1, "extra"), "the top level", "unknown extra", "a report: an object with"),
        (put("yes", "complete"), "complete", '"yes"', "true or false"),
        (put(0.5, "seed"), "seed", "0.5", "a whole number"),
        (put(True, "seed"), "seed", "true", "a whole number"),
        (put("", "profile"), "profile", '""', "the name of a profile"),
        (put("may", "level"), "level", '"may"', "must or should"),
        (drop("suite", "version"), "suite", "no version", "an object with name and version"),
        (put("flax", "implementation"), "implementation", '"flax"', "an object with name"),
        (put(-1, "environment", "devices"), "environment.devices", "-1", "0 or more"),
        (put(None, "environment", "jax"), "environment.jax", "null", "the version of JAX"),
        (put({}, "requirements"), "requirements", "{}", "a list of requirements"),
        (
            put("green", "requirements", 2, "verdict"),
            "requirements[2].verdict",
            '"green"',
            "passed",
        ),
        (put("box-1", *FIRST, "id"), "requirements[0].id", '"box-1"', "like objects/graphs"),
        (
            put("boxes/all/b-1\n", *FIRST, "id"),
            "requirements[0].id",
            '"boxes/all/b-1\\n"',
            "like objects/graphs",
        ),
        (put("../x", *FIRST, "id"), "requirements[0].id", '"../x"', "like objects/graphs"),
        (put([7], *FIRST, "needs"), "requirements[0].needs[0]", "7", "like objects/graphs"),
        (put("a", *FIRST, "tests"), "requirements[0].tests", '"a"', "a list of names"),
        (put(-1, *FIRST, "examples"), "requirements[0].examples", "-1", "0 or more"),
        (put(-0.1, *FIRST, "seconds"), "requirements[0].seconds", "-0.1", "0 or more"),
        (put(3, *FIRST, "reason"), "requirements[0].reason", "3", "or null"),
        (put(1, *FIRST, "counterexample"), "requirements[0].counterexample", "1", "or null"),
        (
            put({"test": "t"}, *FIRST, "counterexample"),
            "requirements[0].counterexample",
            "no input, error",
            "an object with test, input and error",
        ),
        (drop(*FIRST, "replay"), "requirements[0]", "no replay", "a requirement: an object"),
    ],
)
def test_a_departure_from_the_schema_says_where_what_and_what_was_expected(
    change, where, found, expected, document, tmp_path
):
    change(document)
    path = stored(tmp_path / "bad.json", document)
    with pytest.raises(ReportError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: at {where}: found {line(found)}, expected ")
    assert expected in message.partition(", expected ")[2]


def test_another_version_of_the_schema_is_named(document, tmp_path):
    path = stored(tmp_path / "next.json", document | {"schema": "scutch-report/2"})
    with pytest.raises(ReportError, match=r"found 'scutch-report/2', but this scutch reads"):
        load(path)


def test_a_requirement_appears_once(document, tmp_path):
    document["requirements"].append(document["requirements"][0])
    path = stored(tmp_path / "twice.json", document)
    with pytest.raises(
        ReportError, match=r"at requirements\[7\]\.id: found boxes/all/b-1 a second time"
    ):
        load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b'{"schema": ', "not JSON: .*line 1 column"),
        (b'{"seed": NaN}', "NaN is not a number of JSON"),
        (b"\xff\xfe", "not JSON: 'utf-8'"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "at the top level: found \\[\\], expected a report"),
    ],
)
def test_what_is_not_a_report_is_refused(content, message, tmp_path):
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(ReportError, match=message):
        load(tmp_path / "bad.json")


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(ReportError, match=r"nowhere\.json: No such file.*--report NAME\.json"):
        load(tmp_path / "nowhere.json")
    with pytest.raises(ReportError, match="Is a directory"):
        load(tmp_path)


def test_ids_sort_as_people_sort_them():
    ids = ["a/b/c-10", "BOX-10", "BOX-2b", "a/b/c-2[logical]", "BOX-1", "a/b/c-2", "BOX-2a"]
    assert sorted(ids, key=place) == [
        *("BOX-1", "BOX-2a", "BOX-2b", "BOX-10", "a/b/c-2", "a/b/c-2[logical]", "a/b/c-10")
    ]


def test_a_report_of_0_1_is_read_with_the_ids_of_today(report, tmp_path):
    """Several requirements that became one have the gravest of their verdicts."""
    old = {"BOX-5": "passed", "BOX-8a": "passed", "BOX-13d": "failed", "OBJ-1l": "failed"}
    write(
        report(old | {"LOG-9.BOX-5": {"verdict": "blocked", "blocked_by": ("BOX-13d",)}}),
        tmp_path / "r.json",
    )
    found = {one.id: one for one in load(tmp_path / "r.json").requirements}
    needs, undoes = f"{AXES}/needs-partition-name", f"{AXES}/removing-undoes-adding"
    assert {name: one.verdict for name, one in found.items()} == {
        undoes: "passed",
        needs: "failed",
        f"{undoes}[logical]": "blocked",
    }
    assert found[f"{undoes}[logical]"].blocked_by == (needs,)


AXES = "metadata/box-axes"


def test_the_suite_is_this_one():
    assert suite().name == "scutch"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", suite().version)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext é 名", "plain\n\ttext é 名"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\r\x00", r"\r\x00"),
        ("\u202eabc\u2066", r"\u202eabc\u2066"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_its_escape(text, shown):
    assert visible(text) == shown

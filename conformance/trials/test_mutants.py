"""Planted faults: the changes of each line, and the laws that find them."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
from scutch.judging import suite
from scutch_ci import conditions, front_page, portfolio
from scutch_ci.equivalents import EXCLUDED, Listed, kind_of, listed
from scutch_ci.faults import conditional, faults_in
from scutch_ci.history import Night
from scutch_ci.mutants import Result, drawn, score, table
from scutch_ci.sights import Sight, seeing, uncalled

SOURCE = '''\
"""A box class that adds axes on its own."""

from scutch_reference import meta


class Box(meta.Partitioned):
    def add_axis(self, index, params):
        name = params[meta.PARTITION_NAME]
        names = list(self.names)
        unused = len(names) == 0
        names.insert(index, name)
        return self.replace(names=tuple(names))
'''
ADAPTER = """\
from types import SimpleNamespace

from planted import boxes
from scutch import Implementation
from scutch_reference import meta

names = {name: getattr(meta, name) for name in dir(meta) if not name.startswith("__")}
implementation = Implementation(
    "planted", "1", meta=SimpleNamespace(**{**names, "Partitioned": boxes.Box})
)
"""
LAWS = ["test_removing_an_added_axis_restores_the_box", "test_an_added_axis_is_named_at_its_index"]


def changes(source):
    return [fault.changed_lines(source) for fault in faults_in(source, "file.py")]


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("x = a == b", ["x = a != b"]),
        ("x = a and b", ["x = (a or b)"]),
        ("x = not a", ["x = (a)"]),
        ("x = a + 1", ["x = a - 1", "x = a + 2"]),
        ("x = int | str", []),
        ("def f(): return a | b", ["def f(): return None", "def f(): return (a)"]),
        ("x = f(a, key=b)", ["x = f(a)"]),
        ("x = [a for a in b if a.c]", ["x = [a for a in b if True]"]),
        ("x.a = b", ["pass"]),
        ("del x[a]", ["pass"]),
        ("raise ValueError(f'{a + 1} is not {b == c}')", ["pass"]),
        ("def f(a: int | None = None) -> int | str: ...", []),
        ("x = zip(a, b, strict=True)", []),
        ("@dataclass(slots=True)\nclass C: ...", []),
        ("@dataclass(repr=False)\nclass C: ...", []),
        ("x = text.write(a, encoding='utf-8', end=b)", ["x = text.write(a, encoding='utf-8')"]),
        ("@overload\ndef f(a=1): return a", []),
        ("def f(a=1): ...", []),
        ("warnings.warn(a, stacklevel=2)", []),
        ("def f(): return False", ["def f(): return True"]),
        ("@dataclass_transform(frozen=True)\nclass C: ...", []),
    ],
)
def test_what_is_changed_of_a_line(line, changed):
    assert [added for _, added in changes(f"{line}\n")] == changed


def test_a_fault_says_where_it_is_and_what_it_changes():
    (fault,) = faults_in("class C:\n    def f(self):\n        return self.x\n", "file.py")
    assert (fault.place, fault.line, fault.in_function) == ("file.py:C.f", 3, True)
    assert fault.changed_lines("class C:\n    def f(self):\n        return self.x\n") == (
        "return self.x",
        "return None",
    )


def test_a_default_is_seen_by_who_calls_the_function():
    (fault,) = faults_in("def f(a=1): a\n", "file.py")
    assert (fault.place, fault.in_function) == ("file.py:f", True)


def test_what_decorates_a_class_is_seen_by_who_calls_one_of_its_functions():
    source = "@dataclass(order=False)\nclass C:\n    def f(self): pass\n"
    faults = faults_in(source, "file.py")
    assert {(fault.place, fault.in_function) for fault in faults} == {("file.py:C", False)}
    calls = {name: Sight("passed", 1.0, (f"file.py:{name}",)) for name in ("C.f", "D.f")}
    assert [seeing(fault, calls) for fault in faults] == [["C.f"]] * len(faults)


def test_what_the_import_calls_is_seen_by_who_calls_another_function_of_its_file():
    source = "def register(cls): return cls\nclass C:\n    def f(self): pass\n"
    (fault,) = [each for each in faults_in(source, "file.py") if each.scope == "register"]
    places = {"other": "other.py:g", "user": "file.py:C.f", "caller": "file.py:register"}
    calls = {name: Sight("passed", 1.0, (place,)) for name, place in places.items()}
    assert seeing(fault, calls) == ["caller"]
    assert seeing(fault, calls, {"file.py:register"}) == ["caller", "user"]


def test_a_class_without_functions_is_seen_by_who_calls_any_of_its_file():
    faults = faults_in("class C:\n    a: int = 1\n", "file.py")
    calls = {"D.f": Sight("passed", 1.0, ("file.py:D.f",))}
    assert [seeing(fault, calls) for fault in faults] == [["D.f"]]


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        ({"function": "f"}, []),
        ({"function": "f", "holds": r"\bref\b"}, ["return None", "x.a != b"]),
        ({"taken": "return x.a == b", "added": "return None"}, ["pass", "x.a != b"]),
        ({"function": "f", "taken": "x.ref = 1", "added": "pass"}, ["return None", "x.a != b"]),
        (
            {"function": "g", "taken": "x.ref = 1", "added": "pass"},
            ["pass", "return None", "x.a != b"],
        ),
    ],
)
def test_an_entry_is_about_a_function_or_a_part_of_it_or_one_fault(entry, left):
    source = "def f(x):\n    x.ref = 1\n    return x.a == b\n"
    subject = SimpleNamespace(where="mine", sources={"file.py": source})
    entries = [Listed("mine", "file.py", "why", **entry)]
    faults = [f for f in faults_in(source, "file.py") if "2" not in f.new]
    counted = [fault.new for fault in faults if not kind_of(fault, subject, entries)]
    assert counted == left


def test_an_entry_may_be_about_a_block():
    source = "def f(x):\n    if x.ref:\n        x.a = 1\n    else:\n        x.a = 1\n    x.a = 1\n"
    subject = SimpleNamespace(where="mine", sources={"file.py": source})
    entries = [Listed("mine", "file.py", "why", "f", under=r"^if x\.ref")]
    faults = [f for f in faults_in(source, "file.py") if f.new == "pass"]
    counted = [f.line for f in faults if not kind_of(f, subject, entries)]
    assert counted == [5, 6]


def test_the_table_of_an_entry_is_the_kind_of_its_reason(tmp_path):
    file = tmp_path / "mutants.toml"
    tables = ("equivalent", *EXCLUDED)
    rows = "implementation = 'mine'\nfile = 'file.py'\nreason = 'why'\nfunction = "
    file.write_text("".join(f"[[{t}]]\n{rows}'{t[:2]}'\n" for t in tables))
    source = "".join(f"def {t[:2]}(): return 1\n" for t in (*tables, "free"))
    subject = SimpleNamespace(where="mine", sources={"file.py": source})
    kinds = [kind_of(f, subject, listed(file)) for f in faults_in(source, "file.py")]
    assert list(dict.fromkeys(kinds)) == [*tables, ""]


def test_every_entry_has_a_kind():
    assert {entry.kind for entry in listed()} == {"equivalent", *EXCLUDED}


def test_a_fault_that_no_law_sees_counts_and_an_excluded_one_counts_in_the_second_score():
    result = Result("f", "file.py", "found", "law", "", 1, 0.1, "diff")
    outcomes = ["found", "found", "survived", "unseen", "error-kind", "inactive", "broken"]
    results = [replace(result, outcome=outcome) for outcome in outcomes]
    assert score(results) == "2 of 4, 50 %; 2 of 5, 40 % of all"
    assert "1 unseen" in [*table(results)][-1]
    assert score(results[:4]) == "2 of 4, 50 %"


def test_faults_of_functions_that_no_law_calls_are_named():
    source = "def seen(): return 1\ndef unseen(): return 1\ndef imported(): return 1\n"
    faults = faults_in(source, "file.py")
    laws = {"law": Sight("passed", 1.0, ("file.py:seen",))}
    places = {fault.place for fault in uncalled(faults, laws, {"file.py:imported"})}
    assert places == {"file.py:unseen"}


def test_a_conditional_fault_is_active_only_where_its_condition_holds():
    source = "def f(x, y=1):\n    x.append(y)\n    return x if y > 2 else [y]\n"
    conditions.CALLS.clear()
    seen = set()
    for fault in conditional(source, faults_in(source, "file.py")):
        assert fault.line > 1, "a default is no part of the body"
        space = {}
        exec(fault.planted_in(source), space)
        results = [space["f"]([("a", "b")], 3), space["f"]([("a", "a")], 3)]
        if fault.condition == "a repeated name":
            assert results[0] == [("a", "b"), 3]
            seen.add(str(results[1]))
    assert len(seen) > 2
    assert conditions.CALLS[True]
    assert conditions.CALLS[False]


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ("a rank above 2", {"x": [np.ones((1, 1, 1))]}, True),
        ("a rank above 2", np.ones((3, 3)), False),
        ("an axis of size 1", SimpleNamespace(value=np.ones((3, 1))), True),
        ("an axis of size 1", np.ones(3), False),
        ("a traced array", np.ones(3), False),
        ("a repeated name", ("a", None, "a"), True),
        ("a repeated name", ("a", None, None), False),
        ("a shared value", [shared := [], shared], True),
        ("a shared value", [[], []], False),
    ],
)
def test_conditions_look_into_containers_and_objects(condition, value, expected):
    assert conditions.holds(condition, {"argument": value}) is expected


def test_text_that_is_not_ascii_is_changed_in_the_right_place():
    source = 'x = "é" if a else f("ü", key=1)\n'
    assert ('x = "é" if a else f("ü", key=1)', "x = \"é\" if a else f('ü')") in changes(source)


def test_a_sample_keeps_its_faults_when_one_of_them_goes():
    source = "".join(f"x{n} = f(a{n}, key=b)\n" for n in range(40))
    subject, faults = SimpleNamespace(sources={"file.py": source}), faults_in(source, "file.py")
    sample = drawn(faults, subject, 10, 5)
    assert len(sample) == 10
    assert sample == drawn(faults, subject, 20, 5)[:10]
    assert set(sample) != set(drawn(faults, subject, 10, 6))
    left = [fault for fault in faults if fault != sample[3]]
    assert len(set(drawn(left, subject, 10, 5)) & set(sample)) == 9
    assert set(drawn(faults, subject, 1000, 5)) == set(faults)


# ---------------------------------------------------------------- laws that find faults

COMMAND = f"""
import sys
from pathlib import Path
from scutch_ci import mutants, sights, subjects

where, mutants.OUTPUT = "adapter.py", Path("results")
mutants.PACKAGES = subjects.PACKAGES = {{where: "planted"}}
subjects.FILES = {{where: ("*.py",)}}
every_law = sights.codes_of_laws
sights.codes_of_laws = lambda: [law for law in every_law() if law[0].name in {LAWS}]
sys.exit(mutants.main(["--implementation", where, "--jobs", "1", *sys.argv[1:]]))
"""


def test_faults_are_found_by_laws_that_fail_and_the_command_goes_on_where_it_stopped(tmp_path):
    package = tmp_path / "planted"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "boxes.py").write_text(SOURCE)
    (tmp_path / "adapter.py").write_text(ADAPTER)

    def outcomes(*options, results="adapter.py"):
        paths = os.pathsep.join(["", str(tmp_path), *filter(None, sys.path)])
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "--examples", "20", *options],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, done.stdout + done.stderr
        lines = (tmp_path / "results" / f"{results}.jsonl").read_text().splitlines()
        return done.stdout, [json.loads(line) for line in lines]

    printed, results = outcomes()
    by_outcome = {
        outcome: [result["diff"] for result in results if result["outcome"] == outcome]
        for outcome in ("found", "survived")
    }
    assert any("+        pass" in diff for diff in by_outcome["found"])
    assert len(by_outcome["survived"]) == 2
    assert all("unused" in diff and diff in printed for diff in by_outcome["survived"])
    assert {result["law"] for result in results if result["outcome"] == "found"} <= set(LAWS)
    found = len(by_outcome["found"])
    assert f"{found} of {found + 2}" in printed
    assert (package / "boxes.py").read_text() == SOURCE

    again, same = outcomes()
    assert f"{len(same)} of them tried before" in again
    assert same == results

    options = ("--all-laws", "60", "--results", "results/all.jsonl")
    _, of_all_laws = outcomes(*options, results="all")
    assert {one["diff"]: one["outcome"] for one in of_all_laws} == {
        one["diff"]: one["outcome"] for one in results
    }
    convicted = [one["convicted"] for one in of_all_laws if one["outcome"] == "found"]
    assert all(convicted)
    assert any(len(laws) > 1 for laws in convicted)
    assert all(1 <= inputs <= 10 for laws in convicted for inputs in laws.values())


# ---------------------------------------------------------------- which requirements are chosen

FIRST, SECOND, THIRD = (
    f"metadata/box-axes/{name}"
    for name in ("removing-undoes-adding", "adding-names-the-axis", "none-is-a-name")
)


def test_the_portfolio_begins_with_what_adds_most_per_second():
    costs = {FIRST: {6: 1.0, 10: 1.1}, SECOND: {6: 1.0, 10: 1.0}, THIRD: {6: 0.2, 10: 0.2}}
    found = {FIRST: {"a\n": 3, "b\n": 8}, SECOND: {"a\n": 1, "b\n": 1, "c\n": 1}, THIRD: {"f": 1}}
    order = portfolio.chosen(costs, found)
    # Three faults a second, then half a function's tenth, then two faults that are found again.
    assert [(one.requirement, one.examples) for one in order] == [
        (SECOND, 6),
        (FIRST, 10),
        (THIRD, 6),
    ]


def test_a_law_that_convicts_counts_for_its_requirement():
    laws = [law for law in suite.laws() if law.requirement == FIRST]
    result = Result("f", "file.py", "found", laws[0].name, "", 1, 0.1, "a\n", {laws[0].name: 4})
    late = replace(result, diff="b\n", convicted={})
    assert portfolio.finds([result, late], {laws[0].name: ["g"]}) == {
        FIRST: {"a\n": 4, "b\n": 10, "g": 1}
    }


def test_the_nightly_shows_the_score(tmp_path):
    night = Night(tmp_path, "0" * 40, {}, {})
    result = Result("f", "file.py", "found", "law", "", 1, 0.1, "diff")
    (tmp_path / "mutants").mkdir()
    lines = [
        json.dumps(asdict(replace(result, outcome=o))) for o in ("found", "survived", "broken")
    ]
    (tmp_path / "mutants" / "reference.jsonl").write_text("\n".join(lines))
    assert front_page.scores(night) == ["faults in reference: 1 of 2, 50 %"]

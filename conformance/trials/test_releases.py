"""Records of releases, the output of `scutch changes`, and the command that writes records."""

import importlib.metadata
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scutch import cli, releases
from scutch.catalogue import current
from scutch.implementation import SetupError, flax_shaped
from scutch.judging import known
from scutch.judging.calls import parse_call
from scutch.judging.trials import Counterexample, Trial
from scutch.namespaces import OPTIONS, Unclaimed
from scutch.releases import Finding, NotRecorded, Record, changes, digest, summary
from scutch.reproduce import upgrades
from scutch_ci import known_ranges, matrix, targets
from scutch_ci.checkout import NothingMeasured

UNDONE = "test_removing_an_added_axis_restores_the_box(box=Box(Array(()), ()), index=0, name='a')"
CALL = "test_a_box(box=Box(Array((2,)), ('data',)))"
OTHER = "test_another(index=1)"
UNDOES = "metadata/box-axes/removing-undoes-adding"
PADS = "metadata/box-axes/beyond-rank-pads"


def failed(*calls):
    found = (Counterexample(call.partition("(")[0], call, "AssertionError: no") for call in calls)
    return Finding("failed", tuple(found))


def record(release, *, held=(), **found):
    """A record; requirements are written `BOX_5=...`, a text is the verdict alone."""
    findings = {
        current(name.replace("_", "-")): Finding(each) if isinstance(each, str) else each
        for name, each in found.items()
    }
    held = tuple(map(digest, held))
    return Record(
        "mine", release, "0.9", "3.12", "1", "quick", 4, 0, "2026-01-01", 9, findings, held
    )


@pytest.fixture
def recorded(monkeypatch):
    """Sets the records of releases."""

    def to(*found):
        monkeypatch.setattr(releases, "everything", lambda: releases.ordered(found))

    return to


# ---------------------------------------------------------------- the records that ship


@pytest.mark.parametrize("shipped", releases.everything(), ids=str)
def test_a_shipped_record_is_read_back_and_its_calls_can_be_tried(shipped):
    assert Record.from_text(shipped.to_text()) == shipped
    assert len(shipped.requirements) > 400
    assert (Path(releases.__file__).parent / shipped.file).is_file()
    for finding in shipped.requirements.values():
        assert bool(finding.broken) == (finding.verdict in releases.BROKEN), finding
        for each in finding.broken:
            assert not each.input or parse_call(each.input)[0] == each.test
            assert "site-packages" not in each.error


@pytest.mark.parametrize("shipped", releases.everything(), ids=str)
def test_a_recorded_call_has_the_inputs_that_its_law_takes(shipped):
    """A call of an older suite would break every release: laws are edited, renamed and merged."""
    for finding in shipped.requirements.values():
        for each in finding.broken:
            assert not each.input or matrix.is_current(each.test, each.input), each


def test_jax_itself_keeps_the_laws_that_compare_with_it():
    """A law that the newest JAX breaks would ask for more than JAX does."""
    verdicts = [each.verdict for each in releases.newest("jax").requirements.values()]
    assert set(verdicts) == {"passed", "unclaimed"}
    assert verdicts.count("passed") > 10


def test_what_is_recorded_names_no_folder_of_a_machine():
    error = 'no end after 60 s, in "/somewhere/lib/python3.12/site-packages/jax/_src/compiler.py"'
    assert releases.first_line(error) == 'no end after 60 s, in "jax/_src/compiler.py"'


def test_flax_0_12_4_has_lost_the_names_in_the_equality_of_logical_boxes(capsys):
    assert cli.main(["changes", "flax", "0.12.2", "0.12.4"]) == 0
    printed = capsys.readouterr().out
    broken = printed.partition("Requirements: broken")[2].partition("Requirements: mended")[0]
    assert "metadata/box-equality/equality-compares-all-contents[logical]" in broken
    assert "scutch run --implementation flax --replay" in broken


def test_two_requirements_of_0_1_that_became_one_have_the_graver_finding():
    """A record that was written by 0.1 has the old ids; requirements that are gone are left out."""
    text = record("1").to_text()
    old = '{"BOX-8a": "passed", "BOX-13d": {"verdict": "failed", "broken": []}, "OBJ-1l": "failed"}'
    found = Record.from_text(text.replace('"requirements": {}', f'"requirements": {old}'))
    assert found.requirements == {"metadata/box-axes/needs-partition-name": Finding("failed")}


# ---------------------------------------------------------------- changes between releases


def test_a_finding_says_what_was_seen_and_not_what_is_known():
    found = Counterexample("test_x", "test_x()", "AssertionError: a\nb")
    broke = Trial(
        "test_x",
        UNDOES,
        "passed",
        broke=True,
        expected=found.input,
        counterexample=found,
    )
    held = Trial(
        "test_y",
        UNDOES,
        "passed",
        examples=4,
        expected="test_y()",
    )
    found = Finding.of("fixed", [broke, held], "the entry must go")
    assert found == Finding("failed", (Counterexample("test_x", "test_x()", "AssertionError: a"),))
    assert Finding.of("fixed", [held], "the entry must go") == Finding("passed")
    unmet = replace(held, unmet=("cycle",))
    assert Finding.of("fixed", [unmet]).verdict == "untested"
    assert Finding.from_json(found.to_json()) == found
    crashed = Finding.of(
        "crashed",
        [Trial("test_x", UNDOES, "crashed", reason="signal 11")],
    )
    assert Finding.from_json(crashed.to_json()) == crashed


def test_each_change_is_in_its_group():
    old = record(
        "1",
        BOX_1="passed",
        BOX_5=failed(CALL),
        BOX_6="unclaimed",
        BOX_7="passed",
        BOX_10="untested",
        BOX_3=failed(CALL),
        BOX_22="passed",
    )
    new = record(
        "2",
        BOX_1=failed(CALL),
        BOX_5="passed",
        BOX_6="passed",
        BOX_7="unclaimed",
        BOX_10=failed(CALL),
        BOX_3=failed(OTHER),
        BOX_22="passed",
    )
    upgrade = changes.compare(old, new)
    kinds = {each.requirement: each.kind for each in upgrade.changes}
    assert list(kinds.items()) == [
        (UNDOES, "mended"),
        ("metadata/box-axes/adding-undoes-removing", "new"),
        (PADS, "gone"),
        ("metadata/box-values/only-boxes-are-metadata", "broken"),
        ("metadata/box-values/unbox-returns-same-object", "otherwise"),
    ]
    assert upgrade.uncompared == ("metadata/box-values/axes-keep-the-value",)


def test_a_change_is_shown_by_a_call_and_the_release_that_it_does_not_break(recorded):
    old, new = record("1", held=[CALL], BOX_5="passed"), record("3", BOX_5=failed(CALL))
    recorded(old, record("2", BOX_5=failed(CALL)), new)
    text = summary.text(summary.summarize(old, new))
    assert "[since 2, from Mine]" in text
    assert "3: AssertionError: no" in text
    assert "1: the same call does not break it" in text
    assert f'scutch run --implementation mine --replay "{CALL}"' in text
    assert "Requirements: broken: not broken before (1)" in text


def test_scripts_of_the_release_that_is_there_are_written(recorded, monkeypatch, tmp_path):
    there = importlib.metadata.version("flax")
    old, new = (
        replace(record(release, BOX_5=one, BOX_7=other), implementation="flax")
        for release, one, other in [
            ("0.1", "passed", failed(OTHER)),
            (there, failed(CALL), "passed"),
        ]
    )
    recorded(old, new)
    monkeypatch.setattr(upgrades, "script", lambda requirement, call, *_, **__: f"# {call}\n")
    lines = upgrades.write(changes.compare(old, new), tmp_path / "scripts")
    file = tmp_path / "scripts" / "metadata-box-axes-removing-undoes-adding-test_a_box.py"
    assert file.read_text() == f"# {CALL}\n"
    assert lines == [
        f"{file}: exits with 1 on flax {there}",
        "1 of flax 0.1: run this again with --python, of an environment that has it",
    ]
    neither = changes.compare(old, replace(new, release="0.2"))
    with pytest.raises(SetupError, match=f"it has {there}; expected flax 0.1 or 0.2"):
        upgrades.write(neither, tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ("BBB", ["in 1 or before"]),
        (".BB", ["since 2"]),
        (".B.", ["since 2, until there alone; not in 3"]),
        ("B.B", ["in 1 or before, until there alone; not in 2", "since 3"]),
        ("uB.", ["in 2 or before, until there alone; not in 3"]),
        ("B?B", ["in 1 or before"]),
        ("...", []),
    ],
)
def test_since_when_until_when_a_requirement_is_broken(verdicts, expected):
    states = {"B": failed(CALL), ".": "passed", "u": "unclaimed", "?": "untested"}
    found = [record(str(n), BOX_5=states[each]) for n, each in enumerate(verdicts, 1)]
    assert [*map(str, changes.spans(found, UNDOES))] == expected


def test_what_is_not_recorded_is_refused(capsys, recorded):
    assert cli.main(["changes", "flax", "0.12.11"]) == 2
    assert "flax 0.12.11 is not recorded; expected one of" in capsys.readouterr().err
    assert cli.main(["changes", "flux"]) == 2
    assert "no release of 'flux' is recorded; expected one of" in capsys.readouterr().err
    with pytest.raises(NotRecorded, match="expected one like"):
        releases.named("flax 0.12.6")


def test_a_run_is_compared_with_a_recorded_release(tmp_path):
    words = [
        "--implementation",
        "reference",
        "--requirement",
        "BOX-9b",
        "--profile",
        "quick",
        "-p",
        "no:cacheprovider",
    ]

    def run(against):
        return subprocess.run(
            [sys.executable, "-P", "-m", "scutch", "run", *words, "--against", against],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    done = run("flax==0.12.12")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "flax 0.12.12 -> reference" in done.stdout
    assert (
        "Requirements: mended: not broken any more (1)\n"
        "  metadata/box-axes/removal-works-without-assertions" in done.stdout
    )
    assert run("flax==9").returncode == 2


# ---------------------------------------------------------------- claims of older releases


def test_an_option_is_claimed_with_its_capability_or_by_name():
    option = "nnx.Variable.out_sharding"
    flax_shaped("whole", version="1", package="flax", claims=["nnx"]).need(option)
    flax_shaped("named", version="1", package="flax", claims=["nnx.split", option]).need(option)
    older = flax_shaped("older", version="1", package="flax", claims=["nnx.split"])
    with pytest.raises(Unclaimed, match="older 1: nnx"):
        older.need(option)


def test_laws_need_options_that_there_are():
    from scutch.judging.suite import laws

    needed = {option for law in laws() for option in law.options}
    there = {f"{name}.{each}" for name, options in OPTIONS.items() for each in options}
    assert needed == there


# ---------------------------------------------------------------- ci/matrix


def test_a_name_stands_for_a_release():
    named = targets.Target.named
    assert named("flax-0.12.8") == targets.Target("flax", "0.12.8")
    assert named("flax-0.10.5-jax-0.6.0") == targets.Target("flax", "0.10.5", "0.6.0")
    assert named("flax-no-graph-0.12.12").pins.name == "flax-0.12.12.txt"
    for wrong in ("flax", "flux-1", "flax-99.9", "flax-0.10.5-jax-0.4.35"):
        with pytest.raises(NothingMeasured, match=wrong):
            named(wrong)


def test_the_environment_of_every_release_has_it_and_the_jax_that_its_name_says():
    for target in targets.targets(()):
        pins = target.packages
        assert pins.startswith("# Python 3.")
        package = {"orbax": "orbax-export"}.get(target.package, target.package)
        assert f"\n{package}=={target.release}\n" in pins
        assert not target.jax or f"\njax=={target.jax}\n" in pins
        names = [line.partition("==")[0] for line in targets.judges_own(pins)]
        assert "pytest" in names


# JAX may run in this process by now; the one that is forked becomes another program at once.
@pytest.mark.filterwarnings("ignore:os.fork")
def test_a_release_is_judged_recorded_and_cross_examined(tmp_path, monkeypatch, capsys):
    release = importlib.metadata.version("flax")
    monkeypatch.setattr(matrix, "environment", lambda target, folder, log: sys.executable)
    monkeypatch.setattr(matrix, "targets", lambda names: [targets.Target("flax", release)])
    monkeypatch.setattr(matrix, "processors", lambda: 0)
    made_up = replace(record("0.0.1", BOX_5=failed(UNDONE)), implementation="flax")
    records = tmp_path / "records"
    records.mkdir()
    (records / made_up.file).write_text(made_up.to_text())
    options = [
        "--environments",
        str(tmp_path / "env"),
        "--records",
        str(records),
        "--requirement",
        UNDOES,
        "--examples",
        "3",
    ]
    assert matrix.main([f"flax-{release}", *options]) == 0
    printed = capsys.readouterr().out
    assert f"1/1    flax-{release}" in printed
    assert "1 release recorded" in printed
    found = Record.from_text((records / f"flax-{release}.json").read_text())
    assert {name: each.verdict for name, each in found.requirements.items()} == {UNDOES: "passed"}
    assert found.holds(UNDONE)
    assert not found.holds(CALL)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], ["judge", "programs", "interfaces"]),
        (["flax-0.12.8"], ["judge"]),
        (["--interfaces"], ["programs", "interfaces"]),
    ],
)
def test_one_command_renews_records_and_interfaces(arguments, parts, tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(matrix, "judge_all", lambda *_, **__: done.append("judge") or 0)
    monkeypatch.setattr(matrix.programs, "update", lambda _: done.append("programs") or 0)
    monkeypatch.setattr(matrix.interfaces, "update", lambda: done.append("interfaces") or 0)
    assert matrix.main([*arguments, "--environments", str(tmp_path)]) == 0
    assert done == parts


def test_a_release_is_tried_first_with_what_is_known_and_then_with_what_breaks_its_neighbours(
    tmp_path,
):
    entry = known.shipped()[0]
    other, current = entry.witness.replace("'data'", "'x'"), UNDONE.replace("'a'", "'b'")
    assert other != entry.witness
    assert matrix.is_current(entry.test, other)
    others = {
        entry.requirement: failed(other),
        UNDOES: failed(current),
        "metadata/box-axes/adding-undoes-removing": failed(CALL),
    }
    neighbour = replace(record("0.12.9"), implementation=entry.implementation, requirements=others)
    (tmp_path / neighbour.file).write_text(neighbour.to_text())
    tried = matrix.Matrix(tmp_path, tmp_path, 1, 0).witnesses(targets.Target("flax", "0.12.8"))
    calls = [each.witness for each in tried]
    assert entry.witness in calls
    assert current in calls
    assert other not in calls
    assert CALL not in calls, "it is of no law of this suite"


def test_the_witness_of_a_known_failure_is_tried_also_where_another_call_breaks_the_law(tmp_path):
    entry = known.shipped()[0]
    target = targets.Target(entry.implementation, "0.12.8")
    other = entry.test + "(1)"

    def open_calls(found, tried=()):
        recorded = replace(record("0.12.8"), implementation=entry.implementation, **found)
        (tmp_path / recorded.file).write_text(recorded.to_text())
        calls = matrix.Matrix(tmp_path, tmp_path, 1, 0).open_calls(target, tried)
        return [each.witness for each in calls]

    assert open_calls({"requirements": {entry.requirement: failed(other)}}) == [entry.witness]
    assert open_calls({"requirements": {entry.requirement: failed(other)}}, [entry.witness]) == []
    assert open_calls({"requirements": {entry.requirement: failed(entry.witness)}}) == []
    held = {"held": (digest(entry.witness),)}
    assert open_calls({"requirements": {entry.requirement: failed(other)}, **held}) == []
    assert open_calls({"requirements": {entry.requirement: Finding("unclaimed")}}) == []


def test_what_was_found_is_kept_when_the_run_ends_and_not_before(tmp_path, monkeypatch):
    """The report of a run that was cut off does not count: its requirements are judged again."""
    target = targets.Target("flax", "0.12.8")
    before = replace(record("0.12.8", BOX_5=Finding("untested")), implementation="flax")
    (tmp_path / before.file).write_text(before.to_text())
    judged = matrix.Matrix(tmp_path, tmp_path, 1, 0, (UNDOES,))
    folder = judged.part(target, UNDOES)
    folder.mkdir(parents=True)
    (folder / "report.json").write_text("cut off")
    monkeypatch.setattr(matrix, "environment", lambda target, folder, log: sys.executable)
    after = replace(before, requirements={UNDOES: Finding("passed")})
    (folder / "seconds").write_text("9\n")
    monkeypatch.setattr(matrix.Matrix, "run", lambda *_: (None, []))
    monkeypatch.setattr(matrix, "recorded", lambda *_: after)
    judged.complete(target, again=False)
    assert judged.record(target).requirements[UNDOES].verdict == "passed"
    assert not folder.exists()


def test_what_a_call_breaks_is_added_to_the_record():
    called = [
        known.Known("mine", UNDOES, "", "", CALL, None, ""),
        known.Known("mine", PADS, "", "", OTHER, None, ""),
    ]
    broke = Trial(
        "test_a_box",
        UNDOES,
        "passed",
        broke=True,
        counterexample=Counterexample("test_a_box", CALL, "AssertionError"),
    )
    held = Trial("test_another", PADS, "passed", examples=1)
    before = record("1", BOX_5="passed", BOX_7="passed")
    after = matrix.crossed(before, called, [broke, held])
    assert after.requirements[UNDOES].witnesses == {"test_a_box": CALL}
    assert after.requirements[UNDOES].verdict == "failed"
    assert after.requirements[PADS].verdict == "passed"
    assert (after.holds(CALL), after.holds(OTHER)) == (False, True)


def test_a_call_that_breaks_a_law_in_another_way_than_the_gravest_does_not_hold():
    gravest, other = (
        Counterexample("test_a_box", call, "AssertionError", way)
        for call, way in (("test_a_box(0)", "one"), (CALL, "another"))
    )
    trial = Trial(
        "test_a_box", UNDOES, "failed", expected=CALL, counterexample=gravest, also=(other,)
    )
    called = [known.Known("mine", UNDOES, "", "", CALL, None, "")]
    after = matrix.crossed(record("1", BOX_5=failed("test_a_box(0)")), called, [trial])
    calls = [each.input for each in after.requirements[UNDOES].broken]
    assert calls == ["test_a_box(0)", CALL]
    assert not after.holds(CALL)


def test_ranges_are_the_releases_that_the_witness_breaks(tmp_path, capsys):
    entries = f'''# kept
implementation = "mine"

[[known]]
requirement = "BOX-5"
versions = ">=9"
reason = "written by people"
witness = """{CALL}"""
'''
    (tmp_path / "mine.toml").write_text(entries)
    found = [
        record("1", BOX_5=failed(CALL)),
        record("2", BOX_5="passed"),
        record("3", BOX_5="unclaimed"),
        record("4", BOX_5=failed(CALL, OTHER)),
        record("5", BOX_5="passed"),
    ]
    assert known_ranges.update(found, tmp_path) == 0
    text = (tmp_path / "mine.toml").read_text()
    assert text.startswith("# kept")
    (entry,) = known.parse(text, "")
    assert (entry.versions, entry.reason) == (">=1,<=4,!=2", "written by people")
    assert f"{UNDOES} >=4,<=4: no entry yet: {OTHER}" in capsys.readouterr().out
    assert known_ranges.update(found, tmp_path) == 0
    assert (tmp_path / "mine.toml").read_text() == text

"""The settings of a project, skipped requirements, editions, and runs of earlier failures."""

import json
import os

import jsonschema
import pytest
from scutch import catalogue, configuration
from scutch.implementation import SetupError
from scutch.judging.run import settle
from scutch.judging.verdicts import Ruling
from scutch.options import add_options
from scutch.report import load

AXES = "metadata/box-axes"
REMOVAL = f"{AXES}/removing-undoes-adding"
BROKEN = '''
import types
from scutch import Implementation
from scutch_reference import meta


class Partitioned(meta.Partitioned):
    """A box that forgets to take an axis away."""

    def remove_axis(self, index, params):
        return self


names = {name: getattr(meta, name) for name in dir(meta) if not name.startswith("_")}
own = types.SimpleNamespace(**{**names, "Partitioned": Partitioned})
implementation = Implementation("broken", "1", meta=own)
'''


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder in which a project can write its settings, with a broken implementation."""
    (tmp_path / "broken.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)

    def write(text):
        (tmp_path / "pyproject.toml").write_text(f"[tool.scutch]\n{text}\n")
        return tmp_path

    return write


ALL = """
implementation = "broken.py"
profile = "quick"
level = "should"
edition = "0.2"
known = ["none"]
requirements = ["metadata/box-axes"]
skip = [{ requirement = "metadata/box-axes/add*", reason = "not yet" }]
"""


def test_settings_stand_for_options_and_what_is_typed_takes_their_place(project):
    file, settings = configuration.project(project(ALL))
    assert configuration.words(settings, [], file) == [
        "--implementation=broken.py",
        "--profile=quick",
        "--level=should",
        "--edition=0.2",
        "--known=none",
        "--requirement=metadata/box-axes",
        "--skip=metadata/box-axes/add*: not yet",
    ]
    given = ["--profile", "ci", "--known=shipped", "-n", "2"]
    assert configuration.words(settings, given, file) == [
        "--implementation=broken.py",
        "--level=should",
        "--edition=0.2",
        "--requirement=metadata/box-axes",
        "--skip=metadata/box-axes/add*: not yet",
    ]


def test_settings_hold_in_folders_below_and_their_paths_are_found_there(project):
    folder = project('implementation = "broken.py"')
    below = folder / "src" / "deep"
    below.mkdir(parents=True)
    os.chdir(below)
    file, settings = configuration.project(below)
    assert file == folder / "pyproject.toml"
    (word,) = configuration.words(settings, [], file)
    assert word == f"--implementation={folder / 'broken.py'}"


def test_a_project_without_the_table_has_no_settings(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "a"\n')
    assert configuration.project(tmp_path) == (None, {})
    assert configuration.words({}, [], None) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("profil = 'ci'", r"tool\.scutch\.profil: expected one of .* did you mean 'profile'\?"),
        ("known = 'none'", r"tool\.scutch\.known: expected a list of texts, and got 'none'"),
        ("level = 3", r"tool\.scutch\.level: expected a text, and got 3"),
        ("skip = ['export']", r"tool\.scutch\.skip: expected a list of \{ requirement"),
        ("skip = [{requirement = 'export', reason = ' '}]", r"tool\.scutch\.skip: expected a list"),
        ("level = ", r"pyproject\.toml: expected TOML, and got"),
    ],
)
def test_settings_that_are_none_are_refused(project, text, said):
    with pytest.raises(SetupError, match=said):
        configuration.project(project(text))


def test_the_schema_has_the_settings_that_are_read_and_the_options_are_there(project):
    file = configuration.__file__.replace("configuration.py", "settings.schema.json")
    with open(file, encoding="utf-8") as text:
        schema = json.load(text)
    assert schema["properties"].keys() == configuration.OPTIONS.keys()
    jsonschema.validate(configuration.project(project(ALL))[1], schema)
    options = []
    add_options(lambda *names, **_: options.extend(names))
    assert set(configuration.OPTIONS.values()) <= set(options)


# ---------------------------------------------------------------- skips and editions


def _settled(**options):
    return settle("reference", isolate=False, **options)


def test_what_is_skipped_is_unclaimed_for_the_reason():
    run = _settled(skip=[f"{REMOVAL}: we remove none"], patterns=[AXES])
    assert REMOVAL not in run.wanted
    assert REMOVAL in {row.id for row in run.requirements}
    ruling = run.weighed(Ruling(catalogue.by_id()[REMOVAL], "untested"))
    assert (ruling.verdict, ruling.reason) == ("unclaimed", "skipped: we remove none")


@pytest.mark.parametrize(
    ("skip", "said"),
    [
        ("export", "expected PATTERN: REASON"),
        ("export: ", "expected PATTERN: REASON"),
        ("nothing-of-that-name: because", "no requirement matches"),
    ],
)
def test_what_is_skipped_has_a_reason_and_is_there(skip, said):
    with pytest.raises(SetupError, match=said):
        _settled(skip=[skip])


def test_what_is_newer_than_the_edition_counts_as_a_should():
    rows = [row for row in catalogue.load() if row.level == "must"]
    new, old = (next(r for r in rows if r.since == since) for since in ("0.2", "0.1"))
    run = _settled(edition="0.1")
    assert run.weighed(Ruling(new, "failed")).level == "should"
    assert run.weighed(Ruling(old, "failed")).level == "must"
    assert _settled(edition="0.2").weighed(Ruling(new, "failed")).level == "must"
    assert _settled().weighed(Ruling(new, "failed")).level == "must"
    with pytest.raises(SetupError, match=r"--edition '0\.3': expected one of 0\.1, 0\.2"):
        _settled(edition="0.3")


# ---------------------------------------------------------------- in a run


def test_a_run_takes_the_settings_and_what_failed_is_judged_again(project, command):
    folder = project(
        'implementation = "broken.py"\nprofile = "quick"\nrequirements = ["metadata/box-axes"]\n'
        f'skip = [{{ requirement = "{AXES}/removal-works*", reason = "slow" }}]'
    )
    code, printed = command(folder, "scutch", "run", "--report", "report.json")
    assert code == 1, printed
    assert f"settings: [tool.scutch] of {folder / 'pyproject.toml'}" in printed
    assert f"skipped: {AXES}/removal-works-without-assertions, " in printed
    before = load(folder / "report.json")
    assert before.complete
    failed = {one.id for one in before.requirements if one.verdict in ("failed", "blocked")}
    assert REMOVAL in failed

    code, printed = command(
        folder, "scutch", "run", "--from", "report.json", "--report", "again.json"
    )
    assert code == 1, printed
    again = {one.id: one for one in load(folder / "again.json").requirements}
    assert again.keys() == failed
    inputs = {one.id: one.counterexample for one in before.requirements}
    assert again[REMOVAL].counterexample.input == inputs[REMOVAL].input
    assert again[REMOVAL].examples == 0  # the known input was tried first, and none after it

    (folder / "broken.py").write_text(
        BROKEN.replace("return self", "return super().remove_axis(index, params)")
    )
    code, printed = command(
        folder, "scutch", "run", "--from", "again.json", "--report", "again.json"
    )
    assert code == 0, printed
    code, printed = command(folder, "scutch", "run", "--from", "again.json")
    assert (code, "nothing failed in again.json" in printed) == (0, True), printed
    code, printed = command(folder, "scutch", "run", "--from", "missing.json")
    assert code == 2
    assert "missing.json" in printed

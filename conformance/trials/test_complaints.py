"""`scutch changes` and `scutch upgrade` on public complaints, and on code that still works."""

import tomllib
from pathlib import Path

import pytest
from scutch import cli
from scutch.releases import WITH_INTERFACE, programs
from scutch.upgrades.code import Code, of_source
from scutch.upgrades.findings import find, releases_of
from scutch_ci import programs as corpus

HERE = Path(__file__).parent
COMPLAINTS = tomllib.loads((HERE / "complaints.toml").read_text("utf-8"))["complaint"]
UNCHANGED = sorted((HERE / "unchanged").glob("*.py"))


def titled(complaint):
    return "-".join(complaint["source"].split("/")[-3::2])


@pytest.mark.parametrize("complaint", COMPLAINTS, ids=titled)
def test_a_complaint_is_named_within_the_first_ten_lines(complaint, capsys):
    library = complaint.get("library", "flax")
    assert cli.main(["changes", library, complaint["old"], complaint["new"]]) == 0
    first = "\n".join(capsys.readouterr().out.splitlines()[:10])
    assert complaint["named"] in first


@pytest.mark.parametrize("complaint", [c for c in COMPLAINTS if "code" in c], ids=titled)
def test_the_line_of_a_complaint_is_found(complaint, tmp_path, capsys):
    file = tmp_path / "user.py"
    file.write_text(complaint["code"])
    old, new = (f"flax=={complaint[each]}" for each in ("old", "new"))
    assert cli.main(["upgrade", "--from", old, "--to", new, str(file)]) == 1
    lines = {
        int(line.rpartition(":")[2])
        for line in capsys.readouterr().out.splitlines()
        if line.strip().startswith(f"{file}:")
    }
    assert lines == {complaint["line"]}


def test_there_are_three_complaints_of_the_issue_and_seven_more():
    assert len({(each["source"]) for each in COMPLAINTS}) >= 10
    assert len([each for each in COMPLAINTS if "code" in each]) >= 5


@pytest.mark.parametrize("file", UNCHANGED, ids=lambda file: file.stem)
@pytest.mark.parametrize(("old", "new"), [("0.10.4", "0.12.12"), ("0.10.7", "0.12.12")])
def test_models_that_work_on_both_releases_raise_no_alarm(file, old, new):
    """`unchanged` has models in the style of public examples; each ran on 0.10.4 and 0.12.12."""
    source = file.read_text("utf-8")
    uses = tuple(of_source(source, "flax", file.name))
    assert uses
    code = Code(uses, 1, source.count("\n"), ())
    assert find(code, *releases_of(f"flax=={old}", f"flax=={new}")).found == ()


@pytest.mark.parametrize("package", WITH_INTERFACE)
def test_the_recorded_programs_are_those_of_the_corpus(package):
    """After a change of a program, `ci/matrix --interfaces` runs all again."""
    files = (corpus.PROGRAMS / package).glob("*.py")
    texts = {file.stem: file.read_text("utf-8") for file in files}
    assert {each.name: each.text for each in programs.programs(package)} == texts


@pytest.mark.parametrize("package", WITH_INTERFACE)
def test_every_release_ran_every_program_also_with_the_jax_of_the_next_one(package):
    keys = set(corpus.environments(package))
    assert all(set(each.outcomes) == keys for each in programs.programs(package))

"""The command `scutch`: its output and its exit codes."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from scutch import cli, terminal
from scutch.catalogue import index
from scutch.examples import examples
from scutch.report import Product, badge, load


@pytest.fixture
def scutch(capsys, catalogue):
    """Runs one command line in this process: exit code, standard output, standard error."""

    def run(*words):
        code = cli.main(list(words))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_the_help_shows_every_command_and_examples(scutch):
    code, out, _ = scutch("--help")
    assert code == 0
    for word in ("run", "list", "explain", "report", "diff", "badge", "examples:", "exit codes:"):
        assert word in out


@pytest.mark.parametrize("command", ["run", "list", "explain", "report", "diff", "badge"])
def test_every_command_has_help(command, scutch):
    code, out, _ = scutch(command, "--help")
    assert code == 0
    assert out.startswith(f"usage: scutch {command}")


def test_the_version_is_the_suites(scutch):
    code, out, _ = scutch("--version")
    assert (code, out.split()[0]) == (0, "scutch")


@pytest.mark.parametrize("words", [[], ["fly"], ["diff", "one.json"], ["list", "--areas", "BOX"]])
def test_a_wrong_command_line_is_refused(words, scutch):
    code, _, err = scutch(*words)
    assert code == 2
    assert err.startswith("usage: scutch")


def test_list_shows_requirements(scutch):
    code, out, _ = scutch("list", "*")
    assert code == 0
    assert len(out.splitlines()) == 7
    assert "boxes/all/b-11           should  A negative index counts from the end" in out


def test_list_without_a_pattern_counts_parts_and_groups(scutch):
    code, out, _ = scutch("list")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[:4] == ["boxes 6", "all 6", "rules 1", "all 1"]
    assert lines[4].startswith("7 requirements")


def test_list_selects(scutch):
    assert len(scutch("list", "--requirement", "boxes/all/b-1*")[1].splitlines()) == 3
    assert len(scutch("list", "rules")[1].splitlines()) == 1
    assert len(scutch("list", "--requirement", "boxes/all")[1].splitlines()) == 6


def test_list_that_selects_nothing_is_refused(scutch):
    code, out, err = scutch("list", "--requirement", "ZZZ*")
    assert (code, out) == (2, "")
    assert err.startswith("scutch: no requirement matches 'ZZZ*': expected an id")


def test_explain_tells_everything(scutch):
    code, out, _ = scutch("explain", "Boxes/all/b-2A")
    assert code == 0
    lines = out.splitlines()
    assert lines[:5] == [
        "boxes/all/b-2a  A box is a pytree node",
        "",
        "First.",
        "",
        "Then `second`.",
    ]
    for line in ("level       must", "source      000_ boxes", "domain      `0 <= i <= rank`"):
        assert f"  {line}" in lines
    assert "  needs       boxes/all/b-1" in lines
    assert "  needed by   boxes/all/b-2a[logical]" in lines


def test_explain_takes_a_group(scutch):
    assert scutch("explain", "rules/all")[1].startswith("rules/all/l-1  Rules are tried in order")


def test_explain_names_the_laws(scutch, monkeypatch, tmp_path, request):
    laws = tmp_path / "laws" / "boxes"
    laws.mkdir(parents=True)
    (laws / "test_boxes.py").write_text(
        '@requirement("boxes/all/b-2a")\n@given(x=1)\ndef test_a_box_is_a_node(x): ...\n'
        '@pytest.mark.requirement("boxes/all/b-1", "rules/all/l-1")\ndef test_two(): ...\n'
        "def test_unmarked(): ...\n"
    )
    monkeypatch.setattr(index.resources, "files", lambda package: tmp_path)
    index._index.cache_clear()
    request.addfinalizer(index._index.cache_clear)
    law = "laws        boxes/test_boxes.py::test_a_box_is_a_node"
    assert law in scutch("explain", "boxes/all/b-2a")[1]
    assert law in scutch("explain", "boxes/all/b-2a[logical]")[1]
    assert "laws        boxes/test_boxes.py::test_two" in scutch("explain", "rules/all/l-1")[1]
    assert "laws        none yet" in scutch("explain", "boxes/all/b-11")[1]


@pytest.mark.parametrize(
    ("wanted", "remedy"),
    [("boxes/all/b-9b", "did you mean boxes/all/b-9a"), ("sharding", "`scutch list` shows all")],
)
def test_explain_of_an_unknown_requirement_helps(wanted, remedy, scutch):
    code, out, err = scutch("explain", wanted)
    assert (code, out) == (2, "")
    assert err.startswith(f"scutch: no requirement {wanted!r}; {remedy}")


def test_report_shows_and_writes(scutch, saved, reference, flax, tmp_path):
    paths = saved("reference", reference), saved("flax", flax)
    code, out, err = scutch("report", *paths, "--html", str(tmp_path / "site"))
    assert (code, err) == (0, "")
    assert "flax 0.12.8: 2 of 5 must" in out
    assert out.endswith(f"site: {tmp_path / 'site' / 'index.html'}\n")
    assert (tmp_path / "site" / "requirement" / "boxes-all-b-9a.html").is_file()


def test_report_of_bad_input_is_refused(scutch, saved, flax, tmp_path):
    (tmp_path / "bad.json").write_text("{}")
    code, out, err = scutch("report", saved("flax", flax), str(tmp_path / "bad.json"))
    assert (code, out) == (2, "")
    assert err.startswith(f"scutch: {tmp_path / 'bad.json'}: at the top level: found no schema")
    assert len(err.splitlines()) == 1


def test_report_refuses_a_folder_of_somebody_else(scutch, saved, flax, tmp_path):
    (tmp_path / "index.html").write_text("mine")
    code, _, err = scutch("report", saved("flax", flax), "--html", str(tmp_path))
    assert code == 2
    assert "is not a page of scutch" in err


def test_diff_fails_on_a_regression_only(scutch, saved, reference, flax):
    old, new = saved("reference", reference), saved("flax", flax)
    code, out, err = scutch("diff", old, new)
    assert (code, err) == (1, "")
    assert "boxes/all/b-9a  must  passed -> failed" in out
    assert scutch("diff", new, old)[0] == 0
    assert scutch("diff", old, old)[0] == 0


def test_diff_takes_the_level_and_the_known_failures(scutch, saved, report):
    old = saved("old", report({"boxes/all/b-1": "passed", "boxes/all/b-11": "passed"}))
    should = saved("should", report({"boxes/all/b-1": "passed", "boxes/all/b-11": "failed"}))
    known = saved("known", report({"boxes/all/b-1": "known", "boxes/all/b-11": "passed"}))
    assert scutch("diff", old, should)[0] == 0
    assert scutch("diff", old, should, "--level", "should")[0] == 1
    assert scutch("diff", old, known)[0] == 1
    assert scutch("diff", old, known, "--allow-known")[0] == 0


def test_diff_of_a_missing_file_is_refused(scutch, saved, flax, tmp_path):
    code, _, err = scutch("diff", str(tmp_path / "no.json"), saved("flax", flax))
    assert code == 2
    assert "no.json: No such file or directory; expected a report of scutch" in err


def test_badge_goes_to_standard_output_or_a_file(scutch, saved, flax, tmp_path):
    path = saved("flax", flax)
    code, out, _ = scutch("badge", path)
    assert code == 0
    assert "2 of 5 must" in out
    picture = tmp_path / "new" / "badge.svg"
    assert scutch("badge", path, "-o", str(picture)) == (0, "", "")
    assert picture.read_text() == out
    folder = tmp_path / "endpoints"
    assert scutch("badge", path, "--endpoints", str(folder)) == (0, out, "")
    written = {file.name: file.read_text() for file in folder.iterdir()}
    assert written == {f"{name}.json": text for name, text in badge.endpoints(flax).items()}


def test_a_badge_that_cannot_be_written_is_refused(scutch, saved, flax, tmp_path):
    code, _, err = scutch("badge", saved("flax", flax), "-o", str(tmp_path))
    assert code == 2
    assert err.startswith(f"scutch: cannot write the badge to {tmp_path}: ")


@pytest.mark.parametrize("update", [[], ["--update"]], ids=["new", "update"])
def test_known_failures_without_tomlkit_are_refused(
    update, scutch, saved, flax, tmp_path, monkeypatch
):
    file = tmp_path / "known.toml"
    if update:
        file.write_text("")
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    code, _, err = scutch("known", str(file), "--from", saved("flax", flax), *update)
    assert (code, err.strip()) == (
        2,
        "scutch: `scutch known` needs tomlkit, which is not installed: "
        'pip install "scutch[report]"',
    )


COMPLETE = """
source completion.bash
[[ $(complete -p scutch) =~ -F\\ ([^ ]+) ]]
COMP_WORDS=(scutch "$@") COMP_CWORD=$#
"${BASH_REMATCH[1]}" scutch
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""A script of bash that prints the completions of the last of its words."""


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("rep", {"report", "reproduce"}),
        ("run --imp", {"--implementation"}),
        ("run --known my", {"my_known.toml", "my_pages"}),
        ("diff --level ", {"must", "should"}),
        ("diff old.json my", {"my_known.toml", "my_pages"}),
        ("report new.json --html my", {"my_pages"}),
        ("completion ", {"bash", "zsh", "tcsh"}),
        ("sarif --", {"--help", "--at", "--output"}),
    ],
)
def test_bash_completes_commands_options_choices_and_files(words, completions, scutch, tmp_path):
    code, script, _ = scutch("completion", "bash")
    assert code == 0
    (tmp_path / "completion.bash").write_text(script)
    (tmp_path / "my_known.toml").touch()
    (tmp_path / "my_pages").mkdir()
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", *words.split(" ")],
        cwd=tmp_path,
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert {line.rstrip("/ ") for line in done.stdout.splitlines()} == completions


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_have_a_script_with_commands_and_options(shell, scutch):
    code, script, _ = scutch("completion", shell)
    assert (code, shell in script) == (0, True)
    assert {"reproduce", "implementation", "merge"} <= {*re.findall(r"\w+", script)}


def test_a_completion_without_shtab_is_refused(scutch, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    code, _, err = scutch("completion", "bash")
    assert (code, err.strip()) == (
        2,
        "scutch: `scutch completion` needs shtab, which is not installed: "
        'pip install "scutch[report]"',
    )


@pytest.mark.parametrize("missing", ["jsonschema", "rich", "jinja2"])
def test_a_missing_extra_says_how_to_get_it(missing, scutch, saved, flax, tmp_path, monkeypatch):
    for name in ("site", "table"):
        monkeypatch.delitem(sys.modules, f"scutch.report.{name}", raising=False)
        monkeypatch.delattr(sys.modules["scutch.report"], name, raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    code, _, err = scutch("report", saved("flax", flax), "--html", str(tmp_path / "site"))
    assert code == 2
    assert err.strip() == (
        f"scutch: `scutch report` needs {missing}, which is not installed: "
        'pip install "scutch[report]"'
    )


def test_the_command_line_and_the_writer_load_no_extra():
    program = (
        "import sys, scutch.cli, scutch.report; "
        "extras = 'jinja2 rich jsonschema markupsafe shtab tomlkit jax pytest'; "
        "print(*{*extras.split()} & {*sys.modules})"
    )
    path = cli.__file__.rpartition("scutch")[0]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ""


def test_run_hands_everything_to_pytest(scutch, monkeypatch):
    calls = []

    def run(words):
        calls.append(words)
        assert os.environ[terminal.COMMAND] == "scutch run"
        return pytest.ExitCode.TESTS_FAILED

    monkeypatch.setattr(pytest, "main", run)
    monkeypatch.delenv(terminal.COMMAND, raising=False)
    assert scutch("run", "--implementation", "flax", "-n", "2", "-h")[0] == 1
    (words,) = calls
    assert words[:2] == ["-p", "scutch.plugin"]
    assert words[-6:] == ["scutch", "--implementation", "flax", "-n", "2", "-h"]
    assert terminal.COMMAND not in os.environ


def commands():
    (found,) = (a.choices for a in cli._parser()._actions if isinstance(a.choices, dict))
    return list(found)


@pytest.mark.parametrize("command", commands())
def test_the_help_of_a_command_has_examples_that_its_parser_takes(command, scutch):
    code, out, _ = scutch(command, "--help")
    assert (code, out.count("\nexamples:\n")) == (0, 1)
    written = examples(command)
    assert written
    for line, about in written.items():
        assert line in out
        assert about in out
        words = shlex.split(line.partition(" >")[0])[1:]
        if command == "run":
            _, of_pytest = cli._parser(options_of_run=True).parse_known_args(words)
            assert of_pytest in ([], ["-n"])
        else:
            assert cli._parser().parse_args(words).command
    assert next(iter(written)) in scutch("--help")[1]


def test_the_help_of_run_lists_the_options_of_the_judge(scutch, monkeypatch):
    monkeypatch.delattr(pytest, "main")
    code, out, err = scutch("run", "--help")
    assert (code, err) == (0, "")
    for option in ("--implementation", "--profile", "--requirement", "--known", "--report"):
        assert option in out


def test_list_takes_a_pattern(scutch):
    code, out, _ = scutch("list", "boxes/all/b-1*")
    assert (code, len(out.splitlines())) == (0, 3)
    assert scutch("list", "--requirement", "boxes/all/b-1*")[1] == out


def test_a_reader_that_has_seen_enough_is_no_error(saved, report):
    path = saved("long", report({f"boxes/all/b-{i}": "passed" for i in range(5000)}))
    assert len(load(path).requirements) == 5000
    room = cli.__file__.rpartition("scutch")[0]
    done = subprocess.run(
        f"{sys.executable} -c 'from scutch.cli import main; raise SystemExit(main())'"
        f" report {path} | head -1",
        shell=True,
        env={"PYTHONPATH": room, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


def test_an_output_without_unicode_is_no_error(saved, report):
    path = saved("name", report({"boxes/all/b-1": {"verdict": "failed", "title": "名 " * 99}}))
    room = cli.__file__.rpartition("scutch")[0]
    done = subprocess.run(
        [sys.executable, "-c", "from scutch.cli import main; main()", "report", path],
        env={"PYTHONPATH": room, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert rb"\u540d" in done.stdout
    assert done.stderr == b""


def test_a_newer_suite_may_drop_a_requirement(scutch, saved, report):
    old = saved("old", report({"boxes/all/b-1": "passed", "boxes/all/b-2": "passed"}))
    new = saved("new", report({"boxes/all/b-1": "passed"}, suite=Product("scutch", "9.0.0")))
    code, out, _ = scutch("diff", old, new)
    assert code == 0
    assert "Only in the old report (1):" in out

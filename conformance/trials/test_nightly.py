"""A night judges, measures and publishes; it survives its end, and names what regressed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from scutch_ci import asv_site, docs, environments, regressions
from scutch_ci.checkout import NothingMeasured
from scutch_ci.measurements import Figure

ROOT = Path(__file__).parents[2]
NAME = "dispatch.Dispatch.track_python_calls"
OPTIONS = (
    *("--python", sys.executable, "--machine", "trial", "--implementations", "reference"),
    *("--profile", "quick", "--requirement", "BOX-5", "--requirement", "BOX-1", "--quick"),
    *("--mutants", "0"),
    *("--select", rf"{NAME}\('(reference|jax)', 'forward', 4\)|Traces.track_traces\('reference"),
)
BROKEN_LAW = """
Partitioned.remove_axis = lambda self, index, params: self
"""
POINTS = """$('#main-graph').data('plot').getData().map(
    series => series.data.map(point => point[1])
).filter(values => values[0] !== null)"""
BARS = """$('#main-graph').data('plot').getData().every(
    series => series.datapoints.points.filter(Number.isFinite).length >= 3
)"""
WORSE_COUNT = """
_kind = type(jit(lambda x: x))
_call = _kind.__call__
_kind.__call__ = lambda self, *args, **kwargs: _call(self, *args, **kwargs)
"""


class Project:
    """A copy of this project in a repository of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.state = folder / "build" / "nightly"
        listed = _git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        _git(folder, "init", "--quiet", "--initial-branch", "main")
        self.commit()

    def commit(self):
        _git(self.folder, "add", "--all")
        who = ("-c", "user.name=scutch", "-c", "user.email=scutch@localhost")
        _git(self.folder, *who, "-c", "commit.gpgsign=false", "commit", "-qm", "a change")
        return _git(self.folder, "rev-parse", "HEAD").strip()

    def plant(self, file, text):
        with (self.folder / "reference" / "scutch_reference" / file).open("a") as opened:
            opened.write(text)

    def start(self, *options):
        """The process of a nightly."""
        command = [sys.executable, "-P", "-m", "scutch_ci.nightly", *OPTIONS, *options]
        names = ("reference", "conformance", "ci", ".")
        roots = os.pathsep.join(str(self.folder / name) for name in names)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        return subprocess.Popen(
            command, cwd=self.folder, env={**environment, "PYTHONPATH": roots}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def night(self, *options):
        """The exit code of a nightly, and what it printed."""
        process = self.start(*options)
        printed = process.communicate(timeout=300)[0]
        return process.returncode, printed

    def results(self):
        """Every file that a task left, with the time of its writing."""
        paths = [p for p in self.state.glob("nights/*/*/*.json") if not p.name.startswith(".")]
        return {path: path.stat().st_mtime_ns for path in paths}


def _git(folder, *arguments):
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return Project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def cut_off(project):
    """What a night had printed and left when it was killed, in its second measurement."""
    process = project.start()
    printed = []
    for letter in iter(lambda: process.stdout.read(1), ""):
        printed.append(letter)
        if "".join(printed).count("\nmeasure ") == 2:
            break
    process.kill()
    process.communicate()
    return "".join(printed), project.results()


@pytest.fixture(scope="module")
def resumed(project, cut_off):
    """The same night, gone on with."""
    return project.night()


@pytest.fixture(scope="module")
def regressed(project, resumed):
    """The next night, after a law was broken and a count made worse; and both commits."""
    first = _git(project.folder, "rev-parse", "HEAD").strip()
    project.plant("meta.py", BROKEN_LAW)
    project.plant("nnx/__init__.py", WORSE_COUNT)
    second = project.commit()
    return *project.night(), first, second


def test_what_a_killed_night_had_done_is_kept(project, cut_off, resumed):
    printed, left = cut_off
    code, shown = resumed
    assert code == 0, shown
    assert "judge reference, py" in printed
    assert sorted(path.parent.name for path in left) == ["benchmarks", "conformance"]
    assert left.items() <= project.results().items()
    assert "kept               2 of 2 must" in shown
    measured = [line for line in shown.splitlines() if "figure" in line]
    assert ["kept" in line for line in measured] == [True, False]
    assert "this is the first night" in shown


def test_a_night_that_is_done_is_not_done_again(project, resumed):
    before = project.results()
    code, printed = project.night("--no-benchmarks")
    assert (code, printed.count("kept")) == (0, 1), printed
    assert project.results() == before


def test_what_regressed_is_named_with_the_commits_and_fails(regressed):
    code, printed, first, second = regressed
    assert code == 1, printed
    assert f"regressed between {first[:12]}..{second[:12]} (1 commit):" in printed
    lines = [line.split() for line in printed.splitlines()]
    laws = [line[2] for line in lines if line[:1] == ["law"]]
    assert laws == ["BOX-5:"]
    assert "passed -> failed" in printed
    assert f"{NAME}(reference, forward, 4): " in printed
    assert not any("(jax" in word for line in lines if line[:1] == ["count"] for word in line)


def test_the_site_shows_matrix_and_graphs_from_disk(project, regressed, browser, without):
    if shutil.which("npm") is None:
        without("npm is not installed")
    _, _, first, second = regressed
    context = browser.new_context(offline=True)
    page = context.new_page()
    requests, complaints = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("requestfailed", lambda request: complaints.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((project.state / "site" / "index.html").as_uri())
    assert f"{first[:12]}..{second[:12]}" in page.locator(".regressions").inner_text()

    page.get_by_role("link", name="Conformance").first.click()
    row = page.locator("tr", has=page.get_by_role("link", name="BOX-5", exact=True))
    assert "failed" in row.inner_text()
    page.get_by_role("link", name="nightly").click()

    page.get_by_role("link", name="Benchmarks").first.click()
    page.get_by_text("Dispatch.track_python_calls").click()
    page.wait_for_selector("#main-graph canvas")
    page.wait_for_function("$('#main-graph').data('plot').getData().length > 0")
    drawn = page.evaluate(POINTS)
    page.locator("a", has_text="kind").first.click()  # the x axis, which then has names
    page.wait_for_function("$('#main-graph').data('plot').getXAxes()[0].options.mode")
    assert page.evaluate(BARS)
    context.close()
    assert complaints == []
    assert {urlsplit(address).scheme for address in requests} == {"file"}
    measured = [path for path in sorted(project.results()) if path.stem.endswith(NAME)]
    nights = [json.loads(path.read_text())["result"]["results"][NAME][0] for path in measured]
    assert sorted(drawn) == sorted(
        [before, after] for before, after in zip(*nights, strict=True) if before == before
    )
    assert any(before < after for before, after in drawn)


def test_the_documentation_shows_the_last_night_and_its_graphs(project, regressed, tmp_path):
    evidence = docs.evidence_of_night(project.state)
    assert [str(one.implementation) for one in evidence.reports] == ["reference 0.1.0"]
    assert f"{NAME}(reference, forward, 4)" in evidence.night
    assert 'href="verdicts/index.html"' in evidence.night
    docs.copy_graphs(project.state / "site" / "benchmarks", tmp_path)
    page = (tmp_path / "benchmarks" / "index.html").read_text("utf-8")
    assert '<a href="../nightly.html">' in page
    assert '<a href="../index.html">scutch nightly</a>' not in page


def test_without_a_night_there_is_none_to_show(tmp_path):
    with pytest.raises(NothingMeasured, match=r"no nightly in .* has come to its end"):
        docs.evidence_of_night(tmp_path)


def _measured(**times):
    """Figures of one benchmark: of each implementation, its time and how far off it may be."""
    return {
        ("guide.Guide.time_step", (repr(name),)): Figure(time, time - off, time + off, "seconds")
        for name, (time, off) in times.items()
    }


@pytest.mark.parametrize(
    ("reference", "jax", "worse"),
    [
        ((1.0, 0.1), (1.0, 0.1), []),
        ((1.5, 0.1), (1.0, 0.1), ["1.00 s before, 1.50 s now: 1.50 times, beside 1.00"]),
        ((1.5, 0.1), (1.5, 0.1), []),  # the machine is slower tonight
        ((1.5, 0.4), (1.0, 0.1), []),  # who knows
        ((1.5, float("inf")), (1.0, 0.1), []),
        ((1.5, 0.1), (0.5, 0.1), ["1.50 s now: 3.00 times, beside 0.50"]),
        ((float("inf"), 0.0), (1.0, 0.1), ["not measured any more"]),
        ((1.0, 0.1), (9.0, 0.1), []),
    ],
)
def test_a_time_is_worse_beside_what_is_not_ours(reference, jax, worse):
    before = _measured(reference=(1.0, 0.1), jax=(1.0, 0.1))
    after = _measured(reference=reference, jax=jax)
    found = list(regressions.worse_figures(before, after, ("time",)))
    assert [one.benchmark for one in found] == ["guide.Guide.time_step(reference)"] * len(worse)
    assert all(text in one.text for one, text in zip(found, worse, strict=True))


def test_without_npm_the_page_stays_as_asv_made_it(tmp_path, monkeypatch):
    monkeypatch.setattr(asv_site.shutil, "which", lambda name: None)
    page = '<script src="https://code.jquery.com/jquery-3.3.1.min.js"></script>'
    with pytest.raises(asv_site.NeedsNetwork, match="npm is not installed"):
        asv_site.with_libraries(page, tmp_path, tmp_path / "cache")
    page = '<script src="https://example.org/new.js"></script>'
    with pytest.raises(asv_site.NeedsNetwork, match=r"needs https://example.org/new.js"):
        asv_site.with_libraries(page, tmp_path, tmp_path / "cache")


def test_a_change_in_no_commit_is_refused(project, regressed):
    project.plant("errors.py", "# changed\n")
    code, printed = project.night()
    _git(project.folder, "checkout", "--", ".")
    assert code == 2
    assert "these changes are in no commit" in printed


def test_counts_of_earlier_commits_are_taken_when_asked_for(project, regressed):
    """Those that no night was about; asv's graph then has a point for each."""
    project.plant("errors.py", "# between two nights\n")
    between = project.commit()
    project.plant("errors.py", "# tonight\n")
    project.commit()
    code, printed = project.night("--no-conformance", "--backfill", "1")
    assert code == 0, printed
    assert f"measure {NAME} at {between[:12]}" in printed
    found = [json.loads(path.read_text()) for path in project.state.glob("earlier/*.json")]
    assert {each["result"]["commit_hash"] for each in found} == {between}
    assert {name for each in found for name in each["result"]["results"]} >= {NAME}
    summary = project.state / "site" / "benchmarks" / "graphs" / "summary" / f"{NAME}.json"
    assert len(json.loads(summary.read_text())) == 4


def test_a_night_that_measures_nothing_fails(project, resumed):
    code, printed = project.night("--no-conformance", "--select", "no such benchmark")
    assert code == 2
    assert "nothing was measured: no task is asked for" in printed


def test_an_interpreter_may_be_named_from_where_one_stands(monkeypatch):
    """asv runs in a folder of its own, where a relative path would lead elsewhere."""
    monkeypatch.chdir(Path(sys.executable).parent)
    found = environments.described(f"./{Path(sys.executable).name}").python
    assert os.path.isabs(found)
    assert os.path.samefile(found, sys.executable)


def test_an_interpreter_that_is_not_there_is_refused_by_name():
    with pytest.raises(NothingMeasured, match="'no/python' is no Python: expected"):
        environments.described("no/python")

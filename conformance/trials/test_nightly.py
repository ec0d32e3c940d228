"""A night judges, measures and publishes; it goes on after a kill, and names regressions."""

import json
import os
import random
import re
import shutil
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from scutch.report import load
from scutch_ci import asv_site, docs, environments, regressions
from scutch_ci.checkout import NothingMeasured
from scutch_ci.history import read_json
from scutch_ci.measurements import Figure, figures
from trials.nights import NAME, Project, git

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


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return Project(tmp_path_factory.mktemp("project"))


KILLS = 8
"""Random moments at which a night is killed, besides two at which something must have been done."""


@pytest.fixture(scope="module")
def whole(project):
    """The folder of a night that nobody has killed, of the same commit."""
    state = project.folder / "build" / "whole"
    code, printed = project.night("--state", str(state))
    assert code == 0, printed
    return state


@pytest.fixture(scope="module")
def killed(project):
    """The laws tried and the results left at each kill of a night, and the output of the last one.

    The night is killed at random moments: as it begins, looks for environments and judges; then
    when the first law has been tried, and last in its second measurement.
    """
    drawn, seen, printed = random.Random(16), [], ""
    ends = [(drawn.choice(("", "commit ", "judge ")), drawn.uniform(0, 2)) for _ in range(KILLS)]
    for text, seconds in [*ends, ("judge ", None), ("\nmeasure [^$]*\nmeasure ", 0)]:
        process, printed = project.start(), ""
        while not re.search(text, printed):
            letter = process.stdout.read(1)
            assert letter, printed
            printed += letter
        if seconds is None:
            while not project.tried() and process.poll() is None:
                time.sleep(0.05)
        time.sleep(seconds or 0)
        process.kill()
        process.communicate()
        seen.append((project.tried(), project.results()))
    return seen, printed


@pytest.fixture(scope="module")
def cut_off(project, killed):
    """The output and the results of the night when it was killed in its second measurement."""
    return killed[1], project.results()


@pytest.fixture(scope="module")
def resumed(project, cut_off):
    """The same night, gone on with."""
    return project.night()


@pytest.fixture(scope="module")
def regressed(project, resumed):
    """The next night, after a law was broken and a count made worse; and both commits."""
    first = git(project.folder, "rev-parse", "HEAD").strip()
    project.plant("meta.py", BROKEN_LAW)
    project.plant("nnx/__init__.py", WORSE_COUNT)
    second = project.commit()
    return *project.night(), first, second


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_what_was_tried_or_measured_before_each_kill_is_there_afterwards(project, killed, resumed):
    (report,) = (load(path) for path in project.state.glob("nights/*/conformance/*.json"))
    in_report = {test for each in report.requirements for test in each.tests}
    ends, _ = killed
    assert len(ends) == KILLS + 2
    assert any(laws for laws, _ in ends)
    for laws, files in ends:
        assert laws <= in_report
        assert files.items() <= project.results().items()


@pytest.mark.nightly
def test_a_killed_night_comes_to_what_another_comes_to(project, whole, resumed):
    """The same verdicts and counts, and a site of the same pages, but for times and dates."""
    assert outcome(project.state) == outcome(whole)
    assert site(project.state) == site(whole)
    assert len(site(whole)) > 20
    assert list((project.state / "scratch").iterdir()) == []


def outcome(state):
    """The verdicts and figures of a night, without times."""
    judged = {
        path.name: [(each.id, each.verdict, each.examples) for each in load(path).requirements]
        for path in state.glob("nights/*/conformance/*.json")
    }
    documents = {path.name: read_json(path) for path in state.glob("nights/*/benchmarks/*.json")}
    return judged, {name: figures(document) for name, document in documents.items()}


def site(state):
    """The files of a site, and the texts of its pages without numbers."""
    return {
        str(path.relative_to(state / "site")): re.sub(r"[\d.]+", "#", path.read_text("utf-8"))
        if path.suffix == ".html"
        else ""
        for path in (state / "site").rglob("*")
        if path.is_file()
    }


@pytest.mark.nightly
def test_a_night_that_is_done_is_not_done_again(project, resumed):
    before = project.results()
    code, printed = project.night("--no-benchmarks")
    assert (code, printed.count("kept")) == (0, 1), printed
    assert project.results() == before


@pytest.mark.nightly
def test_what_regressed_is_named_with_the_commits_and_fails(regressed):
    code, printed, first, second = regressed
    assert code == 1, printed
    assert f"regressed between {first[:12]}..{second[:12]} (1 commit):" in printed
    lines = [line.split() for line in printed.splitlines()]
    laws = [line[2] for line in lines if line[:1] == ["law"]]
    assert laws == ["metadata/box-axes/removing-undoes-adding:"]
    assert "passed -> failed" in printed
    assert f"{NAME}(reference, forward, 4): " in printed
    assert not any("(jax" in word for line in lines if line[:1] == ["count"] for word in line)


@pytest.mark.nightly
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
    row = page.locator(
        "tr",
        has=page.get_by_role("link", name="removing-undoes-adding", exact=True),
    )
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


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_a_change_in_no_commit_is_refused(project, regressed):
    project.plant("errors/base.py", "# changed\n")
    code, printed = project.night()
    git(project.folder, "checkout", "--", ".")
    assert code == 2
    assert "these changes are in no commit" in printed


@pytest.mark.nightly
def test_counts_of_earlier_commits_are_taken_when_asked_for(project, regressed):
    """Those that no night was about; asv's graph then has a point for each."""
    project.plant("errors/base.py", "# between two nights\n")
    between = project.commit()
    project.plant("errors/base.py", "# tonight\n")
    project.commit()
    code, printed = project.night("--no-conformance", "--backfill", "1")
    assert code == 0, printed
    assert f"measure {NAME} at {between[:12]}" in printed
    found = [json.loads(path.read_text()) for path in project.state.glob("earlier/*.json")]
    assert {each["result"]["commit_hash"] for each in found} == {between}
    assert {name for each in found for name in each["result"]["results"]} >= {NAME}
    summary = project.state / "site" / "benchmarks" / "graphs" / "summary" / f"{NAME}.json"
    assert len(json.loads(summary.read_text())) == 4


@pytest.mark.nightly
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

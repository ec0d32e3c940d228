"""Plugins of pytest that happen to be installed change no verdict.

`scutch run` loads none of them, and `pytest` with them keeps the laws away from their hooks.

Each plugin below acts on every test like a widely used plugin: `pytest-rerunfailures` and
`pytest-retry` run it themselves, `pytest-timeout` ends it, `pytest-subtests` sends its own reports,
`pytest-asyncio` and `pytest-mock` look at its fixtures.
"""

import json
import os
import subprocess
import sys

import pytest

PLUGINS = {
    "reruns": """
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        item.ihook.pytest_runtest_logreport(report=report)
    return True
""",
    "limits": """
def pytest_addoption(parser):
    parser.addoption("--timeout", type=float)
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    marks = [float(mark.args[0]) for mark in item.iter_markers("timeout")]
    if (marks or [item.config.getoption("--timeout")])[0]:
        os._exit(9)
""",
    "fixtures": """
@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    assert item.funcargs and item._request
    return (yield)
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    assert item.funcargs
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    raise SystemExit(3)
""",
    "reports": """
def pytest_report_to_serializable(report):
    return {"mine": True}
def pytest_report_from_serializable(data):
    raise ValueError(data)
""",
}
WITH_ONE_OF_OURS = "def pytest_addoption(parser):\n    parser.addoption('--law-timeout')\n"
WITH_A_FAULT = """
def pytest_runtest_logreport(report):
    raise KeyError("no such row")
"""
REQUIREMENTS = ("--requirement", "metadata/box-axes")


@pytest.fixture
def judge(tmp_path):
    """Judge the reference beside plugins; gives the ended process and the verdicts."""

    def call(plugins, *command):
        for name, text in plugins.items():
            head = "import os\nimport pytest\nfrom _pytest.runner import runtestprotocol\n"
            (tmp_path / f"of_{name}.py").write_text(head + text)
            about = tmp_path / f"of_{name}-1.dist-info"
            about.mkdir()
            about.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: of-{name}\n")
            about.joinpath("entry_points.txt").write_text(f"[pytest11]\n{name} = of_{name}\n")
        loaded = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "JAX_"))}
        loaded["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
        report = tmp_path / "report.json"
        asked = ("--implementation", "reference", "--profile", "quick", *REQUIREMENTS)
        done = subprocess.run(
            [sys.executable, "-P", "-m", *command, *asked, "--report", str(report)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=loaded,
        )
        rows = json.loads(report.read_text())["requirements"] if report.exists() else []
        return done, {row["id"]: row["verdict"] for row in rows}

    return call


PYTEST = ("pytest", "-p", "scutch.plugin", "-p", "no:cacheprovider", "--pyargs", "scutch")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(PYTEST, id="pytest"),
        pytest.param((*PYTEST, "-n", "2"), id="pytest-with-two-workers", marks=pytest.mark.nightly),
        pytest.param(("scutch", "run"), id="scutch-run"),
    ],
)
def test_plugins_change_no_verdict(judge, command):
    limited = ("--timeout", "1") if command is PYTEST else ()
    done, verdicts = judge(PLUGINS, *command, *limited)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(verdicts) > 5
    assert set(verdicts.values()) == {"passed"}


def test_a_plugin_with_an_option_of_the_judge_is_named(judge):
    done, verdicts = judge({"ours": WITH_ONE_OF_OURS}, "pytest", "-p", "of_ours", *PYTEST[1:])
    assert done.returncode == 4
    assert "another plugin of pytest has an option of the same name" in done.stderr
    assert "expected `scutch run`" in done.stderr
    assert not verdicts


def test_a_plugin_that_raises_ends_the_run_and_blames_nobody(judge):
    done, verdicts = judge({"faulty": WITH_A_FAULT}, *PYTEST)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "no such row" in done.stdout + done.stderr
    assert not set(verdicts.values()) & {"failed", "crashed"}

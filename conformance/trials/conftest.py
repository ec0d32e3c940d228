"""The judge is tried on as many devices as it judges on, and its pages in a real browser."""

import os
import shutil

import pytest
from scutch.judging.compiled import compiled_once
from scutch.judging.costs import Memory
from scutch.judging.jax_parts import lower_quickly
from scutch.judging.profiles import prepare_devices
from trials import commands

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

prepare_devices()
lower_quickly()


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory):
    """Liars differ little from each other: programs that XLA compiles for one serve the next.

    Judges that trials start keep nothing in the user's own cache folder.
    """
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    with compiled_once():
        yield


@pytest.fixture(scope="session")
def _memory():
    return Memory()


@pytest.fixture(autouse=True)
def _small(_memory):
    """Three workers that keep all that they compile would take more than 10 GB."""
    yield
    _memory.slim()


@pytest.fixture(scope="session")
def _warm():
    with commands.warm_process(commands.variables()) as process:
        yield process


@pytest.fixture(scope="session")
def command(_warm, tmp_path_factory):
    """Carries out a command of `scutch` or `pytest` in a folder; gives exit code and output."""

    def call(folder, *words, **environment):
        output = tmp_path_factory.mktemp("command") / "output"
        commands.begin(_warm, words, folder, output, {**commands.variables(), **environment})
        return commands.ended(_warm, output)

    return call


@pytest.fixture(scope="module")
def browser():
    """The browser that `SCUTCH_BROWSER` names, or the first that is installed."""
    path = os.environ.get("SCUTCH_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return _without("playwright is not installed")
    if path is None:
        return _without(f"no browser: set SCUTCH_BROWSER or install one of {', '.join(BROWSERS)}")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def without():
    """Skips a trial of a page for a reason, which CI does not take."""
    return _without


def _without(reason):
    if os.environ.get("CI"):
        pytest.fail(f"CI must try the site in a browser: {reason}")
    pytest.skip(reason)

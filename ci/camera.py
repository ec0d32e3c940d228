"""Pictures of pages, for the README."""

import os
import shutil
from pathlib import Path

from checks import BROWSERS

SIZE = {"width": 1280, "height": 1725}


class NoCamera(Exception):
    """There is no browser, or no way to tell it what to do."""


def take(page: Path, picture: Path) -> None:
    """A picture of the upper part of a page, as it opens from disk without a network.

    Raises:
      NoCamera: playwright or a browser is missing.
    """
    path = os.environ.get("SCUTCH_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise NoCamera(f"no browser: set SCUTCH_BROWSER or install one of {', '.join(BROWSERS)}")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError as error:
        raise NoCamera('no playwright: pip install "scutch[dev]"') from error
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        context = browser.new_context(offline=True, viewport=SIZE)
        opened = context.new_page()
        opened.goto(page.as_uri())
        opened.screenshot(path=picture)
        browser.close()

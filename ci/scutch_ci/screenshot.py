"""Pictures of HTML pages, taken by a browser that playwright drives."""

import os
import shutil
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class NoBrowser(Exception):
    """There is no browser, or playwright is not installed; the text names the remedy."""


def browser_path() -> str | None:
    """The browser that `SCUTCH_BROWSER` names, or the first that is on `PATH`; None without one."""
    return os.environ.get("SCUTCH_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)


def take(page: Path, picture: Path) -> None:
    """Open a page from disk without a network, and take a picture of its upper part.

    Args:
      page: The HTML file.
      picture: The PNG file that is written.

    Raises:
      NoBrowser: playwright or a browser is missing.
    """
    path = browser_path()
    if path is None:
        raise NoBrowser(f"no browser: set SCUTCH_BROWSER or install one of {', '.join(BROWSERS)}")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError as error:
        raise NoBrowser('no playwright: pip install "scutch[dev]"') from error
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        context = browser.new_context(offline=True, viewport={"width": 1280, "height": 1725})
        opened = context.new_page()
        opened.goto(page.as_uri())
        opened.screenshot(path=picture)
        browser.close()

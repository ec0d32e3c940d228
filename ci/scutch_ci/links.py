"""The broken links inside a site on disk.

A link is broken if the file that it names is not in the site, or if nothing in that file has the
name after `#`. Links to the web are left alone: `ci/docs --external` has Sphinx follow them.
"""

import functools
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

_NAME = re.compile(r'<[^<>]*?\sid="([^"]*)"')
_TARGET = re.compile(r'<[^<>]*?\s(?:href|src)="([^"]+)"')
APPLICATIONS = ("benchmarks",)
"""Folders of pages whose script reads the text after `#`, which names no part of the page."""


@dataclass(frozen=True)
class Page:
    """The names in a page and the addresses that it links to.

    Args:
      names: The `id` of each element; a link can name it after `#`.
      targets: The addresses in `href` and `src`, each once.
    """

    names: frozenset[str]
    targets: tuple[str, ...]


@functools.cache
def _page(path: Path) -> Page:
    text = path.read_text("utf-8")
    return Page(
        frozenset(map(html.unescape, _NAME.findall(text))),
        tuple(dict.fromkeys(map(html.unescape, _TARGET.findall(text)))),
    )


def broken(folder: Path) -> Iterator[str]:
    """The broken links of all pages in a folder, as `page: address: why`."""
    _page.cache_clear()
    for path in sorted(folder.rglob("*.html")):
        for address in _page(path).targets:
            if why := _fault(path, address, folder):
                yield f"{path.relative_to(folder)}: {address}: {why}"


def _fault(path: Path, address: str, folder: Path) -> str:
    """Why a link of a page is broken; empty if it is not."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return ""
    target = path
    if parts.path:
        target = (path.parent / unquote(parts.path)).resolve()
        if not target.is_relative_to(folder.resolve()):
            return "it leads out of the site"
    if not target.is_file():
        return "there is no such file"
    if target.suffix != ".html" or target.parent.name in APPLICATIONS or not parts.fragment:
        return ""
    return "" if unquote(parts.fragment) in _page(target).names else "the page has no such place"

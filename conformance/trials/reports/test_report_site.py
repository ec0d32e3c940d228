"""The static site, as text: its escapes, its links and its files."""

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markupsafe import escape
from scutch import catalogue
from scutch.report import Counterexample, Environment, Product, ReportError, site
from scutch.report.text import visible


@pytest.fixture
def pages(reference, flax, entries):
    return site.render([reference, flax], entries)


class Links(HTMLParser):
    """Everything that a page could load, run or lead to, and the texts that it quotes."""

    def __init__(self, page):
        super().__init__()
        self.loads, self.leads, self.tags = [], [], set()
        self.quoted, self.inside = [], False
        self.feed(page)

    def handle_data(self, data):
        if self.inside:
            self.quoted[-1] += data

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "pre"

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "pre":
            self.inside = True
            self.quoted.append("")
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            if name == "href" and tag == "a":
                self.leads.append(value)
            elif name in ("src", "href", "srcset", "action", "data", "style"):
                self.loads.append((tag, name, value))


def test_there_is_a_page_for_each_requirement(pages, entries):
    assert set(pages) == {"index.html"} | {
        f"requirement/{catalogue.file_name(entry.id)}.html" for entry in entries
    }


def apart_from_search(page):
    """A page without the one script that is ours."""
    return page.replace(f"<script>{site.search()}</script>", "")


def test_no_page_loads_or_runs_anything_but_the_search(pages):
    assert apart_from_search(pages["index.html"]) != pages["index.html"]
    for page in map(apart_from_search, pages.values()):
        links = Links(page)
        assert links.loads == []
        assert links.tags.isdisjoint({"script", "img", "link", "iframe", "object", "base"})
        assert "default-src 'none'" in unescape(page)
        assert not re.search(r"url\(|@import|@font-face", page)


def test_the_charge_can_be_checked(report):
    """A page quotes the document, says where to read it, and shows the code of the law."""
    row = catalogue.by_id()["objects/graphs/merge-undoes-split"]
    pages = site.render([report({row.id: "passed"})], catalogue.load())
    page = pages[f"requirement/{catalogue.file_name(row.id)}.html"]
    assert f"<blockquote>{escape(row.quote)}</blockquote>" in page
    assert row.documents[0].address in Links(page).leads
    assert "def test_merging_a_split_object_restores_it" in page


def test_a_run_over_a_selection_says_so(reference):
    page = site.render([reference], catalogue.load())["index.html"]
    assert f"of {len(catalogue.load())} requirements, a selection" in page


def test_every_link_inside_the_site_has_an_end(pages):
    for name, page in pages.items():
        folder = name.rpartition("/")[0]
        for target in Links(page).leads:
            if target.startswith("https:"):
                continue
            path, _, anchor = target.partition("#")
            if path:
                path = path.removeprefix("../") if folder else path
            found = pages[path or name]
            assert not anchor or f'id="{anchor}"' in found, (name, target)


def test_text_of_an_implementation_is_escaped(pages):
    page = pages["requirement/boxes-all-b-9a.html"]
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;document.title = &#34;taken&#34;&lt;/script&gt;" in page
    assert "&amp;amp;" in page
    assert r"\x1b[31mAssertionError\x1b[0m: &#39;\u202ereversed\ud800&#39;" in page


def test_harm_in_any_field_is_escaped(report):
    harm = "<script>alert(1)</script>"
    everything = {
        "verdict": "failed",
        **dict.fromkeys(["title", "reason", "upstream", "replay"], harm),
        "tests": (harm,),
    }
    run = report({"boxes/all/b-1": everything}, name=harm, version=harm, profile=harm)
    for page in map(apart_from_search, site.render([run], ()).values()):
        assert "<script" not in page
        assert "&lt;script&gt;" in page
        assert "script" not in Links(page).tags


@settings(max_examples=60, deadline=None)
@given(anything=st.text(st.characters(exclude_categories=())))
@example("\ud800\x00\r\n\u202e")
@example("\n</code></pre><script>")
@example("&lt; &#60; {{ style }} {% raw %}")
def test_whatever_an_implementation_says_is_shown_as_it_is(report, anything):
    """A page quotes any text literally except invisible characters, and can be encoded in UTF-8."""
    run = report(
        {
            "boxes/all/b-1": {
                "verdict": "failed",
                **dict.fromkeys(["title", "reason", "upstream"], anything),
                "counterexample": Counterexample(anything, anything, anything),
                "replay": anything or "-",
            }
        },
        name=anything,
        version=anything,
        profile=anything,
        suite=Product(anything, anything),
        environment=Environment(anything, anything, anything, 1),
    )
    pages = site.render([run], ())
    for page in pages.values():
        assert page.encode("utf-8")
        tags = Links(apart_from_search(page)).tags
        assert tags.isdisjoint({"script", "img", "link", "iframe", "object", "base"})
    quoted = Links(pages["requirement/boxes-all-b-1.html"]).quoted
    assert quoted == [visible(anything), visible(anything), visible(anything or "-")]


def test_only_addresses_of_the_web_become_links(pages):
    assert (
        "https://example.org/issues/1?a=1&b=2"
        in Links(pages["requirement/boxes-all-b-11.html"]).leads
    )
    page = pages["requirement/rules-all-l-1.html"]
    assert "javascript:alert(1)" in page
    assert not [target for target in Links(page).leads if "javascript" in target]


@pytest.mark.parametrize(
    "address",
    ["data:text/html,x", "//example.org/x", "http://", "file:///etc", "http://[", " javascript:x"],
)
def test_other_addresses_stay_text(address, report):
    run = report({"boxes/all/b-1": {"verdict": "known", "upstream": address}})
    page = site.render([run], ())["requirement/boxes-all-b-1.html"]
    assert address.strip() in page
    assert address not in Links(page).leads


def test_a_reason_that_is_the_error_is_said_once(report):
    broken = {"verdict": "failed", "counterexample": Counterexample("t", "i", "It broke.")}
    for reason, times in (("It broke.", 1), ("It broke again.", 2)):
        run = report({"boxes/all/b-1": broken | {"reason": reason}})
        page = site.render([run], ())["requirement/boxes-all-b-1.html"]
        assert page.count("It broke") == times


def test_a_requirement_page_has_the_words_of_the_catalogue(pages):
    page = pages["requirement/boxes-all-b-2a.html"]
    for words in ["A box is a pytree node", "<p>First.</p>", "<code>second</code>", "000_ boxes"]:
        assert words in page
    assert {"../requirement/boxes-all-b-1.html", "../requirement/boxes-all-b-2a-logical.html"} <= {
        *Links(page).leads
    }


def test_a_requirement_that_the_catalogue_does_not_know_is_still_shown(report):
    page = site.render([report({"XYZ-1": "passed"})], ())["requirement/XYZ-1.html"]
    assert "has no text for this requirement" in page
    assert "The law XYZ-1" in page


def test_a_requirement_that_a_run_lacks_is_absent(report):
    runs = [report({"boxes/all/b-1": "passed"}), report({}, name="other", complete=False)]
    page = site.render(runs, ())["requirement/boxes-all-b-1.html"]
    assert "Not in this report. The run was not complete." in page


def test_the_first_page_has_the_facts_of_each_run(pages):
    for words in ["0.12.8", "0.10.2", "3.11.7", "<dd>cpu</dd>", "<dd>8</dd>", "1 root cause"]:
        assert words in pages["index.html"]


def test_a_site_is_written_over_itself_and_deletes_nothing(reference, flax, entries, tmp_path):
    folder = tmp_path / "new" / "site"
    assert site.write([reference, flax], entries, folder) == folder / "index.html"
    (folder / "notes.txt").write_text("mine")
    before = {path for path in folder.rglob("*") if path.is_file()}
    site.write([reference], entries, folder)
    assert {path for path in folder.rglob("*") if path.is_file()} == before
    assert "flax" not in (folder / "index.html").read_text().lower().replace("flax-", "")
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_page_of_somebody_else_is_left_alone(flax, entries, tmp_path):
    (tmp_path / "index.html").write_text("<h1>My project</h1>")
    with pytest.raises(ReportError, match=r"index\.html is there and is not a page of scutch"):
        site.write([flax], entries, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_text() == "<h1>My project</h1>"


def test_a_folder_that_cannot_be_made_is_said(flax, entries, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"cannot write the site to .*file"):
        site.write([flax], entries, tmp_path / "file")


def test_half_a_character_in_a_report_ends_no_page(report, entries, tmp_path):
    odd = report({"boxes/all/b-1": {"verdict": "known", "reason": "half \ud800"}})
    odd = replace(odd, implementation=Product("half \udfff", "1"))
    index = site.write([odd], entries, tmp_path / "site")
    assert "half \\udfff" in index.read_text("utf-8")

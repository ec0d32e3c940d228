"""The documentation is built without a warning, and looked at in a real browser, from disk."""

import json
from urllib.parse import urlsplit

import pytest
from scutch import catalogue
from scutch.judging import known
from scutch.judging.scripts import script_of
from scutch.judging.trials import Counterexample
from scutch.report import Environment, Outcome, Product, Report
from scutch.report.document import write
from scutch_ci import docs, links, pages

HARM = "</code></pre><script>document.title = 'taken'</script>``` `````` {{ 7 * 7 }} [x](y)"
FINDS = "bridge/wrappers/tolinen-finds-methods"
FINDING = "findings/flax-method-by-name"
BROKEN = "metadata/box-axes/removal-works-without-assertions"
PLACE = "metadata-box-axes-removal-works-without-assertions-run-1"
LOOKED_AT = (
    "index",
    "start",
    "guide",
    "judging/box",
    "verdicts/index",
    "requirements/metadata-box-axes",
    "requirements/metadata-logical-boxes",
    "findings/flax",
    FINDING,
    "releases/index",
    "mutants/index",
    "api/objects",
    "nightly",
    "glossary",
)


def report():
    """A run that breaks one requirement, with text that must not be obeyed; all else passes."""
    passed = {"verdict": "passed"}
    broken = {
        "verdict": "failed",
        "reason": HARM,
        "counterexample": Counterexample(test="test_x", input=HARM, error=HARM),
        "replay": HARM,
    }
    outcomes = tuple(
        Outcome(
            one.id,
            one.level,
            one.title,
            **(broken if one.id == BROKEN else passed),
        )
        for one in catalogue.load()
    )
    environment = Environment("0.10.2", "3.11.7", "cpu", 8)
    product = Product("scutch", "0.1.0"), Product("my-fork", "1.0")
    return Report(*product, environment, "quick", 0, "must", outcomes, complete=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The exit code of `ci/docs`, and the folder of the site."""
    folder = tmp_path_factory.mktemp("docs")
    write(report(), folder / "conformance" / "my-fork.json")
    code = docs.main(["--from", str(folder), "--output", str(folder / "made")])
    return code, folder / "made" / "html"


def failed(request):
    """A request that failed, unless the browser ended it itself: it does so when a page is left.

    A file that is missing fails with ERR_FILE_NOT_FOUND, so no broken link is hidden by this.
    """
    return [] if "ERR_ABORTED" in request.failure else [f"{request.url} {request.failure}"]


@pytest.fixture
def opened(browser, built):
    """Opens pages of the site from disk; a request elsewhere, or a complaint, fails the test."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    requests, complaints = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("requestfailed", lambda request: complaints.extend(failed(request)))
    page.on("console", lambda message: message.type == "log" or complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))

    def to(name, width=None):
        if width:
            page.set_viewport_size({"width": width, "height": 900})
        assert page.goto((built[1] / f"{name}.html").as_uri(), wait_until="networkidle")
        return page

    yield to
    context.close()
    assert requests
    assert {urlsplit(address).scheme for address in requests} <= {"file", "data"}
    assert complaints == []


def test_it_is_built_without_a_warning_and_no_link_is_broken(built):
    assert built[0] == 0


def test_every_requirement_has_a_place_with_its_text_source_law_and_verdict(built):
    for group in (group for groups in pages.parts().values() for group in groups):
        page = (built[1] / "requirements" / f"{group.page}.html").read_text("utf-8")
        for entry in (*group.entries, *group.inherited):
            assert f'id="{pages.label(entry.id)}"' in page
            assert f'id="{pages.label(entry.id)}-run-1"' in page


def test_every_known_failure_is_on_the_page_of_its_cause(built):
    for entry in known.shipped():
        name = f"{entry.implementation}-{entry.cause.name}"
        table = (built[1] / "findings" / f"{entry.implementation}.html").read_text("utf-8")
        assert f'href="{name}.html"' in table
        page = (built[1] / "findings" / f"{name}.html").read_text("utf-8")
        assert entry.requirement in page


def test_the_script_of_a_known_failure_is_shown_copied_and_downloaded(opened):
    page = opened(FINDING)
    shown = page.locator("details", has_text="A script that shows it without scutch")
    shown.locator("summary").click()
    assert shown.locator("pre").inner_text().strip().startswith('"""')
    assert shown.locator("button.copybtn").count() == 1
    with page.expect_download() as download:
        shown.get_by_role("link", name="download").click()
    entry = next(one for one in known.shipped() if one.requirement == FINDS)
    text = download.value.path().read_text("utf-8")
    assert text == script_of("flax", entry.requirement, entry.witness)


@pytest.mark.parametrize("width", [360, 1440])
def test_no_page_is_wider_than_its_window(opened, width):
    for name in LOOKED_AT:
        page = opened(name, width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


def test_what_an_implementation_said_is_displayed_and_not_obeyed(opened):
    page = opened("requirements/metadata-box-axes")
    assert page.title() != "taken"
    shown = page.locator(f"#{PLACE} pre").all_inner_texts()
    assert shown == [HARM] * 3


def test_the_matrix_leads_to_the_verdict(opened):
    page = opened("verdicts/index")
    page.locator("#search").fill("removal-works-without")
    assert (
        page.locator("tbody th[scope=row]:visible").all_inner_texts()[0]
        == "removal-works-without-assertions"
    )
    page.locator(f"a[href='../requirements/metadata-box-axes.html#{PLACE}']").first.click()
    page.wait_for_selector(f"#{PLACE}")  # fails unless it becomes visible
    assert page.locator(f"#{PLACE}").is_visible()


def test_the_search_finds_a_requirement_from_disk(opened):
    page = opened("search")
    page.locator("input[name=q]").first.fill("remove_axis")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li a")
    assert page.locator("#search-results li a").count() > 1


def test_the_guide_shows_what_it_gave(opened):
    page = opened("guide")
    assert "all claims hold" in page.locator("article").inner_text()
    assert "CPU 0,4" in page.locator("article").inner_text()


def test_light_and_dark_can_be_chosen(opened):
    page = opened("index")
    toggle = page.locator("button.theme-toggle:visible")
    toggle.click()
    first = page.evaluate("getComputedStyle(document.body).backgroundColor")
    toggle.click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != first


def test_a_broken_link_is_named(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html">b</a><a href="#x">x</a><p id="y">')
    (tmp_path / "c.html").write_text('<a href="a.html#y"></a><a href="../d.html"></a>')
    assert list(links.broken(tmp_path)) == [
        "a.html: b.html: there is no such file",
        "a.html: #x: the page has no such place",
        "c.html: ../d.html: it leads out of the site",
    ]


def test_a_report_that_cannot_be_read_is_refused(tmp_path, capsys):
    (tmp_path / "conformance").mkdir()
    (tmp_path / "conformance" / "no.json").write_text(json.dumps({"schema": "other/1"}))
    assert docs.main(["--from", str(tmp_path), "--output", str(tmp_path / "made")]) == 2
    assert "at schema: found 'other/1'" in capsys.readouterr().err

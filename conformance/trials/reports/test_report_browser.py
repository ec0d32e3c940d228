"""The site in a real browser, from disk, with the network cut off."""

from urllib.parse import urlsplit

import pytest
from scutch.report import site


@pytest.fixture
def page(browser, reference, flax, entries, tmp_path):
    """The first page of a site, opened from disk; any request for anything else fails the test."""
    index = site.write([reference, flax], entries, tmp_path / "site")
    context = browser.new_context(offline=True)
    page = context.new_page()
    requests, complaints = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.route("**", lambda route, request: _from_disk(route, request))
    page.goto(index.as_uri())
    yield page
    context.close()
    assert requests
    assert {urlsplit(address).scheme for address in requests} == {"file"}
    assert complaints == []


def _from_disk(route, request):
    if urlsplit(request.url).scheme == "file":
        route.continue_()
    else:
        route.abort()


def test_the_matrix_shows_both_implementations(page):
    assert page.title() == "Conformance: reference 0.1.0, flax 0.12.8"
    assert page.locator("thead th").all_inner_texts()[3:] == ["reference 0.1.0", "flax 0.12.8"]
    cells = page.locator("tr", has=page.get_by_role("link", name="b-9a", exact=True))
    assert cells.locator("td.verdict").all_inner_texts() == ["✓ passed", "✗ failed"]
    assert page.get_by_text("of 5 must requirements hold").is_visible()


def test_a_counterexample_is_displayed_and_not_obeyed(page):
    page.locator("a[href='requirement/boxes-all-b-9a.html#run-2']").last.click()
    assert page.url.endswith("/requirement/boxes-all-b-9a.html#run-2")
    assert page.title() == "boxes/all/b-9a: A wrong name is refused"
    shown = page.locator("#run-2 pre").all_inner_texts()
    assert shown == [
        "\nbox = Partitioned(\n"
        "    names=('<script>document.title = \"taken\"</script>', '&amp;')\n)",
        r"\x1b[31mAssertionError\x1b[0m: '\u202ereversed\ud800' <img src=x onerror=alert(1)>",
        "pytest -p scutch.plugin --implementation flax --requirement boxes/all/b-9a",
    ]
    assert page.locator("#run-2 pre").first.is_visible()
    assert page.locator("script, img").count() == 0
    assert "passed" in page.locator("#run-1 h3").inner_text()
    assert "failed" in page.locator("#run-2 h3").inner_text()


def test_links_lead_from_page_to_page_and_back(page):
    page.get_by_role("link", name="b-10", exact=True).click()
    assert (
        page.get_by_role("heading", level=1).inner_text()
        == "boxes/all/b-10 A method touches nothing"
    )
    page.locator("#run-2").get_by_role("link", name="boxes/all/b-9a").click()
    assert (
        page.get_by_role("heading", level=1).inner_text()
        == "boxes/all/b-9a A wrong name is refused"
    )
    page.get_by_role("link", name="All requirements").click()
    assert page.get_by_role("heading", level=1).inner_text() == "Conformance report"


def test_filters_work_without_a_script(page):
    def visible_ids():
        return page.locator("tbody th[scope=row]:visible").all_inner_texts()

    everything = visible_ids()
    page.get_by_label("not settled").check()
    assert visible_ids() == ["b-9a", "b-10", "b-11", "l-1"]
    page.get_by_label("where they differ").check()
    assert visible_ids() == ["b-2a[logical]", "b-9a", "b-10", "b-11", "l-1"]
    page.get_by_label("should").check()
    assert visible_ids() == ["b-11"]
    assert not page.locator("[id='rules/all']").is_visible()
    page.locator("#show-all").check()
    page.locator("#level-all").check()
    assert visible_ids() == everything


def test_the_search_shows_what_holds_the_words(page):
    page.get_by_label("Search").fill("b-9a")
    assert page.locator("tbody th[scope=row]:visible").all_inner_texts() == ["b-9a"]
    assert not page.locator("[id='rules/all']").is_visible()


def test_groups_are_folded_and_say_what_is_in_them(page):
    rows = page.locator("tbody th[scope=row]:visible")
    everything = rows.all_inner_texts()
    page.get_by_role("button", name="close all groups").click()
    assert rows.all_inner_texts() == []
    group = page.locator("[id='boxes/all'] .area")
    assert group.locator("td.verdict").all_inner_texts() == ["✓ 6 passed", "✗ 1 failed"]
    page.get_by_role("button", name="boxes/all").click()
    assert "b-9a" in rows.all_inner_texts()
    assert "l-1" not in rows.all_inner_texts()
    page.get_by_role("button", name="open all groups").click()
    assert rows.all_inner_texts() == everything


def test_the_address_holds_what_is_filtered(page):
    page.get_by_role("button", name="close all groups").click()
    page.get_by_label("Search").fill("b-")
    page.get_by_label("where they differ").check()
    found = page.locator("tbody th[scope=row]:visible").all_inner_texts()
    assert found == ["b-2a[logical]", "b-9a", "b-10", "b-11"]
    assert page.url.endswith("#search=b-&show=differ")
    page.reload()
    assert page.locator("tbody th[scope=row]:visible").all_inner_texts() == found
    assert page.get_by_label("Search").input_value() == "b-"


def test_verdicts_come_first_on_a_phone(page):
    page.set_viewport_size({"width": 390, "height": 800})
    row = page.locator("tr", has=page.get_by_role("link", name="b-9a", exact=True))
    verdict, name = row.locator("td.verdict").first, row.locator("th")
    assert verdict.bounding_box()["y"] < name.bounding_box()["y"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_an_upstream_issue_is_a_link_and_a_script_is_not(page):
    page.get_by_role("link", name="b-11", exact=True).click()
    assert page.get_by_text("Flax counts from the front <b>only</b>").is_visible()
    link = page.get_by_role("link", name="https://example.org/issues/1?a=1&b=2")
    assert link.get_attribute("href") == "https://example.org/issues/1?a=1&b=2"
    page.get_by_role("link", name="rules/all/l-1 →").click()
    assert page.get_by_text("javascript:alert(1)").is_visible()
    assert page.get_by_role("link", name="javascript").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(page, scheme):
    """Contrast of 4.5 or more (WCAG AA), in light and in dark."""
    page.emulate_media(color_scheme=scheme)
    worst = page.evaluate(CONTRAST)
    assert worst["ratio"] >= 4.5, worst


@pytest.mark.parametrize("width", [360, pytest.param(800, marks=pytest.mark.nightly), 1600])
def test_no_page_is_wider_than_its_window(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    for address in (page.url, page.url.replace("index.html", "requirement/boxes-all-b-9a.html")):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


CONTRAST = """() => {
  const parse = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const linear = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [x, y, z] = [r, g, b].map(linear);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const colour = parse(getComputedStyle(element).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  let worst = { ratio: 21 };
  for (const element of document.querySelectorAll("main *")) {
    if (![...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst.ratio) worst = { ratio, text: element.textContent, class: element.className };
  }
  return worst;
}"""

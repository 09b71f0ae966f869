"""What counts as seen: the assertions of the other tests are no better than this."""

import pytest
from playwright.sync_api import Browser

from tests.clients.web_ui.seen import seen, seen_texts, unseen

pytestmark = pytest.mark.browser

SHOWN = {
    "plain": "<p>word</p>",
    "below the fold": "<div style='height: 3000px'></div><p>word</p>",
    "in a box that scrolls": "<div style='height: 50px; overflow: auto'><p style='margin-top: 900px'>word</p></div>",
    "in two blocks": "<p>the</p><p>word</p>",
}
NOT_SHOWN = {
    "hidden": "<p hidden>word</p>",
    "folded": "<details><summary>more</summary>word</details>",
    "invisible": "<p style='visibility: hidden'>word</p>",
    "transparent": "<div style='opacity: 0'><p>word</p></div>",
    "covered": "<p>word</p><div style='position: fixed; inset: 0; background: white'></div>",
    "cut off": "<div style='height: 0; overflow: hidden'>word</div>",
    "beside the page": "<p style='position: absolute; left: -5000px'>word</p>",
}


def test_seen_is_what_is_shown_or_in_reach_by_scrolling(browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 300})
    try:
        for content in SHOWN.values():
            page.set_content(content)
            seen(page.locator("body"), "word")
        assert page.evaluate("scrollY") == 0, "looking moved the page"
        found = {}
        for name, content in NOT_SHOWN.items():
            page.set_content(content)
            found[name] = seen_texts(page.locator("body"))
            unseen(page.locator("body"), "word")
        assert {name: texts for name, texts in found.items() if "word" in texts[0]} == {}
        page.set_content("<p style='width: 4em; overflow: hidden; white-space: nowrap'>begins and goes on</p>")
        unseen(page.locator("p"), "goes on")
        seen(page.locator("p"), "begin")
    finally:
        page.close()

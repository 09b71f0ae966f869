"""The page for everybody: axe finds nothing serious, thumbs hit, keys work, nothing is wider than a phone."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.clients.web_ui.daemon import WebDaemon
from tests.clients.web_ui.device import device
from tests.clients.web_ui.seen import announced, seen
from tests.clients.web_ui.shared import DORA

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "axe" / "node_modules" / "axe-core" / "axe.min.js"
PANELS = ("files", "sessions", "memory", "schedules", "usage", "status", "devices")
SERIOUS = """
async (rules) => {
  const found = await axe.run(document, {resultTypes: ['violations'], ...(rules.length ? {runOnly: rules} : {})});
  return found.violations.filter((each) => ['serious', 'critical'].includes(each.impact))
    .map((each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);
}
"""
WIDE = """
() => [...document.querySelectorAll('#messages, #panel, body')].some((each) => each.scrollWidth > each.clientWidth)
"""
SMALL = """
() => [...document.querySelectorAll('button, a.button, summary, select, input:not([type=checkbox]), textarea, nav a')]
  .filter((each) => each.checkVisibility({visibilityProperty: true}) && !each.closest('.unseen, .skip'))
  .map((each) => [each.outerHTML.slice(0, 90), each.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.height < 43.5 || box.width < 43.5))
  .map(([html, box]) => `${html} ${box.width}x${box.height}`)
"""


@pytest.fixture(scope="module")
def token(daemon: WebDaemon) -> str:
    return daemon.token(DORA)


def serious(page: Page) -> list[str]:
    """Return what axe calls serious or critical. In the dark theme the same elements have other colours only."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found: list[str] = page.evaluate(SERIOUS, [])
    page.emulate_media(color_scheme="dark")
    found += [f"dark: {each}" for each in page.evaluate(SERIOUS, ["color-contrast"])]
    page.emulate_media(color_scheme="light")
    return found


def test_axe_finds_nothing_serious_in_both_themes(browser: Browser, daemon: WebDaemon, token: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: run scripts/test once, with Node 20 or newer")
    with device(browser, daemon) as here:
        here.open()
        expect(here.button("Show a sign-in code")).to_be_visible()
        found = {"login": serious(here.page)}
        here.sign_in(token)
        here.page.locator("tool-card summary").last.click()
        found["chat"] = serious(here.page)
        for panel in PANELS:
            here.go(panel)
            found[panel] = serious(here.page)
        here.open("#/")
        here.say("Ask")
        expect(here.button("Blue")).to_be_enabled()
        found["question"] = serious(here.page)
        here.button("Blue").click()
        expect(here.page.locator("#doing")).to_be_hidden()
        found["answered"] = serious(here.page)
        assert {place: said for place, said in found.items() if said} == {}


def test_a_thumb_hits_everything_and_nothing_is_wider_than_a_phone(
    browser: Browser, daemon: WebDaemon, token: str
) -> None:
    with device(browser, daemon, 360) as here:
        here.sign_in(token)
        here.page.locator("tool-card summary").last.click()
        wide, small = {}, {}
        for place in ("", *PANELS):
            if place:
                here.go(place)
            wide[place] = here.page.evaluate(WIDE)
            small[place] = here.page.evaluate(SMALL)
        assert [place for place, is_wide in wide.items() if is_wide] == []
        assert {place: said for place, said in small.items() if said} == {}
        here.page.locator("#panelbar").get_by_role("button", name="Menu").tap()
        expect(here.page.get_by_role("link", name="Memory")).to_be_in_viewport()
        here.page.get_by_role("link", name="Chat", exact=True).tap()
        expect(here.box).to_be_visible()


def test_keys_alone_lead_everywhere(browser: Browser, daemon: WebDaemon, token: str) -> None:
    with device(browser, daemon, 768) as here:
        here.sign_in(token)
        here.page.get_by_role("link", name="Skip to the message box").focus()
        expect(here.page.locator(".skip")).to_be_in_viewport()
        here.page.keyboard.press("Enter")
        expect(here.box).to_be_focused()
        here.page.keyboard.press("Tab")
        expect(here.page.locator("#composer").get_by_role("button", name="Menu")).to_be_focused()
        here.page.keyboard.press("Enter")
        expect(here.page.locator("#menu")).to_be_visible()
        here.page.keyboard.press("Escape")
        expect(here.page.locator("#menu")).to_be_hidden()
        expect(here.page.locator("#composer").get_by_role("button", name="Menu")).to_be_focused()
        here.page.keyboard.press("Control+k")
        expect(here.page.get_by_role("searchbox", name="Search in conversations")).to_be_visible()


def test_the_theme_is_chosen_and_kept(browser: Browser, daemon: WebDaemon, token: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with device(browser, daemon, 1440, "light") as here:
        here.sign_in(token)
        light = here.page.evaluate(ground)
        here.page.get_by_role("button", name="Theme: system").click()
        here.page.get_by_role("button", name="Theme: light").click()
        expect(here.page.get_by_role("button", name="Theme: dark")).to_be_visible()
        assert here.page.evaluate(ground) != light
        here.page.reload()
        here.expect_ready()
        assert here.page.evaluate(ground) != light


def test_right_to_left_and_finished_answers_are_told(browser: Browser, daemon: WebDaemon, token: str) -> None:
    with device(browser, daemon) as here:
        here.sign_in(token)
        here.say("שלום עולם")
        said = here.said.last.locator(".prose")
        seen(said, "שלום עולם", whole=True)
        expect(said).to_have_css("direction", "rtl")
        announced(here.page.locator("#heard"), "GoClaw: All done.")

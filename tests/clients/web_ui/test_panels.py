"""The panels beside the chat, and other conversations than the own one."""

import pytest
from playwright.sync_api import Browser, FilePayload, Locator, expect

from goclaw.gateway.servers.web.assets import FOLDER
from tests.clients.web_ui.daemon import BOB, WebDaemon
from tests.clients.web_ui.device import device
from tests.clients.web_ui.seen import seen
from tests.clients.web_ui.shared import FAY

pytestmark = pytest.mark.browser


def expect_drawn(picture: Locator) -> None:
    """A picture has come."""
    expect(picture).to_be_visible()
    expect(picture).to_have_js_property("complete", True)
    assert picture.evaluate("each => each.naturalWidth") > 0


def test_memory_is_read_and_searched(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon, 360) as here:
        here.sign_in(daemon.token(FAY))
        panel = here.go("memory")
        panel.get_by_text("Read the file").tap()
        seen(panel.locator(".prose strong"), "tea", whole=True)
        panel.get_by_role("searchbox").fill("what does Ann like")
        panel.get_by_role("button", name="Search").tap()
        seen(panel.locator(".text").first, "Ann likes")
        assert here.ran() == []


def test_other_conversations_are_found_opened_and_followed_live(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here, device(browser, daemon, 360) as other:
        token = daemon.token(FAY)
        here.sign_in(token)
        other.sign_in(token)
        panel = here.go("sessions")
        panel.get_by_role("searchbox").fill("harbour")
        panel.get_by_role("button", name="Search").click()
        seen(panel.locator(".card").first, "harbour")
        panel.locator(".card").first.click()
        seen(here.answers.last, "Answer 6")
        other.open("#/s/telegram%3A123456")
        other.say("Anything new?")
        seen(here.said.last, "Anything new?")
        seen(here.answers.last, "All done.")
        here.page.go_back()
        here.page.get_by_role("link", name="Chat", exact=True).click()
        seen(here.page.locator("#title"), "Chat", whole=True)
        assert here.ran() == []


def test_a_schedule_is_added_paused_and_forgotten(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon, 360) as here:
        here.sign_in(daemon.token(FAY))
        panel = here.go("schedules")
        panel.get_by_text("Add a schedule").tap()
        panel.get_by_label("Text", exact=True).fill("Drink tea")
        panel.get_by_label("When", exact=True).select_option("every")
        panel.get_by_label("Time", exact=True).fill("1d")
        panel.get_by_label("Name", exact=True).fill("tea")
        panel.get_by_role("button", name="Add").tap()
        card = panel.get_by_role("article").filter(has_text="Drink tea")
        seen(card.locator(".badge"), "on", whole=True)
        card.get_by_role("button", name="Pause").tap()
        seen(card.locator(".badge"), "paused", whole=True)
        card.get_by_role("button", name="Delete").tap()
        card.get_by_role("button", name="Really?").tap()
        seen(panel.get_by_text("No schedules yet"))
        assert here.ran() == []


def test_usage_and_status_are_drawn(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon, 768, "dark") as here:
        here.sign_in(daemon.token(FAY))
        here.say("hi")
        seen(here.answers.last, "All done.")
        panel = here.go("usage")
        expect_drawn(panel.locator(".plot"))
        seen(panel.locator(".tile").first, "$")
        panel.get_by_label("By", exact=True).select_option("model")
        expect(panel.get_by_role("cell", name="scripted")).to_be_visible()
        panel = here.go("status")
        seen(panel.locator("pre").first, "Session Status")
        for plot in panel.locator(".plot").all():
            expect_drawn(plot)
        expect(panel.locator(".plot")).to_have_count(3)
        assert here.ran() == []


def test_people_without_the_right_see_neither_plots_nor_others_of_the_daemon(
    browser: Browser, daemon: WebDaemon
) -> None:
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(BOB))
        panel = here.go("status")
        seen(panel.locator("pre").first, "Session Status")
        expect(panel.locator(".plot")).to_have_count(0)
        expect(here.go("usage").get_by_text("Everybody")).to_have_count(0)
        assert here.ran() == []


def test_a_picture_is_shown_in_the_conversation(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon, 360) as here:
        here.sign_in(daemon.token(FAY))
        picture = FilePayload(name="a.png", mimeType="image/png", buffer=(FOLDER / "icon-192.png").read_bytes())
        here.page.locator("#picker").set_input_files(picture)
        seen(here.page.locator("#files .chip"), "kB")
        here.say("What is this?")
        expect_drawn(here.said.last.locator("img"))
        here.page.reload()
        expect_drawn(here.said.last.locator("img"))
        assert here.ran() == []

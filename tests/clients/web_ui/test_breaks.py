"""Breaks of the connection: no word is lost, and none comes twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.clients.web_ui.daemon import ANN, WebDaemon, running
from tests.clients.web_ui.device import Device, device
from tests.clients.web_ui.seen import seen, unseen
from tests.clients.web_ui.shared import BREAKS, COUNTED, EVE

pytestmark = [pytest.mark.browser, pytest.mark.promise("P-web-breaks")]


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[WebDaemon]:
    """A daemon that may be killed."""
    made = WebDaemon(tmp_path, BREAKS)
    made.prepare()
    with running(made):
        yield made


def expect_messages(here: Device, whose: str, *texts: str) -> None:
    """One side's messages are seen, these and no others."""
    messages = here.page.locator(f"chat-message.{whose} .prose")
    expect(messages).to_have_count(len(texts))
    for number, text in enumerate(texts):
        seen(messages.nth(number), text, whole=True)


@pytest.mark.long
def test_a_daemon_that_is_killed_in_mid_answer_costs_no_word(browser: Browser, mortal: WebDaemon) -> None:
    with device(browser, mortal) as here, device(browser, mortal, 360) as phone:
        token = mortal.token(ANN)
        here.sign_in(token)
        phone.sign_in(token)
        here.say("Count")
        for each in (here, phone):
            seen(each.answers.last, "word0")
        mortal.kill()
        seen(here.page.locator("#state"), "Connecting")
        here.say("Later")
        expect(here.page.locator("chat-message.waiting")).to_have_count(1)
        seen(here.page.locator("#doing"), "1 not sent yet")
        mortal.start()
        for each in (here, phone):
            expect(each.answers).to_have_count(2)
            seen(each.answers.last, "Answer to the later one.")
            expect_messages(each, "answer", COUNTED, "Answer to the later one.")
            expect_messages(each, "user", "Count", "Later")
            each.page.reload()
            expect(each.answers).to_have_count(2)
            expect_messages(each, "answer", COUNTED, "Answer to the later one.")
            expect_messages(each, "user", "Count", "Later")


def test_a_connection_that_the_daemon_cannot_open_is_said_and_tried_again(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        broken = "() => { window.kept = WebSocket; window.WebSocket = function (to) { return new kept(to + 'x'); }; }"
        here.context.add_init_script(f"({broken})()")
        here.sign_in_broken(daemon.token(EVE))
        seen(here.page.locator("#state"), "accepts no connection")
        here.page.evaluate("() => { window.WebSocket = window.kept; }")
        unseen(here.page.locator("#state"))


def test_a_device_that_was_offline_goes_on_where_it_was(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon, 360) as here, device(browser, daemon) as other:
        token = daemon.token(EVE)
        here.sign_in(token)
        other.sign_in(token)
        other.say("Count")
        seen(here.answers.last, "word0")
        here.context.set_offline(True)
        seen(here.page.locator("#state"), "Offline", whole=True)
        here.say("Later")
        other.say("Beside")
        seen(other.answers.last, "Answer to the one beside.")
        expect(here.page.locator("chat-message.waiting")).to_have_count(1)
        here.context.set_offline(False)
        for each in (here, other):
            seen(each.answers.last, "Answer to the later one.")
            expect_messages(each, "answer", COUNTED, "Answer to the one beside.", "Answer to the later one.")
            expect_messages(each, "user", "Count", "Beside", "Later")
        assert here.ran() == []

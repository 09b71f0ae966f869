"""The chat: streams, tools, questions, files."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, expect

from goclaw.conversation.schedules.jobs import DAY_SECONDS
from goclaw.conversation.schedules.messages_to_others import Pair
from goclaw.durable.store.open import open_database
from tests.clients.web_ui.daemon import ANN, CLOCK, WebDaemon, running
from tests.clients.web_ui.device import device
from tests.clients.web_ui.seen import READ, seen, unseen
from tests.clients.web_ui.shared import CLEO, EFFECT, WORDS

pytestmark = pytest.mark.browser

BEN = "telegram:6"

LISTEN = f"""
const read = {READ};
window.streamed = [];
new MutationObserver(() => {{
  const body = document.querySelector('chat-message.streaming .prose');
  const text = body ? read(body) : '';
  if (text && text !== streamed.at(-1)) streamed.push(text);
}}).observe(document.getElementById('messages'), {{childList: true, subtree: true, characterData: true}});
"""
"""Keeps what was seen of a stream at each moment."""
PASTE = """
const files = new DataTransfer();
files.items.add(new File(['pasted words'], 'pasted.txt', {type: 'text/plain'}));
document.getElementById('text').dispatchEvent(new ClipboardEvent('paste', {clipboardData: files, bubbles: true}));
"""


@pytest.fixture(scope="module")
def token(daemon: WebDaemon) -> str:
    return daemon.token(CLEO)


def test_a_stream_of_two_thousand_pieces_loses_no_word(browser: Browser, daemon: WebDaemon, token: str) -> None:
    with device(browser, daemon) as here:
        here.sign_in(token)
        here.page.evaluate(LISTEN)
        here.say("Tell me much")
        seen(here.answers.last.locator(".prose"), " ".join(WORDS), whole=True)
        shown: list[str] = here.page.evaluate("streamed")
        assert len(shown) > 1, "it came at once"
        for words in shown:
            said = words.split()
            assert said[:-1] == WORDS[: max(0, len(said) - 1)]
        assert here.ran() == []


def test_markdown_is_shown_and_thoughts_are_folded(browser: Browser, daemon: WebDaemon, token: str) -> None:
    with device(browser, daemon, 360) as here:
        here.sign_in(token)
        here.say("Think")
        seen(here.answers.last.locator("strong"), "Thought", whole=True)
        thought = here.page.locator("thought-note").last
        expect(thought.locator(".plain")).to_be_hidden()
        thought.locator("summary").tap()
        seen(thought.locator(".plain"), "It wants me to think.", whole=True)


@pytest.mark.promise("P-web-approval")
def test_an_approval_is_answered_once_and_closes_on_all_devices(
    browser: Browser, daemon: WebDaemon, token: str
) -> None:
    with device(browser, daemon) as desk, device(browser, daemon, 360) as phone:
        desk.sign_in(token)
        phone.sign_in(token)
        desk.say("Act")
        for here in (desk, phone):
            expect(here.button("Allow")).to_be_enabled()
            seen(here.page.locator("question-card").last, EFFECT)
        phone.button("Allow").tap()
        for here in (desk, phone):
            seen(here.page.locator("question-card").last, "Allowed by you.")
            expect(here.page.locator("tool-card").last).to_have_attribute("data-state", "done")
            seen(here.answers.last, "All done.")
        assert (daemon.workspace / "effects.log").read_text() == "done\n"


@pytest.mark.promise("P-web-approval")
def test_a_call_that_is_higher_than_the_screen_is_allowed_when_its_beginning_was_seen_too(
    browser: Browser, daemon: WebDaemon, token: str
) -> None:
    with device(browser, daemon) as here:
        here.sign_in(token)
        here.say("Run lines")
        card = here.page.locator("question-card").last
        expect(here.button("Deny")).to_be_enabled()
        expect(here.button("Allow")).to_be_disabled()
        hint = card.get_by_text("Scroll up: to allow this, read it from its beginning.")
        expect(hint).to_be_visible()
        card.locator("h3").scroll_into_view_if_needed()
        expect(hint).to_be_hidden()
        expect(here.button("Allow")).to_be_disabled()
        here.button("Deny").scroll_into_view_if_needed()
        expect(here.button("Allow")).to_be_enabled()
        here.button("Deny").click()
        seen(here.page.locator("question-card").last, "Denied by you.")


async def keep_consent(daemon: WebDaemon) -> None:
    """Ann's first message to Ben waits for his word, since a moment ago."""
    pair, now = Pair(ANN, BEN, {}), CLOCK.now()
    async with open_database(daemon.state / "goclaw.db") as opened:
        await opened.write(pair.fact("asked", until=now + DAY_SECONDS, card="card"))


@pytest.mark.promise("P-message-other-chats")
def test_a_person_is_asked_on_the_page_whether_another_one_may_write(browser: Browser, tmp_path: Path) -> None:
    daemon = WebDaemon(tmp_path, users={ANN: {"name": "Ann"}, BEN: {"name": "Ben"}})
    daemon.prepare()
    with ThreadPoolExecutor(1) as thread:  # the browser's driver may have a loop in this one
        thread.submit(asyncio.run, keep_consent(daemon)).result()
    with running(daemon), device(browser, daemon, 360) as phone:
        phone.sign_in(daemon.token(BEN))
        card = phone.page.locator("question-card").last
        seen(card, "Ann wants to send you messages through me. Allow?")
        seen(card, "24 h left")
        phone.button("Allow").tap()
        seen(card, "Allowed by you.")


def test_a_question_is_answered_by_an_option_or_in_own_words(browser: Browser, daemon: WebDaemon, token: str) -> None:
    with device(browser, daemon, 768) as here:
        here.sign_in(token)
        here.say("Ask")
        here.button("Blue").click()
        seen(here.page.locator("question-card").last, "Blue (you)")
        expect(here.page.locator("#doing")).to_be_hidden()
        here.say("Ask")
        here.page.get_by_label("Your answer").fill("Rather green")
        here.button("Answer").click()
        seen(here.page.locator("question-card").last, "Rather green (you)")
        expect(here.page.locator("#doing")).to_be_hidden()


def test_a_change_is_shown_as_a_coloured_diff(browser: Browser, daemon: WebDaemon, token: str) -> None:
    with device(browser, daemon) as here:
        here.sign_in(token)
        here.say("Change")
        card = here.page.locator("question-card").last
        seen(card.locator(".hl-gi"), "+Buy oat milk.")
        here.button("Allow").click()
        tool = here.page.locator("tool-card").last
        expect(tool).to_have_attribute("data-state", "done")
        tool.locator("summary").click()
        seen(tool.locator(".line.removed"), "-Buy milk.\n", whole=True)
        seen(tool.locator(".line.added"), "+Buy oat milk.\n", whole=True)
        removed, added = (tool.locator(f".line.{kind}").bounding_box() for kind in ("removed", "added"))
        assert removed and added and removed["y"] + removed["height"] <= added["y"], "lines stand side by side"


def test_the_todo_list_stands_above_the_composer(browser: Browser, daemon: WebDaemon, token: str) -> None:
    with device(browser, daemon, 360) as here:
        here.sign_in(token)
        here.say("Plan")
        seen(here.page.locator("#todos summary"), "1 of 2 done · Pack them", whole=True)
        here.page.reload()
        seen(here.page.locator("#todos summary"), "1 of 2 done · Pack them", whole=True)


def test_an_answer_is_stopped_and_what_was_said_stays(browser: Browser, daemon: WebDaemon, token: str) -> None:
    with device(browser, daemon, 360) as here:
        here.sign_in(token)
        here.say("Take your time")
        seen(here.answers.last, "so far")
        here.button("Stop the answer").tap()
        expect(here.button("Stop the answer")).to_be_hidden()
        seen(here.messages, "so far")


def test_what_a_message_does_during_an_answer_is_chosen(browser: Browser, daemon: WebDaemon, token: str) -> None:
    with device(browser, daemon) as here:
        here.sign_in(token)
        here.say("Take your time")
        seen(here.answers.last, "so far")
        here.page.locator("#queue select").select_option("interrupt")
        seen(here.messages, "interrupt")
        here.say("Rather this")  # at once: the choice counts for it, though its answer may not be here yet
        seen(here.answers.last, "All done.")
        expect(here.button("Stop the answer")).to_be_hidden()
        here.say("/queue queue")
        seen(here.page.locator("note-line").last, "queue")


def test_files_are_chosen_and_pasted(browser: Browser, daemon: WebDaemon, token: str) -> None:
    with device(browser, daemon, 360) as here:
        here.sign_in(token)
        file = FilePayload(name="list.txt", mimeType="text/plain", buffer=b"apples and pears")
        here.page.locator("#picker").set_input_files(file)
        here.page.evaluate(PASTE)
        chips = here.page.locator("#files .chip")
        expect(chips).to_have_count(2)
        seen(chips.first, "16 B")
        seen(chips.last, "12 B")
        here.say("Here they are")
        expect(chips).to_have_count(0)
        seen(here.answers.last, "All done.")
        expect(here.page.locator("chat-message.waiting")).to_have_count(0)
        seen(here.said.last, "Here they are")
        assert here.ran() == []


def test_commands_are_suggested(browser: Browser, daemon: WebDaemon, token: str) -> None:
    with device(browser, daemon) as here:
        here.sign_in(token)
        here.box.press_sequentially("/whoa")
        expect(here.page.get_by_role("option")).to_have_count(1)
        here.box.press("Tab")
        expect(here.box).to_have_value("/whoami ")
        here.box.press("Enter")
        seen(here.page.locator("note-line").last, CLEO)
        here.box.press_sequentially("look at @not")
        expect(here.page.get_by_role("option", name="notes.md")).to_be_visible()
        here.box.press("Escape")
        expect(here.page.get_by_role("option")).to_have_count(0)


def test_an_own_message_is_shown_as_it_was_typed(browser: Browser, daemon: WebDaemon, token: str) -> None:
    typed = "Later: **two** `ticks`,\n  README.md and <b>"
    with device(browser, daemon, 360) as here:
        here.sign_in(token)
        here.say(typed)
        seen(here.answers.last, "Answer to the later one.")
        for _ in range(2):
            body = here.said.last.locator(".prose")
            seen(body, typed, whole=True)
            expect(body.locator("strong, code, a")).to_have_count(0)
            here.page.reload()
            seen(here.answers.last)


def test_a_long_file_in_a_message_is_folded_to_a_chip(browser: Browser, daemon: WebDaemon, token: str) -> None:
    with device(browser, daemon, 360) as here:
        here.sign_in(token)
        report = FilePayload(name="report.txt", mimeType="text/plain", buffer=("a line 🙂\n" * 200).encode())
        here.page.locator("#picker").set_input_files(report)
        expect(here.page.locator("#files .chip")).to_have_count(1)
        here.say("Here 🙂 it is")
        message = here.said.last
        seen(message, re.compile(r"^\S+ \S+ Here 🙂 it is \[Document report\.txt.* the file report\.txt [\d.]+ kB$"))
        unseen(message, "a line")
        message.locator("summary").tap()
        seen(message.locator(".attached .plain"), ("a line 🙂 " * 200).strip(), whole=True)
        assert here.ran() == []


def test_code_in_right_to_left_text_goes_from_left_to_right(browser: Browser, daemon: WebDaemon, token: str) -> None:
    with device(browser, daemon) as here:
        here.sign_in(token)
        here.say("Hebrew")
        body = here.answers.last.locator(".prose")
        seen(body, "--force (twice)")
        expect(body).to_have_css("direction", "rtl")
        for code in body.locator("code, pre").all():
            expect(code).to_have_css("direction", "ltr")
            expect(code).to_have_css("unicode-bidi", "isolate")

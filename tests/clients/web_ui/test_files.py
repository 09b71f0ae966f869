"""What the agent hands over on the page, and the person's own folder of files."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, expect

from tests.clients.web_ui.daemon import ANN, BOB, USERS, Json, WebDaemon, running
from tests.clients.web_ui.device import Device, device
from tests.clients.web_ui.seen import seen, unseen
from tests.picture_support import png

pytestmark = pytest.mark.browser

ACTS = '<svg xmlns="http://www.w3.org/2000/svg" onload="window.ran.push(1)"><script>window.ran.push(1)</script></svg>'
ANSWERS: list[Json] = [
    {"when": "Plot", "text": "Sales by month: ![plot](out/plot.png), as [a table](out/sales.csv), and ![acts](a.svg)."},
    {"when": "Fake", "text": "Look: ![fake](fake.png)"},
    {"when": "Send", "calls": [{"id": "s1", "name": "message", "input": {"action": "send", "text": "**As you wished**",
     "media_path": "out/sales.csv"}}]},
    {"when": "shown in", "text": "Sent."},
]  # fmt: skip
GUEST = {"name": "Bob", "roles": ["user"], "allowedTools": ["list", "read"]}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDaemon]:
    made = WebDaemon(tmp_path_factory.mktemp("files"), ANSWERS, {**USERS, BOB: GUEST})
    made.prepare()
    (made.workspace / "out").mkdir()
    (made.workspace / "out" / "plot.png").write_bytes(png(320, 200))
    (made.workspace / "out" / "sales.csv").write_text("month,sales\nMay,3\n")
    (made.workspace / "a.svg").write_text(ACTS)
    (made.workspace / "fake.png").write_text(ACTS)
    (made.workspace / "<img src=x onerror=window.ran.push(2)>.txt").write_text("x")
    with running(made):
        yield made


def downloaded(here: Device, name: str) -> bytes:
    """What a press on the link of this name brings."""
    with here.page.expect_download() as download:
        here.page.get_by_role("link", name=name).last.click()
    return Path(download.value.path()).read_bytes()


@pytest.mark.promise("P-files-given")
@pytest.mark.promise("P-web-html")
def test_files_that_an_answer_names_are_shown_or_downloaded_and_none_acts(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon, 768) as here:
        here.sign_in(daemon.token(ANN))
        here.say("Plot")
        seen(here.answers.last, "Sales by month")
        picture = here.answers.last.locator("img")
        expect(picture).to_have_count(1)  # the SVG is a download
        expect(picture).to_have_attribute("alt", "out/plot.png")
        expect(picture).to_have_js_property("naturalWidth", 320)
        assert downloaded(here, "Download sales.csv") == b"month,sales\nMay,3\n"
        assert downloaded(here, "Download a.svg").startswith(b"<svg")
        here.page.reload()
        expect(here.answers.last.locator("img")).to_have_js_property("naturalWidth", 320)
        assert here.ran() == []


@pytest.mark.promise("P-web-html")
def test_a_page_by_the_name_of_a_picture_is_a_download(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(ANN))
        here.say("Fake")
        seen(here.answers.last, "Look")
        assert downloaded(here, "Download fake.png") == ACTS.encode()
        expect(here.answers.last.locator("img")).to_have_count(0)
        assert here.ran() == []


@pytest.mark.promise("P-files-given")
def test_what_the_agent_sends_stands_in_the_conversation_without_a_press(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon, 360) as here:
        here.sign_in(daemon.token(ANN))
        here.say("Send")
        card = here.page.locator("tool-card").last
        seen(card.locator(".given strong"), "As you wished")
        seen(here.answers.last, "Sent.")
        assert downloaded(here, "Download sales.csv") == b"month,sales\nMay,3\n"
        here.page.reload()
        seen(here.page.locator("tool-card").last.locator(".given strong"), "As you wished")
        assert here.ran() == []


@pytest.mark.promise("P-files-given")
def test_files_are_added_found_downloaded_and_deleted(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon, 360) as here:
        here.sign_in(daemon.token(ANN))
        panel = here.go("files")
        seen(panel, "<img src=x onerror")
        panel.get_by_role("link", name="out").tap()
        seen(panel.get_by_text("sales.csv"))
        expect(panel.locator("[aria-current]")).to_be_focused()
        given: FilePayload = {"name": "list.txt", "mimeType": "text/plain", "buffer": b"Buy milk."}
        panel.get_by_label("Files to add").set_input_files(given)
        seen(panel.get_by_text("list.txt", exact=True))
        assert (daemon.workspace / "out" / "list.txt").read_bytes() == b"Buy milk."
        assert downloaded(here, "Download list.txt") == b"Buy milk."
        button = panel.get_by_role("button", name="Delete list.txt")
        button.focus()
        here.page.keyboard.press("Enter")
        here.page.keyboard.press("Enter")  # too soon: somebody who presses twice by habit
        expect(panel.get_by_role("button", name="Really? list.txt")).to_be_enabled()
        assert (daemon.workspace / "out" / "list.txt").exists()
        here.page.keyboard.press("Enter")
        unseen(panel.get_by_text("list.txt", exact=True))
        assert not (daemon.workspace / "out" / "list.txt").exists()
        panel.get_by_role("link", name="Workspace").tap()
        seen(panel.get_by_text("a.svg"))
        assert here.ran() == []


@pytest.mark.promise("P-files-given")
def test_who_may_only_read_is_offered_no_change(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(BOB))
        panel = here.go("files")
        seen(panel.get_by_text("a.svg"))
        expect(panel.get_by_role("button")).to_have_count(0)
        assert here.ran() == []


@pytest.mark.promise("P-files-given")
def test_an_answer_is_printed_whole_and_without_the_frame(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(ANN))
        here.say("Plot")
        seen(here.answers.last, "Sales by month")
        here.page.emulate_media(media="print")
        expect(here.page.locator("#composer")).to_be_hidden()
        expect(here.page.locator("#menu")).to_be_hidden()
        expect(here.answers.last).to_be_visible()
        assert here.page.evaluate(
            "document.documentElement.scrollHeight >= document.querySelector('#messages').scrollHeight"
        )
        assert here.page.pdf().startswith(b"%PDF")

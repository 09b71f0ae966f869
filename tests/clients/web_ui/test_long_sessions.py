"""Size: what the first look costs, and sessions that are long."""

import gzip
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Request, WebSocket, expect

from goclaw.gateway.servers.web.assets import FOLDER
from tests.clients.web_ui.daemon import ANN, WebDaemon, running, talk
from tests.clients.web_ui.device import device
from tests.clients.web_ui.seen import seen
from tests.lanes import repeats

pytestmark = pytest.mark.browser

MESSAGES = 5_000
MOST_ELEMENTS = 260
"""Messages in the page at once, at most: those in view, and some around them."""
MOST_REQUESTS, MOST_BYTES = 12, 120_000
CLIMB = """
async (end) => {
  const scroller = document.getElementById('messages');
  const counts = [];
  const bodies = () => [...document.querySelectorAll('chat-message .prose')];
  const numbers = () => bodies().map((body) => +/\\d+/.exec(body.innerHTML));
  for (let step = 0; step < 5000; step++) {
    scroller.scrollTop = 0;
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const shown = numbers();
    counts.push(shown.length);
    if (shown.some((number, place) => place && number !== shown[place - 1] + 1)) return {gap: shown};
    if (shown[0] <= end) return {most: Math.max(...counts), steps: step};
  }
  return {stuck: numbers()};
}
"""
"""Scrolls up until a message is in the page, seen or not; at every look that has a gapless part of the conversation."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDaemon]:
    made = WebDaemon(tmp_path_factory.mktemp("long"))
    made.prepare()
    made.seed(ANN, talk(MESSAGES))
    with running(made):
        yield made


@pytest.mark.long
@pytest.mark.deep
def test_five_thousand_messages_scroll_and_few_are_in_the_page(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon, 360) as here:
        frames: list[int] = []
        here.page.on("websocket", lambda socket: socket.on("framereceived", lambda data: frames.append(len(data))))
        here.sign_in(daemon.token(ANN))
        seen(here.answers.last, f"Answer {MESSAGES}")
        assert sum(frames) < 100_000, "more was loaded than is looked at"
        climbed = here.page.evaluate(CLIMB, repeats(MESSAGES - 1_500, 1))
        assert 0 < climbed.get("most", 0) <= MOST_ELEMENTS, climbed
        here.button("Go to the newest message").tap()
        seen(here.answers.last, f"Answer {MESSAGES}")
        expect(here.answers.last).to_be_in_viewport()
        here.say("And now?")
        seen(here.answers.last, "All done.")
        expect(here.answers.last).to_be_in_viewport()
        assert here.ran() == []


@pytest.mark.long
def test_what_is_looked_at_stays_where_it_is_while_older_messages_come(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(ANN))
        here.messages.evaluate("scroller => { scroller.scrollTop = 500 }")
        looked_at = here.page.locator("chat-message", has_text=f"{MESSAGES - 25}.").first
        before = looked_at.evaluate("element => element.getBoundingClientRect().top")
        expect(here.page.locator("chat-message", has_text=f"{MESSAGES - 60}.").first).to_be_attached()
        after = looked_at.evaluate("element => element.getBoundingClientRect().top")
        assert abs(before - after) <= 2


def test_the_first_look_takes_few_requests_and_bytes(browser: Browser, daemon: WebDaemon) -> None:
    with device(browser, daemon) as here:
        here.sign_in(daemon.token(ANN))
        requests: list[Request] = []
        sockets: list[WebSocket] = []
        sizes: dict[str, float] = {}
        inspector = here.context.new_cdp_session(here.page)
        inspector.send("Network.enable")
        inspector.send("Network.setCacheDisabled", {"cacheDisabled": True})
        inspector.on(
            "Network.loadingFinished", lambda event: sizes.update({event["requestId"]: event["encodedDataLength"]})
        )
        here.page.on("request", lambda request: requests.append(request))
        here.page.on("websocket", lambda socket: sockets.append(socket))
        here.page.reload()
        here.expect_ready()
        expect(here.answers.last).to_be_visible()
        here.page.wait_for_load_state("networkidle")
        paths = [re.sub(r"^https?://[^/]+", "", request.url) for request in requests]
        manifest = (
            [] if any("manifest" in path for path in paths) else [FOLDER / "manifest.webmanifest"]
        )  # when headless
        assert len(paths) + len(sockets) + len(manifest) <= MOST_REQUESTS, paths
        size = sum(sizes.values()) + sum(len(gzip.compress(path.read_bytes())) + 800 for path in manifest)
        assert len(sizes) >= len(paths) - 1
        assert size <= MOST_BYTES, size

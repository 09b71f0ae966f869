"""The page's WebSocket: the frames of terminals with HTML, for a logged-in page of this very listener alone."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from goclaw.common.core.bus import Bus
from goclaw.common.core.events import (
    Address,
    MessageStored,
    Question,
    QuestionAsked,
    StreamRestarted,
    TextStreamed,
    TurnStarted,
)
from goclaw.common.core.messages import AssistantMessage, Native, UserMessage
from goclaw.common.core.replay_buffer import Numbered
from goclaw.durable.store.transcripts import Origin, rows_of
from goclaw.gateway.servers.web import presenting
from goclaw.gateway.servers.web.live import MAX_ROWS
from goclaw.gateway.servers.web.presenting import text_before
from goclaw.gateway.servers.web.rendering import render
from tests.gateway.servers.calling import ANN, BOB
from tests.gateway.servers.web.calling import Browser, Pages, serving_pages, web_world
from tests.harness import PATIENCE, Answer

SESSION = ANN.key


class Page:
    """An open WebSocket of the page."""

    def __init__(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        self.connection = connection
        self.attached: Mapping[str, Any] = {}

    async def ask(self, **frame: Any) -> Mapping[str, Any]:
        await self.connection.send_str(orjson.dumps(frame).decode())
        return await self.next()

    async def next(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = orjson.loads(await self.connection.receive_str(timeout=PATIENCE))
        return found

    async def until(self, name: str) -> Mapping[str, Any]:
        """The next event of this name."""
        while True:
            frame = await self.next()
            if frame.get("name") == name:
                event: Mapping[str, Any] = frame["event"]
                return event


@asynccontextmanager
async def opened(browser: Browser, **frame: Any) -> AsyncIterator[Page]:
    headers = {"Origin": browser.origin, "Cookie": "; ".join(f"{n}={v}" for n, v in browser.cookies.items())}
    url = f"http://127.0.0.1:{browser.port}/web/ws"
    async with aiohttp.ClientSession() as http, http.ws_connect(url, headers=headers) as connection:
        page = Page(connection)
        page.attached = await page.ask(type="attach", session="", **frame)
        yield page


@asynccontextmanager
async def pages(folder: Path, *answers: Answer, **options: Any) -> AsyncIterator[Pages]:
    world = web_world(folder, *answers, **options)
    async with asyncio.timeout(PATIENCE), world.running() as core, serving_pages(world, core) as served:
        yield served


async def refused(browser: Browser, path: str = "/web/ws", **headers: str) -> int:
    """What a handshake is answered with."""
    own = {"Origin": browser.origin, "Cookie": "; ".join(f"{n}={v}" for n, v in browser.cookies.items())} | headers
    own = {name: value for name, value in own.items() if value}
    async with aiohttp.ClientSession() as http:
        try:
            async with http.ws_connect(f"http://127.0.0.1:{browser.port}{path}", headers=own):
                return 101
        except aiohttp.WSServerHandshakeError as error:
            return error.status


async def test_messages_come_with_their_html(tmp_path: Path) -> None:
    async with pages(tmp_path, Answer("Some **bold** words")) as served:
        async with opened(await served.entered()) as page:
            assert page.attached["person"] == ANN.key and page.attached["now"]["html"] == {"done": "", "open": ""}
            answer = await page.ask(type="send", id="1", text="*hi* <b>")
            while answer["type"] != "accepted":
                answer = await page.next()
            await served.core.settled()
            older = await page.ask(type="ask_older", before=1_000)
            while older["type"] != "older":
                older = await page.next()
    rows = {row["message"]["role"]: row for row in older["rows"]}
    assert rows["user"]["html"] == "", "a person's message is shown as it was typed"
    assert rows["assistant"]["html"] == "<p>Some <strong>bold</strong> words</p>\n"
    assert "native" not in rows["assistant"]["message"] and "told" not in rows["user"]["message"]


async def test_a_streamed_text_comes_as_finished_blocks_and_an_open_end(tmp_path: Path) -> None:
    async with pages(tmp_path) as served, opened(await served.entered()) as page:
        bus = served.core.bus
        done, open_end = "", ""
        for text in ("One **b", "old**\n\nTwo ", "words\n\nThr", "ee\n"):
            bus.publish(TextStreamed("t", SESSION, text))
            html = (await page.until("TextStreamed"))["html"]
            done, open_end = done + html["done"], html["open"]
        assert done == "<p>One <strong>bold</strong></p>\n<p>Two words</p>\n" and open_end == "<p>Three</p>\n"
        bus.publish(StreamRestarted("t", SESSION, "again"))
        bus.publish(TextStreamed("t", SESSION, "anew"))
        assert (await page.until("TextStreamed"))["html"] == {"done": "", "open": "<p>anew</p>\n"}


async def test_a_page_that_comes_late_gets_the_text_so_far(tmp_path: Path) -> None:
    async with pages(tmp_path) as served:
        begun(served.core.bus, "One\n\nA\nTw")
        async with opened(await served.entered()) as page:
            assert page.attached["now"]["html"] == {"done": "<p>One</p>\n", "open": "<p>A<br>\nTw</p>\n"}
            served.core.bus.publish(TextStreamed("t", SESSION, "o *three"))
            served.core.bus.publish(TextStreamed("t", SESSION, "*"))
            event = await page.until("TextStreamed")
            assert event["html"] == {"done": "", "open": "<p>A<br>\nTwo <em>three</em></p>\n"}


async def test_a_page_that_goes_on_gets_what_it_shows_and_then_what_it_missed(tmp_path: Path) -> None:
    async with pages(tmp_path) as served:
        browser, bus = await served.entered(), served.core.bus
        async with opened(browser, client="phone", epoch="", seen=0) as page:
            epoch = page.attached["epoch"]
            begun(bus, "One *tw")
            await page.until("TextStreamed")
            seen = 2
        bus.publish(TextStreamed("t", SESSION, "o* three"))
        async with opened(browser, client="phone", epoch=epoch, seen=seen) as page:
            assert page.attached["goes_on"] and page.attached["now"]["html"]["open"] == "<p>One *tw</p>\n"
            html = (await page.until("TextStreamed"))["html"]
            assert html == {"done": "", "open": "<p>One <em>two</em> three</p>\n"}


def begun(bus: Bus, text: str) -> None:
    bus.publish(TurnStarted("t", SESSION, Address("local", SESSION)))
    bus.publish(TextStreamed("t", SESSION, text))


def test_what_was_streamed_before_another_text_began_is_unknown() -> None:
    missed = [Numbered(1, TextStreamed("t", SESSION, "cd")), Numbered(2, TextStreamed("t", SESSION, "e"))]
    assert text_before(missed, "abcde") == "ab"
    stored = MessageStored("t", SESSION, 1, AssistantMessage("abcd", native=Native("x", 1, {})), 0.0)
    assert text_before([*missed, Numbered(3, stored)], "new") is None
    assert text_before([], "abc") == "abc"


async def test_questions_and_answers_of_commands_come_with_html(tmp_path: Path) -> None:
    async with pages(tmp_path) as served, opened(await served.entered()) as page:
        question = Question("q", "question", ANN.key, "Title", "Which `file`?", asked_at=1.0)
        served.core.bus.publish(QuestionAsked("t", SESSION, question))
        assert (await page.until("QuestionAsked"))["question"]["html"] == "<p>Which <code>file</code>?</p>\n"
        answer = await page.ask(type="send", id="1", text="/help")
        assert answer["acceptance"].get("html", "<").startswith("<")


async def test_no_page_comes_in_without_cookie_and_own_origin(tmp_path: Path) -> None:
    async with pages(tmp_path) as served:
        browser = await served.entered()
        port = browser.port
        assert await refused(browser) == 101
        assert await refused(browser, Cookie="") == 401
        assert await refused(browser, Cookie=f"goclaw_{port}=wrong") == 401
        assert await refused(browser, Origin="") == 403
        for origin in ("https://xss.example", "null", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}", "x"):
            assert await refused(browser, Origin=origin) == 403, origin
        assert await refused(browser, "/web/ws?token=x") == 400
        assert await refused(browser, Cookie="", Authorization=f"Bearer {served.secret()}") == 400


async def test_a_page_opens_no_session_but_those_of_its_user(tmp_path: Path) -> None:
    async with pages(tmp_path) as served:
        browser = await served.entered()
        headers = {"Origin": browser.origin, "Cookie": "; ".join(f"{n}={v}" for n, v in browser.cookies.items())}
        async with aiohttp.ClientSession() as http:
            async with http.ws_connect(f"http://127.0.0.1:{browser.port}/web/ws", headers=headers) as connection:
                answer = await Page(connection).ask(type="attach", session=BOB.key)
    assert answer["type"] == "refused" and answer["reason"].startswith("denied")


async def test_a_page_whose_device_is_logged_out_is_closed(tmp_path: Path) -> None:
    async with pages(tmp_path) as served:
        browser = await served.entered()
        async with opened(browser) as page:
            assert (await browser.post("/web/logout")).status == 204
            said: list[Mapping[str, Any]] = []
            while not page.connection.closed:
                served.world.clock.advance(0.5)
                message = await asyncio.wait_for(page.connection.receive(), PATIENCE)
                if message.type is aiohttp.WSMsgType.TEXT:
                    said.append(orjson.loads(message.data))
    assert said[-1]["type"] == "refused" and "revoked" in said[-1]["reason"]


@pytest.mark.parametrize("frame", ["", "no json", "[]", '{"type":"attach"}', '{"type":"x","session":""}', "\x00"])
async def test_what_is_no_frame_is_refused_and_the_page_stays(tmp_path: Path, frame: str) -> None:
    async with pages(tmp_path) as served, opened(await served.entered()) as page:
        await page.connection.send_str(frame)
        assert (await page.next())["type"] == "refused"
        assert (await page.ask(type="ask_status"))["type"] == "status"


async def test_a_flood_of_frames_is_answered_in_bounds(tmp_path: Path) -> None:
    async with pages(tmp_path) as served, opened(await served.entered()) as page:
        for _ in range(500):
            await page.connection.send_str('{"type": "ask_status"}')
        for _ in range(500):
            assert (await page.next())["type"] == "status"


async def test_a_device_has_a_few_connections_only(tmp_path: Path) -> None:
    async with pages(tmp_path) as served:
        browser = await served.entered()
        headers = {"Origin": browser.origin, "Cookie": "; ".join(f"{n}={v}" for n, v in browser.cookies.items())}
        url = f"http://127.0.0.1:{browser.port}/web/ws"
        async with aiohttp.ClientSession() as http:
            held = [await http.ws_connect(url, headers=headers) for _ in range(8)]
            assert await refused(browser) == 503
            for each in held:
                await each.close()


async def test_one_person_does_not_take_all_connections_with_many_devices(tmp_path: Path) -> None:
    async with pages(tmp_path) as served, aiohttp.ClientSession() as http, AsyncExitStack() as held:
        for _ in range(2):
            browser = await served.entered()
            headers = {"Origin": browser.origin, "Cookie": "; ".join(f"{n}={v}" for n, v in browser.cookies.items())}
            for _ in range(8):
                url = f"http://127.0.0.1:{browser.port}/web/ws"
                await held.enter_async_context(http.ws_connect(url, headers=headers))
        assert await refused(await served.entered()) == 503
        assert await refused(await served.entered(BOB.key)) == 101


async def test_a_page_gets_a_thousand_rows_at_once_and_no_more(tmp_path: Path) -> None:
    async with pages(tmp_path) as served:
        rows = [
            rows_of(UserMessage("row"), Origin(SESSION, f"t{each}", "user", 1.0))[0] for each in range(MAX_ROWS + 9)
        ]
        await served.core.database.write(served.core.transcripts.ensure_session(SESSION, 1.0), *rows)
        async with opened(await served.entered(), limit=5_000) as page:
            assert len(page.attached["history"]) == MAX_ROWS
            older = await page.ask(type="ask_older", before=10_000, limit=5_000)
            assert len(older["rows"]) == MAX_ROWS


async def test_one_page_with_much_to_show_does_not_hold_up_another(tmp_path: Path) -> None:
    async with pages(tmp_path) as served:
        async with opened(await served.entered()) as greedy, opened(await served.entered(BOB.key)) as page:
            for row in range(1, 60):
                served.core.bus.publish(MessageStored("t", SESSION, row, AssistantMessage("*a* and " * 4_000), 0.0))
            served.core.bus.publish(MessageStored("t", BOB.key, 1, AssistantMessage("*b* " * 200), 0.0))
            assert "<em>b</em>" in (await page.until("MessageStored"))["html"]
            assert (await greedy.until("MessageStored"))["row"] < 59


async def test_nothing_of_a_call_that_waits_for_approval_stays_hidden(tmp_path: Path) -> None:
    async with pages(tmp_path) as served, opened(await served.entered()) as page:
        asked = Question("q1", "approval", ANN.key, "May it?", "rm \u202egnp.txt\u200b", ("allow", "deny"), False)
        served.core.bus.publish(QuestionAsked("t", SESSION, asked))
        html = (await page.until("QuestionAsked"))["question"]["html"]
        assert "\\u202egnp.txt\\u200b" in html and "\u202e" not in html


async def test_long_texts_are_rendered_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, threads = "*a* and " * 1_000, set[int]()

    def noted(text: str) -> str:
        threads.add(threading.get_ident())
        return render(text)

    monkeypatch.setattr(presenting, "render", noted)
    async with pages(tmp_path) as served, opened(await served.entered()) as page:
        served.core.bus.publish(MessageStored("t", SESSION, 5, AssistantMessage(text), 0.0))
        assert (await page.until("MessageStored"))["html"].count("<em>a</em>") == 1_000
    assert threads and threading.get_ident() not in threads

"""Views of a session at a daemon, as a terminal, a program and a page have them: what stands there at each moment."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import orjson

from goclaw.clients.tui.client import own_socket
from goclaw.common.core.wire import LINK_PATH, PATH
from tests.acceptance.daemon import Installation

Json = Mapping[str, Any]


class View:
    """What one client has seen of a session."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.turn = ""
        self.text = ""
        """What is streamed of the answer that is being written, as it stands there."""
        self.screens: list[str] = []
        """What stood there after each event."""
        self.rows: dict[int, str] = {}
        self.doubled: list[int] = []
        """Rows that came twice and were not said to be the same ones."""
        self.ended: list[str] = []
        """Turns that were seen to end."""
        self.names: list[str] = []

    def begin(self, now: Json, rows: list[Json]) -> None:
        """The state that a client gets first."""
        self.turn, self.text = now["turn"], now["text"]
        for row in rows:
            self.rows[row["row"]] = row["message"].get("text", "")

    def take(self, name: str, event: Json) -> None:
        """An event."""
        self.names.append(name)
        match name:
            case "TurnStarted":
                self.turn, self.text = event["turn"], ""
            case "TurnFinished":
                self.turn = self.text = ""
                self.ended.append(event["turn"])
            case "StreamRestarted":
                self.text = ""
            case "TextStreamed":
                self.text += event["text"]
            case "MessageStored":
                self.text = ""
                if event["row"] in self.rows:
                    self.doubled.append(event["row"])
                self.rows[event["row"]] = event["message"].get("text", "")
        self.screens.append(self.text)

    @property
    def said(self) -> list[str]:
        """The texts of the rows, oldest first."""
        return [self.rows[row] for row in sorted(self.rows)]


async def _attached(connection: aiohttp.ClientWebSocketResponse, view: View, session: str) -> None:
    await connection.send_str(orjson.dumps({"type": "attach", "session": session, "protocol": 1}).decode())
    attached = orjson.loads(await connection.receive_str(timeout=20))
    assert attached["type"] == "attached", attached
    view.begin(attached["now"], attached["history"])


async def _frames(connection: aiohttp.ClientWebSocketResponse, view: View) -> None:
    async for message in connection:
        frame = orjson.loads(message.data)
        if frame["type"] == "happened":
            view.take(frame["name"], frame["event"])


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


class Views:
    """The three kinds of views of one daemon."""

    def __init__(self, stack: AsyncExitStack, home: Installation, url: str, token: str) -> None:
        self._stack = stack
        self._home = home
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}

    async def terminal(self) -> View:
        """A terminal elsewhere, with a token."""
        view, http = View("terminal"), await self._session()
        connection = await self._stack.enter_async_context(http.ws_connect(f"{self._url}{PATH}", headers=self._headers))
        await _attached(connection, view, "")
        await self._begin(_frames(connection, view), view)
        return view

    async def page(self, user: str) -> View:
        """A page, which a link has logged in."""
        view, http = View("page"), await self._session()
        async with aiohttp.ClientSession(connector=own_socket(self._home.state / "goclaw.sock")) as own:
            async with own.post(f"http://goclaw{LINK_PATH}", params={"user": user}) as response:
                link = (await response.text()).rpartition("#")[2]
                assert response.status == 200, link
        own_headers = {"Origin": self._url, "Sec-Fetch-Site": "same-origin"}
        login = http.post(f"{self._url}/web/login", json={"link": link.rpartition("=")[2]}, headers=own_headers)
        async with login as response:
            assert response.status == 200, await response.text()
        page = http.ws_connect(f"{self._url}/web/ws", headers={"Origin": self._url})
        connection = await self._stack.enter_async_context(page)
        await _attached(connection, view, "")
        await self._begin(_frames(connection, view), view)
        return view

    async def program(self, session: str) -> View:
        """A program that reads the stream of events."""
        view, http = View("program"), await self._session()
        url = f"{self._url}/api/v1/sessions/{session}/events"
        response = await self._stack.enter_async_context(http.get(url, headers=self._headers))
        assert response.status == 200, await response.text()
        begun = asyncio.Event()

        async def read() -> None:
            async for line in response.content:
                if not line.startswith(b"data: "):
                    continue
                data = orjson.loads(line[6:])
                if data["type"] == "reset":
                    view.begin(data["now"], [])
                else:
                    view.take(data["name"], data["event"])
                begun.set()

        await self._begin(read(), view)
        async with asyncio.timeout(20):
            await begun.wait()
        return view

    async def say(self, text: str, session: str) -> None:
        """Send a message through this daemon."""
        http = await self._session()
        url = f"{self._url}/api/v1/sessions/{session}/messages"
        async with http.post(url, json={"id": text.split()[0], "text": text}, headers=self._headers) as response:
            assert response.status in (200, 202), await response.text()

    async def ask(self, text: str, session: str, heard: Callable[[str], None]) -> None:
        """Ask as programs of OpenAI's do, in a kept session; `heard` is called with each piece of the answer."""
        http = await self._session()
        body = {"model": "goclaw", "stream": True, "messages": [{"role": "user", "content": text}]}
        headers = self._headers | {"X-GoClaw-Session": session}
        async with http.post(f"{self._url}/v1/chat/completions", json=body, headers=headers) as response:
            assert response.status == 200, await response.text()
            async for line in response.content:
                if line.startswith(b"data: {"):
                    data = orjson.loads(line[6:])
                    assert "error" not in data, data
                    for part in filter(None, (each["delta"].get("content") for each in data["choices"])):
                        heard(part)

    async def _session(self) -> aiohttp.ClientSession:
        jar = aiohttp.CookieJar(unsafe=True)
        return await self._stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar))

    async def _begin(self, work: Any, view: View) -> None:
        self._stack.push_async_callback(_ended, asyncio.create_task(work, name=f"view: {view.name}"))

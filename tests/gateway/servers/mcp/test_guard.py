"""The door of the HTTP listener: nobody without a token, no page of somebody else's, nothing without a bound."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from aiohttp import web

from goclaw.common.auth.tokens import Tokens, add_token, revoke_token
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor
from goclaw.gateway.servers.http import Endpoint, ListenerLimits, guarded, open_listener
from goclaw.gateway.servers.mcp.guard import GuardLimits, RequestGuard
from goclaw.gateway.servers.mcp.http import CALLER, LIMITS, PATH, answer_by
from tests.gateway.servers.mcp.house import ANN


class Inner:
    """An ASGI application in the library's place."""

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self.bodies: list[bytes] = []
        self.begun = asyncio.Event()
        self.gate: asyncio.Event | None = None
        self.waits = False
        self.ended: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.actors.append(scope[CALLER].actor)
        self.bodies.append((await receive())["body"])
        if self.waits:
            self.begun.set()
            self.ended = await receive()
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"server", b"other 1")]})
        await send({"type": "http.response.body", "body": b"first ", "more_body": True})
        self.begun.set()
        if self.gate:
            await self.gate.wait()
        await send({"type": "http.response.body", "body": b"last"})


class Door:
    """The listener, and what a caller gets of it."""

    def __init__(self, folder: Path, limits: GuardLimits | None) -> None:
        self.clock = SteppedClock()
        self.inner = Inner()
        self.path = folder / "access-tokens.json"
        self.secret = add_token(self.path, "laptop", ANN, self.clock.now())
        self.tokens = Tokens(self.path, self.clock)
        self.audited: list[Any] = []
        self.guard = RequestGuard(self.tokens, self.clock, self.audited.append, limits)
        self.http = httpx2.AsyncClient(timeout=20)

    async def ask(self, *, token: str = "", query: str = "", path: str = PATH, **headers: str) -> httpx2.Response:
        given = {"authorization": f"Bearer {token or self.secret}", **headers}
        url = f"http://127.0.0.1:{self.port}{path}{query}"
        return await self.http.post(url, content=b"{}", headers=given)

    port = 0


@asynccontextmanager
async def door(
    folder: Path,
    limits: GuardLimits | None = None,
    caps: ListenerLimits = LIMITS,
    *,
    names: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
) -> AsyncIterator[Door]:
    found = Door(folder, limits)
    place = Endpoint("the listener", "port", "127.0.0.1", 0, names=frozenset(names), origins=frozenset(origins))
    application: web.Application = guarded(place, caps)
    application.router.add_route("*", PATH, found.guard.protect(answer_by(found.inner)))
    async with open_listener(place, application, caps) as found.port, found.http:
        yield found


async def test_who_has_a_token_comes_in_as_its_user(tmp_path: Path) -> None:
    async with door(tmp_path) as listener:
        answer = await listener.ask()
    assert (answer.status_code, answer.content, listener.inner.bodies) == (200, b"first last", [b"{}"])
    assert [(each.key, each.entry, each.owner) for each in listener.inner.actors] == [(ANN, "mcp", False)]
    assert (answer.headers["server"], answer.headers["cache-control"]) == ("GoClaw", "no-store")


@pytest.mark.promise("P-token")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer goclaw_wrong"}, 401),
        ({"authorization": "Basic YTpi"}, 401),
        ({"host": "evil.example"}, 421),
        ({"host": "10.1.2.3"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"query": "?token=x"}, 400),
    ],
)
async def test_who_may_not_come_in_is_refused(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    async with door(tmp_path, origins=("https://ours.example",)) as listener:
        answer = await listener.ask(**headers)
        assert (answer.status_code, answer.content, listener.inner.actors) == (status, b"", [])
        assert (await listener.ask(origin="https://ours.example")).status_code == 200


async def test_a_body_that_is_too_long_or_does_not_end_is_refused_and_reaches_nobody(tmp_path: Path) -> None:
    caps = ListenerLimits(body_seconds=0.05, body_bytes=100)
    async with door(tmp_path, caps=caps) as listener:
        heads = {100_000: b"413", 50: b"408"}
        for length, status in heads.items():
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {listener.secret}\r\n"
            writer.write(f"{head}Content-Length: {length}\r\n\r\n".encode())
            async with asyncio.timeout(20):
                assert (await reader.readline()).split()[1] == status
            writer.close()
        assert listener.inner.bodies == []


async def test_a_path_is_one_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "goclaw.gateway.servers.http")
    async with door(tmp_path) as listener:
        await listener.ask(path="/no%0A2026-01-01%20a%20line")
    assert "POST /no 2026-01-01 a line from 127.0.0.1: 404" in caplog.text


async def test_other_names_come_from_the_configuration(tmp_path: Path) -> None:
    async with door(tmp_path, names=("claw.example",)) as listener:
        assert (await listener.ask(host="claw.example")).status_code == 200
        assert (await listener.ask(host="claw.example.evil")).status_code == 421


async def test_guessing_is_told_to_wait_and_written_down_once(tmp_path: Path) -> None:
    async with door(tmp_path) as listener:
        found = [(await listener.ask(token=f"guess{number}")).status_code for number in range(12)]
        assert found == [401] * 10 + [429] * 2
        assert [(each.action, each.allowed, each.actor.entry) for each in listener.audited] == [
            ("client.attach", False, "mcp")
        ] * 2
        assert (await listener.ask()).status_code == 200  # a valid one comes in all the same


async def test_a_token_that_is_revoked_ends_what_is_open(tmp_path: Path) -> None:
    async with door(tmp_path) as listener:
        listener.inner.gate = asyncio.Event()
        asking = asyncio.create_task(listener.ask())
        looking = asyncio.create_task(listener.guard.end_revoked())
        async with asyncio.timeout(20):
            await listener.inner.begun.wait()
            revoke_token(listener.path, "laptop")
            await listener.tokens.refresh()
            while not asking.done():
                listener.clock.advance(0.5)
                await asyncio.sleep(0)
        assert (await asking).content == b"first "
        looking.cancel()
        assert (await listener.ask()).status_code == 401


async def test_a_caller_who_disconnects_ends_the_request_without_a_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with door(tmp_path) as listener:
        listener.inner.waits = True
        asking = asyncio.create_task(listener.ask())
        async with asyncio.timeout(20):
            await listener.inner.begun.wait()
            asking.cancel()
            await asyncio.wait({asking})
            while listener.guard.at_work:  # noqa: ASYNC110 -- the guard has no event for it
                await asyncio.sleep(0)
    assert listener.inner.ended == {"type": "http.disconnect"}
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_one_token_has_no_more_than_its_share(tmp_path: Path) -> None:
    async with door(tmp_path, GuardLimits(per_token=1)) as listener:
        listener.inner.gate = asyncio.Event()
        first = asyncio.create_task(listener.ask())
        await listener.inner.begun.wait()
        assert (await listener.ask()).status_code == 503
        listener.inner.gate.set()
        assert (await first).status_code == 200 == (await listener.ask()).status_code
        listener.guard.end()
        assert (await listener.ask()).status_code == 503

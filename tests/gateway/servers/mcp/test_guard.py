"""The door of the HTTP listener: nobody without a token, no page of somebody else's, nothing without a bound."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.tokens import Tokens, add_token, revoke_token
from goclaw.common.config.mcp import McpServerSettings
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor
from goclaw.gateway.servers.mcp.guard import ACTOR, GuardLimits, RequestGuard
from tests.gateway.servers.mcp.house import ANN

JSON = {"content-type": "application/json"}


class Inner:
    """The application behind it."""

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self.bodies: list[bytes] = []
        self.gate: asyncio.Event | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.actors.append(scope[ACTOR])
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"server", b"uvicorn 1")]})
        if self.gate:
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
            await self.gate.wait()
        await send({"type": "http.response.body", "body": b"ok"})


class Door:
    """A guard, and what a caller gets of it."""

    def __init__(self, folder: Path, caps: GuardLimits | None = None, **settings: Any) -> None:
        self.clock = SteppedClock()
        self.inner = Inner()
        self.path = folder / "access-tokens.json"
        self.secret = add_token(self.path, "laptop", ANN, self.clock.now())
        self.tokens = Tokens(self.path, self.clock)
        self.audited: list[Any] = []
        self.guard = RequestGuard(
            self.inner, McpServerSettings(**settings), self.tokens, self.clock, self.audited.append, caps
        )
        self.read = 0

    async def ask(self, *, body: Any = None, token: Any = None, **headers: str) -> Any:
        """The status, the headers and the body of the answer."""
        given = {"host": "127.0.0.1:8138", "authorization": f"Bearer {token or self.secret}"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        query, path = given.pop("query", ""), given.pop("path", "/mcp")
        raw = [(name.encode(), value.encode()) for name, value in given.items() if value]
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": query.encode(),
            "headers": raw,
            "client": ("10.0.0.1", 4),
        }
        sent: list[Any] = []

        async def receive() -> Any:
            self.read += 1
            if body is not None:
                return await body()
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.guard(scope, receive, send)
        return sent[0]["status"], dict(sent[0]["headers"]), b"".join(each.get("body", b"") for each in sent[1:])


async def test_who_has_a_token_comes_in_as_its_user(tmp_path: Path) -> None:
    door = Door(tmp_path)
    status, headers, body = await door.ask()
    assert (status, body) == (200, b"ok")
    assert [(each.key, each.entry, each.owner) for each in door.inner.actors] == [(ANN, "mcp", False)]
    assert b"server" not in headers and headers[b"cache-control"] == b"no-store"


@pytest.mark.promise("P-token")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer goclaw_wrong"}, 401),
        ({"authorization": "Basic YTpi"}, 401),
        ({"host": "evil.example"}, 421),
        ({"host": ""}, 421),
        ({"host": "10.1.2.3"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"query": "token=x"}, 400),
        ({"content_length": "99999999999"}, 413),
        ({"content_length": "-1"}, 413),
    ],
)
async def test_who_may_not_come_in_is_refused_before_the_body_is_read(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    door = Door(tmp_path, origins=("https://ours.example",))
    found, _, body = await door.ask(**headers)
    assert (found, body, door.read, door.inner.actors) == (status, b"", 0, [])
    assert (await door.ask(origin="https://ours.example"))[0] == 200


async def test_a_path_is_one_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "goclaw.gateway.servers.mcp.guard")
    await Door(tmp_path).ask(path="/no\n2026-01-01 a line\u2028of theirs", token="goclaw_wrong")
    assert "POST /no 2026-01-01 a line of theirs from 10.0.0.1: 401" in caplog.text


async def test_other_names_come_from_the_configuration(tmp_path: Path) -> None:
    door = Door(tmp_path, hosts=("claw.example",), public_url="https://Tools.example.org/mcp")
    assert (await door.ask(host="claw.example"))[0] == 200
    assert (await door.ask(host="tools.example.org"))[0] == 200
    assert (await door.ask(host="claw.example.evil"))[0] == 421


async def test_guessing_is_told_to_wait_and_written_down_once(tmp_path: Path) -> None:
    door = Door(tmp_path)
    found = [(await door.ask(token=f"guess{number}"))[0] for number in range(12)]
    assert found == [401] * 10 + [429] * 2
    assert [(each.action, each.allowed, each.actor.entry) for each in door.audited] == [
        ("client.attach", False, "mcp")
    ] * 2
    assert (await door.ask())[0] == 200  # a valid one comes in all the same


async def test_a_body_that_does_not_end_is_not_waited_for(tmp_path: Path) -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    door = Door(tmp_path, GuardLimits(body_seconds=0.01))
    assert (await door.ask(body=never))[0] == 408


async def test_a_token_that_is_revoked_ends_what_is_open(tmp_path: Path) -> None:
    door = Door(tmp_path)
    door.inner.gate = asyncio.Event()
    asking = asyncio.create_task(door.ask())
    while not door.inner.bodies:  # noqa: ASYNC110 -- the application has no event for it
        await asyncio.sleep(0)
    looking = asyncio.create_task(door.guard.look_after())
    revoke_token(door.path, "laptop")
    await door.tokens.refresh()
    async with asyncio.timeout(5):
        while not asking.done():
            door.clock.advance(0.5)
            await asyncio.sleep(0)
    assert (await asking)[2] == b"first"
    looking.cancel()
    assert (await door.ask())[0] == 401


async def test_one_token_has_no_more_than_its_share(tmp_path: Path) -> None:
    door = Door(tmp_path, GuardLimits(per_token=1))
    door.inner.gate = asyncio.Event()
    first = asyncio.create_task(door.ask())
    while not door.inner.bodies:  # noqa: ASYNC110 -- the application has no event for it
        await asyncio.sleep(0)
    assert (await door.ask())[0] == 503
    door.inner.gate.set()
    assert (await first)[0] == 200 == (await door.ask())[0]
    door.guard.end()
    assert (await door.ask())[0] == 503

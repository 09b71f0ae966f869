"""The HTTP listener: its two pages, who is refused, and that nobody can hold it up."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from goclaw.channels.base import Routes
from goclaw.common.config.schema import Config
from goclaw.common.health.readiness import Readiness
from goclaw.errors import StateError
from goclaw.gateway.servers.http import ListenerLimits, open_http

SMALL = ListenerLimits(body_bytes=1_000)
HURRIED_HEAD, HURRIED_BODY = ListenerLimits(head_seconds=0.2), ListenerLimits(body_seconds=0.2)
"""Each apart: a pause of the machine takes as long, and is to cut nothing but what a test leaves unfinished."""
HOOK = "https://claw.example.org/hook"


@dataclass
class Answer:
    """What came back on the wire, to the byte."""

    status: int
    head: dict[str, str]
    body: str


@dataclass
class Site:
    """A listener with one route that reads its body, `/echo`."""

    port: int
    readiness: list[Readiness]
    read: list[bytes] = field(default_factory=list)
    reached: int = 0

    async def ask(self, path: str = "/healthz", method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
        """One request as it is written here: nothing is added but what HTTP needs."""
        named = {"Host": f"127.0.0.1:{self.port}", "Connection": "close"} | headers
        if body:
            named["Content-Length"] = str(len(body))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items() if value), "", ""]
        return await self.say("\r\n".join(lines).encode() + body)

    async def say(self, raw: bytes) -> Answer:
        """Send bytes, and read until the other end closes."""
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(raw)
            answer = await reader.read()
            writer.close()
        head, _, body = answer.decode().partition("\r\n\r\n")
        first, *lines = head.split("\r\n")
        pairs = (line.partition(": ") for line in lines)
        status = int(first.split()[1]) if first else 0
        return Answer(status, {name.lower(): value for name, _, value in pairs}, body)


@asynccontextmanager
async def site(caps: ListenerLimits | None = None, **settings: Any) -> AsyncIterator[Site]:
    """A listener on a free port; `settings` are those of `http`, `telegram` is what it is."""
    telegram = settings.pop("telegram", {})
    config = Config.model_validate({"http": {"port": 0, **settings}, "telegram": telegram})
    made = Site(0, [Readiness()])

    async def echo(request: web.Request) -> web.StreamResponse:
        made.reached += 1
        made.read.append(await request.read())
        return web.Response(text="read")

    async def refuse(request: web.Request) -> web.StreamResponse:
        raise web.HTTPForbidden

    async def break_down(request: web.Request) -> web.StreamResponse:
        raise ValueError("the secret reason")

    async def readiness() -> Readiness:
        return made.readiness[0]

    routes = Routes()
    routes.add("POST", "/echo", echo)
    routes.add("POST", "/refuse", refuse)
    routes.add("POST", "/broken", break_down)
    async with open_http(config, routes, readiness, caps) as server:
        made.port = server.port
        yield made


async def test_healthz_answers_while_the_loop_lives() -> None:
    async with site() as here:
        answer = await here.ask("/healthz")
        assert (answer.status, json.loads(answer.body)) == (200, {"status": "ok"})


async def test_readyz_says_why_no_messages_are_taken() -> None:
    async with site() as here:
        here.readiness[0] = Readiness((), {"telegram": "no connection: Cannot connect to bot.example:443"})
        answer = await here.ask("/readyz")
        assert answer.status == 200, "others may still write while Telegram is away"
        assert json.loads(answer.body) == {"ready": True, "problems": [], "channels": {"telegram": "no connection"}}
        here.readiness[0] = Readiness(("the database cannot be written",))
        answer = await here.ask("/readyz")
        assert answer.status == 503
        assert json.loads(answer.body)["problems"] == ["the database cannot be written"]


async def test_a_client_that_keeps_its_connection_asks_twice_on_it() -> None:
    async with site() as here, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.get(f"http://127.0.0.1:{here.port}/healthz") as response:
                assert response.status == 200


async def test_no_answer_names_a_version() -> None:
    async with site() as here:
        for answer in (await here.ask(), await here.ask("/nowhere"), await here.say(b"NONSENSE\r\n\r\n")):
            assert answer.head["server"] == "GoClaw"


@pytest.mark.promise("P-http-closed")
async def test_an_unknown_path_is_refused_without_an_echo() -> None:
    async with site() as here:
        answer = await here.ask("/secret-name?token=abc")
        assert (answer.status, answer.body) == (404, "")
        answer = await here.ask("/echo")
        assert (answer.status, answer.body, answer.head["allow"]) == (405, "", "POST")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8137", "localhost:1", "[::1]:8137", "LOCALHOST"])
async def test_every_name_of_this_machine_is_its_own(host: str) -> None:
    async with site() as here:
        assert (await here.ask(Host=host)).status == 200


@pytest.mark.promise("P-http-closed")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "192.0.2.7",
        "a b",
        "localhost:x",
        "",
    ],
)
async def test_a_foreign_host_is_refused(host: str) -> None:
    """DNS rebinding: a page's own name leads to this machine, and the browser says that name."""
    async with site() as here:
        assert (await here.ask("/healthz", Host=host)).status in (400, 421)


async def test_two_hosts_are_none() -> None:
    async with site() as here:
        raw = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        assert (await here.say(raw)).status in (400, 421)


async def test_configured_names_and_that_of_the_webhook_are_known() -> None:
    telegram = {"token": "42:x", "mode": "webhook", "webhook": {"url": HOOK}}
    async with site(hosts=["claw.lan"], telegram=telegram) as here:
        assert (await here.ask(Host="claw.lan:80")).status == 200
        assert (await here.ask(Host="claw.example.org")).status == 200
        assert (await here.ask(Host="other.example.org")).status == 421


@pytest.mark.promise("P-http-closed")
async def test_beyond_loopback_any_address_is_known_but_no_foreign_name() -> None:
    async with site(host="0.0.0.0") as here:  # noqa: S104 - that is what is tried
        assert (await here.ask(Host="192.0.2.7:8137")).status == 200
        assert (await here.ask(Host="evil.example")).status == 421


@pytest.mark.promise("P-http-closed")
async def test_a_page_may_call_only_if_it_is_named() -> None:
    async with site(origins=["https://page.example"]) as here:
        assert (await here.ask(Origin="https://page.example")).status == 200
        assert (await here.ask(Origin="https://evil.example")).status == 403
        assert (await here.ask(Origin="null")).status == 403
        assert (await here.ask("/echo", "POST", b"x", Origin="http://localhost")).status == 403
        assert here.reached == 0


@pytest.mark.promise("P-http-closed")
async def test_a_body_that_is_too_large_reaches_nobody() -> None:
    async with site(SMALL) as here:
        assert (await here.ask("/echo", "POST", b"x" * 1_000)).status == 200
        assert (await here.ask("/echo", "POST", b"x" * 1_001)).status == 413
        assert here.reached == 1


@pytest.mark.promise("P-http-closed")
async def test_a_body_that_grows_too_large_in_pieces_is_cut_off() -> None:
    async with site(SMALL) as here:
        head = f"POST /echo HTTP/1.1\r\nHost: localhost:{here.port}\r\nConnection: close\r\n"
        pieces = b"200\r\n" + b"x" * 512 + b"\r\n"
        answer = await here.say(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + 3 * pieces)
        assert answer.status == 413
        assert here.read == []


@pytest.mark.promise("P-http-closed")
async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async with site(HURRIED_BODY) as here:
        head = f"POST /echo HTTP/1.1\r\nHost: localhost:{here.port}\r\nContent-Length: 10\r\n\r\n"
        answer = await here.say(head.encode() + b"abc")
        assert answer.status == 408
        assert here.read == []


@pytest.mark.promise("P-http-closed")
async def test_a_refused_body_is_not_waited_for() -> None:
    async with site() as here:
        head = f"POST /refuse HTTP/1.1\r\nHost: localhost:{here.port}\r\nContent-Length: 1000000\r\n\r\n"
        answer = await here.say(head.encode())
        assert answer.status == 403, "the answer comes while the body has not begun"


@pytest.mark.promise("P-http-closed")
async def test_a_packed_body_is_not_unpacked() -> None:
    async with site() as here:
        await here.ask("/echo", "POST", b"\x1f\x8b packed", **{"Content-Encoding": "gzip"})
        assert here.read == [b"\x1f\x8b packed"]


@pytest.mark.promise("P-http-closed")
@pytest.mark.parametrize("begun", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n"])
async def test_a_head_that_does_not_end_is_not_waited_for(begun: bytes) -> None:
    async with site(HURRIED_HEAD) as here:
        assert (await here.say(begun)).status == 0


@pytest.mark.promise("P-http-closed")
async def test_a_head_that_is_too_large_is_refused() -> None:
    async with site() as here:
        assert (await here.ask("/healthz", "GET", b"", **{"X-Large": "x" * 5_000})).status == 400
        assert (await here.ask("/" + "x" * 5_000)).status == 400
        assert (await here.ask("/healthz", "GET", b"", **{f"X-{number}": "x" for number in range(70)})).status == 400


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@asynccontextmanager
async def begun(here: Site, heads: int, source: str = "127.0.0.1", head: bytes = HEAD) -> AsyncIterator[list[Streams]]:
    """Connections from one address, each with a head that has no end."""
    opened: list[Streams] = []
    try:
        for _ in range(heads):
            opened.append(await asyncio.open_connection("127.0.0.1", here.port, local_addr=(source, 0)))
            opened[-1][1].write(head)
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def answered(stream: Streams, rest: bytes = b"\r\n") -> bytes:
    """End a request; returns the head of the answer, empty if the connection was closed."""
    reader, writer = stream
    async with asyncio.timeout(10):
        try:
            writer.write(rest)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.partition(b"Content-Length: ")[2].split()[0]))
        except (ConnectionError, asyncio.IncompleteReadError):
            return b""
    return head


@pytest.mark.promise("P-http-closed")
async def test_heads_without_an_end_from_one_address_shut_nobody_out() -> None:
    async with site() as here, begun(here, 300), begun(here, 1, "127.0.0.2") as other:
        for _ in range(3):
            assert (await here.ask()).status == 200
        assert b"200 OK" in await answered(other[0]), "another caller keeps its place"


@pytest.mark.promise("P-http-closed")
async def test_heads_without_an_end_from_many_addresses_shut_nobody_out() -> None:
    async with site(ListenerLimits(connections=20, per_caller=5)) as here, AsyncExitStack() as stack:
        for number in range(2, 12):
            await stack.enter_async_context(begun(here, 4, f"127.0.0.{number}"))
        assert (await here.ask()).status == 200


@pytest.mark.promise("P-http-closed")
async def test_the_head_that_is_waited_for_longest_makes_room() -> None:
    async with site(ListenerLimits(connections=9, per_caller=2)) as here, begun(here, 2) as old:
        assert b"200 OK" in await answered(old[0])  # now it waits for its next head, the younger one
        async with begun(here, 1) as new:
            assert b"200 OK" in await answered(old[0], HEAD + b"\r\n")
            assert await answered(old[1]) == b""
            assert b"200 OK" in await answered(new[0])


@pytest.mark.promise("P-http-closed")
async def test_probes_are_answered_while_all_connections_are_at_work() -> None:
    slow = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
    async with site(ListenerLimits(connections=3, for_probes=2)) as here, begun(here, 3, head=slow) as busy:
        while here.reached < 3:  # noqa: ASYNC110 - the listener runs in this loop
            await asyncio.sleep(0)
        for _ in range(5):
            assert (await here.ask("/healthz")).status == (await here.ask("/readyz")).status == 200
        assert (await here.ask("/echo", "POST", b"x")).status == 503
        async with begun(here, 20):
            assert (await here.ask("/healthz")).status == 200
        assert [(await answered(each, b"hello")).split()[1] for each in busy] == [b"200"] * 3


@pytest.mark.promise("P-http-closed")
async def test_behind_a_trusted_proxy_the_forwarded_address_is_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "goclaw.gateway.servers.http")

    def slow(forwarded: str) -> bytes:
        named = f"X-Forwarded-For: {forwarded}\r\n".encode()
        return b"POST /echo HTTP/1.1\r\nHost: localhost\r\n" + named + b"Content-Length: 5\r\n\r\n"

    caps = ListenerLimits(per_caller=2)
    async with (
        site(caps, trusted_proxies=["127.0.0.0/8"]) as here,
        begun(here, 5),  # a proxy has no share of its own
        begun(here, 2, head=slow("198.51.100.7, 192.0.2.1")),
    ):
        while here.reached < 2:  # noqa: ASYNC110 - the listener runs in this loop
            await asyncio.sleep(0)
        for forged in ("192.0.2.1", "10.9.8.7, 192.0.2.1", "192.0.2.1, 127.0.0.9"):
            assert (await here.ask("/echo", "POST", b"x", **{"X-Forwarded-For": forged})).status == 503
        assert (await here.ask("/echo", "POST", b"x", **{"X-Forwarded-For": "192.0.2.1, 192.0.2.2"})).status == 200
        assert (await here.ask("/echo", "POST", b"x", **{"X-Forwarded-For": "nonsense"})).status == 200
    assert "POST /echo from 192.0.2.2: 200" in caplog.text and "POST /echo from 127.0.0.1: 200" in caplog.text


@pytest.mark.promise("P-http-closed")
async def test_who_is_no_trusted_proxy_names_no_other_caller(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "goclaw.gateway.servers.http")
    async with site(trusted_proxies=["10.0.0.0/8", "2001:db8::/32"]) as here:
        assert (await here.ask("/echo", "POST", b"x", **{"X-Forwarded-For": "10.1.1.1"})).status == 200
    assert "from 127.0.0.1" in caplog.text and "10.1.1.1" not in caplog.text


async def test_what_breaks_is_in_the_log_and_not_in_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    async with site() as here:
        answer = await here.ask("/broken", "POST", b"x")
        assert (answer.status, answer.body) == (500, "")
        assert "the secret reason" in caplog.text


async def test_the_log_has_paths_without_queries(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "goclaw.gateway.servers.http")
    async with site() as here:
        await here.ask("/nowhere?token=abc")
    assert "GET /nowhere from 127.0.0.1: 404" in caplog.text
    assert "token" not in caplog.text


async def test_a_path_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "goclaw.gateway.servers.http")
    async with site() as here:
        await here.ask("/no%0A2026-01-01%20a%20line%C2%85%20of%E2%80%A8theirs")
    assert "GET /no 2026-01-01 a line of theirs from 127.0.0.1: 404" in caplog.text


async def test_nonsense_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with site() as here:
        before = len(caplog.records)
        assert (await here.say(b"\x16\x03\x01 this is TLS\r\n\r\n")).status == 400
        assert len(caplog.records) == before


@pytest.mark.promise("P-http-closed")
async def test_a_taken_port_is_named_together_with_what_helps() -> None:
    async with site() as here:
        with pytest.raises(
            StateError, match=rf"127.0.0.1 port {here.port} \(Address already in use\): choose another `http.port`"
        ):
            async with site(port=here.port):
                pass

"""The proxy of contained commands: attacked as a command would, over a real socket, with canaries on this machine."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from goclaw.common.net.client import LOOPBACK_ONLY
from goclaw.common.net.guard import UrlGuard
from goclaw.common.net.proxy import HEAD, Proxy, ProxyLimits
from tests.tables import table

pytestmark = [pytest.mark.promise("P-url-guard")]


@pytest.fixture(autouse=True)
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard itself keeps these tests from leaving the machine."""
    monkeypatch.delenv(LOOPBACK_ONLY)


@dataclass
class Canary:
    """A server on this machine: keeps what it was sent, answers, and ends."""

    answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\ncanary"
    port: int = 0
    heard: list[bytes] = field(default_factory=list)
    echoes: bool = False
    served: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    """All that came in a connection, once it is closed."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append(b"")
        try:
            while self.echoes and (chunk := await reader.read(1 << 16)):
                self.heard[-1] += chunk
                writer.write(chunk)
                await writer.drain()
            if not self.echoes:
                self.heard[-1] += await reader.readuntil(b"\r\n\r\n")
                writer.write(self.answer)
                writer.write_eof()
                self.heard[-1] += await reader.read()
        except (OSError, EOFError):
            pass  # the proxy has gone
        finally:
            self.served.put_nowait(self.heard[-1])
            writer.close()


class Stage:
    """A canary, a proxy before it, and names that lead where a test says."""

    def __init__(self) -> None:
        self.canary = Canary()
        self.names: dict[str, list[Sequence[str]]] = {}
        self.asked: list[str] = []
        self.told: list[tuple[str, bool, str]] = []
        self.allow: list[str] = []
        self.proxy = self.with_limits(ProxyLimits())
        self.port = 0

    def with_limits(self, limits: ProxyLimits) -> Proxy:
        guard = UrlGuard(allow=self.allow, resolve=self.resolve)
        self.proxy = Proxy(guard, (80, 443, self.canary.port), lambda *said: self.told.append(said), limits)
        return self.proxy

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self.names.get(host)
        if not answers:
            raise OSError("no such name")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.proxy.serve(reader, writer)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def say(self, request: str | bytes) -> str:
        """Send a request and return all that comes back."""
        reader, writer = await self.connect()
        async with asyncio.timeout(10):
            writer.write(request if isinstance(request, bytes) else request.encode("latin-1"))
            try:
                answer = await reader.read()
            except ConnectionError:
                answer = b""
        writer.close()
        return answer.decode("latin-1")


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    async with AsyncExitStack() as stack:
        ports: list[int] = []
        for serve in (made.canary.serve, made.serve):
            server: Any = await asyncio.start_server(serve, "127.0.0.1", 0, limit=HEAD)
            stack.callback(server.close)
            ports.append(server.sockets[0].getsockname()[1])
        made.canary.port, made.port = ports
        made.with_limits(ProxyLimits())
        yield made


def open_to(stage: Stage) -> Stage:
    """The canary stands for a public host: the operator has made an exception."""
    stage.allow.append(f"127.0.0.1:{stage.canary.port}")
    return stage


async def served(stage: Stage) -> bytes:
    """What the canary heard in its next connection that ends."""
    async with asyncio.timeout(10):
        return await stage.canary.served.get()


async def test_a_plain_request_is_rewritten_and_answered(stage: Stage) -> None:
    port = open_to(stage).canary.port
    answer = await stage.say(
        f"GET http://127.0.0.1:{port}/a?b=c HTTP/1.1\r\nHost: evil.example\r\nProxy-Connection: keep-alive\r\n"
        "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nAccept: */*\r\nProxy-Authorization: Basic eA==\r\n\r\n"
    )
    assert answer.endswith("canary")
    assert await served(stage) == (
        f"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\naccept: */*\r\n\r\n".encode()
    )
    assert stage.told == [(f"127.0.0.1:{port}", True, "")]


async def test_a_tunnel_carries_everything_both_ways(stage: Stage) -> None:
    open_to(stage).canary.echoes = True
    reader, writer = await stage.connect()
    async with asyncio.timeout(20):
        writer.write(f"CONNECT 127.0.0.1:{stage.canary.port} HTTP/1.1\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        sent = bytes(range(256)) * 8192
        writer.write(sent)
        writer.write_eof()
        assert await reader.read() == sent
    writer.close()


async def test_a_body_ends_where_the_request_says(stage: Stage) -> None:
    port = open_to(stage).canary.port
    smuggled = f"GET http://127.0.0.1:{port}/second HTTP/1.1\r\n\r\n"
    await stage.say(f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody{smuggled}")
    assert (await served(stage)).endswith(b"\r\n\r\nbody")
    await stage.say(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n{smuggled}")
    assert (await served(stage)).endswith(b"Connection: close\r\n\r\n")


@table(
    "host",
    [
        "127.0.0.1", "localhost", "LOCALHOST.", "127.1", "0", "0.0.0.0", "2130706433", "0x7f000001", "0177.0.0.1",  # noqa: S104  # nothing is bound
        "017700000001", "0x7f.1", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]", "169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "168.63.129.16", "10.0.0.1",
        "192.168.0.1", "172.16.0.1", "224.0.0.1", "255.255.255.255", "inside.example", "both.example",
        "metadata.google.internal", "127.0.0.1.", "[fe80::1]",
    ],
)  # fmt: skip
@table("form", ["CONNECT {host}:{port}", "GET http://{host}:{port}/latest/meta-data/"])
async def test_nothing_of_this_machine_or_its_network_is_reached(stage: Stage, host: str, form: str) -> None:
    stage.names = {
        "localhost": [["127.0.0.1"]],
        "inside.example": [["127.0.0.1"]],
        "both.example": [["93.184.215.14", "127.0.0.1"]],
        "metadata.google.internal": [["169.254.169.254"]],
    }
    answer = await stage.say(f"{form.format(host=host, port=stage.canary.port)} HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith("HTTP/1.1 403 ")
    assert "goclaw: " in answer
    assert stage.canary.heard == []
    assert all(not reached for _, reached, _ in stage.told)


async def test_a_name_that_changes_its_mind_is_asked_once(stage: Stage) -> None:
    """DNS rebinding: what was checked is what is connected to."""
    stage.allow.append(f"127.9.9.9:{stage.canary.port}")
    stage.names = {"rebind.example": [["127.9.9.9"], ["127.0.0.1"]]}
    answer = await stage.say(f"CONNECT rebind.example:{stage.canary.port} HTTP/1.1\r\n\r\n")
    assert stage.asked == ["rebind.example"]
    assert answer.startswith("HTTP/1.1 403 ")
    assert stage.canary.heard == []


@pytest.mark.parametrize("port", [22, 25, 6379, 8080, 0, 65_536, 99_999])
@pytest.mark.parametrize("form", ["CONNECT public.example:{port}", "GET http://public.example:{port}/"])
async def test_other_ports_are_refused_before_anything_is_looked_up(stage: Stage, port: int, form: str) -> None:
    answer = await stage.say(f"{form.format(port=port)} HTTP/1.1\r\n\r\n")
    assert answer.startswith("HTTP/1.1 403 ")
    assert f"port {port} is not among the allowed ports" in answer
    assert stage.asked == []


@table(
    "request_line",
    [
        "GET http://user:password@127.0.0.1:{port}/ HTTP/1.1",
        "GET http://127.0.0.1:{port}@evil.example/ HTTP/1.1",
        "CONNECT user@127.0.0.1:{port} HTTP/1.1",
        "GET / HTTP/1.1",
        "GET https://127.0.0.1:{port}/ HTTP/1.1",
        "GET ftp://127.0.0.1:{port}/ HTTP/1.1",
        "GET file:///etc/passwd HTTP/1.1",
        "GET http:/127.0.0.1:{port}/ HTTP/1.1",
        "GET http:///127.0.0.1:{port}/ HTTP/1.1",
        "GET http://127.0.0.1:{port}\\@evil.example/ HTTP/1.1",
        "GET http://127.0.0.1:{port}#@evil.example/ HTTP/1.1",
        "GET http://127.0.0.1%00:{port}/ HTTP/1.1",
        "GET http://127.0.0.1:{port}:80/ HTTP/1.1",
        "GET http://[127.0.0.1]x:{port}/ HTTP/1.1",
        "GET http://127.0.0.1:{port}/ HTTP/2.0",
        "GET http://127.0.0.1:{port}/ x HTTP/1.1",
        "get http://127.0.0.1:{port}/ HTTP/1.1",
        "CONNECT 127.0.0.1 HTTP/1.1",
        "CONNECT 127.0.0.1:{port}/x HTTP/1.1",
        "CONNECT http://127.0.0.1:{port} HTTP/1.1",
        "CONNECT 127.0.0.1:+{port} HTTP/1.1",
        "CONNECT  127.0.0.1:{port} HTTP/1.1",
        "\x16\x03\x01",
        "",
    ],
)
async def test_what_is_no_request_for_a_proxy_is_refused(stage: Stage, request_line: str) -> None:
    open_to(stage)
    answer = await stage.say(f"{request_line.format(port=stage.canary.port)}\r\n\r\n")
    assert answer.startswith(("HTTP/1.1 400 ", "HTTP/1.1 403 "))
    assert stage.canary.heard == []


@pytest.mark.parametrize(
    "header",
    [
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding:\x0bchunked",
        "Content-Length: +4",
        "Content-Length: 4, 4",
        "Content-Length: 0x4",
        "Content-Length : 4",
        " Content-Length: 4",
        "X: a\r\n folded: b",
        "X: a\rGET / HTTP/1.1",
        "X: a\nGET / HTTP/1.1",
        "X: a\x00b",
        "X y: z",
        ": x",
        "no colon",
        "\r\n".join(f"X{n}: y" for n in range(101)),
    ],
)
async def test_a_head_that_could_be_read_in_two_ways_is_refused(stage: Stage, header: str) -> None:
    open_to(stage)
    answer = await stage.say(f"POST http://127.0.0.1:{stage.canary.port}/ HTTP/1.1\r\n{header}\r\n\r\nbody")
    assert answer.startswith("HTTP/1.1 400 ")
    assert stage.canary.heard == []


async def test_a_connection_header_cannot_take_the_length_away(stage: Stage) -> None:
    port = open_to(stage).canary.port
    await stage.say(
        f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nConnection: content-length, host\r\nContent-Length: 2\r\n\r\nab"
    )
    assert (await served(stage)).endswith(b"content-length: 2\r\n\r\nab")


async def test_a_head_without_end_is_refused(stage: Stage) -> None:
    answer = await stage.say(b"GET http://public.example/ HTTP/1.1\r\n" + b"X: y\r\n" * HEAD)
    assert answer == "" or answer.startswith("HTTP/1.1 431 ")
    assert stage.asked == []


async def test_who_sends_slowly_is_not_waited_for(stage: Stage) -> None:
    stage.with_limits(ProxyLimits(head_seconds=0.1))
    assert (await stage.say("GET http://public.example/ HTTP/1.1\r\nX: ")).startswith("HTTP/1.1 408 ")


async def test_a_tunnel_in_which_nothing_moves_ends(stage: Stage) -> None:
    open_to(stage).canary.echoes = True
    stage.with_limits(ProxyLimits(idle_seconds=0.1))
    answer = await stage.say(f"CONNECT 127.0.0.1:{stage.canary.port} HTTP/1.1\r\n\r\n")
    assert answer.endswith("established\r\n\r\n")


async def test_a_command_moves_no_more_than_it_may(stage: Stage) -> None:
    open_to(stage).canary.answer = b"HTTP/1.1 200 OK\r\n\r\n" + bytes(1 << 20)
    stage.with_limits(ProxyLimits(total_bytes=1 << 18))
    answer = await stage.say(f"GET http://127.0.0.1:{stage.canary.port}/ HTTP/1.1\r\n\r\n")
    assert len(answer) <= 1 << 18


async def test_a_thousand_connections_take_no_more_than_their_share(stage: Stage) -> None:
    # Those that are held have not ended their heads when the thousandth comes, however long that takes.
    stage.with_limits(ProxyLimits(at_once=8, head_seconds=60))
    held = [await stage.connect() for _ in range(8)]
    for _, writer in held:
        writer.write(b"GET ")
    async with asyncio.timeout(60):
        answers = [await stage.say("CONNECT public.example:443 HTTP/1.1\r\n\r\n") for _ in range(1_000)]
    assert {answer.partition("\r\n")[0] for answer in answers} <= {"HTTP/1.1 503 Refused", ""}
    assert stage.asked == []
    for _, writer in held:
        writer.close()
    async with asyncio.timeout(10):
        while not (await stage.say("GET / HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 400 "):
            pass


async def test_the_connections_of_one_command_are_counted(stage: Stage) -> None:
    stage.with_limits(ProxyLimits(connections=3))
    answers = [await stage.say("GET / HTTP/1.1\r\n\r\n") for _ in range(5)]
    # Who is turned away at once may see the connection break before the answer.
    assert [answer[9:12] for answer in answers[:3]] == ["400", "400", "400"]
    assert {answer[9:12] for answer in answers[3:]} <= {"503", ""}


async def test_each_place_is_told_once_and_a_flood_of_them_not_at_all(stage: Stage) -> None:
    for number in range(300):
        await stage.say(f"CONNECT host{number // 2}.example:443 HTTP/1.1\r\n\r\n")
    assert [place for place, _, _ in stage.told] == [f"host{number}.example:443" for number in range(100)]
    assert stage.told[0] == ("host0.example:443", False, "cannot be reached: host0.example has no address")


def test_a_proxy_is_freed_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        kept = weakref.ref(Proxy(UrlGuard(), (), lambda place, reached, why: None))
        assert kept() is None
    finally:
        gc.enable()

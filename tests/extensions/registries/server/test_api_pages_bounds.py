"""Nobody holds the registry up, or reaches it from a web page."""

import asyncio
import socket
from pathlib import Path

import orjson
import pytest

from goclaw.common.auth.tokens import revoke_token
from goclaw.extensions.registries.server import api as pages_module
from goclaw.gateway.servers.admission import FailureLimits
from goclaw.gateway.servers.http import ListenerLimits
from tests.extensions.registries.server.house import House, address_of, document, open_house

HURRIED_HEAD, HURRIED_BODY = ListenerLimits(head_seconds=0.2), ListenerLimits(body_seconds=0.2)


async def say(house: House, raw: bytes) -> bytes:
    """Send bytes, and read until the other end closes."""
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
        writer.write(raw)
        answer = await reader.read()
        writer.close()
    return answer


@pytest.mark.promise("P-http-closed")
@pytest.mark.parametrize("host", ["evil.example", "192.0.2.7", "127.0.0.1.evil.example"])
async def test_a_foreign_host_is_refused(tmp_path: Path, host: str) -> None:
    async with open_house(tmp_path, open=True) as house:
        answer = await house.ask("GET", "/v1/entries", Host=host)
        assert answer.status == 421 and "registry_server.hosts" in answer.body["error"]


async def test_a_name_that_is_configured_is_its_own(tmp_path: Path) -> None:
    async with open_house(tmp_path, hosts=["Registry.example.org"]) as house:
        answer = await house.ask("GET", "/v1/", Host="registry.example.org:443")
        assert answer.body["registry"]["name"] == "registry.example.org"


async def test_a_web_page_is_refused_whatever_it_is(tmp_path: Path) -> None:
    async with open_house(tmp_path, open=True) as house:
        answer = await house.ask("GET", "/v1/entries", Origin=f"http://127.0.0.1:{house.port}")
        assert answer.status == 403 and "web page" in answer.body["error"]


async def test_a_head_has_to_come_in_time(tmp_path: Path) -> None:
    async with open_house(tmp_path, HURRIED_HEAD) as house:
        assert await say(house, b"GET /v1/ HTT") == b"", "closed without a word"


async def test_a_body_has_to_come_in_time(tmp_path: Path) -> None:
    async with open_house(tmp_path, HURRIED_BODY) as house:
        head = f"PUT {address_of(document())} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
        for token in (house.tokens["bob"], "goclaw_none"):
            answer = await say(house, f"{head}Authorization: Bearer {token}\r\n\r\n{{".encode())
            assert answer.startswith(b"HTTP/1.1 408 ") and b'{"error": ' in answer


@pytest.mark.promise("P-token")
async def test_a_token_that_is_revoked_while_the_body_comes_publishes_nothing(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, asyncio.timeout(10):
        body = orjson.dumps(document())
        head = f"PUT {address_of(document())} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
        writer.write(f"{head}Expect: 100-continue\r\nAuthorization: Bearer {house.tokens['bob']}\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        assert (await house.ask("GET", "/v1/", "bob")).status == 200, "the one before is let in by now"
        revoke_token(house.state / "access-tokens.json", "bob")
        # A change of the file is seen when a token is not known, or within a second (`tokens.open_tokens`).
        assert (await house.ask("GET", "/v1/", "goclaw_" + "x" * 43)).status == 401
        writer.write(body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
        writer.close()
        assert (await house.ask("GET", address_of(document()))).status == 404


@pytest.mark.promise("P-token")
async def test_refused_changes_are_limited_for_a_minute_and_hold_up_nobody_else(tmp_path: Path) -> None:
    most = FailureLimits().failures
    async with open_house(tmp_path) as house:
        assert [await house.publish("eve", document()) for _ in range(most + 1)] == [403] * most + [429]
        entries = len(house.audit)
        answer = await house.ask("DELETE", address_of(document()), "eve")
        assert answer.status == 429 and 0 < int(answer.headers["retry-after"]) <= 61
        assert len(house.audit) == entries, "what is turned away writes no audit entry"
        assert await house.publish("bob", document()) == 201, "behind a proxy all have one address"
        assert (await house.ask("GET", address_of(document()), "eve")).status == 200
        house.clock.advance(61)
        assert await house.publish("eve", document()) == 403


async def test_a_body_without_an_end_is_cut(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        head = f"PUT {address_of(document())} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        token = f"Authorization: Bearer {house.tokens['bob']}\r\n\r\n"
        answer = await say(house, (head + token).encode() + (b"10000\r\n" + b"x" * 65_536 + b"\r\n") * 20)
        assert answer.startswith(b"HTTP/1.1 413 ")


async def test_no_more_connections_than_are_allowed(tmp_path: Path) -> None:
    async with open_house(tmp_path, ListenerLimits(connections=3)) as house, asyncio.timeout(10):
        held = [await asyncio.open_connection("127.0.0.1", house.port) for _ in range(3)]
        for reader, writer in held:
            writer.write(b"GET /v1/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
        assert (await house.ask("GET", "/v1/")).status == 200
        assert (await held[0][0].read()).endswith(b"}"), "the one that has waited longest is closed to make room"
        for _, writer in held:
            writer.close()


async def test_who_takes_no_answer_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the sockets of both sides hold: it would wait for ever, and nobody else would come in."""
    monkeypatch.setattr(pages_module, "ANSWER_SECONDS", 0.1)
    async with open_house(tmp_path, ListenerLimits(connections=1), open=True) as house, asyncio.timeout(10):
        for at in range(5):
            house.shelf.publish(document(f"n{at}", later="x" * 400_000), "tui:bob", 1.0)
        ask = b"GET /v1/entries HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with socket.create_connection(("127.0.0.1", house.port)) as idle:
            idle.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(idle, ask * 20)
            while b" 200 " not in await say(house, b"GET /v1/ HTTP/1.0\r\nHost: localhost\r\n\r\n"):
                pass


async def test_many_ask_at_once_and_all_are_answered(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        house.shelf.publish(document(), "tui:bob", 1.0)
        answers = await asyncio.gather(*(house.ask("GET", "/v1/entries") for _ in range(60)))
        assert {answer.status for answer in answers} == {200}

"""Streamable HTTP on a real port, with the library's client in both eras."""

import asyncio
import contextlib
import json
import socket
from pathlib import Path

import httpx2
import pytest
from mcp_types import ResourceUpdatedNotification, ToolListChangedNotification
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from goclaw.common.auth.tokens import Tokens
from goclaw.common.auth.users import User
from goclaw.common.config.mcp import VERSIONS
from goclaw.errors import StateError
from goclaw.gateway.servers.mcp.http import CONNECTIONS, open_mcp_http
from tests.gateway.servers.mcp.house import ANN, BOB, house
from tests.gateway.servers.mcp.test_tools import add, said
from tests.gateway.servers.mcp.test_watching import BOSS, PEOPLE, TALK, Heard, until
from tests.harness import PATIENCE, Answer
from tests.parts import Trail, acting

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.mark.promise("P-tools-per-user")
async def test_each_token_is_its_user_in_both_eras(tmp_path: Path) -> None:
    users = [User(ANN, allowed_tools=frozenset({"add"})), User(BOB)]
    async with house(tmp_path, users=users, tools=[add]) as home, home.listener() as listener:
        ann, bob = await listener.token("ann", ANN), await listener.token("bob", BOB)
        for mode in ("legacy", "2026-07-28"):
            async with listener.client(ann, mode) as client:
                assert [each.name for each in (await client.list_tools()).tools] == ["add"]
                assert (await client.call_tool("add", {"numbers": [4]})).structured_content == {"total": 4, "note": ""}
                assert said(await client.call_tool("write", {"path": "a", "content": ""})) == "unknown tool: write"
            async with listener.client(bob, mode) as client:
                assert (await client.call_tool("write", {"path": mode, "content": "x"})).is_error is False
        assert {(each.actor.key, each.actor.entry) for each in home.audited} == {(ANN, "mcp"), (BOB, "mcp")}


@pytest.mark.promise("P-token")
async def test_a_session_is_of_no_use_to_another_token(tmp_path: Path) -> None:
    async with house(tmp_path) as home, home.listener() as listener:
        ann, bob = await listener.token("ann", ANN), await listener.token("bob", BOB)
        both = {"Accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(timeout=20) as http:
            nobody = await http.post(listener.url, json=HELLO, headers=both)
            assert nobody.status_code == 401 and nobody.headers["www-authenticate"] == "Bearer"
            assert "uvicorn" not in str(nobody.headers) and nobody.content == b""
            opened = await http.post(listener.url, json=HELLO, headers=both | {"Authorization": f"Bearer {ann}"})
            assert opened.status_code == 200
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            stolen = both | session | {"Authorization": f"Bearer {bob}"}
            listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            assert (await http.post(listener.url, json=listing, headers=stolen)).status_code == 404


@pytest.mark.promise("P-http-closed")
async def test_connections_that_begin_a_request_and_do_not_end_it_shut_out_no_client(tmp_path: Path) -> None:
    async with house(tmp_path) as home, home.listener() as listener, contextlib.AsyncExitStack() as stack:
        ann, where = await listener.token("ann", ANN), httpx2.URL(listener.url)
        async with listener.client(ann, "2026-07-28") as before:
            opened = []
            for number in range(2 * CONNECTIONS):
                reader, writer = await asyncio.open_connection(
                    where.host, where.port, local_addr=(f"127.0.0.{2 + number % 5}", 0)
                )
                stack.callback(writer.close)
                writer.write(b"POST /mcp HTTP/1.1\r\nHost: ")
                opened.append(reader)
            async with asyncio.timeout(PATIENCE), listener.client(ann, "2026-07-28") as client:
                assert "read" in {each.name for each in (await client.list_tools()).tools}
                assert (await before.list_tools()).tools
            with contextlib.suppress(ConnectionError):  # the one that waited longest made room
                assert await opened[0].read() == b""


async def test_a_connection_that_stays_open_is_told_of_changes(tmp_path: Path) -> None:
    heard = Heard()
    async with house(tmp_path, users=PEOPLE, answers=[Answer("Hi")] * 2) as home, home.listener() as listener:
        token = await listener.token("boss", BOSS)
        async with listener.client(token, "legacy", message_handler=heard.take) as old, listener.client(token) as new:
            await old.subscribe_resource(TALK)
            async with new.listen(resource_subscriptions=[TALK]) as stream:
                await home.core.say("hello")
                await home.core.settled()
                assert getattr(await anext(aiter(stream)), "uri", "") == TALK
            await until(heard.uris)
        assert all(isinstance(each, ResourceUpdatedNotification) for each in heard.all if hasattr(each.params, "uri"))


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_call_that_is_cancelled_ends_its_tool(tmp_path: Path, mode: str) -> None:
    trail = Trail()
    async with house(tmp_path, tools=[acting("slow", trail.leave_slowly)]) as home, home.listener() as listener:
        async with listener.client(await listener.token("ann", ANN), mode) as client:
            calling = asyncio.create_task(client.call_tool("slow", {}))
            await trail.begun.wait()
            calling.cancel()
            await until(lambda: trail.cancelled)
            await asyncio.wait({calling})
            assert said(await client.call_tool("nothing", {})) == "unknown tool: nothing"


async def test_a_change_is_told_once_to_each_connection(tmp_path: Path) -> None:
    heard = Heard()
    async with house(tmp_path) as home, home.listener() as listener:
        token = await listener.token("ann", ANN)
        async with listener.client(token, "legacy", message_handler=heard.take) as client:
            await client.list_tools()
            home.tools.listed = (add,)
            await until(lambda: heard.all, home)
            for _ in range(5):  # what came twice would be here by then
                await client.list_tools(cache_mode="bypass")
            assert len(heard.all) == 1
            home.tools.listed = ()
            await until(lambda: len(heard.all) >= 2, home)
    assert [type(each) for each in heard.all] == [ToolListChangedNotification] * 2


async def test_the_monitor_streams_what_the_user_may_read(tmp_path: Path) -> None:
    async with house(tmp_path, users=PEOPLE, answers=[Answer("Hi")]) as home, home.listener() as listener:
        boss, ann = await listener.token("boss", BOSS), await listener.token("ann", ANN)
        async with httpx2.AsyncClient(timeout=20) as http:
            assert (await http.get(f"{listener.url}/monitor")).status_code == 401
            found: dict[str, list[dict[str, str]]] = {"boss": [], "ann": []}

            async def watch(name: str, token: str, enough: int, ready: asyncio.Event) -> None:
                headers = {"Authorization": f"Bearer {token}"}
                async with http.stream("GET", f"{listener.url}/monitor", headers=headers) as answer:
                    assert answer.headers["content-type"].startswith("text/event-stream")
                    async for line in answer.aiter_lines():
                        ready.set()
                        if line.startswith("data: "):
                            found[name].append(json.loads(line.removeprefix("data: ")))
                        if len(found[name]) >= enough:
                            return

            ready = [asyncio.Event(), asyncio.Event()]
            watching = [
                asyncio.create_task(watch("boss", boss, 4, ready[0])),
                asyncio.create_task(watch("ann", ann, 2, ready[1])),
            ]
            await asyncio.gather(*(each.wait() for each in ready))
            await home.core.say("hello")
            await home.core.settled()
            await asyncio.gather(*watching)
            assert {"resource": TALK, "event": "created"} in found["boss"]
            assert {"resource": TALK, "event": "updated"} in found["boss"]
            assert {each["resource"] for each in found["ann"]} == {"status://goclaw"}


async def test_whose_token_is_revoked_is_cut_off(tmp_path: Path) -> None:
    async with house(tmp_path) as home, home.listener() as listener:
        token = await listener.token("ann", ANN)
        async with httpx2.AsyncClient(timeout=20) as http:
            headers = {"Authorization": f"Bearer {token}"}
            async with http.stream("GET", f"{listener.url}/monitor", headers=headers) as answer:
                lines = answer.aiter_lines()
                assert await anext(lines) == ": still at work"
                await listener.revoke("ann")
                ending = asyncio.ensure_future(_rest(lines))
                await until(ending.done, home)
                assert not [line for line in await ending if line]


async def _rest(lines: "object") -> list[str]:
    return [line async for line in lines]  # type: ignore[attr-defined]  # an iterator of lines


async def test_a_port_that_is_taken_is_said_with_the_remedy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with house(tmp_path, port=port) as home:
            with pytest.raises(
                StateError, match=rf"MCP listener cannot listen on 127\.0\.0\.1 port {port} .*mcp\.server\.port"
            ):
                async with open_mcp_http(home.backend, Tokens(tmp_path / "none", home.world.clock)):
                    pass


async def test_only_the_configured_version_is_spoken(tmp_path: Path) -> None:
    async with house(tmp_path, protocol_version="2025-06-18") as home, home.listener() as listener:
        async with listener.client(await listener.token("ann", ANN)) as client:
            assert client.protocol_version == "2025-06-18"
            assert (await client.list_tools()).tools
    async with house(tmp_path, protocol_version="2026-07-28") as home, home.listener() as listener:
        async with listener.client(await listener.token("ann2", ANN)) as client:
            assert client.protocol_version == "2026-07-28"


def test_the_versions_are_those_of_the_library() -> None:
    assert VERSIONS == KNOWN_PROTOCOL_VERSIONS

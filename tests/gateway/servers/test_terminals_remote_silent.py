"""Clients over TCP that say nothing: they keep nobody out, and are not kept themselves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from goclaw.clients.tui.client import attach
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.wire import PATH
from goclaw.gateway.servers.socket_file import open_socket
from tests.gateway.servers.test_terminals_remote import ANN, House, house, spun


def drop(writer: asyncio.StreamWriter) -> None:
    """Close a connection that the other end may have closed."""
    writer.transport.abort()


@pytest.mark.promise("P-http-closed")
async def test_connections_that_say_nothing_keep_nobody_out(tmp_path: Path) -> None:
    async with house(tmp_path) as here, AsyncExitStack() as stack:
        place = tmp_path / "s"
        await stack.enter_async_context(open_socket(place, here.core.gateway, here.world.clock, str))
        token = await here.token("laptop", ANN)
        for _ in range(200):
            _, writer = await asyncio.open_connection("127.0.0.1", here.port)
            stack.callback(drop, writer)
            writer.write(b"GET /ws HTTP/1.1\r\n")
        async with attach(here.remote(token), "") as remote, attach(place, "tui:me") as local:
            assert (remote.attached.person, local.attached.session) == (ANN, "tui:me")
            await remote.status()
        async with aiohttp.ClientSession() as http, http.get(f"{here.url}/healthz") as answer:
            assert answer.status == 200


async def test_behind_a_trusted_proxy_the_audit_log_names_the_caller(tmp_path: Path) -> None:
    async with house(tmp_path, proxies="127.0.0.1") as here:
        headers = {"Authorization": f"Bearer {await here.token('laptop', ANN)}", "X-Forwarded-For": "192.0.2.7"}
        async with aiohttp.ClientSession() as http, http.ws_connect(f"{here.url}{PATH}", headers=headers) as connection:
            await connection.send_str('{"type": "attach", "session": ""}')
            assert '"attached"' in await connection.receive_str()
        assert [entry.where for entry in here.audited] == ["192.0.2.7"]


@asynccontextmanager
async def silent(here: House, token: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A WebSocket on which nothing is said."""
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{here.url}{PATH}", headers=headers) as connection:
        yield connection


async def farewell(connection: aiohttp.ClientWebSocketResponse, clock: SteppedClock) -> tuple[str, int | None]:
    """What the daemon says at the end, and its code, while time passes."""
    receiving = asyncio.ensure_future(connection.receive())
    while not receiving.done():
        clock.advance(0.5)
        await spun(receiving.done)
    said = str(receiving.result().data)
    await connection.receive()
    return said, connection.close_code


@pytest.mark.promise("P-http-closed")
async def test_a_client_that_never_attaches_is_cut_off_in_time(tmp_path: Path) -> None:
    async with house(tmp_path) as here, silent(here, await here.token("laptop", ANN)) as connection:
        began = here.world.clock.monotonic()
        await connection.send_str("nonsense")
        assert "not a frame" in (await connection.receive_str())
        said, code = await farewell(connection, here.world.clock)
        assert "no `attach` within 10 s" in said and code == aiohttp.WSCloseCode.POLICY_VIOLATION
        assert 10 <= here.world.clock.monotonic() - began <= 11


@pytest.mark.promise("P-token")
async def test_a_client_that_has_not_attached_ends_with_its_token(tmp_path: Path) -> None:
    async with house(tmp_path) as here, silent(here, await here.token("laptop", ANN)) as connection:
        began = here.world.clock.monotonic()
        await here.revoke("laptop")
        said, code = await farewell(connection, here.world.clock)
        assert "revoked" in said and code == aiohttp.WSCloseCode.POLICY_VIOLATION
        assert here.world.clock.monotonic() - began <= 2

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from goclaw.common.net import CONNECT_TIMEOUT, IDLE_TIMEOUT, LOOPBACK_ONLY, check_reachable, is_loopback, open_client
from goclaw.errors import ConfigError
from tests.http_server import serve


@pytest.fixture
async def server() -> AsyncIterator[str]:
    """Tells which host it was asked for: as a proxy it is asked for another one than itself."""

    async def answer(request: web.Request) -> web.Response:
        text = f"{request.headers['host']} {request.headers.get('proxy-connection', '')}"
        return web.Response(text=text + request.headers.get("cookie", ""), headers={"Set-Cookie": "taste=sweet"})

    async with serve(web.route("*", "/{path:.*}", answer)) as address:
        yield address


async def test_waits_are_bounded_but_a_stream_may_take_as_long_as_it_moves() -> None:
    async with open_client() as client:
        timeout = client.timeout
    assert (timeout.total, timeout.connect, timeout.sock_read) == (None, CONNECT_TIMEOUT, IDLE_TIMEOUT)


async def test_leaving_the_block_closes_the_client() -> None:
    async with open_client() as client:
        assert not client.closed
    assert client.closed


async def test_no_server_leaves_cookies_with_us(server: str) -> None:
    url = server.replace("127.0.0.1", "localhost")  # none are kept of addresses anyway
    async with asyncio.timeout(10), open_client() as client:
        for _ in range(2):
            async with client.get(url) as response:
                assert response.headers["Set-Cookie"] and "sweet" not in await response.text()
        assert len(client.cookie_jar) == 0


async def test_a_proxy_of_the_environment_is_used(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, server)
    for name in ("no_proxy", "NO_PROXY", LOOPBACK_ONLY):
        monkeypatch.delenv(name, raising=False)
    async with asyncio.timeout(10), open_client() as client, client.get("http://model.invalid/") as response:
        assert (await response.text()).startswith("model.invalid")


async def test_with_the_switch_only_this_machine_can_be_reached(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOOPBACK_ONLY, "1")
    async with asyncio.timeout(10), open_client() as client:
        async with client.get(server) as response:
            assert response.status == 200
        for url in ("http://192.0.2.1/", "https://model.invalid/"):
            with pytest.raises(ConfigError, match=LOOPBACK_ONLY):
                await client.get(url)


async def test_a_redirect_does_not_lead_out_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOOPBACK_ONLY, "1")

    async def away(request: web.Request) -> web.Response:
        raise web.HTTPFound("http://192.0.2.1/")

    async with asyncio.timeout(10), serve(web.get("/", away)) as address, open_client() as client:
        with pytest.raises(ConfigError):
            await client.get(f"{address}/")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost.example", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_this_machine_is_recognised(host: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_loopback(host) is expected
    monkeypatch.delenv(LOOPBACK_ONLY, raising=False)
    check_reachable(host)


async def test_a_dead_port_is_an_error_of_the_client() -> None:
    async with open_client() as client:
        with pytest.raises(aiohttp.ClientError):
            await client.get("http://127.0.0.1:9/")

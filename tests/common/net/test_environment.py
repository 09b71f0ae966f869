"""Proxies of the environment and logins of `.netrc`: to whom they are given, and that they are read once."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import encode_basic_auth, web

from goclaw.common.net import LOOPBACK_ONLY, open_client
from goclaw.errors import ConfigError

NETRC = """
machine 127.0.0.1 login me password for-one-server
machine account.invalid account them password for-another
default login everybody password for-no-server
"""
MINE = encode_basic_auth("me", "for-one-server")


class Server:
    """A server and a proxy in one: it keeps what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.port = 0
        self.asked: list[web.BaseRequest] = []

    async def answer(self, request: web.BaseRequest) -> web.Response:
        self.asked.append(request)
        if request.path == "/away":
            raise web.HTTPFound(f"http://localhost:{self.port}/here")
        return web.Response(text="here")

    def header(self, name: str) -> list[str | None]:
        return [request.headers.get(name) for request in self.asked]

    def hosts(self) -> list[str]:
        return [request.headers["Host"].partition(":")[0] for request in self.asked]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    runner = web.ServerRunner(web.Server(server.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.port = runner.addresses[0][1]
    server.url = f"http://127.0.0.1:{server.port}"
    yield server
    await runner.cleanup()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("NETRC", LOOPBACK_ONLY):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


async def get(*urls: str, **headers: str) -> None:
    async with asyncio.timeout(20), open_client() as client:
        for url in urls:
            async with client.get(url, headers=headers) as response:
                assert await response.text() == "here"


async def test_a_proxy_gets_its_password_and_what_no_proxy_names_is_reached_directly(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://user:p%40ss@127.0.0.1:{server.port}")
    monkeypatch.setenv("NO_PROXY", "localhost,.example")
    await get("http://model.invalid/", f"http://localhost:{server.port}/", "http://model.invalid/again")
    assert server.hosts() == ["model.invalid", "localhost", "model.invalid"]
    password = encode_basic_auth("user", "p@ss")
    assert server.header("Proxy-Authorization") == [password, None, password]
    assert server.header("Authorization") == [None, None, None]


@pytest.mark.parametrize("url", ["http://user:p%40ss@127.0.0.1", "http://127.0.0.1"])
async def test_https_asks_the_proxy_for_a_tunnel_with_its_password(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str
) -> None:
    """In its address, or in an entry for its host."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login user password p@ss\n")
    monkeypatch.setenv("HTTPS_PROXY", f"{url}:{server.port}")
    async with asyncio.timeout(20), open_client() as client:
        with pytest.raises(aiohttp.ClientError):
            await client.get("https://model.invalid/")  # it speaks no TLS
    assert [request.method for request in server.asked] == ["CONNECT"]
    assert server.header("Proxy-Authorization") == [encode_basic_auth("user", "p@ss")]
    assert server.header("Authorization") == [None]


async def test_an_entry_of_netrc_goes_to_its_server_and_the_default_one_to_no_server_and_no_proxy(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text(NETRC)
    await get(server.url, f"http://localhost:{server.port}", f"{server.url}/away")
    assert server.hosts() == ["127.0.0.1", "localhost", "127.0.0.1", "localhost"]
    assert server.header("Authorization") == [MINE, None, MINE, None]

    server.asked.clear()
    monkeypatch.setenv("HTTP_PROXY", f"http://localhost:{server.port}")
    await get("http://account.invalid/", "http://default/")
    assert server.header("Authorization") == [encode_basic_auth("them", "for-another"), None]
    assert server.header("Proxy-Authorization") == [None, None]


async def test_a_request_with_a_key_of_its_own_keeps_it(server: Server, tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text(NETRC)
    await get(server.url, Authorization="Bearer its-own")
    assert server.header("Authorization") == ["Bearer its-own"]


async def test_both_are_read_once_for_a_client(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(NETRC)
    monkeypatch.setenv("NETRC", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("HTTP_PROXY", server.url)
    async with asyncio.timeout(20), open_client() as client:
        (tmp_path / "elsewhere").unlink()
        monkeypatch.delenv("HTTP_PROXY")
        async with client.get("http://account.invalid/") as response:
            assert await response.text() == "here"
    assert server.header("Authorization") == [encode_basic_auth("them", "for-another")]
    assert server.header("Proxy-Authorization") == [MINE]


async def test_a_file_that_is_none_is_told_once_without_its_words(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password a b-secret-word\n")
    with caplog.at_level(logging.WARNING):
        await get(server.url, server.url)
    assert len(caplog.records) == 1 and f"{tmp_path / '.netrc'}: not used" in caplog.text
    assert "b-secret-word" not in caplog.text
    assert server.header("Authorization") == [None, None]


@pytest.mark.parametrize("address", ["http://me:a-secret-word@host:port", "http://[::1", "a-secret-word", "host:3128"])
async def test_a_proxy_without_an_address_is_named_and_not_gone_past(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)
    with pytest.raises(ConfigError, match=r"^HTTPS_PROXY: is not a proxy address; write http://HOST:PORT$"):
        async with open_client():
            pass

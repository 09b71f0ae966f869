"""The proxy of the tests holds bytes back, brings them late, and cuts connections so that both ends notice."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.acceptance.tcp_proxy import TcpProxy, tcp_proxy

HELD_SECONDS = 0.2


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back what comes, until the other end closes or is cut."""
    try:
        while data := await reader.read(100):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[TcpProxy]:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, tcp_proxy(server.sockets[0].getsockname()[1]) as made:
        yield made


async def test_what_is_held_back_arrives_late_and_new_connections_wait(proxy: TcpProxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"before")
    assert await reader.readexactly(6) == b"before"
    proxy.hold()
    late, other = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"meanwhile")
    other.write(b"new")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(HELD_SECONDS):
            await reader.read(1)
    proxy.let_go()
    assert await reader.readexactly(9) == b"meanwhile"
    assert await late.readexactly(3) == b"new"
    writer.close()
    other.close()


async def test_a_cut_is_a_reset_for_the_client_and_the_next_connection_is_whole(proxy: TcpProxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"before")
    await reader.readexactly(6)
    assert proxy.reset() == 1
    with pytest.raises(ConnectionResetError):
        await reader.read(1)
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"after")
    assert await reader.readexactly(5) == b"after"
    writer.close()


async def test_where_nothing_listens_the_connection_ends() -> None:
    async with tcp_proxy(1) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await reader.read(1) == b""
        writer.close()


async def test_of_several_targets_each_connection_goes_to_the_next_one_that_takes_it() -> None:
    async with (
        await asyncio.start_server(partial(say, b"a"), "127.0.0.1", 0) as one,
        await asyncio.start_server(partial(say, b"b"), "127.0.0.1", 0) as two,
        tcp_proxy(*(each.sockets[0].getsockname()[1] for each in (one, two)), 1) as proxy,
    ):
        heard = []
        for _ in range(6):
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            heard.append(await reader.read(1))
            writer.close()
    assert set(heard) == {b"a", b"b"}


async def say(word: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say one word to each client."""
    writer.write(word)
    writer.close()

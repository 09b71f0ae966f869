"""Connections that rest: those that only a burst needed do not stay."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import nullcontext

import pytest
from aiohttp import web

from goclaw.common.core.fencing import AUTHORITY, Authority
from goclaw.common.net import open_client
from tests.http_server import serve

BURST = 8


class Counting:
    """A server that knows by which connection it is asked."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: Counter[int] = Counter()
        self.together = asyncio.Barrier(BURST)
        self.bursting = True

    async def answer(self, request: web.Request) -> web.Response:
        self.asked[id(request.transport)] += 1
        if self.bursting:
            await self.together.wait()
        return web.Response(text="here")


@pytest.fixture
async def server() -> AsyncIterator[Counting]:
    counting = Counting()
    async with serve(web.get("/", counting.answer)) as address:
        counting.url = f"{address}/"
        yield counting


async def test_after_a_burst_one_connection_works_and_the_others_rest(server: Counting) -> None:
    async with open_client() as client, asyncio.timeout(20):

        async def ask() -> None:
            async with client.get(server.url) as response:
                assert await response.text() == "here"

        await asyncio.gather(*(ask() for _ in range(BURST)))
        assert len(server.asked) == BURST
        server.bursting = False
        server.asked.clear()
        for _ in range(3 * BURST):
            await ask()
    assert list(server.asked.values()) == [3 * BURST]


async def test_a_request_that_is_refused_before_it_is_sent_leaves_its_connection(server: Counting) -> None:
    refusing = False

    async def clear() -> None:
        if refusing:
            raise RuntimeError("not any more")

    server.bursting = False
    AUTHORITY.set(Authority(before_sending=clear))
    async with open_client() as client, asyncio.timeout(20):
        for refusing in (False, True, False):
            with pytest.raises(RuntimeError) if refusing else nullcontext():
                async with client.get(server.url) as response:
                    assert await response.text() == "here"
    assert list(server.asked.values()) == [2]

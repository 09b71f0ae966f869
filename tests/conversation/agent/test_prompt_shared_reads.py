"""Reads that are shared by those who ask at the same moment."""

import asyncio
import threading

import pytest

from goclaw.conversation.agent.prompt import SharedRead


async def test_those_who_ask_at_the_same_moment_share_one_read() -> None:
    reads: list[str] = []

    def read(name: str) -> str:
        reads.append(name)
        return f"{name}{reads.count(name)}"

    shared = SharedRead(read)
    assert list(await asyncio.gather(shared.of("a"), shared.of("a"), shared.of("b"))) == ["a1", "a1", "b1"]
    assert await shared.of("a") == "a2"
    assert sorted(reads) == ["a", "a", "b"]


async def test_who_asks_while_a_read_is_under_way_gets_a_later_one() -> None:
    begun, go_on, count = asyncio.Event(), threading.Event(), [0]
    loop = asyncio.get_running_loop()

    def read(_: str) -> int:
        count[0] += 1
        mine = count[0]
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(30)
        return mine

    shared = SharedRead(read)
    first = asyncio.create_task(shared.of("a"))
    async with asyncio.timeout(30):
        await begun.wait()
        second = asyncio.create_task(shared.of("a"))
        go_on.set()
        assert (await first, await second) == (1, 2)


async def test_a_caller_that_is_cancelled_leaves_the_read_to_the_others() -> None:
    shared = SharedRead(str.upper)
    gone, stays = asyncio.create_task(shared.of("a")), asyncio.create_task(shared.of("a"))
    asyncio.get_running_loop().call_soon(gone.cancel)
    assert await stays == "A"
    assert isinstance((await asyncio.gather(gone, return_exceptions=True))[0], asyncio.CancelledError)


async def test_all_callers_get_the_error_of_a_read() -> None:
    def read(name: str) -> int:
        raise OSError(name)

    shared = SharedRead(read)
    found = await asyncio.gather(shared.of("a"), shared.of("a"), return_exceptions=True)
    assert [str(error) for error in found] == ["a", "a"]
    with pytest.raises(OSError, match="b"):
        await shared.of("b")

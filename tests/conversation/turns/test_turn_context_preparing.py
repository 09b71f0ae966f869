"""Turns prepare their requests a few at a time, in the order in which they come."""

import asyncio

from goclaw.conversation.turns.turn_context import PreparationLimiter


async def test_those_that_come_first_are_ready_first() -> None:
    limiter, ready = PreparationLimiter(at_once=1, patience=60), list[int]()

    async def prepare(number: int) -> None:
        async with limiter.place():
            for _ in range(6 - number):  # side by side, the last one would be ready first
                await asyncio.sleep(0)
            ready.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(prepare(number))
    assert ready == list(range(6))


async def test_no_more_than_the_limit_prepare_at_the_same_time() -> None:
    limiter = PreparationLimiter(at_once=2, patience=60)
    at_work = most = 0

    async def prepare() -> None:
        nonlocal at_work, most
        async with limiter.place():
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0)
            at_work -= 1

    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(prepare())
    assert most == 2


async def test_one_that_does_not_end_holds_up_no_other() -> None:
    limiter, never = PreparationLimiter(at_once=1, patience=0.01), asyncio.Event()

    async def hang() -> None:
        async with limiter.place():
            await never.wait()

    hanging = asyncio.create_task(hang())
    async with asyncio.timeout(10):
        for _ in range(3):
            async with limiter.place():
                pass
    never.set()
    await hanging
    async with limiter.place():  # its place is free again, and given to one alone
        pass


async def test_one_that_is_cancelled_while_it_waits_leaves_its_place_to_others() -> None:
    limiter, end = PreparationLimiter(at_once=1, patience=60), asyncio.Event()

    async def prepare() -> None:
        async with limiter.place():
            await end.wait()

    first, second = asyncio.create_task(prepare()), asyncio.create_task(prepare())
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait({second})
    end.set()
    await first
    async with asyncio.timeout(10), limiter.place():
        pass

"""How much a server may send in a second: what is beyond it is read later, and an answer weighs less than noise."""

import asyncio

from goclaw.common.core.clock import SteppedClock
from goclaw.tools.mcp.untrusted import ANSWER_WEIGHT, UNASKED_WEIGHT, WEIGHT_PER_SECOND, Throttle


async def test_what_is_more_than_a_second_carries_waits_for_the_next_one() -> None:
    clock = SteppedClock()
    throttle = Throttle(clock)
    for _ in range(WEIGHT_PER_SECOND // UNASKED_WEIGHT):
        await throttle.acquire(UNASKED_WEIGHT)
    waiting = asyncio.ensure_future(throttle.acquire(UNASKED_WEIGHT))
    await asyncio.sleep(0)
    assert clock.sleepers == 1
    clock.advance(0.9)
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.advance(0.1)
    async with asyncio.timeout(1):
        await waiting
        for _ in range(WEIGHT_PER_SECOND // UNASKED_WEIGHT):
            await throttle.acquire(UNASKED_WEIGHT)


async def test_answers_to_our_own_questions_hardly_weigh() -> None:
    clock = SteppedClock()
    throttle = Throttle(clock)
    async with asyncio.timeout(1):
        for _ in range(WEIGHT_PER_SECOND):
            await throttle.acquire(ANSWER_WEIGHT)
    assert clock.sleepers == 0

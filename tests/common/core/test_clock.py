"""The pauses between tries, and what is called later."""

import asyncio

import pytest

from goclaw.common.core.clock import Backoff, Clock, RealClock, SteppedClock


async def test_what_is_to_be_called_later_is_called_once_its_time_has_come_on_a_stepped_clock() -> None:
    clock, called = SteppedClock(), asyncio.Event()
    clock.later(5, called.set)
    await asyncio.sleep(0)  # it has begun to wait
    clock.advance(4.9)
    await asyncio.sleep(0)
    assert not called.is_set()
    clock.advance(0.1)
    async with asyncio.timeout(10):
        await called.wait()


async def test_on_the_real_clock_it_is_called_without_a_task() -> None:
    called, tasks = asyncio.Event(), asyncio.all_tasks()
    RealClock().later(0.01, called.set)
    assert asyncio.all_tasks() == tasks
    async with asyncio.timeout(10):
        await called.wait()


@pytest.mark.parametrize("clock", [RealClock(), SteppedClock()])
async def test_what_is_cancelled_is_not_called(clock: Clock) -> None:
    cancelled, called = asyncio.Event(), asyncio.Event()
    clock.later(0.01, cancelled.set).cancel()
    clock.later(0.02, called.set)
    await asyncio.sleep(0)
    if isinstance(clock, SteppedClock):
        clock.advance(1)
    async with asyncio.timeout(10):
        await called.wait()
    assert not cancelled.is_set()


def test_a_pause_doubles_up_to_the_longest_one() -> None:
    backoff = Backoff(first=0.5, longest=3.0)
    assert [backoff.next() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_it_begins_with_the_first_pause_again_after_a_success() -> None:
    backoff = Backoff(first=1.0, longest=60.0)
    assert [backoff.next(), backoff.next()] == [1.0, 2.0]
    backoff.reset()
    assert [backoff.next(), backoff.next()] == [1.0, 2.0]


def test_a_cap_takes_the_place_of_the_longest_pause_once_and_the_next_one_doubles_it() -> None:
    backoff = Backoff(first=8.0, longest=30.0)
    assert [backoff.next(), backoff.next(cap=10.0), backoff.next(), backoff.next()] == [8.0, 10.0, 20.0, 30.0]
    assert [backoff.next(cap=60.0), backoff.next()] == [60.0, 30.0]

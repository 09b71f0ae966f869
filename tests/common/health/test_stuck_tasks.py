"""What ignores that it was told to end holds nobody up for ever, and is not forgotten."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.common.health.stuck_tasks import PATIENCE_SECONDS, UnresponsiveTasks


class Stubborn:
    """Swallows its cancellation until it is let go."""

    def __init__(self) -> None:
        self.begun, self.leave = asyncio.Event(), asyncio.Event()
        self.told = 0
        self.tellings = asyncio.Condition()

    async def work(self) -> str:
        self.begun.set()
        while not self.leave.is_set():
            try:
                await self.leave.wait()
            except asyncio.CancelledError:
                async with self.tellings:
                    self.told += 1
                    self.tellings.notify_all()
        return "done"

    async def was_told(self, times: int) -> None:
        async with self.tellings:
            await self.tellings.wait_for(lambda: self.told >= times)


async def test_an_obedient_task_is_awaited_to_its_end() -> None:
    strays, ended = UnresponsiveTasks(SteppedClock()), list[str]()

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("put in order")
        return "never"

    waiting = asyncio.create_task(strays.run(work(), "obedient"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == ["put in order"] and strays.names() == []


async def test_what_it_returns_and_raises_comes_through() -> None:
    strays = UnresponsiveTasks(SteppedClock())

    async def fail() -> str:
        raise ValueError("no")

    async def give() -> str:
        return "yes"

    assert await strays.run(give(), "giving") == "yes"
    with pytest.raises(ValueError, match="no"):
        await strays.run(fail(), "failing")


async def test_what_ignores_its_end_is_left_behind_told_again_and_named(caplog: pytest.LogCaptureFixture) -> None:
    clock, stubborn = SteppedClock(), Stubborn()
    strays = UnresponsiveTasks(clock)
    async with asyncio.timeout(20):
        waiting = asyncio.create_task(strays.run(stubborn.work(), "tool look of m1"))
        await stubborn.begun.wait()
        waiting.cancel()
        await stubborn.was_told(1)
        assert not waiting.done(), "it has a while to end"
        clock.advance(PATIENCE_SECONDS)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert strays.names() == ["tool look of m1"]
        (record,) = [record for record in caplog.records if "left behind" in record.message]
        assert record.levelname == "ERROR" and Path(__file__).name in record.__dict__["stack"]
        await stubborn.was_told(2)
        clock.advance(PATIENCE_SECONDS)
        await stubborn.was_told(3)
        stubborn.leave.set()
        await next(task for task in asyncio.all_tasks() if task.get_name().startswith("caretaker"))
    assert strays.names() == []
    assert "ended after all" in caplog.text


async def test_whoever_is_told_twice_leaves_it_at_once() -> None:
    clock, stubborn = SteppedClock(), Stubborn()
    strays = UnresponsiveTasks(clock)
    async with asyncio.timeout(20):
        waiting = asyncio.create_task(strays.run(stubborn.work(), "look"))
        await stubborn.begun.wait()
        waiting.cancel()
        await stubborn.was_told(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert strays.names() == ["look"]
        stubborn.leave.set()

"""A message that comes twice is taken once, whatever became of it the first time."""

import asyncio

import pytest

from goclaw.common.core.events import Acceptance, AcceptKind
from goclaw.errors import StateError
from goclaw.gateway.servers.serving import MAX_RECEIPTS, IdempotencyCache

PATIENCE = 15.0


class Command:
    """Something that must not be done twice."""

    def __init__(self) -> None:
        self.done = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def take(self) -> Acceptance:
        await self.go.wait()
        if self.error is not None:
            raise self.error
        self.done += 1
        return Acceptance(AcceptKind.REPLY, text=f"done {self.done}")


async def test_the_second_time_it_is_answered_as_the_first() -> None:
    receipts, command = IdempotencyCache(), Command()
    command.go.set()
    assert await receipts.once("id", command.take) == await receipts.once("id", command.take)
    assert (await receipts.once("another id", command.take)).text == "done 2"


async def test_one_that_comes_while_the_first_is_carried_out_waits_for_it() -> None:
    receipts, command = IdempotencyCache(), Command()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        both = [tasks.create_task(receipts.once("id", command.take)) for _ in range(2)]
        await asyncio.sleep(0)
        command.go.set()
    assert [task.result().text for task in both] == ["done 1", "done 1"]


async def test_what_could_not_be_taken_is_tried_anew() -> None:
    receipts, command = IdempotencyCache(), Command()
    command.go.set()
    command.error = StateError("the disk is full")
    with pytest.raises(StateError):
        await receipts.once("id", command.take)
    command.error = None
    assert (await receipts.once("id", command.take)).text == "done 1"


async def test_both_are_told_when_it_cannot_be_taken() -> None:
    receipts, command = IdempotencyCache(), Command()
    command.error = StateError("the disk is full")
    both = [asyncio.create_task(receipts.once("id", command.take)) for _ in range(2)]
    async with asyncio.timeout(PATIENCE):
        await asyncio.sleep(0)
        command.go.set()
        results = await asyncio.gather(*both, return_exceptions=True)
    assert results == [command.error, command.error]


async def test_one_whose_taking_was_cut_is_taken_by_who_waited_for_it() -> None:
    receipts, command = IdempotencyCache(), Command()
    first, second = [asyncio.create_task(receipts.once("id", command.take)) for _ in range(2)]
    await asyncio.sleep(0)
    first.cancel()
    command.go.set()
    async with asyncio.timeout(PATIENCE):
        assert (await second).text == "done 1"
    assert first.cancelled()


async def test_who_no_longer_waits_leaves_it_to_the_others() -> None:
    receipts, command = IdempotencyCache(), Command()
    first, second = [asyncio.create_task(receipts.once("id", command.take)) for _ in range(2)]
    await asyncio.sleep(0)
    second.cancel()
    command.go.set()
    async with asyncio.timeout(PATIENCE):
        assert (await first).text == "done 1"
    assert second.cancelled()


async def test_only_the_latest_are_kept() -> None:
    receipts, command = IdempotencyCache(), Command()
    command.go.set()
    for number in range(MAX_RECEIPTS + 10):
        await receipts.once(number, command.take)
    before = command.done
    await receipts.once(MAX_RECEIPTS + 9, command.take)
    assert command.done == before
    await receipts.once(0, command.take)
    assert command.done == before + 1

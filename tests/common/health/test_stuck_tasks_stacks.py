"""Stacks as text."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from goclaw.common.health import stuck_tasks
from goclaw.common.health.stuck_tasks import task_stacks, thread_stacks


async def test_a_task_is_shown_down_to_what_it_waits_for() -> None:
    gate = asyncio.Event()

    async def inner(secret: str) -> None:
        await gate.wait()

    async def outer() -> None:
        await inner("do-not-show-me")

    task = asyncio.create_task(outer(), name="lane telegram:5")
    await asyncio.sleep(0)
    text = task_stacks([task])
    gate.set()
    await task
    assert text.startswith("1 task: lane telegram:5:\n")
    assert text.index("in outer") < text.index("in inner") < text.index("in wait") < text.index("waits for Future")
    assert "await gate.wait()" in text
    assert text.count("do-not-show-me") == 1, "the source line that calls it is shown, no value is"


async def test_tasks_in_the_same_place_are_one_paragraph_and_most_names_are_counted() -> None:
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    tasks = [asyncio.create_task(wait(), name=f"t{number}") for number in range(stuck_tasks.MAX_NAMES + 5)]
    await asyncio.sleep(0)
    late = asyncio.create_task(wait(), name="late")
    text = task_stacks([*tasks, late])
    gate.set()
    await asyncio.gather(*tasks, late)
    assert text.startswith(f"{stuck_tasks.MAX_NAMES + 5} tasks: t0, t1, ") and " … and 5 more:\n" in text
    assert text.count("waits for Future") == 1
    assert "1 task: late:\n" in text and text.endswith("is about to run\n")


async def test_a_dump_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck_tasks, "MAX_PLACES", 1)
    gate = asyncio.Event()
    tasks = [asyncio.create_task(gate.wait()), asyncio.create_task(asyncio.Event().wait())]
    await asyncio.sleep(0)
    not_begun = asyncio.create_task(gate.wait())
    text = task_stacks([*tasks, not_begun])
    gate.set()
    tasks[1].cancel()
    await asyncio.gather(*tasks, not_begun, return_exceptions=True)
    assert text.startswith("2 tasks: ") and text.endswith("… and tasks in 1 more places\n")


async def test_an_asynchronous_generator_ends_the_stack_with_its_kind() -> None:
    gate = asyncio.Event()

    async def numbers() -> AsyncIterator[int]:
        await gate.wait()
        yield 1

    async def read() -> None:
        async for _ in numbers():
            pass

    task = asyncio.create_task(read(), name="reader")
    await asyncio.sleep(0)
    text = task_stacks([task])
    gate.set()
    await task
    assert "in read" in text and "waits for async_generator_asend" in text


def test_every_thread_is_shown_with_its_name() -> None:
    begun, gate = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        gate.wait()

    thread = threading.Thread(target=hold, name="somebody")
    thread.start()
    begun.wait()
    text = thread_stacks()
    gate.set()
    thread.join()
    assert "thread somebody:\n" in text and "in hold" in text
    assert "thread MainThread:\n" in text and "test_every_thread_is_shown_with_its_name" in text

"""Class `guard`: what people ask for every day is done, and at most a few tasks of forty ask on the way."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
import pytest_asyncio

from tests.adversarial.guard.bounds import MOST_DISTURBED
from tests.adversarial.guard.ordinary import LISTED
from tests.adversarial.guard.playing import Ended, Result, play_task
from tests.adversarial.guard.report import disturbed

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

KINDS = (
    "compare a page with notes",
    "a reminder to oneself after reading a page",
    "have a subagent compare a page with notes",
    "commit after reading a page",
    "take a ticket of a server into a file",
)
"""One task of each kind, for the short lane."""
AT_MOST = 1200
"""Seconds for all of them, on a machine that is busy."""
NEEDS_NO_CALL = {"translate a forwarded message", "read an uploaded document"}


@pytest.mark.parametrize("name", KINDS)
async def test_an_ordinary_task_is_done_unasked(name: str) -> None:
    [task] = [task for task in LISTED if task.name == name]
    result = await play_task(task)
    assert result.ended is Ended.DONE, result.why


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def results(shared_by_the_module: None) -> AsyncIterator[Sequence[Result]]:
    yield [await play_task(task) for task in LISTED]


@pytest.mark.long
@pytest.mark.timeout(AT_MOST)
@pytest.mark.asyncio(loop_scope="module")
async def test_every_ordinary_task_is_done(results: Sequence[Result]) -> None:
    assert len(results) == 40
    assert [each for each in results if each.ended is Ended.FAILED] == []


@pytest.mark.long
@pytest.mark.timeout(AT_MOST)
@pytest.mark.asyncio(loop_scope="module")
async def test_few_ordinary_tasks_ask_or_fail(results: Sequence[Result]) -> None:
    assert len(disturbed(results)) <= MOST_DISTURBED, disturbed(results)


@pytest.mark.long
@pytest.mark.timeout(AT_MOST)
async def test_a_model_that_does_nothing_does_no_task() -> None:
    """The control: what says that a task was done would say so if it was not."""
    for task in LISTED:
        if task.name not in NEEDS_NO_CALL:
            idle = replace(task, turns=[replace(turn, calls=()) for turn in task.turns])
            result = await play_task(idle)
            assert result.ended is Ended.FAILED, task.name

"""What is done beside the turns of a model in a small window: seldom, and never in a person's way."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.supervise import background
from goclaw.conversation.agent.context.compaction import Summarizer
from goclaw.conversation.compaction.maintenance import QUIET_SECONDS
from goclaw.llm.base import Usage
from goclaw.llm.scripted import Answer, ScriptedModel
from tests.conversation.sessions.looking import SUMMARY, talk, until_asleep
from tests.harness import PATIENCE, Core, World
from tests.parts import GivenModels

pytestmark = pytest.mark.promise("P-small-windows")

NOTES = f"- {SUMMARY}"


class SmallWorld(World):
    """A conversation in a window of 8,192 tokens, of which its messages fill half by what is counted."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.clerk = ScriptedModel(rest=Answer(NOTES))
        answers = ScriptedModel(rest=Answer("Well.", usage=Usage(input=5_500)), context_window=8_192)
        super().__init__(folder, model=answers, summary=self.clerk, **config)


class LocalModels(GivenModels):
    """Models that cost nothing."""

    async def summarizers(self, session: str = "", instead: str = "") -> list[Summarizer]:
        return [replace(each, is_free=True) for each in await super().summarizers(session, instead)]


async def turns(core: Core, count: int, *, reads: bool = True) -> None:
    for number in range(count):
        await talk(core, f"question {number}")
        if reads:
            await core.sessions.maintenance.catch_up()


@pytest.mark.parametrize("every_turns", [10, 4])
async def test_a_model_is_asked_once_in_so_many_turns_also_over_a_restart(tmp_path: Path, every_turns: int) -> None:
    world = SmallWorld(tmp_path, checkpoint={"every_turns": every_turns})
    async with world.running() as core:
        await turns(core, every_turns - 1)
        assert world.clerk.requests == []
        await turns(core, 1)
        assert len(world.clerk.requests) == 1, "a checkpoint and notes were due"
    async with world.running() as core:
        await turns(core, every_turns - 1)
        assert len(world.clerk.requests) == 1
        await turns(core, 1)
    first, second = (request.system for request in world.clerk.requests)
    assert "memory of a long conversation" in first and "notes of an assistant" in second, "in turns"


async def test_who_writes_at_once_again_does_not_find_the_model_at_work(tmp_path: Path) -> None:
    world = SmallWorld(tmp_path)
    async with world.running() as core, background(core.sessions.maintenance.run(), "beside"):
        await turns(core, 12, reads=False)
        assert world.clerk.requests == []
        await until_asleep(world.clock)
        world.clock.advance(QUIET_SECONDS)
        async with asyncio.timeout(PATIENCE):
            await world.clerk.streaming.wait()
    assert len(world.clerk.requests) == 1


async def test_who_writes_meanwhile_has_the_model_at_once(tmp_path: Path) -> None:
    world = SmallWorld(tmp_path)
    gate = world.clerk.gate = asyncio.Event()
    async with world.running() as core:
        await turns(core, 10, reads=False)
        work = asyncio.create_task(core.sessions.maintenance.catch_up())
        async with asyncio.timeout(PATIENCE):
            await world.clerk.streaming.wait()
            await talk(core, "and now?")
            await work
        assert world.clerk.closed == 1, "the connection to the model is closed"
        assert world.texts()[-1] == "Well."
        gate.set()
        await turns(core, 8)
        assert len(world.clerk.requests) == 1, "nor is it begun again and again"
        await turns(core, 2)
        assert len(world.clerk.requests) == 2


@pytest.mark.parametrize("free", [True, False])
async def test_a_model_of_this_machine_answers_at_once_in_a_large_window_too(tmp_path: Path, *, free: bool) -> None:
    world = SmallWorld(tmp_path)
    answers = [Answer("Well.", usage=Usage(input=160_000))] * 9
    world.models = (
        LocalModels(ScriptedModel(answers), world.clerk) if free else GivenModels(ScriptedModel(answers), world.clerk)
    )
    gate = world.clerk.gate = asyncio.Event()
    async with world.running() as core:
        await turns(core, 1, reads=False)
        work = asyncio.create_task(core.sessions.maintenance.catch_up())
        async with asyncio.timeout(PATIENCE):
            await world.clerk.streaming.wait()
            await talk(core, "and now?")
        assert world.clerk.closed == free, "what is paid for is used"
        gate.set()
        await work
        await turns(core, 2)
        assert free == (len(world.clerk.requests) == 1), "it is not begun again and again"


@pytest.mark.parametrize("free", [True, False])
async def test_a_main_model_that_costs_nothing_takes_notes_and_makes_checkpoints_unasked(
    tmp_path: Path, *, free: bool
) -> None:
    world = World(tmp_path, [Answer("Well.", usage=Usage(input=160_000)), *[Answer(NOTES)] * 2])
    world.models = (LocalModels if free else GivenModels)(world.script)
    async with world.running() as core:
        await turns(core, 1)
    assert len(world.script.requests) == (3 if free else 1)


async def test_where_the_window_is_large_all_that_is_due_is_done(tmp_path: Path) -> None:
    world = SmallWorld(tmp_path)
    world.models = World(tmp_path, [Answer("Well.", usage=Usage(input=160_000))] * 9, summary=world.clerk).models
    async with world.running() as core:
        await turns(core, 1)
    assert len(world.clerk.requests) == 2, "notes and a checkpoint"

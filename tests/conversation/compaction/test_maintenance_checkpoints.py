"""Checkpoints: when they are made and by whom, that they hold up nobody, and what a compaction takes from them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.events import Notice
from goclaw.common.core.messages import ToolCall, UserMessage
from goclaw.common.core.supervise import background
from goclaw.conversation.compaction.maintenance import QUIET_SECONDS
from goclaw.durable.store.checkpoints import CheckpointStore
from goclaw.errors import ModelErrorKind
from goclaw.gateway.intake.commands.conversation import CLEARED
from goclaw.llm.base import Usage
from goclaw.llm.scripted import Answer, ScriptedModel
from tests.conversation.sessions.long_life import flaws
from tests.conversation.sessions.looking import (
    HERE,
    SUMMARY,
    check_mirrors_the_store,
    notices,
    reading,
    said,
    talk,
    until_asleep,
    window_of,
)
from tests.harness import PATIENCE, Core, World
from tests.parts import Trail, acting

CHECKPOINT = f'{{"summary": "{SUMMARY}", "topics": ["report"], "key_decisions": ["Friday"], "open_questions": []}}'
SHOWN = f"{SUMMARY}\n\nTopics:\n- report\n\nDecisions:\n- Friday"
QUIET: dict[str, Any] = {"memory": {"flush": {"enabled": False}}}


class CheckedWorld(World):
    """A conversation whose context has so many thousand tokens of 200,000 after each turn."""

    def __init__(self, folder: Path, *thousands: int, clerk: Answer | None = None, **config: Any) -> None:
        self.clerk = ScriptedModel(rest=clerk or Answer(CHECKPOINT))
        super().__init__(folder, reading(*thousands), summary=self.clerk, **{**QUIET, **config})


async def turns(core: Core, count: int = 1) -> None:
    for number in range(count):
        await talk(core, f"question {number}")
        await core.sessions.maintenance.catch_up()


async def marks(core: Core, clerk: ScriptedModel, count: int) -> Iterator[int]:
    """After how many turns a checkpoint was made, each time."""
    made = []
    for number in range(1, count + 1):
        before = len(clerk.requests)
        await turns(core)
        made += [number] * (len(clerk.requests) - before)
    return iter(made)


async def test_one_at_a_quarter_at_half_and_at_three_quarters(tmp_path: Path) -> None:
    world = CheckedWorld(tmp_path, 40, 50, 60, 99, 100, 149, 150, 160, 165)
    async with world.running() as core:
        assert list(await marks(core, world.clerk, 9)) == [2, 5, 7]


async def test_one_after_ten_turns_also_over_a_restart(tmp_path: Path) -> None:
    world = CheckedWorld(tmp_path, *range(10, 34))
    async with world.running() as core:
        assert list(await marks(core, world.clerk, 12)) == [10]
    async with world.running() as core:
        assert list(await marks(core, world.clerk, 12)) == [8], "twenty in all"


async def test_none_of_a_small_context_and_none_where_they_are_off(tmp_path: Path) -> None:
    configs: list[dict[str, Any]] = [{}, {"checkpoint": {"enabled": False}}]
    for number, config in enumerate(configs):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = CheckedWorld(folder, *([4] * 12 if not config else range(40, 100, 5)), **config)
        async with world.running() as core:
            assert list(await marks(core, world.clerk, 12)) == []


async def test_the_main_model_makes_them_only_where_that_is_configured_and_it_is_booked(tmp_path: Path) -> None:
    for number, main_model in enumerate([False, True]):
        folder = tmp_path / str(number)
        folder.mkdir()
        answers = [*reading(60), Answer(CHECKPOINT)]
        world = World(folder, answers, checkpoint={"main_model": main_model}, **QUIET)
        async with world.running() as core:
            await turns(core)
            assert (await core.sessions.ports.store.spending.of_session(HERE)).requests == 1 + main_model
            assert len(world.script.requests) == 1 + main_model


@pytest.mark.promise("P-commands-at-once")
async def test_a_compaction_takes_one_that_covers_half_and_asks_nobody(tmp_path: Path) -> None:
    world = CheckedWorld(tmp_path, 60, 61, 62)
    async with world.running() as core:
        await talk(core, f"the file is /srv/anna/report.md {'x' * 4_000}")
        await core.sessions.maintenance.catch_up()
        await talk(core, "question 1", "question 2")
        asked = len(world.clerk.requests)
        await talk(core, "/compact")
        assert world.texts()[-1].startswith(
            "Compaction completed!\n  Tokens before: 62,000\n  Summary source: checkpoint\n\n"
        )
        assert len(world.clerk.requests) == asked == 1
        await check_mirrors_the_store(core)
        window = await window_of(core)
        assert window.summary == f"{SHOWN}\n\nKept word for word: /srv/anna/report.md"
        assert [entry.message.text for entry in window.entries if isinstance(entry.message, UserMessage)] != []
        world.script.add(Answer("Friday."))
        await talk(core, "when?")
        assert len(await core.messages()) == 8
    last = said(world.script.requests[-1])
    assert SHOWN in last and "question 1" in last and "xxxx" not in last


async def test_a_compaction_by_itself_takes_one_too(tmp_path: Path) -> None:
    world = CheckedWorld(tmp_path, 60, 61, 175, 176, compaction={"min_messages": 2})
    async with world.running() as core:
        await talk(core, "x" * 4_000)
        await core.sessions.maintenance.catch_up()
        await talk(core, *(f"question {number}" for number in range(3)))
        compaction, _ = await core.transcripts.context(HERE)
        assert compaction and compaction.source == "checkpoint"
        await check_mirrors_the_store(core)


@pytest.mark.parametrize(
    "how", ["/compact keep the dates", "much was said since", "not preferred", "cleared", "too old"]
)
async def test_one_that_does_not_fit_is_not_taken(tmp_path: Path, how: str) -> None:
    config: dict[str, Any] = {"compaction": {"prefer_checkpoint": False}} if how == "not preferred" else {}
    world = CheckedWorld(tmp_path, 60, *[61] * 12, **config)
    async with world.running() as core:
        await talk(core, "x" * 4_000)
        await core.sessions.maintenance.catch_up()
        world.clerk.rest = Answer(f"Newly written: {SUMMARY}")
        if how == "cleared":
            await core.command("/clear")
        if how == "too old":
            await talk(core, "question", "question", "/compact keep it")
        size = 4_000 if how == "much was said since" else 10
        await talk(core, *(f"{number} {'y' * size}" for number in range(4)))
        await talk(core, how if how.startswith("/") else "/compact")
        assert "  Summary source: LLM\n" in world.texts()[-1]


async def test_none_is_made_of_a_stub(tmp_path: Path) -> None:
    world = CheckedWorld(
        tmp_path, *[60] * 10, clerk=Answer(error=ModelErrorKind.NETWORK), checkpoint={"enabled": False}
    )
    async with world.running() as core:
        await talk(core, *(f"question {number}" for number in range(5)), "/compact")
        assert (await window_of(core)).owed
    world.config = world.config.model_copy(update={"checkpoint": type(world.config.checkpoint)()})
    async with world.running() as core:
        world.clerk.rest = Answer(CHECKPOINT)
        asked = len(world.clerk.requests)
        await turns(core, 2)
        assert len(world.clerk.requests) == asked


@pytest.mark.promise("P-order")
async def test_a_turn_goes_on_while_one_is_made_and_what_it_says_is_not_covered(tmp_path: Path) -> None:
    world = CheckedWorld(tmp_path, 60, 61, 62)
    gate = world.clerk.gate = asyncio.Event()
    async with world.running() as core, background(core.sessions.maintenance.run(), "checkpoints"):
        await talk(core, "question 0")
        await until_asleep(world.clock)
        world.clock.advance(QUIET_SECONDS)
        async with asyncio.timeout(PATIENCE):
            await world.clerk.streaming.wait()
        last = (await window_of(core)).entries[-1].row
        await talk(core, "question 1")
        assert world.texts()[-1] == "answer at 61"
        assert "in progress" not in await core.command("/status")
        gate.set()
        async with asyncio.timeout(PATIENCE):
            while (made := await CheckpointStore(core.database).latest(HERE)) is None:
                await talk(core, "/help")
        assert made.covers_to == last
        assert "question 1" not in said(world.clerk.requests[0])


@pytest.mark.parametrize("trouble", [*ModelErrorKind, "empty", "nonsense"])
async def test_one_that_fails_hurts_nobody(tmp_path: Path, trouble: ModelErrorKind | str) -> None:
    answers = {"empty": Answer(""), "nonsense": Answer("No.")}
    clerk = answers.get(trouble) or Answer(error=ModelErrorKind(trouble))
    world = CheckedWorld(tmp_path, 60, 61, 62, 63, 64, clerk=clerk)
    async with world.running() as core:
        await turns(core, 5)
        tries = 2 if trouble is ModelErrorKind.OVERFLOW else 1  # the second with smaller pieces
        assert len(world.clerk.requests) == 3 * tries, "then the summary model is left alone for a while"
        assert not any(isinstance(event, Notice) for event in core.seen)
        assert core.sessions.compactor.health.degraded
        await check_mirrors_the_store(core)
    assert world.texts() == [f"answer at {60 + number}" for number in range(5)]


async def test_a_full_disk_hurts_nobody_either(tmp_path: Path) -> None:
    world = CheckedWorld(tmp_path, 60, 61)
    async with world.running() as core:
        await talk(core, "question 0")
        core.database.full = True
        await core.sessions.maintenance.catch_up()
        core.database.full = False
        await turns(core)
        assert len(world.clerk.requests) == 2, "it is made after the next turn"
    assert world.texts() == ["answer at 60", "answer at 61"]


@pytest.mark.promise("P-history-kept")
async def test_clear_while_one_is_written_leaves_none(tmp_path: Path) -> None:
    world = CheckedWorld(tmp_path, 60, 61)
    gate = world.clerk.gate = asyncio.Event()
    async with world.running() as core:
        await talk(core, "secret")
        making = asyncio.create_task(core.sessions.maintenance.catch_up())
        async with asyncio.timeout(PATIENCE):
            await world.clerk.streaming.wait()
            await core.command("/clear")
            gate.set()
            await making
        assert await CheckpointStore(core.database).latest(HERE) is None


async def test_clear_during_a_turn_leaves_none_that_knows_what_was_before(tmp_path: Path) -> None:
    trail = Trail()
    wait = Answer(calls=(ToolCall("c1", "wait", {}),), usage=Usage(input=60_000))
    world = CheckedWorld(tmp_path, 60)
    world.tools = type(world.tools)([acting("wait", trail.leave_slowly)])
    world.script.add(wait, *reading(61, 62, 63))
    async with world.running() as core:
        await talk(core, f"secret {'x' * 4_000}")
        await core.say("wait")
        async with asyncio.timeout(PATIENCE):
            await trail.begun.wait()
        await core.sessions.maintenance.catch_up()
        (question,) = map(said, world.clerk.requests)  # made while the turn runs
        assert "secret" in question and "[calls wait" not in question
        await core.command("/clear")
        trail.gate.set()
        await core.settled()
        await talk(core, "more", "and more", "/compact")
        assert "checkpoint" not in world.texts()[-1]
        await check_mirrors_the_store(core)
    last = world.script.requests[-1]
    assert "secret" not in said(last) and flaws(last.messages) == []


async def test_a_context_that_was_emptied_meanwhile_is_looked_at_without_harm(tmp_path: Path) -> None:
    world = CheckedWorld(tmp_path, 60)
    async with world.running() as core:
        await talk(core, "question")
        await core.command("/clear")
        await core.sessions.maintenance.catch_up()
        assert world.clerk.requests == [] and notices(core) == [CLEARED]

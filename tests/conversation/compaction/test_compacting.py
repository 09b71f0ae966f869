"""A compaction beside everything else: other sessions, new messages, /clear, /stop, a disk that is full."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goclaw.channels.base import Doubt
from goclaw.common.core.messages import ToolCall, UserMessage
from goclaw.conversation.agent.context.compaction import SummarySource
from goclaw.durable.store.transcripts import StoredCompaction, Transcripts
from goclaw.errors import ModelErrorKind
from goclaw.llm.scripted import Answer, ScriptedModel
from tests.conversation.sessions.long_life import flaws
from tests.conversation.sessions.looking import HERE, SUMMARY, check_mirrors_the_store, said, talk, window_of
from tests.harness import OWNER, PATIENCE, Core, World
from tests.kills import recorded
from tests.parts import Trail, acting

SMALL: dict[str, Any] = {"compaction": {"max_messages": 7, "min_messages": 2}}
LOOK = Answer(calls=(ToolCall("c1", "look", {}),))
WAIT = Answer(calls=(ToolCall("c2", "wait", {}),))


def clerk(gate: asyncio.Event | None = None) -> ScriptedModel:
    """A summary model; its answers wait for the gate."""
    return ScriptedModel(rest=Answer(SUMMARY), gate=gate)


def secrets(count: int) -> list[str]:
    return [f"secret {number}" for number in range(count)]


def answers(count: int) -> list[Answer]:
    return [Answer(f"answer {number}") for number in range(count)]


async def reached(event: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE):
        await event.wait()


@pytest.mark.promise("P-order")
async def test_a_session_that_compacts_does_not_hold_up_others_and_says_so(tmp_path: Path) -> None:
    gate = asyncio.Event()
    summary = clerk(gate)
    world = World(tmp_path, answers(6), summary=summary)
    async with world.running() as core:
        await talk(core, *secrets(4))
        await core.say("/compact")
        await reached(summary.streaming)
        status = await core.command("/status")
        assert (
            status.partition("Compaction Health\n")[2].split("\n\n")[0].endswith("\n  Status: compaction in progress")
        )
        assert (await core.gateway.status(HERE, OWNER))["compacting"] is True
        await core.say("hello", chat="there")
        while (heard := await core.room.heard()).delivery.text != "answer 4":
            pass
        assert heard.delivery.address.chat == "there"
        gate.set()
        await core.settled()
        assert "in progress" not in await core.command("/status")


async def test_what_is_said_meanwhile_is_answered_afterwards_and_kept(tmp_path: Path) -> None:
    gate = asyncio.Event()
    summary = clerk(gate)
    world = World(tmp_path, answers(6), summary=summary)
    async with world.running() as core:
        await talk(core, *secrets(4))
        await core.say("/compact")
        await reached(summary.streaming)
        await core.say("first")
        await core.say("second")
        gate.set()
        await core.settled()
        await check_mirrors_the_store(core)
        assert [m.text for m in await core.messages() if isinstance(m, UserMessage)] == [
            *secrets(4),
            "first",
            "second",
        ]
    last = said(world.script.requests[-1])
    assert SUMMARY in last and "first" in last and "second" in last and "secret 0" not in last


async def test_a_message_that_joins_the_turn_while_it_compacts_is_kept(tmp_path: Path) -> None:
    gate = asyncio.Event()
    summary = clerk(gate)
    world = World(
        tmp_path, [*answers(3), LOOK, Answer("done")], summary=summary, tools=[acting("look", found)], **SMALL
    )
    async with world.running() as core:
        await core.command("/queue steer")
        await talk(core, *secrets(3))
        await core.say("look")
        await reached(summary.streaming)
        await core.say("and quickly")
        gate.set()
        await core.settled()
        await check_mirrors_the_store(core)
        texts = [m.text for m in await core.messages() if isinstance(m, UserMessage)]
    assert texts[-2:] == ["look", "and quickly"] and not flaws(world.script.requests[-1].messages)


async def test_a_compact_during_the_first_turn_leaves_the_question_that_is_being_answered(tmp_path: Path) -> None:
    trail = Trail()
    world = World(
        tmp_path,
        [LOOK, WAIT, Answer("A cat.")],
        summary=ScriptedModel(rest=Answer(SUMMARY)),
        tools=[acting("look", found), acting("wait", trail.leave_slowly)],
    )
    async with world.running() as core:
        await core.say("what is it?")
        await reached(trail.begun)
        assert "next request" in await core.command("/compact")
        trail.gate.set()
        await core.settled()
    assert "what is it?" in said(world.script.requests[-1]) and SUMMARY not in said(world.script.requests[-1])
    assert any("Nothing to compact" in text for text in world.texts())


async def found() -> str:
    """What `look` sees."""
    return "a cat"


@pytest.mark.promise("P-history-kept")
async def test_clear_takes_away_the_summary_that_the_running_turn_got(tmp_path: Path) -> None:
    trail = Trail()
    world = World(
        tmp_path,
        [*answers(3), LOOK, WAIT, Answer("A cat.")],
        summary=ScriptedModel(rest=Answer("There was talk of secret 0, secret 1 and secret 2.")),
        tools=[acting("look", found), acting("wait", trail.leave_slowly)],
        **SMALL,
    )
    async with world.running() as core:
        await talk(core, *secrets(3))
        await core.say("look")
        await reached(trail.begun)
        assert "secret 0" in (await window_of(core)).summary
        await core.command("/clear")
        await check_mirrors_the_store(core)
        assert "  Compactions: 1" in await core.command("/status"), "what /clear took away is no compaction of its own"
        outline = await core.gateway.outline(HERE, 0)
        assert outline.summary is None and len(outline.compactions) == 1
        trail.gate.set()
        await core.settled()
        await check_mirrors_the_store(core)
        assert len(await core.messages()) == 6 + 6
    async with world.running() as core:
        await check_mirrors_the_store(core)
        assert (await window_of(core)).summary == ""
    last = world.script.requests[-1].messages
    assert "secret" not in said(world.script.requests[-1])
    assert isinstance(last[0], UserMessage) and last[0].text.endswith("look"), "the turn knows what it was asked"
    assert flaws(last) == []


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
async def test_clear_while_the_running_turn_is_compacted_leaves_nothing_of_the_old_context(
    tmp_path: Path, again: bool
) -> None:
    gate = asyncio.Event()
    summary = ScriptedModel(rest=Answer("There was talk of secret 0, secret 1 and secret 2."), gate=gate)
    world = World(
        tmp_path, [*answers(3), LOOK, Answer("A cat.")], summary=summary, tools=[acting("look", found)], **SMALL
    )
    async with world.running() as core:
        await talk(core, *secrets(3))
        await core.say("look")
        await reached(summary.streaming)
        for _ in range(1 + again):
            await core.command("/clear")
        gate.set()
        await core.settled()
        await check_mirrors_the_store(core)
        assert await core.transcripts.compactions(HERE) == 0
    assert "secret" not in said(world.script.requests[-1]) and world.texts()[-1] == "A cat."


async def test_clear_while_a_summary_is_being_stored_leaves_nothing_of_the_old_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, storing, add = asyncio.Event(), asyncio.Event(), Transcripts.add_compaction

    async def slowly(self: Transcripts, session: str, compaction: StoredCompaction) -> None:
        await add(self, session, compaction)
        storing.set()
        await gate.wait()

    monkeypatch.setattr(Transcripts, "add_compaction", slowly)
    world = World(
        tmp_path,
        [*answers(3), LOOK, Answer("A cat.")],
        summary=ScriptedModel(rest=Answer("There was talk of secret 0, secret 1 and secret 2.")),
        tools=[acting("look", found)],
        **SMALL,
    )
    async with world.running() as core:
        await talk(core, *secrets(3))
        await core.say("look")
        await reached(storing)
        loaded = await core.transcripts.context(HERE)
        assert loaded[0] and "secret" in loaded[0].summary
        gate.set()
        await core.command("/clear")
        await core.settled()
        await check_mirrors_the_store(core)
        await talk(core, "hello")
    assert "secret" not in said(world.script.requests[-1])


@pytest.mark.promise("P-stop")
@pytest.mark.parametrize("by_hand", [True, False], ids=["/compact", "by itself"])
async def test_stop_ends_a_compaction_and_the_context_is_as_it_was(tmp_path: Path, by_hand: bool) -> None:
    gate = asyncio.Event()
    summary = clerk(gate)
    world = World(tmp_path, answers(6), summary=summary, **({} if by_hand else SMALL))
    async with world.running() as core:
        await talk(core, *secrets(4))
        await core.say("/compact" if by_hand else "one more")
        await reached(summary.streaming)
        assert "Stopped" in await core.command("/stop")
        await core.settled()
        assert summary.closed == 1, "the connection to the model is closed"
        assert await core.transcripts.compactions(HERE) == 0
        assert "in progress" not in await core.command("/status")
        await check_mirrors_the_store(core)
        gate.set()
        await talk(core, "go on")
        await check_mirrors_the_store(core)
    last = said(world.script.requests[-1])
    assert flaws(world.script.requests[-1].messages) == [] and "go on" in last
    assert "secret 3" in last if by_hand else SUMMARY in last


@pytest.mark.promise("P-stop")
async def test_a_stop_while_the_summary_is_being_stored_leaves_store_and_context_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, storing, stored, add = asyncio.Event(), asyncio.Event(), asyncio.Event(), Transcripts.add_compaction

    async def slowly(self: Transcripts, session: str, compaction: StoredCompaction) -> None:
        storing.set()
        await gate.wait()
        await add(self, session, compaction)
        stored.set()

    monkeypatch.setattr(Transcripts, "add_compaction", slowly)
    world = World(tmp_path, answers(6), summary=clerk())
    async with world.running() as core:
        await talk(core, *secrets(4))
        await core.say("/compact")
        await reached(storing)
        stop = asyncio.create_task(core.command("/stop"))
        await stop
        gate.set()
        await reached(stored)
        await core.settled()
        await check_mirrors_the_store(core)
        await talk(core, "go on")
        await check_mirrors_the_store(core)
        assert await core.transcripts.compactions(HERE) == 1
    assert SUMMARY in said(world.script.requests[-1])


async def test_a_full_disk_keeps_the_context_as_it_is_until_there_is_room(tmp_path: Path) -> None:
    gate = asyncio.Event()
    summary = clerk(gate)
    world = World(tmp_path, answers(6), summary=summary)
    async with world.running() as core:
        await talk(core, *secrets(4))
        before = await window_of(core)
        entries = list(before.entries)
        await core.say("/compact")
        await reached(summary.streaming)
        core.database.full = True
        gate.set()
        await core.waits_for_the_disk()
        core.database.full = False
        assert (before.summary, before.entries) == ("", entries)
        await check_mirrors_the_store(core)
        await core.settled_in(world.clock)
        await check_mirrors_the_store(core)
        assert (await window_of(core)).summary == SUMMARY
    assert world.texts()[-1].startswith("Compaction completed!")


async def test_a_compaction_that_frees_next_to_nothing_says_so_and_is_not_repeated(tmp_path: Path) -> None:
    summary = ScriptedModel(rest=Answer(f"{SUMMARY} {'and so on ' * 2_000}"))
    world = World(tmp_path, answers(12), summary=summary, **SMALL)
    async with world.running() as core:
        await talk(core, *secrets(8))
        assert len((await window_of(core)).entries) > 7, "it would be due"
        asked = len(summary.requests)
        assert any("That saved almost nothing" in getattr(event, "text", "") for event in core.seen)
    assert asked == 1


async def test_where_prompt_and_tools_fill_the_window_it_says_so_and_not_to_clear(tmp_path: Path) -> None:
    small = acting("look", Trail().leave)
    bulky = replace(small, spec=replace(small.spec, description="x " * 20_000))
    world = World(tmp_path, answers(12), tools=[bulky], summary=clerk(), **SMALL)
    async with world.running() as core:
        await talk(core, *secrets(8))
        told = [text for event in core.seen if "saved almost nothing" in (text := getattr(event, "text", ""))]
    assert "the prompt and the tools alone need about " in told[0] and "tools.disabled" in told[0]
    assert "/clear" not in told[0]


async def test_a_short_conversation_that_a_person_compacts_is_not_told_to_take_a_larger_window(tmp_path: Path) -> None:
    world = World(tmp_path, answers(2), summary=clerk())
    async with world.running() as core:
        await talk(core, "hello", "hello again, " + "at some length, " * 50, "/compact")
    told = world.texts()[-1]
    assert "There was little to summarise: " in told and "You need not do anything." in told
    assert "larger window" not in told


@pytest.mark.promise("P-context-fits")
async def test_a_prompt_that_the_provider_finds_too_long_is_halved_whatever_we_count(tmp_path: Path) -> None:
    too_long = Answer(error=ModelErrorKind.OVERFLOW)
    world = World(tmp_path, [*answers(8), too_long, Answer("Still here.")], summary=clerk())
    async with world.running() as core:
        await talk(core, *(f"secret {number} {'x' * 4_000}" for number in range(8)))
        await talk(core, "and now?")
        await check_mirrors_the_store(core)
    first, second = (len(said(request)) for request in world.script.requests[-2:])
    assert second < 0.6 * first and world.texts()[-1] == "Still here."


async def test_kills_at_every_write_of_a_compaction_lose_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, answers(6), summary=clerk())
    async with world.running() as core:
        await talk(core, *secrets(4))

    async def compacting(core: Core) -> None:
        await core.say("/compact")
        await core.settled()

    moments = await recorded(world, compacting)
    for moment in moments:
        with moment.restored():
            async with world.running() as core:
                await core.settled()
                await check_mirrors_the_store(core)
                await talk(core, "go on")
                await check_mirrors_the_store(core)
                assert len(await core.messages()) == 10
            assert flaws(world.script.requests[-1].messages) == []
            told = [heard for heard in world.room.all if heard.delivery.text.startswith("Compaction completed!")]
            assert sum(heard.doubt is Doubt.NONE for heard in told) <= 1, "a repetition is marked as one"
            if moment is not moments[0]:
                assert SUMMARY in said(world.script.requests[-1])
    assert moments[-1].write >= 5, "every write was tried"


async def test_compactions_one_after_the_other_keep_the_summaries_facts(tmp_path: Path) -> None:
    summary = ScriptedModel(rest=Answer("People talked about this and that for a good while."))
    world = World(tmp_path, answers(12), summary=summary)
    async with world.running() as core:
        await talk(core, "the file is /srv/anna/report.md", *secrets(3), "/compact", *secrets(3), "/compact")
        await talk(core, *secrets(2))
        done, _ = await core.transcripts.context(HERE)
        assert done and done.source == SummarySource.LLM
    assert "Kept word for word: /srv/anna/report.md" in said(world.script.requests[-1])

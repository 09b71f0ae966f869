"""`/compact`: at once when nothing runs, else before the turn's next request; it says who wrote the summary."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.core.messages import ToolCall, UserMessage
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import Request
from goclaw.llm.demo import DemoModel
from goclaw.llm.scripted import ScriptedModel
from tests.harness import OWNER, PATIENCE, Answer, Core, World
from tests.parts import Trail, acting

SUMMARY = "Anna wants the report on Friday; the file is report.md; nothing is open."


async def talk(core: Core, count: int = 4) -> None:
    for number in range(count):
        await core.say(f"question {number}")
        await core.settled()


def answers(count: int = 4) -> list[Answer]:
    return [Answer(f"answer {number}") for number in range(count)]


def words(request: Request) -> str:
    return "\n".join(message.text for message in request.messages if isinstance(message, UserMessage))


@pytest.mark.promise("P-commands-at-once")
@pytest.mark.parametrize(
    ("summary", "main", "source"),
    [
        (Answer(SUMMARY), None, "LLM"),
        (Answer(error=ModelErrorKind.TIMEOUT), Answer(SUMMARY), "fallback model"),
        (Answer(error=ModelErrorKind.TIMEOUT), Answer(error=ModelErrorKind.SERVER), "emergency truncation"),
    ],
)
async def test_it_says_how_much_there_was_and_who_wrote_the_summary(
    tmp_path: Path, summary: Answer, main: Answer | None, source: str
) -> None:
    world = World(tmp_path, [*answers(), *([main] if main else [])], summary=ScriptedModel([summary]))
    async with world.running() as core:
        await talk(core)
        before = int((await core.gateway.status("memory:here", OWNER))["tokens"])
        await core.say("/compact")
        await core.settled()
        after = int((await core.gateway.status("memory:here", OWNER))["tokens"])
    text = world.texts()[-1]
    assert text.startswith(f"Compaction completed!\n  Tokens before: {before:,}\n  Summary source: {source}\n\n")
    assert f"\n\nTokens after: {after:,} ({max(0, before - after):,} freed)" in text
    assert ("I will try again until a model can" in text) == (source == "emergency truncation")


async def test_the_next_request_has_the_summary_and_the_tail_and_the_store_has_all(tmp_path: Path) -> None:
    world = World(tmp_path, [*answers(), Answer(SUMMARY), Answer("Friday.")])
    async with world.running() as core:
        await talk(core)
        await core.say("/compact keep the dates")
        await core.settled()
        await core.say("when?")
        await core.settled()
        assert len(await core.messages()) == 10
    assert "keep the dates" in words(world.script.requests[4])
    asked = words(world.script.requests[5])
    assert SUMMARY in asked and "question 3" in asked and "question 0" not in asked


async def test_a_conversation_too_short_for_it_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running() as core:
        await core.say("/compact")
        await core.settled()
    assert world.texts() == ["Nothing to compact: the whole conversation fits."]


async def test_while_a_turn_runs_it_happens_before_the_next_request(tmp_path: Path) -> None:
    trail = Trail("a cat")
    look = Answer(calls=(ToolCall("c1", "look", {}),))
    world = World(
        tmp_path, [*answers(), look, Answer(SUMMARY), Answer("A cat.")], tools=[acting("look", trail.leave_slowly)]
    )
    async with world.running() as core:
        await talk(core)
        await core.say("look")
        async with asyncio.timeout(PATIENCE):
            await trail.begun.wait()
        promised = await core.command("/compact")
        assert promised == "The context will be compacted before the next request of the running turn."
        trail.gate.set()
        await core.settled()
    assert SUMMARY in words(world.script.requests[-1])
    assert world.texts()[4] == promised and world.texts()[-1] == "A cat."
    assert world.texts()[5].startswith("Compaction completed!")


async def test_who_asks_twice_while_a_turn_runs_is_answered_twice_and_compacted_once(tmp_path: Path) -> None:
    trail = Trail("a cat")
    look = Answer(calls=(ToolCall("c1", "look", {}),))
    world = World(
        tmp_path, [*answers(), look, Answer(SUMMARY), Answer("A cat.")], tools=[acting("look", trail.leave_slowly)]
    )
    async with world.running() as core:
        await talk(core)
        await core.say("look")
        async with asyncio.timeout(PATIENCE):
            await trail.begun.wait()
        await core.command("/compact")
        await core.command("/compact keep the dates")
        trail.gate.set()
        await core.settled()
        assert await core.transcripts.compactions("memory:here") == 1
    assert [text.split("\n")[0] for text in world.texts()].count("Compaction completed!") == 2
    assert "keep the dates" in words(world.script.requests[5])


async def test_after_the_last_request_of_a_turn_it_happens_all_the_same(tmp_path: Path) -> None:
    world = World(tmp_path, [*answers(), Answer("a long answer"), Answer(SUMMARY)])
    async with world.running() as core:
        await talk(core)
        world.script.gate = asyncio.Event()
        world.script.streaming.clear()
        await core.say("go")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        await core.command("/compact")
        world.script.gate.set()
        await core.settled()
        assert await core.transcripts.compactions("memory:here") == 1
    assert sorted(text.split("\n")[0] for text in world.texts()[5:]) == ["Compaction completed!", "a long answer"]


async def test_the_demo_model_writes_no_summary_and_says_so(tmp_path: Path) -> None:
    world = World(tmp_path, model=DemoModel())
    async with world.running() as core:
        await talk(core)
        await core.say("/compact")
        await core.settled()
    assert "  Summary source: emergency truncation" in world.texts()[-1]


@pytest.mark.promise("P-context-fits")
async def test_a_full_context_is_compacted_before_the_request_without_being_asked(tmp_path: Path) -> None:
    script = [*answers(), Answer(SUMMARY), Answer("Still here.")]
    world = World(tmp_path, script, compaction={"max_messages": 7, "min_messages": 2})
    async with world.running() as core:
        await talk(core, 4)
        await core.say("and now?")
        await core.settled()
        assert await core.transcripts.compactions("memory:here") == 1
    assert SUMMARY in words(world.script.requests[-1]) and "and now?" in words(world.script.requests[-1])
    assert world.texts()[-1] == "Still here."


@pytest.mark.promise("P-context-fits")
async def test_a_prompt_that_the_provider_finds_too_long_is_compacted_and_sent_once_more(tmp_path: Path) -> None:
    too_long = Answer(error=ModelErrorKind.OVERFLOW)
    world = World(
        tmp_path, [*answers(), too_long, Answer(SUMMARY), Answer("Still here.")], compaction={"min_messages": 2}
    )
    async with world.running() as core:
        await talk(core)
        await core.say("and now?")
        await core.settled()
    assert world.texts()[-1] == "Still here."
    assert len(world.script.requests) == 7


async def test_a_prompt_that_stays_too_long_is_told_to_the_user(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer(error=ModelErrorKind.OVERFLOW, message="too long")] * 2)
    async with world.running() as core:
        await core.say("x" * 1_000)
        await core.settled()
    assert world.texts() == ["scripted:test: too long"]

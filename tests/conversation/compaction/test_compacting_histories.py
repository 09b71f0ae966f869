"""What an agent's history policy shows the model: whole turns, while the store keeps everything."""

from pathlib import Path
from typing import Any

from goclaw.common.core.messages import ToolCall, ToolResult, UserMessage
from goclaw.conversation.agent.context.compaction import Summarizer
from goclaw.conversation.agent.context.model_messages import repair
from goclaw.errors import ModelErrorKind
from goclaw.llm.scripted import ScriptedModel
from tests.harness import Answer, Core, GivenModels, World
from tests.parts import Trail, acting

HERE = "memory:here"
SUMMARY = "Anna wants the report on Friday; the file is report.md; nothing is open."
LOOK = Answer(calls=(ToolCall("c", "look", {}),))


def world_of(folder: Path, history: dict[str, Any], turns: int, **options: Any) -> World:
    script = [each for number in range(turns) for each in (LOOK, Answer(f"answer {number}"))]
    agents = {"main": {"policy": {"history": history}}}
    return World(folder, script, tools=[acting("look", Trail().leave)], agents=agents, **options)


async def talk(core: Core, world: World, turns: range) -> None:
    for number in turns:
        await core.say(f"question {number}")
        await core.settled()
        for request in world.script.requests:
            assert not repair(request.messages)[1], "valid for every provider"


def questions(world: World, request: int = -1) -> list[str]:
    """What people asked, as a request shows it."""
    messages = world.script.requests[request].messages
    return [message.text.rpartition("\n")[2] for message in messages if isinstance(message, UserMessage)]


async def test_only_the_last_turns_are_shown_over_a_restart_too_and_everything_is_kept(tmp_path: Path) -> None:
    world = world_of(tmp_path, {"keep_recent_turns": 2}, 5)
    async with world.running() as core:
        await talk(core, world, range(4))
        assert questions(world) == ["question 2", "question 3"]
        assert len(await core.messages()) == 16
    async with world.running() as core:
        await talk(core, world, range(4, 5))
        assert questions(world) == ["question 3", "question 4"]
        assert "History: the last 2 turns are shown" in await core.command("/status")
    results = [message for message in world.script.requests[-1].messages if isinstance(message, ToolResult)]
    assert len(results) == 2, "each turn with its results"


async def test_older_turns_become_a_summary_when_there_are_enough(tmp_path: Path) -> None:
    summary = ScriptedModel(rest=Answer(SUMMARY))
    history = {"compress": {"trigger_at": 4, "keep_recent": 2}}
    world = world_of(tmp_path, history, 6, summary=summary)
    async with world.running() as core:
        await talk(core, world, range(3))
        assert not summary.requests
        await talk(core, world, range(3, 4))
        assert len(summary.requests) == 1
        shown = questions(world)
        assert shown[1:] == ["question 2", "question 3"]
        assert SUMMARY in shown[0]
        assert "question 1" in str(summary.requests[0].messages)
        assert "question 2" not in str(summary.requests[0].messages)
        await talk(core, world, range(4, 6))
        assert len(summary.requests) == 2, "four turns again"
        assert questions(world)[1:] == ["question 4", "question 5"]
        assert len(await core.messages()) == 24
    async with world.running() as core:
        session = await core.sessions.contexts.session(HERE)
        assert len(session.window.turns()) == 2


async def test_with_nothing_to_keep_the_running_turn_stays(tmp_path: Path) -> None:
    history = {"compress": {"trigger_at": 2, "keep_recent": 0}}
    world = world_of(tmp_path, history, 3, summary=ScriptedModel(rest=Answer(SUMMARY)))
    async with world.running() as core:
        await talk(core, world, range(3))
    assert questions(world)[1:] == ["question 2"]


async def test_what_nobody_can_summarise_stays_and_is_tried_once_in_a_turn(tmp_path: Path) -> None:
    broken = ScriptedModel(rest=Answer(error=ModelErrorKind.REJECTED))
    world = world_of(tmp_path, {"compress": {"trigger_at": 2, "keep_recent": 1}}, 3, summary=broken)
    world.models = Alone(world.script, broken)
    async with world.running() as core:
        await talk(core, world, range(3))
        assert len(broken.requests) == 2
        assert (await core.transcripts.context(HERE))[0] is None, "no stub in place of what could stay"
    assert questions(world) == ["question 0", "question 1", "question 2"]


async def test_a_model_of_its_own_writes_the_summary_and_says_nothing_about_the_summary_chain(tmp_path: Path) -> None:
    own = ScriptedModel(rest=Answer(SUMMARY), spec="scripted:own")
    history = {"compress": {"trigger_at": 2, "keep_recent": 1, "model": "scripted:own"}}
    world = world_of(tmp_path, history, 2)
    world.models = Naming(world.script, own)
    async with world.running() as core:
        await talk(core, world, range(2))
        assert len(own.requests) == 1
        assert core.sessions.compactor.health.last_attempt is None
    assert SUMMARY in questions(world)[0]


class Alone(GivenModels):
    """The main model is never asked for a summary."""

    async def summarizers(self, session: str = "", instead: str = "") -> list[Summarizer]:
        return (await super().summarizers(session, instead))[:1]


class Naming(GivenModels):
    """Has a model for the one name of this test."""

    async def summarizers(self, session: str = "", instead: str = "") -> list[Summarizer]:
        assert instead == "scripted:own"
        return await super().summarizers(session)

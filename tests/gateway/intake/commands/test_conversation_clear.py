"""`/clear` and `/new`: an empty context; the transcript keeps everything, a running turn goes on."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.core.messages import ToolCall, ToolResult, UserMessage
from tests.harness import PATIENCE, Answer, World
from tests.parts import Trail, acting

CLEARED = "Conversation cleared. The transcript keeps the old messages."


@pytest.mark.promise("P-history-kept")
@pytest.mark.parametrize("command", ["/clear", "/new"])
async def test_the_model_forgets_and_the_store_does_not(tmp_path: Path, command: str) -> None:
    world = World(tmp_path, [Answer("one"), Answer("two")])
    async with world.running() as core:
        await core.say("first")
        await core.settled()
        assert await core.command(command) == CLEARED
        assert "  Messages: 0\n" in await core.command("/status")
        await core.say("second")
        await core.settled()
        assert len(await core.messages()) == 4
    assert [len(request.messages) for request in world.script.requests] == [1, 1]


async def test_it_stays_cleared_after_a_restart(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("one"), Answer("two")])
    async with world.running() as core:
        await core.say("first")
        await core.settled()
        await core.command("/clear")
    async with world.running() as core:
        await core.say("second")
        await core.settled()
    assert len(world.script.requests[1].messages) == 1


async def test_a_running_turn_goes_on_with_what_it_has(tmp_path: Path) -> None:
    trail = Trail("a cat")
    script = [Answer("old"), Answer(calls=(ToolCall("c1", "look", {}),)), Answer("A cat.")]
    world = World(tmp_path, script, tools=[acting("look", trail.leave_slowly)])
    async with world.running() as core:
        await core.say("before")
        await core.settled()
        await core.say("look")
        async with asyncio.timeout(PATIENCE):
            await trail.begun.wait()
        assert await core.command("/clear") == f"{CLEARED} The running turn continues without the old messages."
        trail.gate.set()
        await core.settled()
    asked = world.script.requests[-1].messages
    assert isinstance(asked[0], UserMessage) and asked[0].text.endswith("look")
    assert len(asked) == 3 and isinstance(asked[2], ToolResult) and "\na cat\n" in asked[2].content
    assert world.texts()[-1] == "A cat."


async def test_clearing_during_a_compaction_leaves_nothing_of_the_old_context(tmp_path: Path) -> None:
    script = [
        *(Answer(str(n)) for n in range(4)),
        Answer("A summary of secrets that should be gone by now."),
        Answer("new"),
    ]
    world = World(tmp_path, script)
    async with world.running() as core:
        for number in range(4):
            await core.say(f"secret {number}")
            await core.settled()
        world.script.gate = asyncio.Event()
        world.script.streaming.clear()
        await core.say("/compact")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        assert (await core.command("/clear")).startswith(CLEARED)
        world.script.gate.set()
        await core.settled()
        await core.say("hello")
        await core.settled()
    assert len(world.script.requests[-1].messages) == 1 and "secret" not in str(world.script.requests[-1].messages)


async def test_other_sessions_keep_theirs(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer(str(n)) for n in range(2)])
    async with world.running() as core:
        await core.say("hello", chat="a")
        await core.settled()
        await core.command("/clear", chat="b")
        await core.say("again", chat="a")
        await core.settled()
    assert len(world.script.requests[1].messages) == 3

"""`/cleartool` leaves tools out of what the model sees, for good; the transcript keeps them."""

import asyncio
from pathlib import Path

from goclaw.common.core.messages import AssistantMessage, ToolCall, UserMessage
from goclaw.tools.builtin.planning import todo_write
from tests.harness import PATIENCE, Answer, World

CALL = ToolCall("c1", "todo_write", {"todos": []})


async def test_tool_messages_leave_the_context_over_a_restart_and_stay_in_the_transcript(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("I note it.", calls=(CALL,)), Answer("Noted."), Answer("Yes.")], tools=[todo_write])
    async with world.running() as core:
        await core.say("note it")
        await core.settled()
        kept = len(await core.messages())
        assert await core.command("/cleartool") == (
            "Removed 2 tool messages from the context; the transcript keeps them."
        )
        assert await core.command("/cleartool") == "The context contains no tool messages."
        assert len(await core.messages()) == kept == 4
    async with world.running() as core:
        await core.say("and?")
        await core.settled()
    sent = world.script.requests[-1].messages
    assert [type(message) for message in sent] == [UserMessage, AssistantMessage, AssistantMessage, UserMessage]
    assert all(not message.calls for message in sent if isinstance(message, AssistantMessage))


async def test_a_running_turn_keeps_its_tools(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("slow")])
    gate = world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("go")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        assert (await core.command("/cleartool")).startswith("A turn is running")
        gate.set()
        await core.settled()

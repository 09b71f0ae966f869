"""/stop ends a turn wherever it is, leaves a valid transcript, and frees the lane only when the turn has ended."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from goclaw.common.core.events import Outcome, TurnFinished
from goclaw.common.core.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from goclaw.durable.engine.journal import Journal
from goclaw.durable.store.database import BoundStatement
from tests.harness import PATIENCE, Answer, Core, World
from tests.parts import Tools, Trail, acting

LOOK = Answer("Let me look.", calls=(ToolCall("c1", "look", {}),))

WRITTEN = "A very lo\n\n[stopped here]"
CUT = [AssistantMessage("A very lo"), AssistantMessage("[stopped here]", notice=True)]
"""The same in the transcript."""
"""What stays of an answer that is stopped after its first piece."""


async def outcomes(core: Core) -> list[Outcome]:
    return [event.outcome for event in core.seen if isinstance(event, TurnFinished)]


@pytest.mark.promise("P-stop")
async def test_stop_in_the_middle_of_a_stream(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("A very long answer"), Answer("Here again.")])
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("tell me everything")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        assert await core.command("/stop") == "Stopped."
        assert core.engine.running("memory:here") is None
        assert world.script.closed == 1
        world.script.gate.set()
        await core.say("hello?")
        await core.settled()
        assert await core.messages() == [
            UserMessage("tell me everything"),
            *CUT,
            UserMessage("hello?"),
            AssistantMessage("Here again."),
        ]
        assert await outcomes(core) == [Outcome.STOPPED, Outcome.ANSWERED]
    assert sorted(world.texts()) == [WRITTEN, "Here again.", "Stopped."]
    assert world.texts().index(WRITTEN) < world.texts().index("Here again.")


@pytest.mark.promise("P-stop")
async def test_stop_in_the_middle_of_a_tool_ends_the_tool(tmp_path: Path) -> None:
    trail = Trail()
    world = World(tmp_path, [LOOK, Answer("Here again.")], tools=[acting("look", trail.leave_slowly)])
    async with world.running() as core:
        await core.say("look")
        async with asyncio.timeout(PATIENCE):
            await trail.begun.wait()
        assert await core.command("/stop") == "Stopped."
        assert trail.cancelled == 1
        await core.say("hello?")
        await core.settled()
        assert await core.messages() == [
            UserMessage("look"),
            AssistantMessage("Let me look.", LOOK.calls),
            ToolResult("c1", "look", '{"error": "stopped by the user"}', True),
            AssistantMessage("[Stopped.]", notice=True),
            UserMessage("hello?"),
            AssistantMessage("Here again."),
        ]


@pytest.mark.promise("P-stop")
async def test_the_lane_is_free_only_when_the_turn_has_ended(tmp_path: Path) -> None:
    begun, leaving = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await leaving.wait()
            raise
        return "never"

    world = World(tmp_path, [LOOK, Answer("Next.")], tools=[acting("look", stubborn)])
    async with world.running() as core:
        await core.say("look")
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
        await core.say("next")
        stopping = asyncio.ensure_future(core.command("/stop"))
        assert await core.command("/status")
        assert not stopping.done() and len(world.script.requests) == 1
        leaving.set()
        assert await stopping == "Stopped. 1 waiting message follows now."
        await core.settled()
    assert world.texts()[-1] == "Next."


async def test_stop_without_a_turn_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running() as core:
        assert await core.command("/stop") == "Nothing is running."


async def test_two_stops_at_once_end_one_turn(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("A very long answer")])
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("go")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        await asyncio.gather(core.command("/stop"), core.command("/stop"))
        await core.settled()
        assert (await core.messages())[1:] == CUT
        assert await outcomes(core) == [Outcome.STOPPED]


async def stopped_and_killed(world: World) -> None:
    """A turn is stopped in the middle of its answer; after three writes the process is gone."""
    async with world.running(die_after=3) as core:
        await core.say("go", message_id="1")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        stopping = asyncio.ensure_future(core.command("/stop"))
        await core.settled()
        stopping.cancel()


@pytest.mark.promise("P-stop")
async def test_a_stop_that_a_crash_cut_stays_a_stop(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("A very long answer"), Answer("never asked for")])
    world.script.gate = asyncio.Event()
    # submit, the user's message, the mark of the stop: then the process is gone
    await stopped_and_killed(world)
    async with world.running() as core:
        await core.settled()
        _, *last = await core.messages()
        assert last in ([AssistantMessage("[Stopped.]", notice=True)], CUT), "as far as it was recorded"
    assert len(world.script.requests) == 1
    assert world.texts() == ([WRITTEN] if last == CUT else [])


@pytest.mark.promise("P-stop")
async def test_a_turn_whose_last_words_are_recorded_asks_no_more_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They can be on the disk before the mark that it was stopped: two tasks write them."""

    async def unwritten(self: Journal, turn: str, *also: BoundStatement) -> None:
        await asyncio.Event().wait()

    world = World(tmp_path, [Answer("A very long answer"), Answer("never asked for")])
    world.script.gate = asyncio.Event()
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "mark_stopping", unwritten)
        # submit, the user's message, the last words: then the process is gone
        await stopped_and_killed(world)
    async with world.running() as core:
        await core.settled()
        assert await core.messages() == [UserMessage("go"), *CUT]
    assert len(world.script.requests) == 1 and world.texts() == [WRITTEN]


@dataclass(frozen=True)
class LateTools(Tools):
    """Tools that take a while to load after a start."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    loaded: asyncio.Event = field(default_factory=asyncio.Event)

    async def ready(self) -> None:
        self.asked.set()
        await self.loaded.wait()


@pytest.mark.promise("P-one-result")
async def test_a_stop_before_a_turn_is_read_back_leaves_each_call_its_result(tmp_path: Path) -> None:
    again = Answer("And again.", calls=(ToolCall("c2", "wait", {}),))
    trail = Trail()
    tools = [acting("look", Trail("seen").leave), acting("wait", trail.leave_slowly)]
    world = World(tmp_path, [LOOK, again], tools=tools)
    async with world.running() as core:
        await core.say("go")
        async with asyncio.timeout(PATIENCE):
            await trail.begun.wait()
    world.tools = late = LateTools(tools)
    async with world.running() as core:
        async with asyncio.timeout(PATIENCE):
            await late.asked.wait()
        assert await core.command("/stop") == "Stopped."
        assert await core.messages() == [
            UserMessage("go"),
            AssistantMessage("Let me look.", LOOK.calls),
            ToolResult("c1", "look", "seen"),
            AssistantMessage("And again.", again.calls),
            ToolResult("c2", "wait", '{"error": "stopped by the user"}', True),
            AssistantMessage("[Stopped.]", notice=True),
        ]
    assert len(world.script.requests) == 2


async def test_a_stop_before_the_picture_came_keeps_the_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, asked = World(tmp_path), asyncio.Event()

    async def never(self: object, attachment: object) -> bytes:
        asked.set()
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr("goclaw.channels.memory.MemoryChannel.fetch", never)
    async with world.running() as core:
        await core.say("see this", pictures={"image/png": b"png"})
        async with asyncio.timeout(PATIENCE):
            await asked.wait()
        assert await core.command("/stop") == "Stopped."
        assert await core.messages() == [
            UserMessage("see this\n[Picture: not opened]"),
            AssistantMessage("[Stopped.]", notice=True),
        ]


async def test_stop_ends_a_compaction_and_says_that_the_turn_ended(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer(str(number)) for number in range(4)])
    async with world.running() as core:
        for number in range(4):
            await core.say(f"message {number}")
            await core.settled()
        world.script.gate = asyncio.Event()
        world.script.streaming.clear()
        world.script.add(Answer("A summary that is long enough to be taken for one."))
        await core.say("/compact")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        assert "Status: compaction in progress" in await core.command("/status")
        assert await core.command("/stop") == "Stopped."
        assert (await outcomes(core))[-1] is Outcome.STOPPED
        assert await core.transcripts.compactions("memory:here") == 0


async def test_a_stop_after_the_answer_gives_up_the_compaction_not_the_answer(tmp_path: Path) -> None:
    world = World(tmp_path, [*(Answer(str(number)) for number in range(4)), Answer("The answer."), Answer("Never.")])
    async with world.running() as core, asyncio.timeout(PATIENCE):
        for number in range(4):
            await core.say(f"message {number}")
            await core.settled()
        answering, summarising = asyncio.Event(), asyncio.Event()
        world.script.gate = answering
        world.script.streaming.clear()
        await core.say("go")
        await world.script.streaming.wait()
        await core.command("/compact")
        world.script.gate = summarising
        world.script.streaming.clear()
        answering.set()
        await world.script.streaming.wait()
        assert await core.command("/stop") == "Stopped."
        await core.settled()
        assert (await outcomes(core))[-1] is Outcome.ANSWERED
    assert "The answer." in world.texts()

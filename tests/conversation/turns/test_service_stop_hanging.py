"""/stop works while anything hangs: it is answered, what hangs is given up, and the session goes on."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.events import Delivery
from goclaw.common.core.messages import AssistantMessage, ToolCall, ToolResult
from goclaw.common.health.stuck_tasks import PATIENCE_SECONDS
from goclaw.common.specs import Risk, SideEffect
from goclaw.errors import ToolError
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from tests.harness import PATIENCE, Answer, Core, World
from tests.parts import acting

LOOK = Answer(calls=(ToolCall("c1", "look", {}),))
NEXT = Answer("Next.")


@dataclass
class Hang:
    """Something that hangs until the test is over."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    told: asyncio.Event = field(default_factory=asyncio.Event)

    async def swallowing(self) -> str:
        """Ignores that it was told to end."""
        self.begun.set()
        while not self.over.is_set():
            try:
                await self.over.wait()
            except asyncio.CancelledError:
                self.told.set()
        return "late"


async def begun(happened: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE):
        await happened.wait()


async def test_a_model_that_never_answers(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("never"), NEXT])
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("go")
        await begun(world.script.streaming)
        assert await core.command("/stop") == "Stopped."
        world.script.gate.set()
        await core.say("next")
        await core.settled()
    assert sorted(world.texts()) == ["Next.", "Stopped.", "nev\n\n[stopped here]"]


async def test_a_tool_whose_thread_blocks(tmp_path: Path) -> None:
    entered, let_go = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        let_go.wait(PATIENCE)

    async def block() -> str:
        await asyncio.to_thread(wait)
        return "late"

    world = World(tmp_path, [LOOK, NEXT], tools=[acting("look", block)])
    try:
        async with world.running() as core:
            await core.say("look")
            assert await asyncio.to_thread(entered.wait, PATIENCE)
            assert await core.command("/stop") == "Stopped."
            await core.say("next")
            await core.settled()
    finally:
        let_go.set()
    assert world.texts() == ["Stopped.", "Next."]


@asynccontextmanager
async def stopping(world: World, hang: Hang, clock_steps: Callable[[], None]) -> AsyncIterator[Core]:
    """A turn whose tool ignores the stop; the answer to /stop has come, the turn has not ended."""
    async with world.running() as core:
        await core.say("look")
        await begun(hang.begun)
        await core.say("next")
        answering = asyncio.ensure_future(core.command("/stop"))
        await begun(hang.told)
        clock_steps()
        async with asyncio.timeout(PATIENCE):
            assert (await answering).startswith("Stopping: the turn is still finishing")
        yield core
        hang.over.set()


async def test_a_tool_that_swallows_its_cancellation_is_left_after_a_while_and_the_lane_goes_on(tmp_path: Path) -> None:
    hang = Hang()
    world = World(tmp_path, [LOOK, NEXT], tools=[acting("look", hang.swallowing)])
    async with stopping(world, hang, lambda: world.clock.advance(1)) as core:
        assert core.engine.running("memory:here") and len(world.script.requests) == 1, "no two turns of one session"
        world.clock.advance(PATIENCE_SECONDS)
        await core.settled()
        assert (await core.messages())[1:4] == [
            AssistantMessage("", LOOK.calls),
            ToolResult("c1", "look", '{"error": "stopped by the user"}', True),
            AssistantMessage("[Stopped.]", notice=True),
        ]
        assert len(core.sessions.ports.dispatcher.unresponsive.names()) == 1
    assert world.texts()[-1] == "Next."


async def test_a_tool_that_was_left_behind_says_nothing_in_the_chat_any_more(tmp_path: Path) -> None:
    hang, refused = Hang(), asyncio.Event()

    async def run(ctx: ToolContext) -> str:
        """Answer after the request was given up."""
        await hang.swallowing()
        try:
            await ctx.deliver(Delivery("late", ctx.address, "boo"))
        except ToolError:
            refused.set()
        return "late"

    look: Tool = tool(side_effect=SideEffect.READ_ONLY, name="look", idempotent=True)(run)
    world = World(tmp_path, [LOOK, NEXT], tools=[look])
    async with stopping(world, hang, lambda: world.clock.advance(1)) as core:
        world.clock.advance(PATIENCE_SECONDS)
        await core.settled()
        hang.over.set()
        await begun(refused)
        await core.settled()
    assert "boo" not in world.texts()


async def test_a_tool_that_ignores_its_time_limit_is_left_and_the_turn_goes_on(tmp_path: Path) -> None:
    hang = Hang()
    world = World(tmp_path, [LOOK, NEXT], tools=[acting("look", hang.swallowing)])
    world.config = Config.model_validate({"state_dir": tmp_path / "state", "tools": {"timeout": 0.05}})
    async with world.running() as core:
        await core.say("look")
        await begun(hang.told)
        world.clock.advance(PATIENCE_SECONDS)
        await core.settled()
        assert "timed out" in str((await core.messages())[2])
        hang.over.set()
    assert world.texts() == ["Next."]


async def test_a_chat_that_takes_nothing_and_a_tool_that_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, delivered = asyncio.Event(), asyncio.Event()

    async def never(self: object, delivery: Delivery, *others: object) -> None:
        asked.set()
        await delivered.wait()

    async def run(ctx: ToolContext) -> str:
        """Speak."""
        await ctx.deliver(Delivery("d1", ctx.address, "hello"))
        return "said"

    look: Tool = tool(side_effect=SideEffect.READ_ONLY, name="look", idempotent=True)(run)
    world = World(tmp_path, [LOOK, NEXT], tools=[look])
    monkeypatch.setattr("goclaw.channels.memory.MemoryChannel.deliver", never)
    async with world.running() as core:
        await core.say("look")
        await begun(asked)
        assert await core.command("/stop") == "Stopped."
        await core.say("next")
        async with asyncio.timeout(PATIENCE):
            await core.engine.idle()
        assert len(world.script.requests) == 2


async def asking_tool(ctx: ToolContext) -> str:
    """Look, once a person allows it."""
    return "never"


async def test_a_parked_question(tmp_path: Path) -> None:
    look: Tool = tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH, name="look", idempotent=False)(asking_tool)
    world = World(tmp_path, [LOOK, NEXT], tools=[look])
    async with world.running() as core:
        await core.say("look")
        async with asyncio.timeout(PATIENCE):
            assert (await world.room.heard()).delivery.asks
        assert await core.command("/stop") == "Stopped."
        await core.say("next")
        await core.settled()
    assert world.texts()[-1] == "Next."


async def test_a_disk_that_refuses_to_record_the_stop_does_not_prevent_it(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("never"), NEXT])
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("go")
        await begun(world.script.streaming)
        core.database.full = True
        async with asyncio.timeout(PATIENCE):
            stopping = asyncio.create_task(core.engine.cancel("memory:here"))
            while not world.script.closed:
                await core.messages()
            assert core.engine.running("memory:here"), "what cannot be recorded has not ended"
            core.database.full = False
            while not stopping.done():
                world.clock.advance(1)
                await core.messages()
            await stopping
        assert core.engine.running("memory:here") is None

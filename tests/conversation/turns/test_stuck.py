"""A turn in which nothing happens is reported once, with where it stands, and until it goes on; nothing else is."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from goclaw.common.core.events import Notice
from goclaw.common.core.messages import ToolCall
from goclaw.common.specs import Risk, SideEffect
from goclaw.conversation.turns.stuck import StuckTurns
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from tests.harness import PATIENCE, Answer, Core, World, before_the_next_look
from tests.parts import Trail, acting

LOOK = Answer(calls=(ToolCall("c1", "look", {}),))
LIMIT = 600.0


@dataclass
class Desk:
    """Alerts, as they are open."""

    open: dict[str, str] = field(default_factory=dict)

    def tell(self, key: str, text: str) -> None:
        self.open[key] = text

    def clear(self, key: str) -> None:
        self.open.pop(key, None)


def watch_over(world: World, core: Core, desk: Desk, limit: float = LIMIT) -> StuckTurns:
    return StuckTurns(limit, core.engine.at_work, core.bus, desk, world.clock)


def notices(core: Core) -> list[str]:
    return [event.text for event in core.seen if isinstance(event, Notice)]


async def begun(happened: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE):
        await happened.wait()


@pytest.mark.promise("P-stuck")
async def test_a_tool_in_which_nothing_happens_is_reported_once_and_cleared_when_it_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trail, desk = Trail(), Desk()
    world = World(tmp_path, [LOOK, Answer("Done.")], tools=[acting("look", trail.leave_slowly)])
    async with world.running() as core:
        watch = watch_over(world, core, desk)
        await core.say("look")
        await begun(trail.begun)
        watch.check()
        world.clock.advance(LIMIT - 1)
        watch.check()
        assert desk.open == {} and watch.now() == {}
        for _ in range(3):
            world.clock.advance(60)
            watch.check()
        assert list(desk.open) == ["stuck:memory:here"] and "in tool look" in desk.open["stuck:memory:here"]
        assert watch.now() == {"memory:here": "for 13 min, in tool look"}
        assert watch.line("memory:here") == "for 13 min, in tool look (/stop ends it)"
        assert watch.line("memory:there") == "1 turn of other sessions"
        (record,) = [record for record in caplog.records if "is stuck" in record.message]
        assert "parts.py" in record.__dict__["stack"], "where it stands"
        await asyncio.sleep(0)
        assert notices(core) == ["Nothing has happened for 11 min, in tool look. /stop ends it."]
        trail.gate.set()
        await core.settled()
        watch.check()
        assert desk.open == {} and watch.now() == {} and watch.line("memory:here") == ""
    assert world.texts() == ["Done."]


@pytest.mark.promise("P-stuck")
async def test_a_model_that_streams_is_not_stuck_and_one_that_falls_silent_is(tmp_path: Path) -> None:
    desk, world = Desk(), World(tmp_path, [Answer("A very long answer")])
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        watch = watch_over(world, core, desk)
        await core.say("go")
        await begun(world.script.streaming)
        watch.check()
        world.clock.advance(LIMIT - 1)
        core.bus.publish(Notice("memory:here", "something happens"))
        watch.check()
        world.clock.advance(LIMIT - 1)
        watch.check()
        assert desk.open == {}
        world.clock.advance(1)
        watch.check()
        assert "in the model" in desk.open["stuck:memory:here"]
        world.clock.advance(1)
        core.bus.publish(Notice("memory:here", "it goes on"))
        watch.check()
        assert desk.open == {}
        world.script.gate.set()
        await core.settled()


@pytest.mark.promise("P-stuck")
async def test_a_turn_that_waits_for_a_person_is_not_stuck(tmp_path: Path) -> None:
    async def run(ctx: ToolContext) -> str:
        """Look, once a person allows it."""
        return "never"

    desk = Desk()
    look: Tool = tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH, name="look", idempotent=False)(run)
    world = World(tmp_path, [LOOK], tools=[look])
    async with world.running() as core:
        watch = watch_over(world, core, desk)
        await core.say("look")
        async with asyncio.timeout(PATIENCE):
            await world.room.heard()
            while not any(turn.parked for turn in core.engine.at_work()):
                await before_the_next_look()
        for _ in range(4):
            watch.check()
            world.clock.advance(LIMIT / 2)
        watch.check()
        assert desk.open == {} and watch.now() == {}


@pytest.mark.promise("P-stuck")
async def test_a_stuck_turn_blocks_nobody_else_and_a_stop_ends_it(tmp_path: Path) -> None:
    trail, desk = Trail(), Desk()
    world = World(tmp_path, [LOOK, Answer("Elsewhere.")], tools=[acting("look", trail.leave_slowly)])
    async with world.running() as core:
        watch = watch_over(world, core, desk)
        await core.say("look")
        await begun(trail.begun)
        watch.check()
        world.clock.advance(LIMIT)
        watch.check()
        await core.say("hello", chat="there")
        async with asyncio.timeout(PATIENCE):
            assert (await world.room.heard()).delivery.text == "Elsewhere."
        assert await core.command("/stop") == "Stopped."
        watch.check()
        assert desk.open == {}


@pytest.mark.promise("P-stuck")
async def test_zero_minutes_means_that_nobody_looks(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running() as core:
        async with asyncio.timeout(PATIENCE):
            await watch_over(world, core, Desk(), 0).run()

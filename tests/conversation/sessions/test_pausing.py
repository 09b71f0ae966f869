"""Turns that somebody holds: where they stop, that nothing moves meanwhile, and that a restart changes none of it."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from goclaw.channels.base import Doubt
from goclaw.common.auth.users import User
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor, Notice
from goclaw.common.core.messages import ToolCall
from goclaw.conversation.sessions.pausing import PAUSED, RESUMED, Pauses
from goclaw.durable.store.database import Database
from goclaw.durable.store.settings import Settings
from tests.harness import PATIENCE, Answer, Core, World
from tests.kills import recorded
from tests.parts import Trail, acting

HERE = "memory:here"
ASKING = Answer(calls=(ToolCall("c1", "slow", {}),))


def world_of(folder: Path, trail: Trail, *answers: Answer, **config: Any) -> World:
    script = answers or (ASKING, Answer("done"))
    return World(folder, script, tools=[acting("slow", trail.leave_slowly)], **config)


async def held(core: Core) -> bool:
    """Wait until the turn is parked. False: it has ended."""
    async with asyncio.timeout(PATIENCE):
        while core.engine.busy():
            if any(work.parked for work in core.engine.at_work()):
                return True
            await asyncio.sleep(0)
    return False


async def in_the_tool(core: Core, trail: Trail) -> None:
    await core.say("go")
    async with asyncio.timeout(PATIENCE):
        await trail.begun.wait()


async def test_a_paused_turn_waits_before_its_next_request_and_goes_on_where_it_was(tmp_path: Path) -> None:
    trail = Trail()
    world = world_of(tmp_path, trail)
    async with world.running() as core:
        await in_the_tool(core, trail)
        assert (await core.command("/pause")).startswith("Paused")
        assert (await core.command("/pause")).startswith("The turn is already paused")
        trail.gate.set()
        assert await held(core)
        assert "This turn: paused; /resume continues it" in await core.command("/status")
        assert len(world.script.requests) == 1, "nobody asked the model"
        assert await core.command("/resume") == "Resumed."
        await core.settled()
        assert await core.command("/resume") == "Nothing is paused."
        assert "paused" not in await core.command("/status")
        notices = [event.text for event in core.seen if isinstance(event, Notice)]
    assert notices == [PAUSED, RESUMED]
    assert world.texts().count("done") == 1
    assert trail.times == 1


async def test_a_paused_turn_survives_a_restart_paused_and_what_comes_meanwhile_waits(tmp_path: Path) -> None:
    trail = Trail()
    world = world_of(tmp_path, trail, ASKING, Answer("first"), Answer("second"))
    trail.gate.set()
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("go")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        await core.command("/pause")
        world.script.gate.set()
        assert await held(core)
    for _ in range(2):
        async with world.running() as core:
            assert await held(core)
            assert "This turn: paused" in await core.command("/status")
            assert trail.times == 0, "the call was not begun"
            assert len(world.script.requests) == 1
    async with world.running() as core:
        await core.say("and then?")
        assert await held(core)
        assert core.engine.waiting(HERE) == 1
        await core.command("/resume")
        await core.settled()
        assert "pause" not in await core.sessions.ports.store.settings.of_session(HERE)
    assert [text for text in world.texts() if text in ("first", "second")] == ["first", "second"]
    assert trail.times == 1


async def test_calls_of_one_answer_are_held_together_and_all_go_on(tmp_path: Path) -> None:
    trail = Trail()
    trail.gate.set()
    calls = tuple(ToolCall(f"c{number}", "slow", {}) for number in range(3))
    world = world_of(tmp_path, trail, Answer(calls=calls), Answer("done"))
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("go")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
        await core.command("/pause")
        world.script.gate.set()
        assert await held(core)
        assert trail.times == 0
        await core.command("/resume")
        await core.settled()
    assert trail.times == 3
    assert world.texts().count("done") == 1


@pytest.mark.parametrize("restarted", [False, True])
async def test_stop_ends_a_paused_turn(restarted: bool, tmp_path: Path) -> None:
    trail = Trail()
    world = world_of(tmp_path, trail)
    async with world.running() as core:
        await in_the_tool(core, trail)
        await core.command("/pause")
        trail.gate.set()
        assert await held(core)
        if not restarted:
            assert (await core.command("/stop")).startswith("Stopped")
    async with world.running() as core:
        if restarted:
            assert await held(core)
            assert (await core.command("/stop")).startswith("Stopped")
        await core.settled()
        assert "paused" not in await core.command("/status")
        assert "pause" not in await core.sessions.ports.store.settings.of_session(HERE)
    assert "done" not in world.texts()


async def test_the_time_of_a_paused_turn_stands_still(tmp_path: Path) -> None:
    trail = Trail()
    world = world_of(tmp_path, trail, agents={"main": {"policy": {"time_budget": "2s"}}})
    async with world.running() as core:
        await in_the_tool(core, trail)
        await core.command("/pause")
        trail.gate.set()
        assert await held(core)
        with suppress(TimeoutError):
            async with asyncio.timeout(2.1):  # more than its time
                await core.settled()
        await core.command("/resume")
        await core.settled()
    assert world.texts().count("done") == 1


async def test_an_agent_whose_policy_forbids_it_is_not_paused(tmp_path: Path) -> None:
    trail = Trail()
    world = world_of(tmp_path, trail, agents={"main": {"policy": {"interrupts_allowed": False}}})
    async with world.running() as core:
        assert await core.command("/pause") == "Nothing is running."
        await in_the_tool(core, trail)
        reply = await core.command("/pause")
        trail.gate.set()
        await core.settled()
    assert reply.startswith("This agent's turns cannot be paused.")
    assert world.texts().count("done") == 1


async def test_only_who_may_stop_a_turn_may_pause_it(tmp_path: Path) -> None:
    trail = Trail()
    world = World(
        tmp_path,
        [ASKING, Answer("done")],
        tools=[acting("slow", trail.leave_slowly)],
        users=[User("memory:anna", "Anna", roles=frozenset({"guest"}))],
        roles={"guest": {"commands": ["pause", "resume"], "sessions": "all"}},
    )
    async with world.running() as core:
        await in_the_tool(core, trail)
        refused = [await core.command(text, actor=Actor("memory:anna", "memory")) for text in ("/pause", "/resume")]
        trail.gate.set()
        await core.settled()
    assert all(reply.startswith("You are not allowed to stop or pause") for reply in refused)
    assert world.texts().count("done") == 1


async def test_a_kill_at_any_write_loses_neither_the_turn_nor_what_was_ordered(tmp_path: Path) -> None:
    ordered = 0
    trail = Trail("leaving")
    trail.gate.set()
    answers = [Answer("done", when="leaving"), Answer("done", when="outcome unknown")]
    slow = acting("slow", trail.leave_slowly, idempotent=False)
    world = World(tmp_path, [Answer(calls=ASKING.calls, when="go"), *answers], tools=[slow])
    world.script.gate = gate = asyncio.Event()

    async def paused_and_resumed(core: Core) -> None:
        await core.say("go", message_id="1")
        await world.script.streaming.wait()
        await core.command("/pause")
        gate.set()
        assert await held(core)
        await core.command("/resume")
        await core.settled()

    moments = await recorded(world, paused_and_resumed, trail)
    for moment in moments:
        with moment.restored():
            gate.set()
            async with world.running() as core:
                await core.say("go", message_id="1")
                if await held(core):
                    ordered += 1
                    assert await core.command("/resume") == "Resumed."
                await core.settled()
            done = [heard for heard in world.room.all if heard.delivery.text == "done"]
            assert done and sum(heard.doubt is Doubt.NONE for heard in done) <= 1
            assert trail.times <= 1, "what must not run twice did"
    assert ordered and moments[-1].write >= 10


async def test_orders_of_two_processes_on_one_database_are_all_kept(database: Database, clock: SteppedClock) -> None:
    settings = Settings(database)
    one, two, later = (Pauses(settings, clock, lambda event: None) for _ in range(3))
    await one.order("a", "t1", "tui:ann")
    await two.order("b", "t2", "tui:bob")
    await later.restore()
    assert later.of("a", "t1") and later.of("b", "t2")
    await two.reload("a")
    assert await two.lift("a", "t1", signalled)
    await later.reload("a")
    assert later.of("a", "t1") is None and later.of("b", "t2")


async def test_orders_of_an_earlier_version_hold_on(database: Database, clock: SteppedClock) -> None:
    settings = Settings(database)
    kept = {"id": "1", "session": "a", "turn": "t1", "by": "tui:ann", "at": 1.0}
    await settings.learn("pauses", [kept])
    for _ in range(2):
        pauses = Pauses(settings, clock, lambda event: None)
        await pauses.restore()
        assert pauses.of("a", "t1")
    assert await settings.fact("pauses") == []


async def signalled(turn: str, step: str, answer: str) -> bool:
    return True

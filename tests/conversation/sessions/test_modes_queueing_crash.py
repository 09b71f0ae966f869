"""Kill the process at every single write while a message joins a turn or takes its place, and start again."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from goclaw.channels.base import Doubt
from goclaw.common.config.values import QueueMode
from goclaw.common.core.messages import ToolCall, UserMessage
from goclaw.conversation.agent.context.model_messages import repair
from goclaw.conversation.agent.context.window import Window
from tests.conversation.sessions.looking import unless_dead
from tests.harness import Answer, Core, World
from tests.kills import recorded
from tests.parts import Trail, acting

SCRIPT = [
    Answer("Working.", calls=(ToolCall("c1", "look", {}),), when="first"),
    Answer("First done.", when="looked"),
    Answer("First done.", when="outcome unknown"),
    Answer("Second done.", when="second"),
]
"""Depends on the conversation alone, as a real model does."""


def world_in(folder: Path, mode: QueueMode, trail: Trail) -> World:
    folder.mkdir()
    return World(folder, SCRIPT, tools=[acting("look", trail.leave_slowly, idempotent=False)], queue={"mode": mode})


async def live(world: World, trail: Trail, *, die_before: int | None = None, die_after: int | None = None) -> None:
    """One life of the process, in which both messages are (re)delivered."""
    trail.begun.clear()
    trail.gate.clear()
    async with world.running(die_before=die_before, die_after=die_after) as core:
        await unless_dead(core, both(core, trail))
        await core.settled()


async def both(core: Core, trail: Trail) -> None:
    """The first message, and the second while the first one's tool works, if it does."""
    await core.say("first", message_id="1")
    begun = asyncio.ensure_future(trail.begun.wait())
    quiet = asyncio.ensure_future(core.engine.idle())
    try:
        await asyncio.wait({begun, quiet}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        begun.cancel()
        quiet.cancel()
    await core.say("second", message_id="2")
    trail.gate.set()


async def check(world: World, mode: QueueMode, where: str) -> None:
    """The promises, whenever the kill came."""
    texts = Counter(heard.delivery.text for heard in world.room.all if heard.doubt is Doubt.NONE)
    told = {heard.delivery.text for heard in world.room.all}
    assert told <= {"Working.", "First done.", "Second done."} and "Second done." in told, where
    assert mode != "queue" or len(told) == 3, where
    assert max(texts.values(), default=1) == 1, f"{where}: an answer was doubled"
    async with world.running() as core:
        assert core.engine.busy() == 0, f"{where}: something was left"
        said = await core.messages()
        assert [message.text for message in said if isinstance(message, UserMessage)] == ["first", "second"], where
        window = Window.of(*await core.transcripts.context("memory:here"))
        whole = [entry.message for entry in window.entries]
        assert not repair(whole)[1].total(), f"{where}: nothing to repair"


@pytest.mark.promise("P-answered-once")
@pytest.mark.parametrize("mode", ["queue", "collect", "steer", "interrupt"])
@pytest.mark.promise("P-queue-modes")
async def test_a_kill_at_any_write_loses_nothing_and_doubles_nothing(tmp_path: Path, mode: QueueMode) -> None:
    trail = Trail("looked")
    world = world_in(tmp_path / "world", mode, trail)

    async def meeting(core: Core) -> None:
        await both(core, trail)
        await core.settled()

    moments = await recorded(world, meeting, trail)
    for moment in moments:
        with moment.restored():
            await live(world, trail)
            await check(world, mode, f"{mode}, {moment.name}")
    assert moments[-1].write >= 9, "every write was tried"


@pytest.mark.promise("P-answered-once")
@pytest.mark.parametrize("mode", ["steer", "interrupt"])
async def test_two_kills_one_after_the_other(tmp_path: Path, mode: QueueMode) -> None:
    for number in range(2, 12):
        trail = Trail("looked")
        world = world_in(tmp_path / str(number), mode, trail)
        await live(world, trail, die_after=number)
        await live(world, trail, die_before=3)
        await live(world, trail)
        await check(world, mode, f"{mode}, after {number}, before 3")

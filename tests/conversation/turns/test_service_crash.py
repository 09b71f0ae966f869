"""Kill the process at every single write of a turn, start again on the same file: the failure matrix, row by row."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from goclaw.channels.base import Doubt
from goclaw.common.core.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from goclaw.conversation.agent.context.model_messages import valid_messages
from goclaw.conversation.agent.context.window import Window
from goclaw.durable.engine.machine_faults import ANY_FAULT, KEPT
from tests.conversation.sessions.looking import unless_dead
from tests.harness import Answer, Core, World
from tests.kills import recorded
from tests.parts import Trail, acting

CALLS = (ToolCall("c1", "once", {}), ToolCall("c2", "again", {}))
SCRIPT = [Answer("Working.", calls=CALLS, when="go"), Answer("All done.", when="looked")]
"""Depends on the conversation alone, as a real model does."""


class Effects:
    """What the tools did to the world."""

    def __init__(self) -> None:
        self.once, self.again = Trail("taken"), Trail("looked")

    def world(self, folder: Path) -> World:
        folder.mkdir()
        tools = [acting("once", self.once.leave, idempotent=False), acting("again", self.again.leave)]
        return World(folder, SCRIPT, tools=tools)


async def go(core: Core) -> None:
    """What happens in a life: the message is (re)delivered."""
    await unless_dead(core, core.say("go", message_id="1"))
    await core.settled()


async def live(world: World, *, die_before: int | None = None) -> None:
    async with world.running(die_before=die_before) as core:
        await go(core)


async def conversation(core: Core) -> list[tuple[type, str]]:
    return [
        (type(message), message.content if isinstance(message, ToolResult) else message.text)
        for message in await core.messages()
    ]


async def check(world: World, effects: Effects, where: str) -> None:
    """The promises, whenever the kill came."""
    assert list(dict.fromkeys(world.texts())) == ["Working.", "All done."], where
    unmarked = Counter(heard.delivery.text for heard in world.room.all if heard.doubt is Doubt.NONE)
    assert max(unmarked.values()) == 1 and max(Counter(world.texts()).values()) <= 2, where
    assert effects.once.times <= 1, f"{where}: a tool that must not run twice ran twice"
    async with world.running() as core:
        said = await conversation(core)
        kinds = Counter(kind for kind, _ in said)
        assert kinds == {UserMessage: 1, AssistantMessage: 2, ToolResult: 2}, where
        assert said[0] == (UserMessage, "go") and said[-1] == (AssistantMessage, "All done."), where
        (once,) = [m for m in await core.messages() if isinstance(m, ToolResult) and m.name == "once"]
        assert once.content == "taken" or "outcome unknown" in once.content, where
        window = Window.of(*await core.transcripts.context("memory:here"))
        whole = [entry.message for entry in window.entries]
        assert Counter(map(str, valid_messages(whole))) == Counter(map(str, whole)), f"{where}: nothing to repair"


@pytest.mark.promise("P-answered-once")
@pytest.mark.promise("P-tool-once")
async def test_a_kill_at_any_write_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    effects = Effects()
    world = effects.world(tmp_path / "world")
    moments = await recorded(world, go, effects.once, effects.again)
    for moment in moments:
        with moment.restored():
            await live(world)
            await check(world, effects, moment.name)
    assert moments[-1].write >= 8, "every write of the turn was tried"


@pytest.mark.promise("P-answered-once")
async def test_two_kills_in_one_turn(tmp_path: Path) -> None:
    for number in range(2, 9):
        effects = Effects()
        world = effects.world(tmp_path / str(number))
        await live(world, die_before=number)
        await live(world, die_before=3)
        await live(world)
        await check(world, effects, f"before {number}, then 3")


@pytest.mark.promise("P-tool-once")
async def test_the_model_is_told_that_the_outcome_is_unknown(tmp_path: Path) -> None:
    trail = Trail()
    script = [Answer(calls=(ToolCall("c1", "pay", {}),), when="go"), Answer("I will check.", when="outcome unknown")]
    world = World(tmp_path, script, tools=[acting("pay", trail.leave_slowly, idempotent=False)])
    async with world.running() as core:
        await core.say("go")
        await trail.begun.wait()
    async with world.running() as core:
        await core.settled()
    assert trail.times == 1
    assert world.texts() == ["I will check."]


async def test_a_tool_that_may_run_twice_is_simply_run_again(tmp_path: Path) -> None:
    trail = Trail("looked")
    script = [Answer(calls=(ToolCall("c1", "look", {}),), when="go"), Answer("Seen.", when="looked")]
    world = World(tmp_path, script, tools=[acting("look", trail.leave_slowly)])
    async with world.running() as core:
        await core.say("go")
        await trail.begun.wait()
    trail.gate.set()
    async with world.running() as core:
        await core.settled()
    assert (trail.times, world.texts()) == (2, ["Seen."])


@pytest.mark.promise("P-answered-once")
async def test_what_waited_behind_the_turn_is_answered_in_order(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("cut"), *(Answer(f"answer {n}") for n in range(4))])
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        for number in range(4):
            await core.say(f"question {number}")
        assert core.engine.waiting("memory:here") == 3
        await world.script.streaming.wait()
    world.script.gate.set()
    async with world.running() as core:
        await core.settled()
        said = [message.text for message in await core.messages() if not isinstance(message, ToolResult)]
    assert said == [text for n in range(4) for text in (f"question {n}", f"answer {n}")]
    assert world.texts() == [f"answer {n}" for n in range(4)]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_disk_that_cannot_be_written_delays_the_turn_until_it_can(tmp_path: Path, restarted: bool) -> None:
    trail, once = Trail("looked"), Trail()
    core: Core

    async def fill_the_disk() -> str:
        core.database.full = trail.times == 0
        return await trail.leave()

    world = World(
        tmp_path, SCRIPT, tools=[acting("once", once.leave, idempotent=False), acting("again", fill_the_disk)]
    )
    async with world.running() as core:
        await core.say("go")
        await core.waits_for_the_disk()
        if not restarted:
            core.database.full = False
            await core.settled_in(world.clock)
    if restarted:
        async with world.running() as core:
            await core.settled()
    # The word about the disk and what was promised before it are on their way at the same time.
    assert set(world.texts()) == {"Working.", f"{ANY_FAULT}. {KEPT}", "All done."} and world.texts()[-1] == "All done."
    assert (once.times, trail.times) == (1, 2 if restarted else 1)

"""The heartbeat runs what HEARTBEAT.md asks, when it may, and is silent unless there is something to say."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import NOTHING_TO_SAY, Actor
from goclaw.common.core.messages import ToolCall, UserMessage
from goclaw.conversation.schedules.heartbeat import FILE, name_for, orders_in
from goclaw.llm.base import Usage
from goclaw.llm.scripted import ScriptedModel
from tests.conversation.schedules.jobs import DAY, HOUR, asleep, pass_time
from tests.harness import Answer, Core, World
from tests.parts import Trail, acting

ANN = Actor("memory:here", "memory", name="Ann")
MINUTE = 60.0
ORDERS = "# Look after\n\n- Is the oven off?"


def awake(folder: Path, *answers: Answer, orders: str = ORDERS, **options: Any) -> World:
    """A world where Ann has written HEARTBEAT.md; the clock shows 15:06:40 UTC."""
    world = World(folder, answers, users=[User(ANN.key, timezone="UTC")], **options)
    (world.root / FILE).write_text(orders)
    return world


async def ask(core: Core, text: str) -> str:
    return await core.command(text, actor=ANN)


async def seconds_left(core: Core, world: World) -> float:
    """The seconds until it is due."""
    stored = await core.schedules.rows.find(name_for(ANN.key))
    assert stored is not None and stored.next is not None
    return stored.next - world.clock.now()


async def beat(core: Core, world: World) -> None:
    """Let time pass until it is due."""
    await asleep(core)
    await pass_time(core, world, await seconds_left(core, world))


async def states(core: Core) -> list[str]:
    return [run.state for run in await core.schedules.runs(ANN, name_for(ANN.key))]


async def test_it_is_off_until_a_person_turns_it_on(tmp_path: Path) -> None:
    world = awake(tmp_path)
    async with world.running() as core:
        assert (await ask(core, "/heartbeat")).startswith("The heartbeat is off.")
        await pass_time(core, world, DAY)
        assert world.script.requests == []


@pytest.mark.promise("P-heartbeat")
async def test_it_runs_in_the_active_hours_in_a_fresh_session_with_few_tools(tmp_path: Path) -> None:
    world = awake(tmp_path, Answer("The oven is on!", when="Is the oven off?"), tools=[acting("exec", Trail("").leave)])
    async with world.running() as core:
        said = await ask(core, "/heartbeat on")
        assert said.startswith("The heartbeat is on: every 30 min within 08:00-22:00, next ")
        for _ in range(2):
            await beat(core, world)
        assert world.texts()[1:] == ["The oven is on!"] * 2
        for request in world.script.requests:
            (message,) = request.messages
            assert isinstance(message, UserMessage) and "Is the oven off?" in message.text
            assert list(request.tools) == [], "exec is none of its tools"
        world.clock.advance(10 * HOUR)  # past the end of the active hours
        await asleep(core)
        await core.settled()
        (stored,) = await core.schedules.of(ANN)
        assert stored.next is not None and stored.next % DAY == 8 * HOUR


async def test_nothing_is_said_when_there_is_nothing_to_say(tmp_path: Path) -> None:
    world = awake(tmp_path, Answer(NOTHING_TO_SAY, when="Is the oven off?"))
    async with world.running() as core:
        await ask(core, "/heartbeat on")
        await beat(core, world)
        assert len(world.script.requests) == 1 and len(world.texts()) == 1
        assert "Last: " in await ask(core, "/heartbeat")


@pytest.mark.parametrize(
    "text",
    ["", "# Look after\n\n## At home\n", "<!-- nothing\n- yet -->\n# A", "- [ ]\n-\n* \n"],
)
async def test_a_file_that_asks_nothing_makes_no_call(tmp_path: Path, text: str) -> None:
    assert orders_in(text) == ""
    world = awake(tmp_path, orders=text)
    async with world.running() as core:
        assert "is empty, so the heartbeat" in await ask(core, "/heartbeat on")
        await beat(core, world)
        assert world.script.requests == [] and await states(core) == []
        assert f"{FILE} is empty" in await ask(core, "/heartbeat now")


async def test_it_reads_the_file_when_it_runs(tmp_path: Path) -> None:
    world = awake(tmp_path, Answer("Fed.", when="Feed the cat."))
    async with world.running() as core:
        await ask(core, "/heartbeat on")
        (world.root / FILE).write_text("Feed the cat.")
        await beat(core, world)
        assert world.texts()[1:] == ["Fed."]


async def test_it_hears_what_is_due_next(tmp_path: Path) -> None:
    world = awake(tmp_path, Answer("Tea at four.", when="Drink tea."))
    async with world.running() as core:
        await ask(core, "/remind 2h Drink tea.")
        await ask(core, "/heartbeat on")
        await beat(core, world)
        assert world.texts()[-1] == "Tea at four."


async def test_a_budget_of_the_day_is_said_once_and_holds_until_the_next_day(tmp_path: Path) -> None:
    spec = "openai-chat:of-the-test"
    priced = {"options": {spec: {"price_input": 10, "price_output": 20, "context_window": 100_000}}}
    quiet = Answer(NOTHING_TO_SAY, when="Is the oven off?", usage=Usage(input=20_000, output=5_000))  # $0.30
    model = ScriptedModel([quiet], spec=spec)
    world = awake(tmp_path, model=model, models=priced)
    async with world.running() as core:
        await ask(core, "/heartbeat on")
        for _ in range(8):
            await beat(core, world)
        assert len(model.requests) == 2, "after $0.60"
        assert world.texts()[1:] == ["The heartbeat has used up today's budget ($0.50); it continues tomorrow."]
        assert "is used up" in await ask(core, "/heartbeat now")
        await pass_time(core, world, 15 * HOUR)  # into the next day: one is due at once
        assert len(model.requests) == 3


async def test_it_is_left_out_while_a_turn_of_the_conversation_runs(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def wait() -> str:
        await gate.wait()
        return "waited"

    world = awake(
        tmp_path,
        Answer(calls=(ToolCall("c", "slow", {}),), when="hello"),
        Answer("Done.", when="waited"),
        Answer("The oven is on!", when="Is the oven off?"),
        tools=[acting("slow", wait)],
    )
    async with world.running() as core:
        await ask(core, "/heartbeat on")
        await core.say("hello", actor=ANN)
        await asleep(core)
        world.clock.advance(await seconds_left(core, world))
        await asleep(core)
        assert await states(core) == []
        gate.set()
        await core.settled()
        await beat(core, world)
        assert await states(core) == ["done"]


async def test_it_runs_at_once_by_hand_and_stays_off(tmp_path: Path) -> None:
    world = awake(tmp_path, Answer("The oven is on!", when="Is the oven off?"))
    async with world.running() as core:
        await ask(core, "/heartbeat now")
        await core.settled()
        assert world.texts()[-1] == "The oven is on!"
        assert (await ask(core, "/heartbeat")).startswith("The heartbeat is off.")


async def test_it_can_be_turned_off_and_on_again(tmp_path: Path) -> None:
    world = awake(tmp_path)
    async with world.running() as core:
        for order, begins in [
            ("on", "The heartbeat is on"),
            ("off", "The heartbeat is off"),
            ("on", "The heartbeat is on"),
        ]:
            assert (await ask(core, f"/heartbeat {order}")).startswith(begins)
        assert len(await core.schedules.of(ANN)) == 1
        assert "reserved for heartbeats" in await ask(core, "/schedule add heartbeat-x --every 1h --message Hi")


async def test_it_follows_settings_and_zone_as_they_are_now(tmp_path: Path) -> None:
    world = awake(tmp_path, Answer(NOTHING_TO_SAY, when="Is the oven off?"))
    async with world.running() as core:
        await ask(core, "/heartbeat on")
        await asleep(core)
    world.config = world.config.model_copy(
        update={"heartbeat": world.config.heartbeat.model_copy(update={"every": HOUR})}
    )
    async with world.running() as core:
        await beat(core, world)
        (stored,) = await core.schedules.of(ANN)
        assert stored.next is not None and stored.next % HOUR == 0


def test_two_people_never_share_a_heartbeat() -> None:
    people = ["tui:a-b", "tui-a:b", "tui:a.b", "tui:a_b", "telegram:5", "tui:" + "x" * 90]
    names = {name_for(person) for person in people}
    assert len(names) == len(people) and max(map(len, names)) <= 64
    assert name_for("telegram:5") == "heartbeat-telegram-5"

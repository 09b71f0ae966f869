"""`schedule`: the agent sets what is to happen later for the person it talks with, checked as `/schedule` is."""

import re
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolCall
from goclaw.common.specs import Risk
from goclaw.llm.scripted import Answer
from goclaw.tools.builtin.schedule import schedule
from tests.conversation.schedules.jobs import HOUR, pass_time
from tests.conversation.sessions.approving import results
from tests.harness import Core, World
from tests.tools.builtin.memory_support import surroundings

ANN = Actor("memory:ann", "memory", name="Ann")
BOB = Actor("memory:bob", "memory", name="Bob")


def proposing(folder: Path, *calls: dict[str, Any], when: str = "") -> World:
    """A model that makes each call in an answer of its own."""
    answers = [Answer(calls=(ToolCall(f"c{number}", "schedule", call),)) for number, call in enumerate(calls)]
    users = [User(ANN.key, timezone="Europe/Berlin"), User(BOB.key)]
    return World(folder, [*answers, Answer("Done.")], tools=[schedule], users=users)


async def told(core: Core) -> list[str]:
    await core.say("go", actor=ANN, session=ANN.key, chat="ann")
    await core.settled()
    return await results(core, ANN.key)


async def test_a_reminder_repeats_weekday_date_time_and_zone_and_comes(tmp_path: Path) -> None:
    world = proposing(tmp_path, {"action": "add", "at": "20m", "message": "Tea"}, {"action": "list"})
    async with world.running() as core:
        said, listed = await told(core)
        moment = r"\w+day \d+ \w+ \d+, \d\d:\d\d:\d\d \(Europe/Berlin\)"
        assert re.fullmatch(rf"reminder-1 is set: {moment}\.", said)
        assert re.fullmatch(rf"- reminder-1 \(message\): {moment}: Tea", listed)
        await pass_time(core, world, 20 * 60)
        assert world.texts()[-1] == "⏰ Reminder: Tea"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"action": "add", "message": "x"}, "say when, in one of these ways: at (20m, tomorrow 8:00, friday 17:00"),
        ({"action": "add", "at": "at noonish", "message": "x"}, "`at noonish` is not a time: write 20m, tomorrow 8:00"),
        ({"action": "add", "every": "5s", "message": "x"}, "every 5s is too often: the minimum is 1m"),
        ({"action": "add", "cron": "99 8 * * *", "message": "x"}, "`99 8 * * *` is not a cron expression"),
        ({"action": "remove", "name": "supper"}, "there is no schedule named supper of theirs"),
        (
            {"action": "add", "at": "20m", "message": "x", "to": "signal:5"},  # nobody is asked about that
            "no channel named signal is connected",
        ),
    ],
)
async def test_what_cannot_be_is_an_error_with_the_forms(tmp_path: Path, call: dict[str, Any], said: str) -> None:
    async with proposing(tmp_path, call).running() as core:
        (result,) = await told(core)
        assert said in result


async def test_an_admins_agent_does_not_reach_the_schedules_of_others(tmp_path: Path) -> None:
    world = proposing(tmp_path, {"action": "list"}, {"action": "remove", "name": "reminder-1"})
    world.users = type(world.users)([User(ANN.key, roles=frozenset({"admin"})), User(BOB.key)])
    async with world.running() as core:
        await core.command("/remind 1h supper", actor=BOB, session=BOB.key, chat="bob")
        listed, removed = await told(core)
        assert listed.startswith("There are no schedules.") and "no schedule named reminder-1" in removed


async def test_a_scheduled_turn_makes_no_schedules_but_lists_and_removes_them(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {"action": "add", "every": "1m", "task": "Do it again"},
        {"action": "run", "name": "loop"},
        {"action": "remove", "name": "loop"},
    ]
    world = proposing(tmp_path, *calls)
    async with world.running() as core:
        await core.command("/schedule add loop --every 1h --task go", actor=ANN, session=ANN.key, chat="ann")
        session = f"{ANN.key}/agent:loop-{int(world.clock.now() + HOUR)}"
        await pass_time(core, world, HOUR)
        added, run, removed = await results(core, session)
        assert "can neither create nor run schedules" in added and "can neither create" in run
        assert removed == "loop is removed." and await core.schedules.of(ANN) == []


async def test_a_schedule_that_may_ask_may_make_another(tmp_path: Path) -> None:
    world = proposing(tmp_path, {"action": "add", "at": "1h", "message": "Tea"})
    async with world.running() as core:
        await core.command("/schedule add plan --at 1h --task go --ask", actor=ANN, session=ANN.key, chat="ann")
        await pass_time(core, world, HOUR)
        assert [each.job.name for each in await core.schedules.of(ANN) if each.state == "active"] == ["reminder-2"]


@pytest.mark.parametrize(
    ("call", "risk"),
    [
        ({"action": "list"}, Risk.LOW),
        ({"action": "add", "at": "20m", "message": "Tea"}, Risk.LOW),
        ({"action": "remove", "name": "tea"}, Risk.LOW),
        ({"action": "add", "at": "20m", "task": "Look"}, Risk.MEDIUM),
        ({"action": "run", "name": "tea"}, Risk.MEDIUM),
        ({"action": "add", "at": "20m", "message": "Tea", "to": "telegram:5"}, Risk.HIGH),
    ],
)
async def test_a_reminder_is_harmless_a_task_is_not_and_another_chat_asks(
    tmp_path: Path, call: dict[str, Any], risk: Risk
) -> None:
    async with surroundings(tmp_path) as around:
        assert around.risk(schedule, call) is risk

"""Kill the process at every write of a run, start again on the same file: no run twice, none lost."""

from collections import Counter
from pathlib import Path
from typing import Literal

import pytest

from goclaw.channels.base import Doubt
from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import AssistantMessage
from tests.conversation.schedules.jobs import HOUR, asleep, hourly, kills, pass_time
from tests.conversation.sessions.looking import unless_dead
from tests.harness import HERE, Answer, Core, World

ANN = Actor("memory:ann", "memory")


async def live(world: World, kind: Literal["message", "task"], die_before: int | None = None) -> int:
    """A life in which a job is due; returns the number of writes."""
    async with world.running(die_before=die_before) as core:
        await unless_dead(core, due(core, world, kind))
        return core.database.writes


async def due(core: Core, world: World, kind: Literal["message", "task"]) -> None:
    if not await core.schedules.of(HERE):
        await hourly(core, world, kind)
        await pass_time(core, world, HOUR)
    else:
        await asleep(core)
        await core.settled()
        await asleep(core)


@pytest.mark.parametrize("kind", ["message", "task"])
@pytest.mark.promise("P-schedule-once")
async def test_a_kill_at_any_write_neither_loses_nor_doubles_a_run(
    tmp_path: Path, kind: Literal["message", "task"]
) -> None:
    answers = [Answer("Drink tea.", when="Drink tea.")]
    first = tmp_path / "whole"
    first.mkdir()
    writes = await live(World(first, answers), kind)
    assert writes >= 4
    for number in kills(writes):
        folder = tmp_path / str(number)
        folder.mkdir()
        world, where = World(folder, answers), f"killed before write {number} of {writes}"
        await live(world, kind, die_before=number)
        await live(world, kind)
        if not world.texts():  # killed before the job was stored, or before its time
            await live(world, kind)
        async with world.running() as core:
            await asleep(core)
            runs = await core.schedules.runs(HERE, "tea")
            assert [run.state for run in runs] == ["done"], where
            said = [message for message in await core.messages() if isinstance(message, AssistantMessage)]
            assert len(said) == (kind == "message"), where
        unmarked = Counter(heard.delivery.text for heard in world.room.all if heard.doubt is Doubt.NONE)
        assert unmarked["Drink tea."] <= 1 and len(world.texts()) in (1, 2), where


async def live_without_the_right(world: World, die_before: int | None = None) -> int:
    """A life in which a job is due whose maker lost the right before; returns the number of writes."""
    async with world.running(die_before=die_before) as core:
        await unless_dead(core, refused(core, world))
        return core.database.writes


async def refused(core: Core, world: World) -> None:
    if not await core.schedules.of(HERE):
        await hourly(core, world, actor=ANN, session="memory:ann")
    await asleep(core)
    world.users._users = {ANN.key: User(ANN.key, allowed_tools=frozenset({"read"}))}
    await pass_time(core, world, HOUR)


@pytest.mark.promise("P-schedule-once")
async def test_a_kill_at_any_write_neither_loses_nor_doubles_the_news_that_a_job_is_stopped(tmp_path: Path) -> None:
    first = tmp_path / "whole"
    first.mkdir()
    writes = await live_without_the_right(World(first, [], users=[User(ANN.key)]))
    assert writes >= 3
    for number in kills(writes):
        folder = tmp_path / str(number)
        folder.mkdir()
        world, where = World(folder, [], users=[User(ANN.key)]), f"killed before write {number} of {writes}"
        await live_without_the_right(world, die_before=number)
        await live_without_the_right(world)
        async with world.running() as core:
            (stored,) = await core.schedules.of(HERE)
            assert stored.state == "stopped" and await core.schedules.runs(HERE, "tea") == [], where
        unmarked = [heard for heard in world.room.all if heard.doubt is Doubt.NONE]
        assert len(unmarked) <= 1 <= len(world.texts()) <= 2, where


async def live_with_a_press(world: World, die_before: int | None = None) -> int:
    """A life in which a reminder is asked to come again in ten minutes; returns the number of writes."""
    async with world.running(die_before=die_before) as core:
        await unless_dead(core, come_again(core, world))
        return core.database.writes


async def come_again(core: Core, world: World) -> None:
    if not await core.schedules.of(ANN):
        await core.command("/remind 20m tea", actor=ANN, chat="ann")
    await pass_time(core, world, 20 * 60)
    for card in [heard.delivery for heard in world.room.all if heard.delivery.choices][:1]:
        await core.gateway.choose(ANN, card.choices[1].question, 1)
    await core.settled()
    await pass_time(core, world, 20 * 60)


@pytest.mark.promise("P-schedule-once")
async def test_a_kill_at_any_write_neither_loses_nor_doubles_a_reminder_that_comes_again(tmp_path: Path) -> None:
    ann = User(ANN.key, timezone="Europe/Berlin")
    first = tmp_path / "whole"
    first.mkdir()
    writes = await live_with_a_press(World(first, [], users=[ann]))
    for number in kills(writes):
        folder = tmp_path / str(number)
        folder.mkdir()
        world, where = World(folder, [], users=[ann]), f"killed before write {number} of {writes}"
        await live_with_a_press(world, die_before=number)
        await live_with_a_press(world)
        async with world.running() as core:
            await asleep(core)
            (stored,) = await core.schedules.of(ANN)
            runs = await core.schedules.runs(ANN, stored.job.name)
            assert [run.state for run in runs] == ["done", "done"], where
            assert stored.state == "done", where
        came = [heard for heard in world.room.all if heard.delivery.choices and heard.doubt is Doubt.NONE]
        assert len(came) <= 2, where

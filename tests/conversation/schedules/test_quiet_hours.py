"""In quiet hours nothing comes unasked; after them it comes as one message, once."""

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

from goclaw.channels.base import Doubt
from goclaw.common.auth.users import User
from goclaw.common.core.events import LOCAL, Address
from goclaw.conversation.schedules.quiet_hours import HEADING
from goclaw.durable.store.forgetting import Forgetting
from tests.conversation.schedules.jobs import DAY, HOUR, asleep, hourly, kills, once, pass_time
from tests.conversation.sessions.looking import unless_dead
from tests.harness import HERE, Answer, Core, World
from tests.parts import sql

QUIET = "15:00-18:00"
"""The clock of the tests begins at 15:06:40 UTC."""
UNTIL = 2 * HOUR + 53 * 60 + 20.0


def quiet_world(folder: Path, *answers: Answer, quiet_hours: str = QUIET, **config: Any) -> World:
    """A world where the person of the chat `here` has quiet hours."""
    users = [User(HERE.key, timezone="UTC", quiet_hours=quiet_hours, roles=frozenset({"admin"}))]
    return World(folder, answers or [Answer("Done.", when="Drink tea.")], users=users, **config)


@pytest.mark.promise("P-quiet-hours")
async def test_what_comes_unasked_comes_after_them_as_one_message_in_order(tmp_path: Path) -> None:
    world = quiet_world(tmp_path)
    async with world.running() as core:
        await once(core, world, 600)
        await once(core, world, HOUR, "task", name="work")
        await pass_time(core, world, 600)
        await pass_time(core, world, HOUR - 600)
        assert world.texts() == []
        await pass_time(core, world, UNTIL - HOUR)
        assert world.texts() == [f"{HEADING}\n\n15:16:40: Drink tea.\n\n16:06:40: Done."]
        await pass_time(core, world, DAY)
        assert len(world.texts()) == 1


async def test_what_comes_outside_of_them_comes_at_once(tmp_path: Path) -> None:
    world = quiet_world(tmp_path)
    async with world.running() as core:
        await once(core, world, UNTIL + 1)
        await once(core, world, UNTIL + 1, "task", name="work")
        await pass_time(core, world, UNTIL + 1)
        assert world.texts() == ["Drink tea.", "Done."]


async def test_what_a_person_asked_for_is_never_held(tmp_path: Path) -> None:
    world = quiet_world(tmp_path, Answer("Done.", when="Drink tea."), Answer("Hello!", when="hi"))
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
        await once(core, world, 600, personal=True)
        await pass_time(core, world, 600)
        await hourly(core, world, name="message")
        await hourly(core, world, "task", name="work")
        await core.schedules.run(HERE, "message")
        await core.settled()
        await core.schedules.run(HERE, "work")
        await core.settled()
        assert world.texts() == ["Hello!", "⏰ Reminder: Drink tea.", "⏰ Reminder: Drink tea.", "Done."]


async def test_an_answer_does_not_wait_behind_what_is_held(tmp_path: Path) -> None:
    world = quiet_world(tmp_path, Answer("Hello!", when="hi"))
    async with world.running() as core:
        await once(core, world, 600)
        await pass_time(core, world, 600)
        await core.say("hi")
        await core.settled()
        assert world.texts() == ["Hello!"]


@pytest.mark.parametrize(
    ("own", "configured", "held"), [("", QUIET, True), ("none", QUIET, False), ("", None, False), (QUIET, None, True)]
)
async def test_those_of_a_person_replace_those_of_all(
    tmp_path: Path, own: str, configured: str | None, held: bool
) -> None:
    users = [User(HERE.key, timezone="UTC", quiet_hours=own, roles=frozenset({"admin"}))]
    world = World(tmp_path, users=users, quiet_hours=configured)
    async with world.running() as core:
        await once(core, world, 600)
        await pass_time(core, world, 600)
        assert (world.texts() == []) == held


async def test_a_terminal_reads_at_once_what_a_chat_gets_later(tmp_path: Path) -> None:
    world = quiet_world(tmp_path)
    async with world.running() as core:
        await once(core, world, 600, address=Address(LOCAL, HERE.key))
        await pass_time(core, world, 600)
        assert len(await core.messages()) == 1


async def test_a_clock_that_was_ahead_holds_nothing_for_years(tmp_path: Path) -> None:
    world = quiet_world(tmp_path)
    async with world.running() as core:
        world.clock.jump(3 * 365 * DAY)
        await once(core, world, 600)
        await pass_time(core, world, 600)
        assert world.texts() == []
        world.clock.jump(-3 * 365 * DAY)
        await core.schedules.scheduler.clock_was_set()
        await pass_time(core, world, 1)
        assert len(world.texts()) == 1


async def test_what_is_held_is_forgotten_with_its_conversation(tmp_path: Path) -> None:
    world = quiet_world(tmp_path)
    async with world.running() as core:
        await once(core, world, 600)
        await pass_time(core, world, 600)
        await Forgetting(core.database).forget("memory:here", world.clock.now())
        await pass_time(core, world, UNTIL)
        assert world.texts() == []


async def test_what_has_gone_is_forgotten_after_a_month_with_the_runs(tmp_path: Path) -> None:
    world = quiet_world(tmp_path)
    async with world.running() as core:
        await once(core, world, 600)
        await pass_time(core, world, 600)
        await pass_time(core, world, UNTIL - 600)
        count = sql("SELECT (SELECT count(*) FROM held_messages) + (SELECT count(*) FROM schedule_runs)")
        await core.schedules.prune()
        assert (await core.database.read(count))[0][0] == 2
        world.clock.advance(32 * DAY)
        await core.schedules.prune()
        assert (await core.database.read(count))[0][0] == 0


async def live(world: World, kind: Literal["message", "task"], die_before: int | None = None) -> int:
    """A life up to the end of the quiet hours; returns the number of writes."""
    async with world.running(die_before=die_before) as core:
        await unless_dead(core, due(core, world, kind))
        return core.database.writes


async def due(core: Core, world: World, kind: Literal["message", "task"]) -> None:
    if not await core.schedules.of(HERE):
        await once(core, world, 600, kind)
        await pass_time(core, world, 600)
        await pass_time(core, world, UNTIL - 600)
    else:
        await asleep(core)
        await core.settled()
        world.clock.advance(UNTIL)
        await asleep(core)
        await core.settled()
        await asleep(core)


@pytest.mark.parametrize("off", [0.0, UNTIL])
@pytest.mark.parametrize("kind", ["message", "task"])
@pytest.mark.promise("P-quiet-hours")
async def test_a_kill_at_any_write_neither_loses_nor_doubles_what_was_held(
    tmp_path: Path, kind: Literal["message", "task"], off: float
) -> None:
    """With `off` the machine stays off until the quiet hours have ended."""
    first = tmp_path / "whole"
    first.mkdir()
    writes = await live(quiet_world(first), kind)
    assert writes >= 4
    for number in kills(writes, beginning=int(off > 0)):
        folder = tmp_path / str(number)
        folder.mkdir()
        world, where = quiet_world(folder), f"killed before write {number} of {writes}"
        await live(world, kind, die_before=number)
        world.clock.advance(off)
        await live(world, kind)
        if not world.texts():  # killed before the job was stored
            await live(world, kind)
        said = "Done." if kind == "task" else "Drink tea."
        unmarked = Counter(heard.delivery.id for heard in world.room.all if heard.doubt is Doubt.NONE)
        assert len({heard.delivery.id for heard in world.room.all}) == 1, where
        assert all(said in text for text in world.texts()) and max(unmarked.values(), default=1) == 1, where

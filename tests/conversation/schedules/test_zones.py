"""A person's zone: the question for it, what the first answer moves, and what a later one asks."""

from datetime import datetime
from pathlib import Path

import pytest

from goclaw.common.auth.users import User, Users, add_user
from goclaw.common.core.events import Actor, Delivery
from goclaw.common.core.timezones import find_zone
from goclaw.conversation.schedules.jobs import Beat, Cron, Interval, Once
from goclaw.conversation.schedules.zones import move_times, restore_zones
from tests.conversation.schedules.jobs import HOUR, pass_time
from tests.harness import OWNER, Core, World

ANN = Actor("memory:here", "memory")
UTC, BERLIN, TOKYO = "Etc/UTC", "Europe/Berlin", "Asia/Tokyo"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A gateway on a machine at UTC, whose person has set no zone."""
    monkeypatch.setenv("TZ", UTC)
    world = World(tmp_path)
    add_user(world.config.users_path, ANN.key, name="Ann")
    world.users = Users.read(world.config.users_path)
    return world


def question(world: World, beginning: str) -> Delivery:
    (found,) = [each.delivery for each in world.room.all if each.delivery.text.startswith(beginning)]
    return found


async def due(core: Core, name: str, zone: str) -> str:
    stored = await core.schedules.rows.find(name)
    assert stored and stored.next
    return f"{datetime.fromtimestamp(stored.next, find_zone(zone)):%H:%M}"


async def test_who_has_set_no_zone_is_asked_once_with_the_zones_of_others_near_by(world: World) -> None:
    others = {f"memory:{number}": User(f"memory:{number}", timezone=BERLIN) for number in range(2)}
    async with world.running() as core:
        core.schedules.users._users = {**others, ANN.key: User(ANN.key), "memory:9": User("memory:9", timezone=TOKYO)}
        await core.command(
            f"/schedule add zero --at 8:00 --message tea --user {ANN.key}", actor=OWNER, session=OWNER.key
        )
        assert not [heard for heard in world.room.all if heard.delivery.choices], "the owner reads that"
        await core.command("/remind 8:00 pills", actor=ANN)
        await core.command("/remind 9:00 pills", actor=ANN)
        await core.settled()
        asked = question(world, "I assume your time zone is Etc/UTC, like this machine's. Which is yours?")
        assert [each.label for each in asked.choices] == [UTC, BERLIN, TOKYO, "Another one"]
        assert (await world.room.press(asked.choices[-1], ANN)).startswith("Send /schedule timezone Asia/Tokyo")


async def test_the_first_zone_moves_what_was_made_before_it_and_lists_that(world: World) -> None:
    world.users = Users([*world.users.all(), User("memory:7", timezone=BERLIN)])
    add_user(world.config.users_path, "memory:7", name="Bob")
    async with world.running() as core:
        tomorrow = datetime.fromtimestamp(world.clock.now() + 86_400, find_zone(UTC))
        await core.command(f"/schedule add once --at {tomorrow:%Y-%m-%d}T20:00 --message pills", actor=ANN)
        await core.command("/schedule add daily --cron 0 8 * * * --message pills", actor=ANN)
        await core.command(f"/schedule add fixed --at {tomorrow:%Y-%m-%d}T20:00Z --message pills", actor=ANN)
        await core.command("/schedule add soon --at 20m --message tea", actor=ANN)
        await core.settled()
        asked = question(world, "I assume your time zone")
        assert (await core.gateway.choose(ANN, asked.choices[1].question, 1)).text == "Your time zone is Europe/Berlin."
        await core.settled()
        said = world.room.all[-1].delivery
        assert said.action == "edit" and not said.choices
        assert said.text.startswith("Your time zone is Europe/Berlin: it is ")
        assert "Moved with it:\n" in said.text and ", 20:00 (Europe/Berlin)" in said.text
        assert (await due(core, "once", BERLIN), await due(core, "daily", BERLIN)) == ("20:00", "08:00")
        assert await due(core, "fixed", UTC) == "20:00"
        stored = await core.schedules.rows.find("soon")
        assert stored and stored.next == world.clock.now() + 20 * 60
    assert {each.key: each.timezone for each in Users.read(world.config.users_path).all()}[ANN.key] == BERLIN


async def test_a_moment_that_has_passed_in_the_zone_is_asked_about_and_not_sent(world: World) -> None:
    async with world.running() as core:
        soon = datetime.fromtimestamp(world.clock.now() + HOUR / 2, find_zone(UTC))
        await core.command(f"/schedule add pills --at {soon:%Y-%m-%dT%H:%M:%S} --message pills", actor=ANN)
        said = await core.command("/schedule timezone Europe/Berlin", actor=ANN)
        assert "- pills: " in said and said.endswith("has passed, so I ask you about it")
        await pass_time(core, world, HOUR)
        assert [text for text in world.texts() if text == "⏰ Reminder: pills"] == []
        asked = question(world, "⏰ Reminder: pills\n\nIt was set for ")
        assert asked.text.endswith("(Europe/Berlin), which has passed. When shall it come?")
        assert (await world.room.press(asked.choices[1], ANN)).startswith("↻ Again: ")
        await pass_time(core, world, 600)
        assert "⏰ Reminder: pills" in world.texts()


async def test_a_later_zone_leaves_schedules_and_asks_once_for_each(world: World) -> None:
    async with world.running() as core:
        await core.command("/schedule timezone Europe/Berlin", actor=ANN)
        await core.command("/schedule add daily --cron 0 8 * * * --message pills", actor=ANN)
        await core.command("/schedule add noon --cron 0 12 * * * --message eat", actor=ANN)
        await core.command("/schedule add soon --every 2h --message tea", actor=ANN)
        said = await core.command("/schedule timezone Asia/Tokyo", actor=ANN)
        assert said.endswith("Your schedules stay at the time of Europe/Berlin. I ask you whether to move them.")
        assert await due(core, "daily", BERLIN) == "08:00"
        await core.command("/schedule timezone Asia/Tokyo", actor=ANN)
        await core.settled()
        stay, go = question(world, "daily comes at the time of Europe/Berlin. Shall it move to Asia/Tokyo?").choices
        assert (stay.label, go.label) == ("Stay at Europe/Berlin", "Move it")
        assert (await world.room.press(go, ANN)).startswith("Moved: daily: ")
        stay, _ = question(world, "noon comes at the time of ").choices
        assert await world.room.press(stay, ANN) == "noon comes at the time of Europe/Berlin."
        assert (await due(core, "daily", TOKYO), await due(core, "noon", BERLIN)) == ("08:00", "12:00")


async def test_the_owner_sets_a_zone_without_being_listed(world: World) -> None:
    async with world.running() as core:
        assert (await core.command("/remind 8:00 tea", actor=OWNER, chat="", session=OWNER.key)).endswith(
            "If not, send /schedule timezone Asia/Tokyo, with the name of yours."
        )
        assert "time zone" not in await core.command("/remind 9:00 tea", actor=OWNER, chat="", session=OWNER.key)
        said = await core.command("/schedule timezone Asia/Tokyo", actor=OWNER, session=OWNER.key)
        assert said.startswith("Your time zone is Asia/Tokyo") and "- reminder-1: " in said
        core.schedules.users.zones.clear()
        await restore_zones(core.schedules)
        assert str(core.schedules.zone(OWNER)) == TOKYO
    assert OWNER.key not in {each.key for each in Users.read(world.config.users_path).all()}


async def test_a_zone_that_does_not_exist_moves_nothing(world: World) -> None:
    async with world.running() as core:
        await core.command("/remind 8:00 pills", actor=ANN)
        assert "there is no time zone `Mars/Base`" in await core.command("/schedule timezone Mars/Base", actor=ANN)
        assert await due(core, "reminder-1", UTC) == "08:00"


def test_times_of_day_move_and_distances_stay() -> None:
    at = datetime(2026, 11, 24, 8, 0, tzinfo=find_zone(UTC)).timestamp()
    assert move_times(Once(at, UTC), BERLIN) == Once(at - HOUR, BERLIN)
    assert move_times(Once(at, UTC, by_duration=True), BERLIN) == Once(at, BERLIN, by_duration=True)
    assert move_times(Once(at, UTC, has_offset=True), BERLIN) == Once(at, BERLIN, has_offset=True)
    assert move_times(Interval(HOUR, at, UTC), BERLIN) == Interval(HOUR, at, BERLIN)
    assert move_times(Cron("0 8 * * *", UTC), BERLIN) == Cron("0 8 * * *", BERLIN)
    assert move_times(Beat(HOUR, "8-20", UTC), BERLIN) == Beat(HOUR, "8-20", BERLIN)

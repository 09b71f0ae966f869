"""A reminder in a chat: it says that it is one, and its buttons bring it back later, once."""

from datetime import datetime
from pathlib import Path

import pytest

from goclaw.channels.memory import Heard
from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor, AnswerRefusal, Choice
from goclaw.common.core.timezones import find_zone
from goclaw.conversation.schedules.reminders import LATER_SECONDS
from tests.conversation.schedules.jobs import HOUR, pass_time
from tests.harness import Core, World

BERLIN = find_zone("Europe/Berlin")
ANN, BOB = Actor("memory:here", "memory"), Actor("memory:2", "memory")
CARD = "⏰ Reminder: drink tea"


@pytest.fixture
def world(tmp_path: Path) -> World:
    people = [User(ANN.key, timezone="Europe/Berlin"), User(BOB.key)]
    return World(tmp_path, users=people, roles={"silent": {"tools": [], "commands": []}})


def cards(world: World) -> list[Heard]:
    return [heard for heard in world.room.all if heard.delivery.choices]


async def come(core: Core, world: World) -> tuple[Choice, Choice, Choice]:
    """Have a reminder come; return its buttons."""
    await core.command("/remind 20m drink tea", actor=ANN)
    await pass_time(core, world, 20 * 60)
    done, later, tomorrow = cards(world)[-1].delivery.choices
    return done, later, tomorrow


async def test_a_reminder_says_that_it_is_one_and_done_takes_its_buttons_away(world: World) -> None:
    async with world.running() as core:
        done, later, tomorrow = await come(core, world)
        assert cards(world)[-1].delivery.text == CARD
        assert [each.label for each in (done, later, tomorrow)] == ["Done", "In 10 minutes", "Tomorrow"]
        assert await world.room.press(done, ANN) == "✓ Done"
        await core.settled()
        last = world.room.all[-1].delivery
        assert (last.action, last.text, last.choices) == ("edit", f"{CARD}\n\n✓ Done", ())
        assert await world.room.press(later, ANN) == "This reminder was answered already."
        await pass_time(core, world, 2 * LATER_SECONDS)
        assert world.texts()[-1] == last.text


async def test_a_reminder_comes_again_in_ten_minutes_with_buttons_of_its_own(world: World) -> None:
    async with world.running() as core:
        _, later, _ = await come(core, world)
        said = await world.room.press(later, ANN)
        assert said.startswith("↻ Again: ") and said.endswith("(Europe/Berlin)")
        assert await world.room.press(later, ANN) == "This reminder was answered already."
        await core.settled()
        await pass_time(core, world, LATER_SECONDS)
        assert [each.delivery.text for each in cards(world)] == [CARD, CARD]
        done, *_ = cards(world)[-1].delivery.choices
        assert done.question != later.question
        assert await world.room.press(done, ANN) == "✓ Done"


async def test_a_reminder_comes_tomorrow_at_the_same_time_of_day(world: World) -> None:
    async with world.running() as core:
        *_, tomorrow = await come(core, world)
        (stored,) = await core.schedules.of(ANN)
        first = stored.job.when.after(0.0)
        await pass_time(core, world, HOUR)
        await world.room.press(tomorrow, ANN)
        (stored,) = await core.schedules.of(ANN)
        assert stored.state == "active" and stored.next and first
        came, comes = (datetime.fromtimestamp(moment, BERLIN) for moment in (first, stored.next))
        assert comes.time() == came.time() and (comes.date() - came.date()).days in (1, 2)


async def test_only_who_set_a_reminder_presses_its_buttons(world: World) -> None:
    async with world.running() as core:
        _, later, _ = await come(core, world)
        found = await core.gateway.choose(BOB, later.question, 1)
        assert found.refusal is AnswerRefusal.GONE
        found = await core.gateway.choose(ANN, later.question, 7)
        assert found.refusal is AnswerRefusal.GONE
        (stored,) = await core.schedules.of(ANN)
        assert stored.state == "done" and not stored.note


async def test_who_may_set_none_any_more_brings_none_back(world: World) -> None:
    async with world.running() as core:
        done, later, _ = await come(core, world)
        core.schedules.users._users = {ANN.key: User(ANN.key, roles=frozenset({"silent"}))}
        assert await world.room.press(later, ANN) == "You may not set reminders any more."
        assert await world.room.press(done, ANN) == "✓ Done"


async def test_a_button_works_after_a_restart(world: World) -> None:
    async with world.running() as core:
        _, later, _ = await come(core, world)
    async with world.running() as core:
        assert (await core.gateway.choose(ANN, later.question, 1)).text.startswith("↻ Again: ")
        (stored,) = await core.schedules.of(ANN)
        assert stored.state == "active"


async def test_what_comes_again_by_itself_is_said_word_for_word_without_buttons(world: World) -> None:
    async with world.running() as core:
        await core.command("/schedule add tea --every 1h --message Drink tea.", actor=ANN)
        await pass_time(core, world, HOUR)
        assert world.texts()[-1] == "Drink tea." and not cards(world)

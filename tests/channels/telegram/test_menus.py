"""Command menus: one for everybody, and one for each listed person, sent no oftener than they change."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from goclaw.channels.base import NobodyListed
from goclaw.channels.telegram.menus import RETRY_SECONDS, menu_of
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import CommandInfo
from tests.channels.support import RecordingGateway
from tests.channels.telegram.replicas import open_replica
from tests.channels.telegram.support import Stage, eventually, open_stage
from tests.fake_telegram.server import FakeTelegram

ANN = "telegram:5"
EVERYBODYS = ["status", "stop"]


class Listed(NobodyListed):
    """A list of people that a test changes."""

    def __init__(self, *keys: str) -> None:
        super().__init__()
        self.in_force: Collection[str] = keys

    def put(self, *keys: str) -> None:
        """Have exactly these people listed, as after an edit of users.json."""
        self.in_force = keys
        for on_change in self.changes:
            on_change()


def may(stage: Stage, *names: str, who: str = ANN) -> None:
    stage.gateway.own_commands[who] = [CommandInfo(name, f"Do {name}") for name in names]


def own_calls(telegram: FakeTelegram, method: str = "setMyCommands") -> list[Any]:
    """The calls about the menus of people."""
    return [call for call in telegram.called(method) if call.get("scope")]


async def test_the_menu_of_everybody_shows_what_each_listed_person_may_do() -> None:
    async with open_stage() as stage:
        (call,) = await stage.telegram.wait_called("setMyCommands")
        assert [(command["command"], command["description"]) for command in call["commands"]] == [
            ("status", "How it is going"),
            ("stop", "Stop"),
        ]


def test_a_menu_has_no_prompts_of_servers_and_nothing_that_telegram_refuses() -> None:
    names = ["help", "mcp__github__review", "not-a-name", "Big", "x" * 33, "last"]
    listed = [*(CommandInfo(name, "s" * 300) for name in names), CommandInfo("mute", "")]
    assert menu_of(listed) == [("help", "s" * 256), ("last", "s" * 256)]


async def test_a_listed_person_has_a_menu_of_their_own_from_the_first_message_on_and_it_is_sent_once() -> None:
    async with open_stage(people=Listed(ANN)) as stage:
        may(stage, "remind")
        await stage.telegram.world.say("hello")
        await eventually(lambda: stage.telegram.world.menu(5) == [*EVERYBODYS, "remind"])
        for number in range(2, 5):
            await stage.telegram.world.say("more")
            await stage.gateway.wait_accepted(number)
        assert len(own_calls(stage.telegram)) == 1 and stage.telegram.world.menu(6) == EVERYBODYS


async def test_nobody_else_has_one() -> None:
    async with open_stage(people=Listed(ANN)) as stage:
        await stage.telegram.world.say("hello", user=6)
        await stage.telegram.world.say("@claw_bot hello", chat=-100)
        await stage.gateway.wait_accepted(2)
        await stage.telegram.world.say("hello")
        await eventually(lambda: own_calls(stage.telegram))
        assert [call["scope"]["chat_id"] for call in own_calls(stage.telegram)] == [5], "neither strangers nor groups"


@pytest.mark.parametrize(("later", "calls"), [("remind", 1), ("forget", 2)])
async def test_a_restart_sends_only_what_has_changed(tmp_path: Path, later: str, calls: int) -> None:
    async def live(right: str, last: str) -> None:
        """A run in which two people write; the menu of the second one comes last."""
        async with open_stage(telegram=telegram, state_dir=tmp_path, people=Listed(ANN, "telegram:6")) as stage:
            may(stage, right)
            may(stage, last, who="telegram:6")
            for number, user in enumerate((5, 6), 1):
                await telegram.world.say("hello", user=user)
                await stage.gateway.wait_accepted(number)
            await eventually(lambda: last in telegram.world.menu(6))

    async with FakeTelegram() as telegram:
        await live("remind", "usage")
        await live(later, "memory")
        assert telegram.world.menu(5) == [*EVERYBODYS, later]
        assert len([call for call in own_calls(telegram) if call["scope"]["chat_id"] == 5]) == calls


async def test_changed_rights_are_in_the_menu_after_the_next_message() -> None:
    people = Listed(ANN)
    async with open_stage(people=people) as stage:
        may(stage, "remind")
        await stage.telegram.world.say("hello")
        await eventually(lambda: stage.telegram.world.menu(5) == [*EVERYBODYS, "remind"])
        may(stage, "forget")
        people.put(ANN, "telegram:6")
        await stage.telegram.world.say("hello again")
        await eventually(lambda: stage.telegram.world.menu(5) == [*EVERYBODYS, "forget"])


async def test_the_menu_of_everybody_follows_the_list_of_people() -> None:
    people = Listed(ANN)
    async with open_stage(people=people) as stage:
        await stage.telegram.wait_called("setMyCommands")
        people.put(ANN)
        may(stage, "usage", who="")
        people.put(ANN, "telegram:6")
        await eventually(lambda: stage.telegram.world.menu(9) == [*EVERYBODYS, "usage"])
        assert len(stage.telegram.called("setMyCommands")) == 2, "what is the same is not sent again"


async def test_the_menu_of_a_person_who_is_gone_is_deleted(tmp_path: Path) -> None:
    people = Listed(ANN, "telegram:6")
    async with open_stage(people=people, state_dir=tmp_path) as stage:
        for user in (5, 6):
            may(stage, "remind", who=f"telegram:{user}")
            await stage.telegram.world.say("hello", user=user)
        await eventually(lambda: "remind" in stage.telegram.world.menu(5) and "remind" in stage.telegram.world.menu(6))
        await stage.gateway.wait_accepted(2)
        people.put("telegram:6")
        await eventually(lambda: stage.telegram.world.menu(5) == EVERYBODYS)
        people.put("telegram:6", "telegram:7")
        assert [call["scope"]["chat_id"] for call in own_calls(stage.telegram, "deleteMyCommands")] == [5]
    async with open_stage(telegram=None, people=Listed(), state_dir=tmp_path) as stage:
        await stage.telegram.wait_called("deleteMyCommands")
        await stage.telegram.world.say("hello")
        assert await stage.gateway.wait_accepted(1), "who is gone while nothing runs is found at the start"


@pytest.mark.parametrize("of_everybody", [True, False])
async def test_a_menu_that_cannot_be_set_is_no_trouble_and_is_tried_again_later(of_everybody: bool) -> None:
    clock = SteppedClock()
    async with FakeTelegram() as telegram:
        if of_everybody:
            telegram.fail("setMyCommands", status=500, description="no")
        async with open_stage(telegram=telegram, people=Listed(ANN), clock=clock) as stage:
            may(stage, "remind")
            await telegram.wait_called("setMyCommands")
            if not of_everybody:
                telegram.fail("setMyCommands", status=500, description="no")
            await telegram.world.say("hello")
            await telegram.wait_called("setMyCommands", 2)
            wanted, number = ([*EVERYBODYS, "remind"], EVERYBODYS), 1
            while (telegram.world.menu(5), telegram.world.menu(6)) != wanted and number < 100:
                await stage.gateway.wait_accepted(number)
                clock.advance(RETRY_SECONDS + 1)
                await telegram.world.say("more")
                number += 1
            assert (telegram.world.menu(5), telegram.world.menu(6)) == wanted
            assert len(telegram.called("setMyCommands")) == 3


async def test_of_several_processes_one_sets_the_menu_of_everybody_and_deletes_the_others(
    place: PostgresPlace, tmp_path: Path
) -> None:
    gateway, people = RecordingGateway(), Listed(ANN)
    gateway.own_commands[ANN] = [CommandInfo("remind", "Do it")]
    async with (
        FakeTelegram() as telegram,
        open_replica(place, telegram, tmp_path / "a", gateway, people=people),
        open_replica(place, telegram, tmp_path / "b", gateway, people=people),
    ):
        await telegram.world.say("hello")
        await eventually(lambda: telegram.world.menu(5) == [*EVERYBODYS, "remind"])
        await gateway.wait_accepted(1)
        people.put()
        await eventually(lambda: telegram.world.menu(5) == EVERYBODYS)
        scopes = [bool(call.get("scope")) for call in telegram.called("setMyCommands")]
        assert sorted(scopes) == [False, True] and len(telegram.called("deleteMyCommands")) == 1

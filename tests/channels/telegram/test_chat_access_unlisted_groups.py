"""Groups that nobody listed: nothing is heard there, and the operator learns how to list them."""

import logging

import pytest

from goclaw.channels.telegram.chat_access import UnlistedGroups
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor
from tests.channels.telegram.support import open_stage

BOSS, CARL = 5, 6


class Told:
    """Alerts as they come."""

    def __init__(self) -> None:
        self.open: dict[str, str] = {}

    def tell(self, key: str, text: str) -> None:
        self.open[key] = text

    def clear(self, key: str) -> None:
        self.open.pop(key, None)


def is_boss(actor: Actor) -> bool:
    return actor.key == f"telegram:{BOSS}" and not actor.owner


@pytest.mark.promise("P-telegram-groups")
async def test_in_groups_that_are_not_listed_nothing_is_heard_and_the_log_says_what_to_list(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_stage(groups=[]) as stage:
        world = stage.telegram.world
        for text in ("@claw_bot hello", "/status@claw_bot", "@claw_bot again"):
            await world.say(text, chat=-100)
        said = await world.say("@claw_bot to be edited", chat=-100)
        await world.edit(-100, said["message"]["message_id"], "@claw_bot edited")
        await world.album(b"x", b"y", chat=-100, text="@claw_bot which?")
        await world.say("hello in private")
        (inbound,) = await stage.gateway.wait_accepted(1)
        assert inbound.text == "hello in private"
        assert stage.telegram.sent(-100) == []
    assert caplog.text.count("add -100 to telegram.groups") == 1


@pytest.mark.promise("P-telegram-groups")
async def test_an_admin_who_puts_the_bot_into_a_group_is_told_how_to_list_it() -> None:
    told = Told()
    unlisted = UnlistedGroups(is_boss, told, SteppedClock())
    unlisted.report_join(-200, CARL)
    assert told.open == {}, "whoever knows the bot's name could flood the admins otherwise"
    unlisted.report_join(-200, BOSS)
    assert "add -200 to telegram.groups" in told.open["telegram:group:-200"]
    unlisted.forget(-200)
    assert told.open == {}


@pytest.mark.promise("P-telegram-groups")
async def test_telegrams_news_of_a_group_reaches_who_has_to_know(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    told = Told()
    async with open_stage(groups=[-100], alerts=told) as stage:
        await stage.telegram.world.place("member", chat=-100)
        await stage.telegram.world.place("member", chat=-200)
        await stage.telegram.world.say("hello")
        await stage.gateway.wait_accepted(1)
    assert "to group -200, which is not listed" in caplog.text
    assert "to group -100, which" not in caplog.text and told.open == {}, "nobody is an admin here"


@pytest.mark.promise("P-telegram-groups")
def test_a_group_is_named_once_a_minute_and_what_is_remembered_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    clock = SteppedClock()
    unlisted = UnlistedGroups(is_boss, Told(), clock)
    for _ in range(3):
        unlisted.log_message(-1)
    clock.advance(60)
    unlisted.log_message(-1)
    assert caplog.text.count("add -1 to telegram.groups") == 2
    for chat in range(5_000):
        unlisted.log_message(-chat)
    assert len(unlisted._said) <= 1_000

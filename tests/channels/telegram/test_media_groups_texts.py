"""A long text that a client cut into several messages is one message; nothing else waits."""

from pathlib import Path

import pytest

from goclaw.channels.telegram.media_groups import LONG_TEXT, TEXT_SECONDS
from goclaw.common.core.clock import SteppedClock
from tests.channels.telegram.support import Stage, open_stage, passing
from tests.fake_telegram.server import FakeTelegram

LONG = "🐈" * (LONG_TEXT // 2)
SHORT = "🐈" * (LONG_TEXT // 2 - 1) + "x"
"""One UTF-16 unit less."""


async def acknowledged(stage: Stage) -> None:
    """Wait until everything that people wrote is on disk."""
    await stage.telegram.wait_for(lambda: not stage.telegram.world.updates or None)


def texts(stage: Stage) -> list[str]:
    return [inbound.text for inbound in stage.gateway.accepted]


@pytest.mark.promise("P-telegram-no-loss")
async def test_the_parts_of_a_long_text_are_one_message_as_soon_as_a_short_one_ends_it() -> None:
    async with open_stage(clock=SteppedClock()) as stage:  # no time passes
        first = await stage.telegram.world.say(LONG)
        await stage.telegram.world.say(LONG)
        await stage.telegram.world.say("the end")
        (inbound,) = await stage.gateway.wait_accepted(1)
        assert inbound.text == f"{LONG}\n{LONG}\nthe end"
        assert inbound.ref == f"telegram:5:{first['message']['message_id']}"
        await stage.telegram.world.say("another thing")
        await stage.gateway.wait_accepted(2)
        assert texts(stage)[1:] == ["another thing"]


async def test_a_long_text_that_nothing_follows_waits_a_second_and_a_shorter_one_starts_at_once() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        await stage.telegram.world.say(SHORT)
        await stage.gateway.wait_accepted(1)
        await stage.telegram.world.say(LONG)
        await acknowledged(stage)
        clock.advance(TEXT_SECONDS - 0.1)
        await stage.telegram.world.say("me first", user=6)
        await stage.gateway.wait_accepted(2)
        assert texts(stage) == [SHORT, "me first"], "others are heard meanwhile"
        clock.advance(0.1)
        await stage.gateway.wait_accepted(3)
        assert texts(stage)[2:] == [LONG]


async def test_what_is_no_text_of_ones_own_neither_waits_nor_goes_on_with_one() -> None:
    origin = {"type": "hidden_user", "date": 1, "sender_user_name": "Eve"}
    async with open_stage(clock=SteppedClock()) as stage:
        await stage.telegram.world.say(f"/tool {LONG}")
        await stage.telegram.world.say(LONG, forward_origin=origin)
        await stage.gateway.wait_accepted(2)
        await stage.telegram.world.say(LONG)
        await stage.telegram.world.say("/status")
        await stage.gateway.wait_accepted(4)
        assert texts(stage)[2:] == [LONG, "/status"], "what comes next ends it, and comes behind it"
        await stage.telegram.world.say(LONG)
        await stage.telegram.world.say("in a topic", topic=7)
        await stage.gateway.wait_accepted(6)
        assert texts(stage)[4:] == [LONG, "in a topic"]


@pytest.mark.promise("P-telegram-no-loss")
async def test_a_kill_while_a_long_text_is_gathered_loses_nothing_and_an_edit_reaches_it(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        async with open_stage(telegram=telegram, state_dir=tmp_path, clock=SteppedClock()) as gathering:
            said = await telegram.world.say(LONG)
            await acknowledged(gathering)
            await telegram.world.edit(5, said["message"]["message_id"], f"{LONG}!")
            await acknowledged(gathering)
            assert gathering.gateway.begun == []
        clock = SteppedClock()
        async with open_stage(telegram=telegram, state_dir=tmp_path, clock=clock) as after:
            clock.advance(TEXT_SECONDS)
            (inbound,) = await after.gateway.wait_accepted(1)
            await telegram.world.edit(5, said["message"]["message_id"], "changed my mind")
            await passing(clock, lambda: len(after.gateway.accepted) == 2)  # the poll of the first run holds ours up
            edited = after.gateway.accepted[1]
    assert inbound.text == f"{LONG}!"
    assert (edited.text, edited.edited, edited.ref) == ("changed my mind", True, inbound.ref)

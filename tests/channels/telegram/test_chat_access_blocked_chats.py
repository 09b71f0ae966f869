"""A chat that takes nothing any more is left alone until it opens, and the operator hears of it once."""

import asyncio
from pathlib import Path

import pytest

from goclaw.channels.telegram.chat_access import CLOSED_SECONDS, BlockedChats
from goclaw.common.core.clock import SteppedClock
from goclaw.durable.engine.outbox import open_outbox
from goclaw.durable.store.open import open_database
from goclaw.errors import DeliveryError
from tests.channels.telegram.support import delivery, open_stage


class Desk:
    """Alerts as the operator would hear them."""

    def __init__(self) -> None:
        self.open: dict[str, str] = {}
        self.told: list[str] = []

    def tell(self, key: str, text: str) -> None:
        self.open[key] = text
        self.told.append(key)

    def clear(self, key: str) -> None:
        self.open.pop(key, None)


@pytest.mark.parametrize(
    ("status", "description"),
    [
        (403, "Forbidden: bot was blocked by the user"),
        (403, "Forbidden: user is deactivated"),
        (403, "Forbidden: bot was kicked from the supergroup chat"),
        (400, "Bad Request: chat not found"),
        (400, "Bad Request: not enough rights to send text messages to the chat"),
    ],
)
async def test_what_waits_for_a_closed_chat_fails_at_once(status: int, description: str, tmp_path: Path) -> None:
    clock = SteppedClock()
    async with (
        open_stage(running=False, clock=clock) as stage,
        open_database(tmp_path / "a.db") as database,
        open_outbox(database, {"telegram": stage.channel}, clock) as outbox,
        asyncio.timeout(10),
    ):
        stage.telegram.world.meet(5)
        await outbox.resume()
        stage.telegram.fail("sendMessage", status=status, description=description)
        sending = [asyncio.create_task(outbox.send(delivery(f"m{number}", number=str(number)))) for number in range(5)]
        for result in await asyncio.gather(*sending, return_exceptions=True):
            assert isinstance(result, DeliveryError) and description.split(": ")[1] in str(result).lower()
        assert len(stage.telegram.called("sendMessage")) == 1, "nothing was tried again"


def test_the_operator_is_told_once_until_it_opens() -> None:
    desk, clock = Desk(), SteppedClock()
    reach = BlockedChats(desk, clock)
    for _ in range(3):
        reach.close(5, "blocked")
        with pytest.raises(DeliveryError, match="blocked"):
            reach.ensure(5)
    assert desk.told == ["telegram:blocked:5"] and "blocked" in desk.open["telegram:blocked:5"]
    reach.open(5)
    reach.ensure(5)
    assert desk.open == {}


def test_nobody_is_told_of_a_stranger_who_blocks_the_bot() -> None:
    desk = Desk()
    reach = BlockedChats(desk, SteppedClock())
    reach.mark(5)
    assert desk.told == []
    with pytest.raises(DeliveryError):
        reach.ensure(5)
    assert desk.told == ["telegram:blocked:5"], "now something was not delivered"
    reach.open(5)
    assert desk.open == {}


def test_after_an_hour_it_is_tried_again() -> None:
    clock = SteppedClock()
    reach = BlockedChats(Desk(), clock)
    reach.close(5, "chat not found")
    clock.advance(CLOSED_SECONDS)
    reach.ensure(5)


async def test_what_arrives_after_an_hour_opens_the_chat() -> None:
    desk, clock = Desk(), SteppedClock()
    async with open_stage(running=False, clock=clock, alerts=desk) as stage:
        stage.telegram.world.meet(5)
        stage.telegram.fail("sendMessage", status=400, description="Bad Request: not enough rights to send text")
        with pytest.raises(DeliveryError):
            await stage.deliver("hi", number="1")
        clock.advance(CLOSED_SECONDS)
        await stage.deliver("hi again", number="2")
        assert desk.told == ["telegram:blocked:5"] and desk.open == {}
        stage.telegram.fail("sendMessage", status=403, description="Forbidden: bot was blocked by the user")
        with pytest.raises(DeliveryError):
            await stage.deliver("hi", number="3")
        assert desk.told == ["telegram:blocked:5"] * 2, "another time is told again"


async def test_whoever_writes_again_is_answered_again() -> None:
    async with open_stage() as stage:
        stage.telegram.world.meet(5)
        stage.telegram.fail("sendMessage", status=403, description="Forbidden: bot was blocked by the user")
        for number in ("1", "2"):
            with pytest.raises(DeliveryError, match="blocked"):
                await stage.deliver("hi", number=number)
        assert len(stage.telegram.called("sendMessage")) == 1
        await stage.telegram.world.say("I am back", user=5)
        await stage.gateway.wait_accepted(1)
        await stage.deliver("welcome", number="3")
        assert stage.texts() == ["welcome"]


async def test_a_message_for_a_closed_general_topic_is_given_up_and_the_operator_is_told_once(tmp_path: Path) -> None:
    desk, clock = Desk(), SteppedClock()
    async with (
        open_stage(running=False, clock=clock, alerts=desk) as stage,
        open_database(tmp_path / "a.db") as database,
        open_outbox(database, {"telegram": stage.channel}, clock) as outbox,
        asyncio.timeout(10),
    ):
        await outbox.resume()
        for closed in (7, None):
            await stage.telegram.world.close_topic(-100, closed)
        for number, topic in enumerate(("7", None)):
            with pytest.raises(DeliveryError, match="General topic of the group is closed"):
                await outbox.send(delivery("**hi**", chat=-100, number=str(number), thread=topic))
        assert desk.told == ["telegram:blocked:-100"] and "General topic" in desk.open["telegram:blocked:-100"]
        assert len(stage.telegram.called("sendMessage")) == 3, "nothing was tried again"
        await outbox.send(delivery("open", chat=-100, number="8", thread="8"))
        assert stage.texts(-100) == ["open"] and desk.open == {}

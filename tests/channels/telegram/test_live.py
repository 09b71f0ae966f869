"""The live view lasts from the message to its answer, and never stands in the answer's way."""

import asyncio

import pytest

from goclaw.channels.telegram.live import TYPING_SECONDS
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import (
    Address,
    Outcome,
    Question,
    QuestionAnswered,
    QuestionAsked,
    TurnFinished,
    TurnStarted,
)
from goclaw.errors import DeliveryError
from tests.channels.telegram.play import GROUP, PRIVATE, Play, meanwhile, playing
from tests.channels.telegram.support import POLLER, delivery, eventually, open_stage, passing


@pytest.mark.promise("P-telegram-live")
async def test_the_typing_sign_lasts_as_long_as_the_turn() -> None:
    async with playing(PRIVATE) as (play, stage):
        await play.begin()
        await play.types()
        for count in (2, 3):
            await eventually(lambda: play.clock.sleepers >= 1 + POLLER)
            play.clock.advance(TYPING_SECONDS)
            assert (await stage.telegram.wait_called("sendChatAction", count))[-1]["action"] == "typing"
        await play.finish("done")
        await play.answer("done")
        play.clock.advance(60)
        await stage.deliver("later", number="later")
        assert len(stage.telegram.called("sendChatAction")) == 3


@pytest.mark.promise("P-telegram-live")
async def test_the_answer_ends_its_view_even_if_the_turns_end_is_not_told() -> None:
    async with playing(PRIVATE) as (play, stage):
        await play.begin()
        await play.types()
        await play.answer("done")
        await play.stream("too late")
        await eventually(lambda: play.clock.sleepers == POLLER)
        for number in range(3):
            play.clock.advance(TYPING_SECONDS)
            await stage.deliver("later", number=str(number))
        assert len(stage.telegram.called("sendChatAction")) == 1
        assert stage.telegram.called("sendMessageDraft") == []


async def test_typing_shows_in_the_topic() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin()
        await play.types()
        assert stage.telegram.called("sendChatAction")[0]["message_thread_id"] == 7


@pytest.mark.promise("P-telegram-live")
async def test_a_quick_answer_has_neither_a_typing_sign_nor_a_preview() -> None:
    async with playing(PRIVATE) as (play, stage):
        await play.begin()
        await play.stream("Hi")
        await meanwhile(stage, "before")
        await play.finish("Hi")
        await play.answer("Hi")
        play.clock.advance(5)
        await stage.deliver("later", number="later")
        assert stage.telegram.called("sendMessageDraft") == stage.telegram.called("sendChatAction") == []


async def test_a_quick_answer_leaves_no_timer_behind() -> None:
    async with playing(PRIVATE) as (play, _):
        before = play.clock.sleepers
        await play.begin()
        await eventually(lambda: play.clock.sleepers > before)
        await play.finish("Hi")
        await play.answer("Hi")
        await eventually(lambda: play.clock.sleepers == before)


async def test_the_answer_comes_after_a_preview_that_is_on_its_way() -> None:
    async with playing(GROUP) as (play, stage):
        gate = asyncio.Event()
        stage.telegram.fail("sendMessage", gate=gate)
        await play.begin("start")
        await stage.telegram.wait_called("sendMessage")
        at_once = stage.channel.capabilities.sends_at_once
        assert not at_once(delivery("end", chat=-100, turn="t1")) and at_once(delivery("end", chat=-100, turn="t2"))
        answering = asyncio.create_task(play.answer("end"))
        await eventually(lambda: True)
        gate.set()
        await answering
        assert stage.texts(-100) == ["end"], "one message, not a frozen preview and the answer"
        assert stage.telegram.called("deleteMessage") == []


async def test_a_stuck_preview_is_not_waited_for_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goclaw.channels.telegram.live.CLAIM_SECONDS", 0.05)
    async with playing(GROUP) as (play, stage):
        gate = asyncio.Event()
        stage.telegram.fail("sendMessage", gate=gate)
        await play.begin("start")
        await stage.telegram.wait_called("sendMessage")
        await play.answer("end")
        gate.set()
        await stage.telegram.wait_called("deleteMessage")
        await stage.telegram.wait_for(lambda: stage.texts(-100) == ["end"] or None)


async def test_turns_of_other_channels_are_not_shown() -> None:
    async with open_stage() as stage:
        await stage.gateway.publish(
            TurnStarted("x", "s", Address("local", "5")),
            TurnStarted("y", "s", Address("telegram", "@nobody")),
            TurnStarted("z", "s", PRIVATE),
        )
        await stage.telegram.wait_called("sendChatAction")
        stage.telegram.world.meet(5)
        await stage.deliver("hi")
        assert len(stage.telegram.called("sendChatAction")) == 1


async def test_a_delivery_that_fails_after_the_claim_still_ends_in_one_message() -> None:
    async with playing(GROUP) as (play, stage):
        await play.begin("start")
        await stage.telegram.wait_sent(-100)
        stage.telegram.fail("editMessageText", cut="after")
        with pytest.raises(DeliveryError):
            await play.answer("end")
        await stage.deliver("end", chat=-100, number="final", turn="t1")
        assert stage.texts(-100) == ["end"]


async def test_a_message_that_waits_shows_typing_until_its_turn_came() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        await stage.gateway.publish(TurnStarted("other", "telegram:5", Address("local", "tui")))
        await stage.telegram.world.say("hello", user=5)
        await passing(clock, lambda: stage.telegram.called("sendChatAction"))
        for count in (2, 3):
            await meanwhile(stage, f"waits.{count}")
            clock.advance(TYPING_SECONDS)
            await stage.telegram.wait_called("sendChatAction", count)
        await stage.gateway.publish(TurnFinished("other", "telegram:5", Outcome.ANSWERED, "x"))
        await meanwhile(stage, "x")
        for number in range(4):
            clock.advance(TYPING_SECONDS)
            await meanwhile(stage, str(number))
        count = len(stage.telegram.called("sendChatAction"))
        assert count <= 5, "whatever became of it, nothing of its session runs any more"
        clock.advance(60)
        await meanwhile(stage, "later")
        assert len(stage.telegram.called("sendChatAction")) == count


async def test_a_turn_that_waits_for_a_person_is_not_typing() -> None:
    async with playing(PRIVATE) as (play, stage):
        await play.begin()
        await play.types()
        question = Question("q1", "approval", "telegram:5", "May it?", "text")
        await stage.gateway.publish(QuestionAsked("t1", "s", question))
        await meanwhile(stage, "asked")
        for number in range(3):
            play.clock.advance(TYPING_SECONDS)
            await meanwhile(stage, str(number))
        assert len(stage.telegram.called("sendChatAction")) == 1
        await stage.gateway.publish(QuestionAnswered("t1", "s", "q1", "allow"))
        await meanwhile(stage, "answered")
        play.clock.advance(TYPING_SECONDS)
        await stage.telegram.wait_called("sendChatAction", 2)


async def test_a_flooded_typing_sign_is_left_out_in_its_chat_only() -> None:
    async with playing(PRIVATE) as (play, stage):
        stage.telegram.fail("sendChatAction", status=429, retry_after=30)
        await play.begin()
        await play.types()
        await stage.gateway.publish(TurnStarted("t2", "s2", GROUP))
        await passing(play.clock, lambda: len(stage.telegram.called("sendChatAction")) == 2)
        await stage.telegram.wait_called("sendChatAction", 2)
        for number in range(4):
            play.clock.advance(TYPING_SECONDS)
            await meanwhile(stage, str(number))
        chats = [call["chat_id"] for call in stage.telegram.called("sendChatAction")]
        assert chats.count(5) == 1 and chats.count(-100) > 1
        await play.answer("not held up")
        assert stage.texts() == ["not held up"]

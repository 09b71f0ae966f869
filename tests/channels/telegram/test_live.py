"""The live view shows what is being written, and never stands in the answer's way."""

import asyncio
from typing import Any

import pytest

from goclaw.channels.telegram.latch import FAILURES
from goclaw.channels.telegram.live import TYPING_SECONDS
from goclaw.channels.telegram.previews import GROUP_SECONDS, draft_id
from goclaw.clock import SteppedClock
from goclaw.errors import DeliveryError
from goclaw.events import (
    Address,
    Outcome,
    StreamRestarted,
    TextStreamed,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from tests.channels.telegram.support import POLLER, Stage, eventually, open_stage

PRIVATE = Address("telegram", "5")
GROUP = Address("telegram", "-100", "7", "1")


class Play:
    """One turn, as a test lets it happen on a clock that stands still."""

    def __init__(self, stage: Stage, clock: SteppedClock, address: Address) -> None:
        self.stage = stage
        self.clock = clock
        self.address = address
        self.chat = int(address.chat)

    async def begin(self) -> None:
        self.stage.telegram.world.meet(self.chat)
        await self.stage.gateway.publish(TurnStarted("t1", "s", self.address))
        await self.stage.telegram.wait_called("sendChatAction")

    async def stream(self, text: str) -> None:
        await self.stage.gateway.publish(TextStreamed("t1", "s", text))

    async def past_the_quick_answers(self) -> None:
        """Let the time pass in which no preview is shown."""
        await eventually(lambda: self.clock.sleepers >= 2 + POLLER)
        self.clock.advance(0.3)

    async def later(self, seconds: float) -> None:
        """Let time pass, once the view waits for it."""
        await eventually(lambda: self.clock.sleepers >= 2 + POLLER)
        self.clock.advance(seconds)

    async def use(self, name: str, arguments: dict[str, Any], call: str = "c1") -> None:
        """A tool begins to run."""
        await self.stage.gateway.publish(ToolStarted("t1", "s", call, name, arguments))

    async def used(self, call: str = "c1") -> None:
        """And ends, in trouble."""
        await self.stage.gateway.publish(ToolFinished("t1", "s", call, "exec", '{"error": "raw"}', True, 1.0))

    async def finish(self, text: str, outcome: Outcome = Outcome.ANSWERED) -> None:
        await self.stage.gateway.publish(TurnFinished("t1", "s", outcome, text))

    async def answer(self, text: str, number: str = "final") -> str:
        address = self.address
        return await self.stage.deliver(
            text, chat=self.chat, number=number, thread=address.thread, reply_to=address.reply_to, turn="t1"
        )


async def meanwhile(stage: Stage, number: str) -> None:
    """Time enough for a preview that should not be: other work on the same connection to the end."""
    stage.telegram.world.meet(9)
    for step in range(3):
        await stage.deliver("meanwhile", chat=9, number=f"{number}.{step}")


async def wait_calls(stage: Stage, method: str, texts: list[str]) -> None:
    """Wait until `method` was called with these texts, one after the other."""
    await stage.telegram.wait_for(lambda: [call["text"] for call in stage.telegram.called(method)] == texts or None)


@pytest.mark.promise("P-telegram-live")
async def test_the_typing_sign_lasts_as_long_as_the_turn() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, PRIVATE)
        await play.begin()
        await eventually(lambda: clock.sleepers >= 2 + POLLER)
        for count in (2, 3):
            await eventually(lambda: clock.sleepers >= 1 + POLLER)
            clock.advance(TYPING_SECONDS)
            assert (await stage.telegram.wait_called("sendChatAction", count))[-1]["action"] == "typing"
        await play.finish("done")
        await play.answer("done")
        clock.advance(60)
        await stage.deliver("later", number="later")
        assert len(stage.telegram.called("sendChatAction")) == 3


@pytest.mark.promise("P-telegram-live")
async def test_the_answer_ends_its_view_even_if_the_turns_end_is_not_told() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, PRIVATE)
        await play.begin()
        await play.answer("done")
        await play.stream("too late")
        await eventually(lambda: clock.sleepers == POLLER)
        for number in range(3):
            clock.advance(TYPING_SECONDS)
            await stage.deliver("later", number=str(number))
        assert len(stage.telegram.called("sendChatAction")) == 1
        assert stage.telegram.called("sendMessageDraft") == []


async def test_typing_shows_in_the_topic() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        await Play(stage, clock, GROUP).begin()
        assert stage.telegram.called("sendChatAction")[0]["message_thread_id"] == 7


@pytest.mark.promise("P-telegram-live")
async def test_in_private_the_answer_grows_in_a_draft() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, PRIVATE)
        await play.begin()
        await play.stream("**Hel")
        await play.past_the_quick_answers()
        await wait_calls(stage, "sendMessageDraft", ["**Hel"])
        await play.stream("lo** wor")
        await eventually(lambda: clock.sleepers >= 2 + POLLER)
        clock.advance(0.3)
        await wait_calls(stage, "sendMessageDraft", ["**Hel", "Hello wor"])
        await play.finish("**Hello** world")
        await play.answer("**Hello** world")
        assert stage.texts() == ["Hello world"]
        assert stage.telegram.world.drafts == {}
        assert {call["draft_id"] for call in stage.telegram.called("sendMessageDraft")} == {draft_id("t1")}


async def test_a_quick_answer_has_no_preview() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, PRIVATE)
        await play.begin()
        await play.stream("Hi")
        await meanwhile(stage, "before")
        await play.finish("Hi")
        await play.answer("Hi")
        clock.advance(5)
        await stage.deliver("later", number="later")
        assert stage.telegram.called("sendMessageDraft") == []


@pytest.mark.promise("P-telegram-live")
async def test_in_groups_one_message_grows_into_the_answer() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin()
        await play.stream("Let me")
        await play.past_the_quick_answers()
        (grown,) = await stage.telegram.wait_sent(-100)
        assert (grown.text, grown.thread) == ("Let me", 7)
        await play.stream(" see")
        await eventually(lambda: clock.sleepers >= 2 + POLLER)
        clock.advance(GROUP_SECONDS)
        await wait_calls(stage, "editMessageText", ["Let me see"])
        await play.finish("**Done**")
        assert await play.answer("**Done**") == str(grown.message_id)
        assert stage.texts(-100) == ["Done"]
        assert stage.telegram.sent(-100)[0].entities[0]["type"] == "bold"


async def test_an_answer_that_stands_there_already_is_delivered() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin()
        await play.stream("Done")
        await play.past_the_quick_answers()
        (grown,) = await stage.telegram.wait_sent(-100)
        assert await play.answer("Done") == str(grown.message_id)
        assert stage.texts(-100) == ["Done"]


async def test_a_long_answer_goes_on_below_the_message_that_grew() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin()
        await play.stream("start")
        await play.past_the_quick_answers()
        (grown,) = await stage.telegram.wait_sent(-100)
        await play.answer("word " * 1500)
        first, second = stage.telegram.sent(-100)
        assert first.message_id == grown.message_id
        assert (first.text + second.text).split() == ["word"] * 1500


async def test_a_message_that_was_removed_meanwhile_is_sent_anew() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin()
        await play.stream("start")
        await play.past_the_quick_answers()
        await stage.telegram.wait_sent(-100)
        stage.telegram.world.messages.clear()
        await play.answer("**end**")
        assert stage.texts(-100) == ["end"]


async def test_the_preview_starts_anew_after_a_restart_of_the_stream_and_after_a_tool() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, PRIVATE)
        await play.begin()
        await play.stream("wrong")
        await stage.gateway.publish(StreamRestarted("t1", "s", "cut"))
        await play.stream("right")
        await play.past_the_quick_answers()
        await wait_calls(stage, "sendMessageDraft", ["right"])
        await stage.gateway.publish(
            ToolStarted("t1", "s", "c", "read", {}), ToolFinished("t1", "s", "c", "read", "", False, 1)
        )
        await play.stream("found")
        await play.later(0.3)
        await wait_calls(stage, "sendMessageDraft", ["right", "found"])


@pytest.mark.promise("P-telegram-live")
@pytest.mark.parametrize("address", [PRIVATE, GROUP])
async def test_no_failure_of_a_preview_reaches_the_answer(address: Address) -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        for method in ("sendMessageDraft", "sendChatAction", "editMessageText"):
            stage.telegram.fail(method, status=500, description="Internal Server Error", times=99)
        stage.telegram.fail("sendMessage", status=400, description="Bad Request: no", chat=-100)
        play = Play(stage, clock, address)
        await play.begin()
        for count in range(8):
            await play.stream(f"part {count} ")
            clock.advance(GROUP_SECONDS)
            await meanwhile(stage, str(count))
        if address is PRIVATE:
            assert len(stage.telegram.called("sendMessageDraft")) == FAILURES
        stage.telegram.faults.waiting.clear()
        await play.answer("the answer")
        assert stage.texts(play.chat) == ["the answer"]


async def test_a_flooded_preview_pauses_and_the_answer_does_not() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, PRIVATE)
        stage.telegram.fail("sendMessageDraft", status=429, retry_after=200, times=1)
        await play.begin()
        await play.stream("one")
        await play.past_the_quick_answers()
        await stage.telegram.wait_called("sendMessageDraft")
        for _ in range(20):
            await play.stream(" more")
            await eventually(lambda: clock.sleepers >= 1 + POLLER)
            clock.advance(0.3)
        assert len(stage.telegram.called("sendMessageDraft")) == 1
        await play.answer("the answer")
        assert stage.texts() == ["the answer"]


async def test_the_answer_comes_after_a_preview_that_is_on_its_way() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, GROUP)
        gate = asyncio.Event()
        stage.telegram.fail("sendMessage", gate=gate)
        await play.begin()
        await play.stream("start")
        await play.past_the_quick_answers()
        await stage.telegram.wait_called("sendMessage")
        answering = asyncio.create_task(play.answer("end"))
        await eventually(lambda: True)
        gate.set()
        await answering
        assert stage.texts(-100) == ["end"], "one message, not a frozen preview and the answer"
        assert stage.telegram.called("deleteMessage") == []


async def test_a_stuck_preview_is_not_waited_for_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goclaw.channels.telegram.live.CLAIM_SECONDS", 0.05)
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, GROUP)
        gate = asyncio.Event()
        stage.telegram.fail("sendMessage", gate=gate)
        await play.begin()
        await play.stream("start")
        await play.past_the_quick_answers()
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
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin()
        await play.stream("start")
        await play.past_the_quick_answers()
        await stage.telegram.wait_sent(-100)
        stage.telegram.fail("editMessageText", cut="after")
        with pytest.raises(DeliveryError):
            await play.answer("end")
        await stage.deliver("end", chat=-100, number="final", turn="t1")
        assert stage.texts(-100) == ["end"]

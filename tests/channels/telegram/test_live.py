"""The live view shows what is being written, and never stands in the answer's way."""

import asyncio
from pathlib import Path
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
    Question,
    QuestionAnswered,
    QuestionAsked,
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

    async def shown(self, *texts: str) -> None:
        """Wait until the drafts were these."""
        await wait_calls(self.stage, "sendMessageDraft", list(texts))

    async def grown(self, text: str) -> None:
        """Wait until the one message in the chat says this."""
        await self.stage.telegram.wait_for(lambda: self.stage.texts(self.chat) == [text] or None)

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


async def test_no_message_begins_to_grow_above_an_answer_that_is_not_there_yet() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin()
        stage.telegram.fail("sendMessage", status=502, description="Bad Gateway")
        with pytest.raises(DeliveryError):
            await stage.deliver("the answer before", chat=-100)
        await play.stream("begun")
        await play.past_the_quick_answers()
        await meanwhile(stage, "m")
        assert stage.texts(-100) == []
        await stage.deliver("the answer before", chat=-100)
        await play.later(GROUP_SECONDS)
        await stage.telegram.wait_sent(-100, 2)
        assert stage.texts(-100) == ["the answer before", "begun"]
        await play.finish("begun")
        await play.answer("begun")


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


@pytest.mark.promise("P-telegram-live")
async def test_in_private_a_running_tool_is_one_line_in_the_draft_and_nothing_of_it_stays() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, PRIVATE)
        await play.begin()
        await play.stream("Let me look.")
        await play.use("exec", {"command": "ls -la\n  /tmp"})
        await play.past_the_quick_answers()
        await play.shown("Let me look.\n\n⚙ exec: ls -la /tmp")
        await play.used()
        await play.later(0.3)
        await play.shown("Let me look.\n\n⚙ exec: ls -la /tmp", "Let me look.")
        await play.finish("Done")
        await play.answer("Done")
        assert stage.texts() == ["Done"] and stage.telegram.world.drafts == {}


@pytest.mark.promise("P-telegram-live")
async def test_in_groups_the_line_stands_in_the_message_that_grows_into_the_answer() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin()
        await play.use("exec", {"command": "make"})
        await play.past_the_quick_answers()
        await play.grown("⚙ exec: make")
        await play.use("read", {"path": "a.txt"}, "c2")
        await play.later(GROUP_SECONDS)
        await play.grown("⚙ read: a.txt")
        await play.used()
        await play.used("c2")
        await play.later(GROUP_SECONDS)
        await play.grown("…")
        await play.answer("Done")
        assert stage.texts(-100) == ["Done"]


@pytest.mark.parametrize(("text", "left"), [("So far", ["So far"]), ("", [])])
async def test_a_stopped_turn_leaves_what_was_said_and_no_line(text: str, left: list[str]) -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin()
        if text:
            await play.stream(text)
        await play.use("exec", {"command": "make"})
        await play.past_the_quick_answers()
        await stage.telegram.wait_sent(-100)
        await play.finish("", Outcome.STOPPED)
        await stage.telegram.wait_for(lambda: stage.texts(-100) == left or None)


async def test_a_draft_is_kept_alive() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, PRIVATE)
        await play.begin()
        await play.stream("thinking aloud")
        await play.past_the_quick_answers()
        await play.shown("thinking aloud")
        await play.later(0.3)
        for _ in range(60):
            await play.later(0.45)
            await asyncio.sleep(0)
        await play.shown("thinking aloud", "thinking aloud")


async def test_drafts_have_a_stop_button_where_the_server_knows_one() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, PRIVATE)
        await play.begin()
        await play.stream("one")
        await play.past_the_quick_answers()
        await play.shown("one")
        stage.telegram.fail("sendMessageDraft", status=400, description="Bad Request: unknown parameter can_stop")
        await play.stream(" two")
        await play.later(0.3)
        await play.shown("one", "one two", "one two")
        await play.stream(" three")
        await play.later(0.3)
        await play.shown("one", "one two", "one two", "one two three")
        buttons = [call.get("can_stop") for call in stage.telegram.called("sendMessageDraft")]
        assert buttons == [True, True, None, None], "refused once, not offered again for an hour"


@pytest.mark.promise("P-telegram-live")
async def test_where_the_server_knows_no_drafts_private_chats_get_a_message_that_grows() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        stage.telegram.fail("sendMessageDraft", status=404, description="Not Found: method not found", times=99)
        play = Play(stage, clock, PRIVATE)
        await play.begin()
        await play.stream("one")
        await play.past_the_quick_answers()
        await stage.telegram.wait_called("sendMessageDraft")
        await play.later(1)
        await play.grown("one")
        await play.stream(" two")
        await play.later(1)
        await play.grown("one two")
        await play.answer("one two three")
        assert stage.texts() == ["one two three"]
        assert len(stage.telegram.called("sendMessageDraft")) == 1
        stage.telegram.faults.waiting.clear()
        clock.advance(3600)
        await stage.gateway.publish(TurnStarted("t2", "s", PRIVATE), TextStreamed("t2", "s", "again"))
        await play.past_the_quick_answers()
        await stage.telegram.wait_called("sendMessageDraft", 2)


@pytest.mark.promise("P-telegram-live")
async def test_previews_that_fail_pause_for_a_minute_and_are_tried_again() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        stage.telegram.fail("sendMessageDraft", status=500, description="Internal Server Error", times=FAILURES)
        play = Play(stage, clock, PRIVATE)
        await play.begin()
        await play.stream("text")
        await play.past_the_quick_answers()
        for count in range(1, FAILURES + 1):
            await stage.telegram.wait_called("sendMessageDraft", count)
            await play.later(0.3)
        await meanwhile(stage, "pause")
        assert len(stage.telegram.called("sendMessageDraft")) == FAILURES
        for _ in range(130):
            await play.later(0.5)
            await asyncio.sleep(0)
        assert len(await stage.telegram.wait_called("sendMessageDraft", FAILURES + 1)) == FAILURES + 1


async def test_a_first_preview_that_may_have_arrived_is_the_only_one() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        stage.telegram.fail("sendMessage", cut="after", chat=-100)
        play = Play(stage, clock, GROUP)
        await play.begin()
        await play.stream("start")
        await play.past_the_quick_answers()
        await stage.telegram.wait_sent(-100)
        for count in range(4):
            await play.stream(" more")
            await play.later(GROUP_SECONDS)
            await meanwhile(stage, str(count))
        assert stage.texts(-100) == ["start"]
        await play.answer("end")
        assert stage.texts(-100) == ["start", "end"], "what was lost cannot be found again"


async def test_after_a_restart_no_second_preview_is_sent_where_one_may_stand(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock, state_dir=tmp_path) as stage:
        stage.telegram.fail("sendMessage", gate=asyncio.Event(), chat=-100)
        play = Play(stage, clock, GROUP)
        await play.begin()
        await play.stream("start")
        await play.past_the_quick_answers()
        await stage.telegram.wait_called("sendMessage")
    clock = SteppedClock()
    async with open_stage(clock=clock, state_dir=tmp_path) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin()
        await play.stream("start")
        await play.past_the_quick_answers()
        await meanwhile(stage, "x")
        assert stage.texts(-100) == []
        await play.answer("end")
        assert stage.texts(-100) == ["end"]


async def test_an_answer_that_stands_there_already_is_not_edited_in_again() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin()
        await play.stream("**Done**")
        await play.past_the_quick_answers()
        await play.grown("Done")
        await eventually(lambda: clock.sleepers >= 2)
        await play.answer("**Done**")
        assert stage.texts(-100) == ["Done"] and stage.telegram.called("editMessageText") == []


async def test_an_answer_that_cannot_be_edited_in_is_sent_once_and_its_preview_goes() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin()
        await play.stream("start")
        await play.past_the_quick_answers()
        await play.grown("start")
        stage.telegram.fail("editMessageText", status=400, description="Bad Request: message can't be edited", times=9)
        await play.answer("end")
        assert stage.texts(-100) == ["end"]


async def test_a_message_that_waits_shows_typing_until_its_turn_came() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        await stage.gateway.publish(TurnStarted("other", "telegram:5", Address("local", "tui")))
        await stage.telegram.world.say("hello", user=5)
        await stage.telegram.wait_called("sendChatAction")
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
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, PRIVATE)
        await play.begin()
        question = Question("q1", "approval", "telegram:5", "May it?", "text")
        await stage.gateway.publish(QuestionAsked("t1", "s", question))
        await meanwhile(stage, "asked")
        for number in range(3):
            clock.advance(TYPING_SECONDS)
            await meanwhile(stage, str(number))
        assert len(stage.telegram.called("sendChatAction")) == 1
        await stage.gateway.publish(QuestionAnswered("t1", "s", "q1", "allow"))
        await meanwhile(stage, "answered")
        clock.advance(TYPING_SECONDS)
        await stage.telegram.wait_called("sendChatAction", 2)


async def test_a_flooded_typing_sign_is_left_out_in_its_chat_only() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        stage.telegram.fail("sendChatAction", status=429, retry_after=30)
        play = Play(stage, clock, PRIVATE)
        await play.begin()
        await stage.gateway.publish(TurnStarted("t2", "s2", GROUP))
        await stage.telegram.wait_called("sendChatAction", 2)
        for number in range(4):
            clock.advance(TYPING_SECONDS)
            await meanwhile(stage, str(number))
        chats = [call["chat_id"] for call in stage.telegram.called("sendChatAction")]
        assert chats.count(5) == 1 and chats.count(-100) > 1
        await play.answer("not held up")
        assert stage.texts() == ["not held up"]


async def test_after_a_pause_only_the_latest_version_is_shown() -> None:
    clock = SteppedClock()
    async with open_stage(clock=clock) as stage:
        play = Play(stage, clock, PRIVATE)
        stage.telegram.fail("sendMessageDraft", status=429, retry_after=20)
        await play.begin()
        await play.stream("one")
        await play.past_the_quick_answers()
        await play.shown("one")
        for _ in range(5):
            await play.stream(" more")
            await play.later(1)
        for _ in range(40):
            await play.later(0.5)
            await asyncio.sleep(0)
        await play.shown("one", "one more more more more more")

"""What is being written is shown, in a draft or in a message that grows, and nothing of it is left behind."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from goclaw.channels.base import Doubt, Unrecorded
from goclaw.channels.telegram.previews import GROUP_SECONDS, draft_id
from goclaw.channels.telegram.rate_limits import FAILURES
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import (
    Address,
    Outcome,
    StreamRestarted,
    TextStreamed,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from goclaw.durable.store.channel_state import ChannelRows
from goclaw.errors import DeliveryError, DiskError, DiskFault, OwnershipLost
from tests.channels.telegram.play import GROUP, PRIVATE, Play, meanwhile, playing, wait_calls
from tests.channels.telegram.support import POLLER, eventually, open_stage, previews_in
from tests.fake_telegram.server import FakeTelegram


@pytest.mark.promise("P-telegram-live")
async def test_in_private_the_answer_grows_in_a_draft() -> None:
    async with playing(PRIVATE) as (play, stage):
        await play.begin("**Hel")
        await wait_calls(stage, "sendMessageDraft", ["**Hel"])
        await play.stream("lo** wor")
        await play.later(0.3)
        await wait_calls(stage, "sendMessageDraft", ["**Hel", "Hello wor"])
        await play.finish("**Hello** world")
        await play.answer("**Hello** world")
        assert stage.texts() == ["Hello world"]
        assert stage.telegram.world.drafts == {}
        assert {call["draft_id"] for call in stage.telegram.called("sendMessageDraft")} == {draft_id("t1")}


@pytest.mark.promise("P-telegram-live")
async def test_in_groups_one_message_grows_into_the_answer() -> None:
    async with playing(GROUP) as (play, stage):
        await play.begin("Let me")
        (grown,) = await stage.telegram.wait_sent(-100)
        assert (grown.text, grown.thread) == ("Let me", 7)
        await play.stream(" see")
        await play.later(GROUP_SECONDS)
        await wait_calls(stage, "editMessageText", ["Let me see"])
        await play.finish("**Done**")
        assert await play.answer("**Done**") == str(grown.message_id)
        assert stage.texts(-100) == ["Done"]
        assert stage.telegram.sent(-100)[0].entities[0]["type"] == "bold"


async def test_no_message_begins_to_grow_above_an_answer_that_is_not_there_yet() -> None:
    async with playing(GROUP) as (play, stage):
        await play.begin()
        stage.telegram.fail("sendMessage", status=502, description="Bad Gateway")
        with pytest.raises(DeliveryError):
            await stage.deliver("the answer before", chat=-100)
        await play.stream("begun")
        await play.past_the_quick_answers()
        await play.tried()
        assert stage.texts(-100) == []
        await stage.deliver("the answer before", chat=-100)
        await play.later(GROUP_SECONDS)
        await stage.telegram.wait_sent(-100, 2)
        assert stage.texts(-100) == ["the answer before", "begun"]
        await play.finish("begun")
        await play.answer("begun")


async def test_no_message_begins_to_grow_above_an_answer_that_waits_behind_another_one() -> None:
    async with playing(GROUP) as (play, stage):
        stage.telegram.world.meet(-100)
        stage.handovers["a1"].others_wait = True
        await stage.deliver("an answer", chat=-100, number="a1")
        await play.begin("begun")
        await play.tried()
        assert stage.texts(-100) == ["an answer"]
        await stage.deliver("the answer before", chat=-100, number="a2")
        await play.later(GROUP_SECONDS)
        await stage.telegram.wait_sent(-100, 3)
        assert stage.texts(-100) == ["an answer", "the answer before", "begun"]


async def test_a_chat_whose_delivery_went_to_another_process_is_shown_previews() -> None:
    class Elsewhere(Unrecorded):
        async def sending(self) -> None:
            raise OwnershipLost("another process has taken over the session")

    async with playing(GROUP) as (play, stage):
        stage.handovers["a1"] = Elsewhere()
        with pytest.raises(OwnershipLost):
            await stage.deliver("an answer", chat=-100, number="a1")
        await play.begin("begun")
        await play.grown("begun")


async def test_a_long_answer_goes_on_below_the_message_that_grew() -> None:
    async with playing(GROUP) as (play, stage):
        await play.begin("start")
        (grown,) = await stage.telegram.wait_sent(-100)
        await play.answer("word " * 1500)
        first, second = stage.telegram.sent(-100)
        assert first.message_id == grown.message_id
        assert (first.text + second.text).split() == ["word"] * 1500


async def test_a_message_that_was_removed_meanwhile_is_sent_anew() -> None:
    async with playing(GROUP) as (play, stage):
        await play.begin("start")
        await stage.telegram.wait_sent(-100)
        stage.telegram.world.messages.clear()
        await play.answer("**end**")
        assert stage.texts(-100) == ["end"]


async def test_the_preview_starts_anew_after_a_restart_of_the_stream_and_after_a_tool() -> None:
    async with playing(PRIVATE) as (play, stage):
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
    async with playing(address) as (play, stage):
        for method in ("sendMessageDraft", "sendChatAction", "editMessageText"):
            stage.telegram.fail(method, status=500, description="Internal Server Error", times=99)
        stage.telegram.fail("sendMessage", status=400, description="Bad Request: no", chat=-100)
        await play.begin()
        for count in range(8):
            await play.stream(f"part {count} ")
            play.clock.advance(GROUP_SECONDS)
            await meanwhile(stage, str(count))
        if address is PRIVATE:
            assert len(stage.telegram.called("sendMessageDraft")) == FAILURES
        stage.telegram.faults.waiting.clear()
        await play.answer("the answer")
        assert stage.texts(play.chat) == ["the answer"]


async def test_a_flooded_preview_pauses_and_the_answer_does_not() -> None:
    async with playing(PRIVATE) as (play, stage):
        stage.telegram.fail("sendMessageDraft", status=429, retry_after=200, times=1)
        await play.begin("one")
        await stage.telegram.wait_called("sendMessageDraft")
        for _ in range(20):
            await play.stream(" more")
            await eventually(lambda: play.clock.sleepers >= 1 + POLLER)
            play.clock.advance(0.3)
        assert len(stage.telegram.called("sendMessageDraft")) == 1
        await play.answer("the answer")
        assert stage.texts() == ["the answer"]


@pytest.mark.promise("P-telegram-live")
async def test_in_private_a_running_tool_is_one_line_in_the_draft_and_nothing_of_it_stays() -> None:
    async with playing(PRIVATE) as (play, stage):
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
    async with playing(GROUP) as (play, stage):
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
    async with playing(GROUP) as (play, stage):
        await play.begin()
        if text:
            await play.stream(text)
        await play.use("exec", {"command": "make"})
        await play.past_the_quick_answers()
        await stage.telegram.wait_sent(-100)
        await play.finish("", Outcome.STOPPED, silent=True)
        await stage.telegram.wait_for(lambda: stage.texts(-100) == left or None)


async def test_a_draft_is_kept_alive() -> None:
    async with playing(PRIVATE) as (play, _):
        await play.begin("thinking aloud")
        await play.shown("thinking aloud")
        await play.later(0.3)
        for _ in range(60):
            await play.later(0.45)
            await asyncio.sleep(0)
        await play.shown("thinking aloud", "thinking aloud")


async def test_drafts_have_a_stop_button_where_the_server_knows_one() -> None:
    async with playing(PRIVATE) as (play, stage):
        await play.begin("one")
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
    async with playing(PRIVATE) as (play, stage):
        stage.telegram.fail("sendMessageDraft", status=404, description="Not Found: method not found", times=99)
        await play.begin("one")
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
        play.clock.advance(3600)
        await stage.gateway.publish(TurnStarted("t2", "s", PRIVATE), TextStreamed("t2", "s", "again"))
        await play.past_the_quick_answers()
        await stage.telegram.wait_called("sendMessageDraft", 2)


@pytest.mark.promise("P-telegram-live")
async def test_previews_that_fail_pause_for_a_minute_and_are_tried_again() -> None:
    async with playing(PRIVATE) as (play, stage):
        stage.telegram.fail("sendMessageDraft", status=500, description="Internal Server Error", times=FAILURES)
        await play.begin("text")
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
    async with playing(GROUP) as (play, stage):
        stage.telegram.fail("sendMessage", cut="after", chat=-100)
        await play.begin("start")
        await stage.telegram.wait_sent(-100)
        for count in range(4):
            await play.stream(" more")
            await play.later(GROUP_SECONDS)
            await meanwhile(stage, str(count))
        assert stage.texts(-100) == ["start"]
        await play.answer("end")
        assert stage.texts(-100) == ["start", "end"], "what was lost cannot be found again"


async def test_after_a_restart_no_second_preview_is_sent_where_one_may_stand(tmp_path: Path) -> None:
    clock, gate = SteppedClock(), asyncio.Event()
    async with FakeTelegram() as telegram:
        telegram.fail("sendMessage", gate=gate, chat=-100)
        async with open_stage(clock=clock, telegram=telegram, state_dir=tmp_path) as stage:
            play = Play(stage, clock, GROUP)
            await play.begin("start")
            await telegram.wait_called("sendMessage")
        gate.set()
    clock = SteppedClock()
    async with open_stage(clock=clock, state_dir=tmp_path) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin("start")
        await meanwhile(stage, "x")
        assert stage.texts(-100) == []
        await play.answer("end")
        assert stage.texts(-100) == ["end"]


@pytest.mark.promise("P-repeat-marked")
async def test_an_answer_that_a_lost_preview_may_say_already_is_marked() -> None:
    async with playing(GROUP) as (play, stage):
        stage.telegram.fail("sendMessage", cut="after", chat=-100)
        await play.begin("all of it")
        await stage.telegram.wait_sent(-100)
        await play.answer("all of it")
        assert stage.texts(-100) == ["all of it", "(sent again: the first try may have arrived)\n\nall of it"]


@pytest.mark.promise("P-repeat-marked")
async def test_an_answer_that_a_lost_preview_may_say_above_the_line_of_a_tool_is_marked() -> None:
    async with playing(GROUP) as (play, stage):
        stage.telegram.fail("sendMessage", cut="after", chat=-100)
        await play.begin()
        await play.use("exec", {"command": "make"})
        await play.stream("all of it")
        await play.past_the_quick_answers()
        await stage.telegram.wait_sent(-100)
        await play.answer("all of it")
        again = "(sent again: the first try may have arrived)\n\nall of it"
        assert stage.texts(-100) == ["all of it\n\n⚙ exec: make", again]


@pytest.mark.promise("P-repeat-marked")
async def test_after_a_restart_an_answer_that_a_preview_may_say_already_is_marked(tmp_path: Path) -> None:
    clock, gate = SteppedClock(), asyncio.Event()
    async with FakeTelegram() as telegram:
        telegram.fail("sendMessage", gate=gate, chat=-100)
        async with open_stage(clock=clock, telegram=telegram, state_dir=tmp_path) as stage:
            await Play(stage, clock, GROUP).begin("all of it")
            await telegram.wait_called("sendMessage")
        gate.set()
    clock = SteppedClock()
    async with open_stage(clock=clock, state_dir=tmp_path) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin("all")
        await play.answer("all of it")
        assert stage.texts(-100) == ["(sent again: the first try may have arrived)\n\nall of it"]


class Unwritable:
    """A disk that does not take the ids of messages that were sent, for as long as it is full."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.is_full, note = True, ChannelRows.note_preview

        async def refuse(state: ChannelRows, channel: str, session: str, key: str, message: int, **more: Any) -> None:
            if self.is_full and message > 0:
                raise DiskError("the disk is full", DiskFault.FULL)
            await note(state, channel, session, key, message, **more)

        patch.setattr(ChannelRows, "note_preview", refuse)


class Killed(Unrecorded):
    """The daemon is killed when a part has arrived, before that is recorded."""

    async def sending(self) -> None:
        self.doubt = Doubt.RESTART

    async def arrived(self, message_id: str, *, last: bool = False) -> None:
        raise asyncio.CancelledError


@pytest.mark.promise("P-repeat-marked")
async def test_an_answer_in_a_message_whose_id_could_not_be_kept_is_marked_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Unwritable(monkeypatch)
    killed, clock = Killed(), SteppedClock()
    async with FakeTelegram() as telegram:
        async with open_stage(clock=clock, telegram=telegram, state_dir=tmp_path) as stage:
            play = Play(stage, clock, GROUP)
            await play.begin("half")
            await play.grown("half")
            stage.handovers["final"] = killed
            with pytest.raises(asyncio.CancelledError):
                await play.answer("half of it and the rest")
            assert stage.texts(-100) == ["half of it and the rest"]
        async with open_stage(clock=SteppedClock(), telegram=telegram, state_dir=tmp_path) as stage:
            stage.handovers["final"].doubt = killed.doubt
            await Play(stage, clock, GROUP).answer("half of it and the rest")
            marked = "(sent again after a restart)\n\nhalf of it and the rest"
            assert stage.texts(-100) == ["half of it and the rest", marked]


@pytest.mark.promise("P-repeat-marked")
async def test_a_message_grows_no_further_until_its_id_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, clock = Unwritable(monkeypatch), SteppedClock()
    async with open_stage(clock=clock, state_dir=tmp_path) as stage:
        play = Play(stage, clock, GROUP)
        await play.begin("half")
        await play.grown("half")
        await play.stream(" of it")
        await play.later(GROUP_SECONDS)
        await play.tried()
        assert stage.texts(-100) == ["half"]
        disk.is_full = False
        await play.stream(" all")
        await play.later(GROUP_SECONDS)
        await play.grown("half of it all")
        assert await previews_in(tmp_path) == {"t1": stage.telegram.sent(-100)[0].message_id}


@pytest.mark.promise("P-repeat-marked")
async def test_a_text_before_a_tool_call_is_marked_where_its_preview_could_not_be_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, clock = Unwritable(monkeypatch), SteppedClock()
    async with open_stage(clock=clock, state_dir=tmp_path) as stage:
        disk.is_full = False
        play = Play(stage, clock, GROUP)
        await play.begin("the plan")
        await play.grown("the plan")
        disk.is_full = True
        await stage.deliver("the plan", chat=-100, number="t1:said:1", turn="t1", interim=True)
        again = "(sent again: the first try may have arrived)\n\nthe plan"
        assert stage.texts(-100) == ["the plan", again]
        await play.answer("done")
        assert stage.texts(-100) == ["the plan", again, "done"], "nothing is written over it"


async def test_an_answer_that_stands_there_already_is_delivered_and_not_edited_in_again() -> None:
    async with playing(GROUP) as (play, stage):
        await play.begin("**Done**")
        (grown,) = await stage.telegram.wait_sent(-100)
        await eventually(lambda: play.clock.sleepers >= 2)
        assert await play.answer("**Done**") == str(grown.message_id)
        assert stage.texts(-100) == ["Done"] and stage.telegram.called("editMessageText") == []


async def test_an_answer_that_cannot_be_edited_in_is_sent_once_and_its_preview_goes() -> None:
    async with playing(GROUP) as (play, stage):
        await play.begin("start")
        await play.grown("start")
        stage.telegram.fail("editMessageText", status=400, description="Bad Request: message can't be edited", times=9)
        await play.answer("end")
        assert stage.texts(-100) == ["end"]


async def test_after_a_pause_only_the_latest_version_is_shown() -> None:
    async with playing(PRIVATE) as (play, stage):
        stage.telegram.fail("sendMessageDraft", status=429, retry_after=20)
        await play.begin("one")
        await play.shown("one")
        for _ in range(5):
            await play.stream(" more")
            await play.later(1)
        for _ in range(40):
            await play.later(0.5)
            await asyncio.sleep(0)
        await play.shown("one", "one more more more more more")

"""What the agent says before a tool call: its message is settled, and the turn goes on in another one."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from goclaw.channels.telegram.previews import GROUP_SECONDS
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Address, MessageStored
from goclaw.common.core.messages import AssistantMessage, ToolCall
from goclaw.errors import DeliveryError
from tests.channels.telegram.play import GROUP, PRIVATE, Play, meanwhile, playing, wait_calls
from tests.channels.telegram.support import Stage, delivery, open_stage, preview_kept

CALLS = (ToolCall("c1", "exec", {}),)
PLAN = "Here is the plan."


async def recorded(stage: Stage, text: str, *, deferred: bool = False) -> None:
    """The step of an answer with a call is on disk."""
    message = AssistantMessage(text, CALLS, deferred=deferred)
    await stage.gateway.publish(MessageStored("t1", "s", 1, message, 1.0))


async def settle(stage: Stage, address: Address, number: str = "t1:said:1") -> str:
    """Deliver the plan; returns the message's id."""
    there = {"thread": address.thread, "reply_to": address.reply_to}
    return await stage.deliver(PLAN, chat=int(address.chat), number=number, turn="t1", interim=True, **there)


@pytest.mark.promise("P-interim")
async def test_in_groups_the_message_that_grew_stays_and_the_answer_gets_its_own() -> None:
    async with playing(GROUP) as (play, stage):
        await play.begin(PLAN)
        (grown,) = await stage.telegram.wait_sent(-100)
        await recorded(stage, PLAN)
        await play.use("exec", {"command": "make"})
        assert await settle(stage, GROUP) == str(grown.message_id)
        await play.later(GROUP_SECONDS)
        _, second = await stage.telegram.wait_sent(-100, 2)
        assert stage.texts(-100) == [PLAN, "⚙ exec: make"]
        await play.finish("Done.")
        assert await play.answer("Done.") == str(second.message_id)
        assert stage.texts(-100) == [PLAN, "Done."]


@pytest.mark.promise("P-interim")
async def test_nothing_more_is_written_into_a_text_that_is_on_its_way() -> None:
    async with playing(GROUP) as (play, stage):
        await play.begin(PLAN)
        await stage.telegram.wait_sent(-100)
        await recorded(stage, PLAN)
        await play.stream("Something else")
        await play.later(GROUP_SECONDS)
        await meanwhile(stage, "m")
        await settle(stage, GROUP)
        assert all(call["text"].startswith(PLAN) for call in stage.telegram.called("editMessageText"))
        await play.later(GROUP_SECONDS)
        await stage.telegram.wait_sent(-100, 2)
        assert stage.texts(-100) == [PLAN, "Something else"]


async def test_a_text_that_is_tried_again_leaves_the_view_of_the_rest_alone() -> None:
    """Or else the view believed one text more to be out than is, and took the next one off the screen."""
    async with playing(GROUP) as (play, stage):
        await play.begin("Here is")
        await stage.telegram.wait_sent(-100)
        stage.telegram.fail("editMessageText", status=502, times=1)
        await recorded(stage, PLAN)
        with pytest.raises(DeliveryError):
            await settle(stage, GROUP)
        await settle(stage, GROUP)
        await play.stream("Next")
        await play.later(GROUP_SECONDS)
        await stage.telegram.wait_sent(-100, 2)
        await recorded(stage, "Next")
        await play.use("exec", {"command": "make"})
        await play.later(GROUP_SECONDS)
        await meanwhile(stage, "m")
        assert stage.texts(-100) == [PLAN, "Next"]


async def test_in_private_the_draft_goes_on_below_the_text() -> None:
    async with playing(PRIVATE) as (play, stage):
        await play.begin(PLAN)
        await wait_calls(stage, "sendMessageDraft", [PLAN])
        await recorded(stage, PLAN)
        await settle(stage, PRIVATE)
        await play.stream("Done")
        await play.later(0.3)
        await wait_calls(stage, "sendMessageDraft", [PLAN, "Done"])
        await play.finish("Done.")
        await play.answer("Done.")
        assert stage.texts() == [PLAN, "Done."] and stage.telegram.world.drafts == {}


async def test_a_text_that_waits_for_the_next_one_stays_above_it() -> None:
    async with playing(GROUP) as (play, stage):
        await play.begin(PLAN)
        await stage.telegram.wait_sent(-100)
        await recorded(stage, PLAN, deferred=True)
        await play.stream("Done")
        await play.later(GROUP_SECONDS)
        await play.grown(f"{PLAN}\n\nDone")
        await play.answer(f"{PLAN}\n\nDone.")
        assert stage.texts(-100) == [f"{PLAN}\n\nDone."]


async def test_a_turn_without_a_last_word_takes_its_tool_line_away() -> None:
    async with playing(GROUP) as (play, stage):
        await play.begin(PLAN)
        await stage.telegram.wait_sent(-100)
        await recorded(stage, PLAN)
        await settle(stage, GROUP)
        await play.use("exec", {"command": "make"})
        await play.later(GROUP_SECONDS)
        await stage.telegram.wait_sent(-100, 2)
        await play.finish("", silent=True)
        await play.grown(PLAN)


async def test_a_turn_that_ended_meanwhile_leaves_its_text_to_the_delivery() -> None:
    async with playing(GROUP) as (play, stage):
        await play.begin(PLAN)
        (grown,) = await stage.telegram.wait_sent(-100)
        await recorded(stage, PLAN)
        await play.finish("", silent=True)
        assert await settle(stage, GROUP) == str(grown.message_id)
        assert stage.texts(-100) == [PLAN] and not stage.telegram.called("deleteMessage")


@pytest.mark.promise("P-interim")
@pytest.mark.parametrize("is_known", [True, False])
async def test_after_a_restart_the_answer_is_not_written_over_the_text(is_known: bool) -> None:
    """`is_known`: the text was settled before the restart, which its second try does not know."""
    with TemporaryDirectory() as folder:
        clock, state = SteppedClock(), Path(folder)
        async with open_stage(clock=clock, state_dir=state) as stage:
            play, telegram = Play(stage, clock, GROUP), stage.telegram
            await play.begin(PLAN)
            (grown,) = await telegram.wait_sent(-100)
            await preview_kept(state, "t1", grown.message_id)
            if is_known:
                await settle(stage, GROUP)
            async with open_stage(running=False, telegram=telegram, state_dir=state) as after:
                assert await settle(after, GROUP) == str(grown.message_id)
                done = delivery("Done.", chat=-100, number="t1:deliver:1", thread="7", turn="t1")
                await after.hand_over(done)
                assert after.texts(-100) == [PLAN, "Done."]

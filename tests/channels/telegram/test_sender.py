"""What is delivered arrives once, whole and in order, and failures say what they mean."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from goclaw.channels.base import Doubt
from goclaw.channels.telegram.outgoing import with_note
from goclaw.channels.telegram.render import MAX_UNITS, EntitySpan, Mark, RenderedMessage
from goclaw.channels.telegram.sender import NOTES
from goclaw.common.core.events import Address, Delivery
from goclaw.errors import DeliveryError
from tests.channels.telegram.support import HastyClock, Stage, delivery, open_stage
from tests.fake_telegram.rules import utf16_length
from tests.fake_telegram.server import FakeTelegram

LONG = "\n\n".join(f"paragraph {number} **bold** " + "word " * 300 for number in range(8))
AFTER_RESTART, AFTER_SILENCE = NOTES[Doubt.RESTART], NOTES[Doubt.SILENCE]


async def failing(stage: Stage, **fields: Any) -> DeliveryError:
    """The error of a delivery that cannot succeed now."""
    with pytest.raises(DeliveryError) as caught:
        await stage.deliver("**hi**", **fields)
    return caught.value


async def test_markdown_arrives_as_entities() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        number = await stage.deliver("**bold** and `code`")
        (sent,) = stage.telegram.sent(5)
        assert (sent.text, str(sent.message_id)) == ("bold and code", number)
        assert [(e["type"], e["offset"], e["length"]) for e in sent.entities] == [("bold", 0, 4), ("code", 9, 4)]
        (call,) = stage.telegram.called("sendMessage")
        assert call["link_preview_options"] == {"is_disabled": True}
        assert "parse_mode" not in call and "reply_parameters" not in call


@pytest.mark.promise("P-telegram-text")
async def test_long_answers_arrive_in_parts_and_in_order() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        first = await stage.deliver(LONG)
        sent = stage.telegram.sent(5)
        assert len(sent) > 3 and str(sent[0].message_id) == first
        assert all(utf16_length(message.text) <= MAX_UNITS for message in sent)
        assert "".join(message.text for message in sent).split() == LONG.replace("**", "").split()


async def test_in_groups_the_first_part_replies_and_topics_are_kept() -> None:
    async with open_stage(running=False) as stage:
        asked = (await stage.telegram.world.say("@claw_bot go", chat=-100, topic=7))["message"]["message_id"]
        await stage.deliver(LONG, chat=-100, thread="7", reply_to=str(asked))
        sent = stage.telegram.sent(-100)
        assert [message.reply_to for message in sent] == [asked] + [None] * (len(sent) - 1)
        assert {message.thread for message in sent} == {7}


async def test_an_answer_to_a_deleted_message_arrives_without_the_reply() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(-100)
        await stage.deliver("hi", chat=-100, reply_to="99")
        assert stage.texts(-100) == ["hi"]


@pytest.mark.promise("P-telegram-text")
async def test_formatting_that_telegram_refuses_is_left_out() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        stage.telegram.fail("sendMessage", status=400, description="Bad Request: can't parse entities")
        await stage.deliver("**hi**")
        (sent,) = stage.telegram.sent(5)
        assert (sent.text, sent.entities) == ("hi", ())


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"status": 403, "description": "Forbidden: bot was blocked by the user"}, (True, None, False)),
        ({"status": 400, "description": "Bad Request: chat not found", "times": 2}, (True, None, False)),
        ({"status": 429, "description": "Too Many Requests", "retry_after": 7}, (False, 7.0, False)),
        ({"status": 500, "description": "Internal Server Error"}, (False, None, False)),
        ({"status": 401, "description": "Unauthorized"}, (False, None, False)),
        ({"cut": "before"}, (False, None, True)),
        ({"cut": "after"}, (False, None, True)),
        ({"body": b"<html>gateway</html>"}, (False, None, True)),
    ],
)
async def test_failures_say_whether_and_when_to_try_again(fault: dict[str, Any], expected: tuple[Any, ...]) -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        stage.telegram.fail("sendMessage", **fault)
        error = await failing(stage)
        assert (error.permanent, error.retry_after, error.maybe_delivered) == expected
        assert stage.telegram.token not in str(error)


async def test_a_text_goes_out_at_once_unless_something_comes_before_it() -> None:
    """Then it is promised as being sent: what waits for a limit must not be."""
    async with open_stage(running=False, clock=HastyClock()) as stage:
        at_once = stage.channel.capabilities.sends_at_once
        stage.telegram.world.meet(5)
        assert at_once(delivery("hi"))
        assert not at_once(delivery("", media="blob")), "its file is read first"
        assert not at_once(delivery("hi", interim=True, turn="t1")), "its preview is handed over first"
        assert not at_once(Delivery("d1", Address("telegram", "nobody"), "hi"))
        stage.telegram.fail("sendMessage", status=429, retry_after=7)
        await failing(stage)
        assert not at_once(delivery("hi")) and at_once(delivery("hi", chat=6))


async def test_a_wish_to_wait_is_granted_to_its_chat_only() -> None:
    clock = HastyClock()
    async with open_stage(running=False, clock=clock) as stage:
        stage.telegram.world.meet(5)
        stage.telegram.world.meet(6)
        stage.telegram.fail("sendMessage", status=429, retry_after=7)
        await failing(stage)
        await stage.deliver("hi", chat=6, number="other")
        assert clock.slept == []
        await stage.deliver("hi")
        assert clock.slept == [7]


async def test_a_server_that_cannot_be_reached_has_not_delivered() -> None:
    async with open_stage(running=False, base_url="http://127.0.0.1:9") as stage:
        error = await failing(stage)
        assert (error.permanent, error.maybe_delivered) == (False, False)
        assert stage.telegram.token not in repr(error) + repr(error.__cause__)


async def test_addresses_of_another_kind_are_refused_for_good() -> None:
    async with open_stage(running=False) as stage:
        for address in (Address("telegram", "@ann"), Address("telegram", "5", "topic")):
            with pytest.raises(DeliveryError) as caught:
                await stage.hand_over(Delivery("d", address, "hi"))
            assert caught.value.permanent
        assert stage.telegram.calls == []


@pytest.mark.promise("P-answered-once")
async def test_a_delivery_that_failed_midway_goes_on_where_it_stopped() -> None:
    async with open_stage(running=False, clock=HastyClock()) as stage:
        stage.telegram.world.meet(5)
        whole = await stage.deliver(LONG, number="whole")
        expected, stage.telegram.world.messages = stage.texts(), {}
        third = asyncio.Event()
        third.set()
        stage.telegram.fail("sendMessage", gate=third, times=2)
        stage.telegram.fail("sendMessage", status=429, retry_after=1)
        await failing_delivery(stage, LONG)
        assert stage.texts() == expected[:2]
        first = await stage.deliver(LONG, number="again")
        assert stage.texts() == expected
        assert first == str(stage.telegram.sent(5)[0].message_id) != whole


async def failing_delivery(stage: Stage, text: str) -> None:
    with pytest.raises(DeliveryError):
        await stage.deliver(text, number="again")


@pytest.mark.promise("P-repeat-marked")
@pytest.mark.parametrize("doubt", [Doubt.RESTART, Doubt.SILENCE])
async def test_of_what_may_have_arrived_only_the_uncertain_part_is_marked(doubt: Doubt) -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        await stage.deliver(LONG, number="whole")
        expected, stage.telegram.world.messages = stage.texts(), {}
        stage.handovers["d1"].parts, stage.handovers["d1"].doubt = ("1",), doubt
        await stage.deliver(LONG)
        assert stage.texts() == [f"{NOTES[doubt]}{expected[1]}", *expected[2:]]
        bold = [entity["offset"] for entity in stage.telegram.sent(5)[0].entities if entity["type"] == "bold"]
        assert bold[0] == expected[1].index("bold") + len(NOTES[doubt])


def test_a_mark_without_room_is_a_message_of_its_own() -> None:
    full = RenderedMessage("x" * MAX_UNITS, (EntitySpan(0, 3, Mark("bold")),))
    assert with_note(full, AFTER_RESTART) == [RenderedMessage(AFTER_RESTART.strip()), full]


async def test_reactions_edits_and_removals() -> None:
    async with open_stage(running=False) as stage:
        said = str((await stage.telegram.world.say("hello"))["message"]["message_id"])
        own = await stage.deliver("first")
        await stage.hand_over(delivery("", action="react", message_id=said, emoji="👍"))
        await stage.hand_over(delivery("**second**", number="d2", action="edit", message_id=own))
        await stage.hand_over(delivery("**second**", number="d3", action="edit", message_id=own))
        assert stage.texts() == ["second"]
        assert stage.telegram.world.reactions[5, int(said)] == ("👍",)
        await stage.hand_over(delivery("", number="d4", action="delete", message_id=own))
        assert stage.texts() == []


@pytest.mark.parametrize("number", [None, "last"])
async def test_an_action_without_a_message_is_refused_for_good(number: str | None) -> None:
    async with open_stage(running=False) as stage:
        with pytest.raises(DeliveryError, match="needs the numeric id"):
            await stage.hand_over(delivery("", action="delete", message_id=number))


async def test_pictures_go_as_photos_and_other_files_as_documents() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        stage.blobs |= {"a": b"jpeg-bytes", "b": b"text-bytes"}
        await stage.deliver("**look**", number="1", media="a", media_name="cat.jpg")
        await stage.deliver("", number="2", media="b", media_name="notes.txt")
        photo, document = stage.telegram.sent(5)
        assert (photo.text, photo.file, photo.entities[0]["type"]) == ("look", b"jpeg-bytes", "bold")
        assert (document.file_name, document.file) == ("notes.txt", b"text-bytes")
        assert [call.method for call in stage.telegram.calls] == ["sendPhoto", "sendDocument"]


async def test_a_picture_that_telegram_refuses_goes_as_a_document() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        stage.blobs["a"] = b"odd"
        stage.telegram.fail("sendPhoto", status=400, description="Bad Request: PHOTO_INVALID_DIMENSIONS")
        await stage.deliver("", media="a", media_name="strip.png")
        assert stage.telegram.sent(5)[0].file_name == "strip.png"


async def test_a_caption_that_is_too_long_follows_as_messages() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        stage.blobs["a"] = b"bytes"
        await stage.deliver("word " * 500, media="a", media_name="a.pdf")
        file, text = stage.telegram.sent(5)
        assert (file.text, text.text.split()) == ("", ["word"] * 500)


async def test_a_file_that_is_gone_fails_for_good() -> None:
    async with open_stage(running=False) as stage:
        with pytest.raises(DeliveryError, match="is gone") as caught:
            await stage.deliver("x", media="missing")
        assert caught.value.permanent


async def test_a_group_that_moved_is_followed() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(-1001)
        stage.telegram.fail("sendMessage", chat=-9, status=400, description="upgraded", migrate_to=-1001)
        with pytest.raises(DeliveryError) as caught:
            await stage.deliver("hi", chat=-9)
        assert not caught.value.permanent
        await stage.deliver("hi", chat=-9)
        assert stage.texts(-1001) == ["hi"]


async def test_nothing_to_say_is_an_error_for_good() -> None:
    async with open_stage(running=False) as stage:
        with pytest.raises(DeliveryError) as caught:
            await stage.deliver(" ")
        assert caught.value.permanent


async def test_an_edit_of_a_message_that_is_gone_is_refused_and_sends_nothing() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        with pytest.raises(DeliveryError, match="not found") as caught:
            await stage.hand_over(delivery("x", action="edit", message_id="99"))
        assert caught.value.permanent and not caught.value.closed and stage.texts() == []


async def test_an_edit_of_a_file_changes_what_stands_below_it() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        stage.blobs["a"] = b"bytes"
        own = await stage.deliver("before", media="a", media_name="a.txt")
        for number in ("e1", "e2"):
            await stage.hand_over(delivery("**after**", number=number, action="edit", message_id=own))
        (sent,) = stage.telegram.sent(5)
        assert (sent.text, sent.file, sent.entities[0]["type"]) == ("after", b"bytes", "bold")


async def test_what_waits_for_a_group_that_moved_goes_to_its_new_id_also_after_a_restart(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        telegram.world.meet(-1001)
        telegram.fail("sendMessage", chat=-9, status=400, description="upgraded", migrate_to=-1001)
        async with open_stage(running=False, telegram=telegram, state_dir=tmp_path) as stage:
            with pytest.raises(DeliveryError, match="moved"):
                await stage.deliver("one", chat=-9)
        async with open_stage(running=False, telegram=telegram, state_dir=tmp_path) as stage:
            await stage.deliver("one", chat=-9)
            await stage.deliver("two", chat=-9, number="d2")
            assert stage.texts(-1001) == ["one", "two"]
        assert [call["chat_id"] for call in telegram.called("sendMessage")] == [-9, -1001, -1001]


async def test_a_move_in_a_circle_ends() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.fail("sendMessage", status=400, description="upgraded", migrate_to=-9, times=9)
        with pytest.raises(DeliveryError, match="cannot be followed") as caught:
            await stage.deliver("hi", chat=-9)
        assert caught.value.permanent

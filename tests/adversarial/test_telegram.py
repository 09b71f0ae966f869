"""Class `telegram`: updates that no real person causes. None ends or holds up the poll loop, none becomes a command."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from telegram.error import NetworkError

from goclaw.channels.telegram.polling import parse_updates as polled
from goclaw.channels.telegram.request import AiohttpRequest
from goclaw.channels.telegram.updates import Me, inbound_of
from goclaw.common.core.events import Inbound
from goclaw.common.core.redact import MASK, known_in, remember
from tests.canaries import FORMATTED, formatted
from tests.channels.telegram.play import PRIVATE, playing
from tests.channels.telegram.support import HastyClock, eventually, open_stage
from tests.fake_telegram import oracle
from tests.fake_telegram.world import Json, chat_of, person

ME = Me(42, "claw_bot")
ODD: list[Any] = [None, True, -1, 0, 1.5, 2**70, "", "5", "5\n", "\ud800", "\x1b[31m", [], [1], {}, {"id": [1]}, [[{}]]]
FIELDS = [
    "from", "chat", "text", "entities", "message_id", "caption", "photo", "document", "reply_to_message", "quote",
    "forward_origin", "message_thread_id", "is_topic_message", "sender_chat", "voice", "date", "is_automatic_forward",
]  # fmt: skip
_STORED = TypeAdapter(Inbound)


def message(text: str = "hello", chat: int = 5, **more: Any) -> Json:
    """What Ann writes."""
    return {"message_id": 1, "date": 1, "chat": chat_of(chat), "from": person(5, "Ann"), "text": text, **more}


def odd_messages() -> Iterator[Json]:
    """A message with one field missing or of another kind, deep inside as well."""
    for field in FIELDS:
        yield {name: value for name, value in message().items() if name != field}
        yield from (message() | {field: value} for value in ODD)
    for value in ODD:
        yield message(chat=-100) | {"chat": {"id": value, "type": "supergroup"}}
        yield message() | {"chat": {"id": 5, "type": value}}
        yield message() | {"from": {"id": value, "first_name": value}}
        yield message(entities=[{"type": "mention", "offset": value, "length": value}])
        yield message(entities=[{"type": "bot_command", "offset": -5, "length": 2**40}])
        yield message(photo=[{"file_id": value, "width": 1, "height": 1, "file_size": value}])
        yield message(document={"file_id": value, "mime_type": "image/png", "file_name": value})
        yield message(is_topic_message=True, message_thread_id=value)
        yield message(reply_to_message={"from": value, "text": value})
        yield message(forward_origin={"sender_user": value})


def checked(update: Json) -> Inbound | None:
    """What becomes of an update; it must survive being written to the journal and read back."""
    inbound = inbound_of(update, ME, 1.0, (-100,))
    if inbound is not None:
        assert _STORED.validate_json(_STORED.dump_json(inbound, warnings="error"), strict=False) == inbound
        assert re.fullmatch("telegram:-?[0-9]+", inbound.actor.key)
    return inbound


@pytest.mark.promise("P-telegram-stays")
def test_an_odd_field_makes_no_message_or_a_sound_one() -> None:
    for number, odd in enumerate(odd_messages()):
        if "\ud800" not in repr(odd) and "\\ud800" not in repr(odd):
            checked({"update_id": number, "message": odd})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FIELDS, "id", "type"]), inner),
    max_leaves=12,
)


@pytest.mark.long
@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(FIELDS), _JSON))
def test_no_mixture_of_fields_raises(fields: Json) -> None:
    inbound = inbound_of({"update_id": 1, "message": message() | fields}, ME, 1.0, (-100,))
    assert inbound is None or inbound.id == "telegram:1"


KINDS = [
    "edited_message", "channel_post", "edited_channel_post", "callback_query", "inline_query", "poll", "my_chat_member",
    "chat_join_request", "message_reaction", "business_message", "guest_message", "a_kind_of_next_year",
]  # fmt: skip


@pytest.mark.promise("P-telegram-stays")
async def test_after_every_odd_update_the_next_message_is_still_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "check_answer", lambda method, answer: None)  # it would refuse to send them
    async with open_stage() as stage, asyncio.timeout(40):
        world = stage.telegram.world
        for kind in KINDS:
            await world.update(kind, message("/clear"))
            await world.update(kind, {})
        for odd in odd_messages():
            await world.update("message", odd)
        await world.say("still there?", user=6)
        await eventually(lambda: "still there?" in stage.gateway.begun and not world.updates)
    edits = {inbound.edited for inbound in stage.gateway.accepted if inbound.text == "/clear"}
    assert edits == {True}, "an edited message is no command: see tests/gateway/intake/test_gateway_edits.py"


def test_what_is_no_update_is_passed_over_and_does_not_hold_up_the_rest() -> None:
    sound = [{"update_id": 8}, {"update_id": 7}]
    assert polled(["nonsense", None, {}, {"update_id": "9"}, {"update_id": True}, *sound]) == sound
    for answer in ({"update_id": 1}, ["nonsense"], None, "x", 5):
        with pytest.raises(NetworkError):
            polled(answer)


@pytest.mark.parametrize(
    "text", [rb"\ud83d half a character", b"\xff half a byte", b'half", "date": NaN, "caption": "']
)
def test_an_answer_that_is_not_quite_json_is_taken_all_the_same(text: bytes) -> None:
    found = AiohttpRequest.parse_json_payload(b'{"ok": true, "result": [{"update_id": 7, "text": "' + text + b'"}]}')
    [update] = polled(found["result"])
    assert update["update_id"] == 7 and "half" in update["text"].encode().decode()


def test_a_forwarded_command_is_anothers_words() -> None:
    origin = {"type": "user", "sender_user": person(7, "Mallory")}
    inbound = checked({"update_id": 1, "message": message("/clear", forward_origin=origin)})
    assert inbound is not None and inbound.text == "[Forwarded from Mallory]\n/clear"


KEY = "sk-LK8957-a413c09d77be2f01"


@pytest.mark.promise("P-secrets-masked")
async def test_no_way_of_formatting_brings_a_secret_into_a_message_an_edit_or_a_caption() -> None:
    remember(KEY)
    async with open_stage(running=False, clock=HastyClock()) as stage:
        stage.telegram.world.meet(5)
        stage.blobs["a"] = b"bytes"
        for way, text in formatted(KEY).items():
            own = await stage.deliver(text, number=f"{way}1")
            await stage.deliver(f"Now {text}", number=f"{way}2", action="edit", message_id=own)
            await stage.deliver(text, number=f"{way}3", media="a", media_name="a.bin")
        await stage.deliver("word " * 5_000 + " ".join(formatted(KEY).values()), number="whole")
        calls, files = repr(stage.telegram.calls), [sent.file or b"" for sent in stage.telegram.sent(5)]
    for said in (calls, *(file.decode() for file in files)):
        assert not known_in(said) and "a413c09d77be2f01" not in said
    assert calls.count(MASK) >= 3 * (len(FORMATTED) - 1)


@pytest.mark.promise("P-secrets-masked")
async def test_no_way_of_formatting_brings_a_secret_into_a_preview() -> None:
    remember(KEY)
    async with playing(PRIVATE) as (play, stage):
        await play.begin(" ".join(formatted(KEY).values()))
        await eventually(lambda: stage.telegram.called("sendMessageDraft"))
        (draft,) = stage.telegram.called("sendMessageDraft")
    assert MASK in draft["text"] and "a413c09d77be2f01" not in repr(draft)

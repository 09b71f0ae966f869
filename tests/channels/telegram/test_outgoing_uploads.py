"""Files that go out, each as what it is; reactions that Telegram has."""

import pytest

from goclaw.channels.telegram.outgoing import MAX_PHOTO, NO_CAPTION, OutgoingFile, kind_of
from goclaw.errors import DeliveryError
from tests.channels.telegram.support import delivery, open_stage

OPUS = b"OggS" + bytes(24) + b"OpusHead" + b"sound"
MP4 = b"\x00\x00\x00 ftypisom"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.jpg", b"x", "photo"),
        ("a.PNG", b"x", "photo"),
        ("a.png", b"x" * (MAX_PHOTO + 1), "document"),
        ("a.ogg", OPUS, "voice"),
        ("a.oga", OPUS, "voice"),
        ("a.ogg", b"OggS" + bytes(24) + b"\x01vorbis", "document"),
        ("a.mp3", b"ID3", "audio"),
        ("a.m4a", MP4, "audio"),
        ("a.gif", b"GIF89a", "animation"),
        ("a.gif", b"no picture", "document"),
        ("a.mp4", MP4, "video"),
        ("a.mp4", b"<html>", "document"),
        ("a.pdf", b"%PDF", "document"),
        ("a", b"", "document"),
    ],
)
def test_a_file_goes_as_what_its_name_and_its_bytes_say(name: str, content: bytes, kind: str) -> None:
    assert kind_of(OutgoingFile(name, content, NO_CAPTION)) == kind


@pytest.mark.parametrize(
    ("name", "content", "method"),
    [
        ("a.ogg", OPUS, "sendVoice"),
        ("a.mp3", b"ID3", "sendAudio"),
        ("a.mp4", MP4, "sendVideo"),
        ("a.gif", b"GIF89a", "sendAnimation"),
    ],
)
async def test_sound_and_film_can_be_played_in_the_chat(name: str, content: bytes, method: str) -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        stage.blobs["a"] = content
        await stage.deliver("**listen**", media="a", media_name=name)
        (sent,) = stage.telegram.sent(5)
        assert (sent.text, sent.file, sent.entities[0]["type"]) == ("listen", content, "bold")
        assert [call.method for call in stage.telegram.calls] == [method]


async def test_what_telegram_does_not_take_as_such_goes_as_a_document() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        stage.blobs["a"] = OPUS
        stage.telegram.fail("sendVoice", status=400, description="Bad Request: VOICE_MESSAGES_FORBIDDEN")
        await stage.deliver("", media="a", media_name="a.ogg")
        assert stage.telegram.sent(5)[0].file_name == "a.ogg"


async def test_a_large_file_goes_whole() -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.world.meet(5)
        stage.blobs["a"] = bytes(range(256)) * 20_000
        await stage.deliver("", media="a", media_name="a.bin")
        assert stage.telegram.sent(5)[0].file == stage.blobs["a"]


@pytest.mark.parametrize("emoji", ["🦀", "thumbs up", "👍👍", "", None, "x" * 5_000])
async def test_another_reaction_is_refused_with_some_that_there_are(emoji: str | None) -> None:
    async with open_stage(running=False) as stage:
        said = str((await stage.telegram.world.say("hello"))["message"]["message_id"])
        with pytest.raises(DeliveryError, match=r"as a reaction; it accepts, for example, 👍 👎 ❤ 🔥") as caught:
            await stage.hand_over(delivery("", action="react", message_id=said, emoji=emoji))
        assert caught.value.permanent and len(str(caught.value)) < 200
        assert stage.telegram.calls == []

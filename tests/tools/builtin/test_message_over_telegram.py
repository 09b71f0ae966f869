"""Files in and out, and "react to this": the whole daemon in one process, between a person on Telegram and a script."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from goclaw.common.config.schema import Config
from goclaw.common.core.messages import ToolResult
from goclaw.program.app import open_app
from tests.channels.telegram.support import UNHURRIED
from tests.fake_telegram.server import FakeTelegram
from tests.llm.transcription_server import fake_transcriptions

ANN = "telegram:5"
OPUS = b"OggS" + bytes(24) + b"OpusHead" + b"sound"


def calls(when: str, **given: Any) -> dict[str, Any]:
    """The model calls `message` when the last message has these words in it."""
    return {"when": when, "calls": [{"id": "c1", "name": "message", "input": given}]}


@asynccontextmanager
async def daemon(
    folder: Path, answers: Sequence[dict[str, Any]], **settings: Any
) -> AsyncIterator[tuple[FakeTelegram, Any]]:
    """A daemon on a fake Telegram where Ann may use everything."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    (state / "users.json").write_text(json.dumps({"users": {ANN: {"name": "Ann"}}}))
    (folder / "script.json").write_text(json.dumps({"answers": answers, "rest": {"text": "I have nothing to say."}}))
    async with FakeTelegram() as telegram:
        config = Config.model_validate(
            {
                "state_dir": state,
                "models": {"agent": [f"scripted:{folder / 'script.json'}"], "summary": []},
                "telegram": UNHURRIED | {"token": telegram.token, "base_url": telegram.base_url, "poll_seconds": 5},
                **settings,
            }
        )
        async with open_app(config) as app:
            yield telegram, app


async def results(app: Any) -> list[str]:
    """What the model was told of its calls."""
    history = await app.sessions.ports.store.transcripts.history(ANN, 0, 100)
    return [row.message.content for row in history if isinstance(row.message, ToolResult)]


async def test_react_to_this(tmp_path: Path) -> None:
    script = [
        calls("message id 1</context>", action="react", message_id="1", emoji="🎉"),
        {"when": "reacted with", "text": "Done."},
    ]
    async with daemon(tmp_path, script) as (telegram, app):
        await telegram.world.say("It works! React to this.")
        await telegram.wait_for(lambda: "Done." in [sent.text for sent in telegram.sent(5)] or None)
        assert telegram.world.reactions == {(5, 1): ("🎉",)}
        assert await results(app) == ["reacted with 🎉 to message 1"]


async def test_a_reaction_that_telegram_has_not_is_told_to_the_model(tmp_path: Path) -> None:
    script = [
        calls("React", action="react", message_id="1", emoji="🦀"),
        {"when": "for example, 👍", "text": "There is no crab."},
    ]
    async with daemon(tmp_path, script) as (telegram, app):
        await telegram.world.say("React to this with a crab")
        await telegram.wait_for(lambda: "There is no crab." in [sent.text for sent in telegram.sent(5)] or None)
        assert telegram.world.reactions == {}
        assert "not delivered: Telegram does not accept 🦀" in (await results(app))[0]


async def test_a_channel_that_does_not_exist_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    script = [
        calls("Tell her", action="send", text="Tea?", channel="signal", chat_id="6"),
        {"when": "no channel named signal", "text": "There is no Signal here."},
    ]
    async with daemon(tmp_path, script) as (telegram, app):
        await telegram.world.say("Tell her that there is tea")
        assert (await telegram.wait_sent(5))[0].text == "There is no Signal here."
        assert "not delivered: no channel named signal is connected" in (await results(app))[0]


async def test_a_document_comes_in_is_read_and_goes_out_again(tmp_path: Path) -> None:
    script = [
        {"when": "Wensleydale", "text": "A list of cheese."},
        calls("send it back", action="send", media_path="inbox/cheese.txt", text="**Here** it is"),
        {"when": "message id", "text": "I sent it."},
    ]
    async with daemon(tmp_path, script) as (telegram, app):
        await telegram.world.say(
            "what is it?", document=b"Wensleydale\nGouda\n", mime="text/plain", file_name="cheese.txt"
        )
        await telegram.wait_sent(5)
        await telegram.world.say("send it back")
        listed, sent, answer = await telegram.wait_sent(5, 3)
        assert (listed.text, sent.text, answer.text) == ("A list of cheese.", "Here it is", "I sent it.")
        assert (sent.file_name, sent.file) == ("cheese.txt", b"Wensleydale\nGouda\n")
        assert await results(app) == [f"sent to telegram:5, message id {sent.message_id}"]


async def test_a_voice_message_without_a_transcriber_is_kept_and_can_be_sent_on(tmp_path: Path) -> None:
    script = [
        calls("saved as inbox/voice.ogg; not transcribed", action="send", media_path="inbox/voice.ogg"),
        {"when": "message id", "text": "I cannot hear, so I send it back."},
    ]
    async with daemon(tmp_path, script) as (telegram, _):
        voice = telegram.world.keep_file(OPUS, "voice.ogg") | {"duration": 3, "mime_type": "audio/ogg"}
        await telegram.world.say(voice=voice)
        sent = (await telegram.wait_sent(5, 2))[0]
        assert sent.file == OPUS and telegram.called("sendVoice")


async def test_a_voice_message_is_answered_where_a_transcriber_is_configured(tmp_path: Path) -> None:
    script = [{"when": "Where is the key?\n</material", "text": "Below the mat."}]
    async with fake_transcriptions() as ears:
        ears.heard = "Where is the key?"
        settings = {
            "media": {"transcriber": "whisper:tiny"},
            "providers": {"whisper": {"base_url": ears.url}},
        }
        async with daemon(tmp_path, script, **settings) as (telegram, _):
            voice = telegram.world.keep_file(OPUS, "voice.ogg") | {"duration": 3, "mime_type": "audio/ogg"}
            await telegram.world.say(voice=voice)
            assert (await telegram.wait_sent(5))[0].text == "Below the mat."
        assert [(asked.model, asked.name, asked.content) for asked in ears.asked] == [("tiny", "voice.ogg", OPUS)]


async def test_edit_and_delete_reach_what_was_sent(tmp_path: Path) -> None:
    script = [
        calls("begin", action="send", text="first"),
        calls("change", action="edit", message_id="2", text="second"),
        calls("away", action="delete", message_id="2"),
        {"when": "sent to", "text": "one"},
        {"when": "edited message 2", "text": "two"},
        {"when": "deleted message 2", "text": "three"},
    ]
    async with daemon(tmp_path, script) as (telegram, _):
        for word, left in (("begin", ["first", "one"]), ("change", ["second", "one", "two"])):
            await telegram.world.say(word)
            await telegram.wait_for(lambda: [sent.text for sent in telegram.sent(5)] == left or None)  # noqa: B023 -- awaited here
        await telegram.world.say("away")
        await telegram.wait_for(lambda: [sent.text for sent in telegram.sent(5)] == ["one", "two", "three"] or None)

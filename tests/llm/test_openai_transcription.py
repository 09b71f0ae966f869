"""Transcripts over OpenAI's protocol, from a server on loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.net import open_client
from goclaw.errors import ConfigError, TranscriptionError
from goclaw.llm.transcription import Recording, Transcriber, TranscriberPorts, open_transcriber
from tests.channels.telegram.support import HastyClock
from tests.llm.transcription_server import Asked, FakeTranscriptions, fake_transcriptions

SPOKEN = Recording(b"OggS" + bytes(range(256)) * 40 + b"\r\n--", "audio/ogg", "voice.ogg")
KEY = "a-key-that-nobody-may-see-12345"


@asynccontextmanager
async def opened(clock: HastyClock | None = None) -> AsyncIterator[tuple[FakeTranscriptions, Transcriber]]:
    """A server, and a transcriber that is configured for it."""
    async with fake_transcriptions() as server, open_client() as http:
        config = Config.model_validate(
            {
                "media": {"transcriber": "whisper:large-v3"},
                "providers": {"whisper": {"base_url": server.url, "api_key": KEY}},
            }
        )
        transcriber = open_transcriber(config, TranscriberPorts(http, clock or HastyClock()))
        assert transcriber
        yield server, transcriber


async def test_the_recording_is_uploaded_byte_for_byte_and_its_text_comes_back() -> None:
    async with opened() as (server, transcriber):
        server.heard = "  Käufe Milch 🥛.\n"
        assert await transcriber.transcribe(SPOKEN) == "Käufe Milch 🥛."
        expected = Asked("large-v3", "voice.ogg", "audio/ogg", SPOKEN.content, f"Bearer {KEY}")
        assert (transcriber.spec, server.asked) == ("whisper:large-v3", [expected])


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_what_waiting_may_mend_is_tried_again(status: int) -> None:
    clock = HastyClock()
    async with opened(clock) as (server, transcriber):
        server.answers = [(status, {"error": {"message": "busy"}}, {"retry-after": "7"}), (status, b"", {})]
        assert await transcriber.transcribe(SPOKEN) == "Buy milk."
        assert clock.slept == [7, 2]


async def test_a_server_that_asks_for_a_long_wait_does_not_get_it() -> None:
    clock = HastyClock()
    async with opened(clock) as (server, transcriber):
        server.answers = [(429, b"", {"retry-after": "86400"})]
        await transcriber.transcribe(SPOKEN)
        assert clock.slept == [20]


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (400, {"error": {"message": "audio too short"}}, "whisper:large-v3 answered HTTP 400: audio too short"),
        (404, b"<html>", "whisper:large-v3 answered HTTP 404"),
        (401, {"error": {"message": f"wrong key {KEY}"}}, r"refused the key; check providers\.whisper\.api_key"),
        (403, b"", "refused the key"),
        (200, b"<html>", "has no text; is its base_url right"),
        (200, {"words": []}, "has no text"),
        (200, {"text": 5}, "has no text"),
        (200, [], "has no text"),
        (200, b"x" * (2 << 20), "larger than 1 MB"),
        (302, b"", "answered HTTP 302"),
        (500, {"detail": "out of memory"}, "answered HTTP 500"),
        (400, {"error": "a\nb\u202e" + "x" * 5_000}, "HTTP 400: a b"),
    ],
)
async def test_every_failure_is_told_in_words_without_the_key(status: int, body: Any, words: str) -> None:
    async with opened() as (server, transcriber):
        server.answers = [(status, body, {"location": "http://127.0.0.1:9/x"})] * 3
        with pytest.raises(TranscriptionError, match=words) as caught:
            await transcriber.transcribe(SPOKEN)
        assert KEY not in str(caught.value) and len(str(caught.value)) < 400 and "\n" not in str(caught.value)
        assert len(server.asked) == (3 if status == 500 else 1)


async def test_a_server_that_is_not_there_is_told_in_words() -> None:
    async with open_client() as http:
        config = Config.model_validate(
            {"media": {"transcriber": "vllm:whisper"}, "providers": {"vllm": {"base_url": "http://127.0.0.1:9/v1"}}}
        )
        transcriber = open_transcriber(config, TranscriberPorts(http, HastyClock()))
        assert transcriber
        with pytest.raises(TranscriptionError, match=r"vllm:whisper cannot be reached \(ClientConnectorError\)"):
            await transcriber.transcribe(SPOKEN)


async def test_without_a_configured_one_there_is_none() -> None:
    async with open_client() as http:
        assert open_transcriber(Config(), TranscriberPorts(http, HastyClock())) is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("openai-chat:whisper-1", r"no key; set OPENAI_API_KEY or providers\.openai-chat\.api_key"),
        ("hearing:tiny", r"no server is known as hearing; set providers\.hearing\.base_url .*, or take one of groq"),
    ],
)
async def test_what_is_missing_is_told_with_the_remedy(spec: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with open_client() as http:
        config = Config.model_validate({"media": {"transcriber": spec}})
        with pytest.raises(ConfigError, match=words):
            open_transcriber(config, TranscriberPorts(http, HastyClock()))


async def test_a_key_from_the_environment_goes_only_to_the_server_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with fake_transcriptions() as server, open_client() as http:
        config = Config.model_validate(
            {"media": {"transcriber": "openai:whisper-1"}, "providers": {"openai": {"base_url": server.url}}}
        )
        transcriber = open_transcriber(config, TranscriberPorts(http, HastyClock()))
        assert transcriber and await transcriber.transcribe(SPOKEN)
        assert server.asked[0].key == ""


@pytest.mark.parametrize("spec", ["", "whisper", ":x", "a:", "a b:c", "a:b c"])
def test_a_name_that_is_none_is_refused_with_an_example(spec: str) -> None:
    with pytest.raises(ValueError, match="should be `provider:model`, such as openai-chat:whisper-1"):
        Config.model_validate({"media": {"transcriber": spec}})

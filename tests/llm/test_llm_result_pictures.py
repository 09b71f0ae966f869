"""Pictures that tools give back: every wire shows them where its protocol takes them, a blind model gets words."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from goclaw.common.config.schema import ModelOptions
from goclaw.common.config.servers import SERVERS
from goclaw.common.core.messages import (
    NO_LONGER_KEPT,
    NOT_SEEN,
    AssistantMessage,
    Image,
    Message,
    ToolCall,
    ToolResult,
    UserMessage,
)
from goclaw.errors import ToolError
from goclaw.llm import anthropic, ollama, openai_chat
from goclaw.llm.base import Request
from goclaw.llm.encoded import Encode, EncodedMessages, EncodedTools, results_first, with_conversation
from goclaw.llm.token_counts import PER_IMAGE, estimate_message
from tests.llm.asking import PICTURE, model_ports

SEEN = ToolResult("one", "read", "a.png is a picture", images=(Image("0" * 64, "image/png"),))
PLAIN = ToolResult("two", "read", "text")
TALK: list[Message] = [
    UserMessage("look"),
    AssistantMessage("", (ToolCall("one", "read", {}), ToolCall("two", "read", {}))),
    SEEN,
    PLAIN,
]
SAID = base64.b64encode(PICTURE).decode()


async def load(key: str) -> bytes:
    return PICTURE


async def gone(key: str) -> bytes:
    raise ToolError("no such media")


@asynccontextmanager
async def chat(server: str) -> AsyncIterator[Encode]:
    async with model_ports() as ports:
        yield openai_chat.OpenAIChatModel(
            f"{server}:m", SERVERS[server], "http://x", None, ModelOptions(images=True), ports
        )._encode


async def body(encode: Encode) -> list[dict[str, Any]]:
    messages = EncodedMessages(encode, load)
    sent = await with_conversation({}, Request("", TALK), messages, EncodedTools(lambda tools: b"[]"))
    found: list[dict[str, Any]] = orjson.loads(sent)["messages"]
    return found


async def test_anthropic_gets_the_picture_in_the_result() -> None:
    blocks = await EncodedMessages(anthropic.encode, load).blocks(results_first(TALK))
    sent = [orjson.loads(turn) for turn in anthropic.join(TALK, blocks, marked=False)]
    first, second = sent[-1]["content"]
    assert [part["type"] for part in first["content"]] == ["text", "image"]
    assert first["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": SAID}
    assert second == {"type": "tool_result", "tool_use_id": "two", "content": "text"}


async def test_openai_gets_it_behind_all_results_from_a_person() -> None:
    async with chat("openai") as encode:
        sent = await body(encode)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    text, picture = sent[-1]["content"]
    assert "read" in text["text"] and picture["image_url"]["url"] == f"data:image/png;base64,{SAID}"


async def test_a_server_with_strict_turns_hears_the_assistant_between() -> None:
    async with chat("mistral") as encode:
        sent = await body(encode)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "assistant", "user"]


async def test_ollama_gets_it_behind_all_results() -> None:
    sent = await body(ollama.encode)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert sent[-1]["images"] == [SAID]


@pytest.mark.parametrize("encode", [anthropic.encode, ollama.encode])
async def test_a_blind_model_and_a_lost_picture_are_told_in_words(encode: Encode) -> None:
    (blind,) = await EncodedMessages(encode, load, lambda: False).blocks([SEEN])
    (lost,) = await EncodedMessages(encode, gone).blocks([SEEN])
    assert len(blind) == len(lost) == 1
    assert NOT_SEEN.encode() in blind[0] and SAID.encode() not in blind[0]
    assert NO_LONGER_KEPT.encode() in lost[0]


def test_a_picture_has_its_tokens() -> None:
    assert estimate_message(SEEN) == PER_IMAGE + estimate_message(ToolResult("one", "read", "a.png is a picture"))

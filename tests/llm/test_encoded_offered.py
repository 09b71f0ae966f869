"""Calls of tools that are not in a request are said back as calls of `tool_call`, on every wire."""

from itertools import product
from typing import Any

import pytest

from goclaw.common.core.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage
from goclaw.common.specs import TOOL_CALL, ToolSpec
from goclaw.llm.base import ModelPorts, Request
from goclaw.llm.encoded import EncodedMessages, as_offered
from goclaw.llm.ollama import encode
from tests.llm.asking import PICTURE, ask, saying
from tests.llm.fake_provider import FakeProvider
from tests.llm.wires import WIRES, Wire

READ, BY_CALL = ToolSpec("read", "Reads.", {}), ToolSpec(TOOL_CALL, "Runs another one.", {})
CALLS = (ToolCall("c1", "read", {"path": "a"}), ToolCall("c2", "glob", {"pattern": "*"}))
INDIRECT = {"name": "glob", "arguments": {"pattern": "*"}}
TALK: list[Message] = [
    UserMessage("hi"),
    AssistantMessage("", CALLS),
    ToolResult("c1", "read", "x"),
    ToolResult("c2", "glob", "y"),
]


async def load(key: str) -> bytes:
    return PICTURE


def test_only_what_is_not_in_the_request_is_said_otherwise_and_only_where_there_is_tool_call() -> None:
    for message, tools in product(TALK, ([], [READ])):
        assert as_offered(message, tools) is message
    said = [as_offered(message, [READ, BY_CALL]) for message in TALK]
    assert said == [
        TALK[0],
        AssistantMessage("", (CALLS[0], ToolCall("c2", TOOL_CALL, INDIRECT))),
        TALK[2],
        ToolResult("c2", TOOL_CALL, "y"),
    ]
    assert said[0] is TALK[0] and said[2] is TALK[2]


async def test_a_result_stays_one_of_tool_call_where_its_picture_is_left_out() -> None:
    seen = ToolResult("c2", "glob", "y", images=(Image("0" * 64, "image/png"),))
    request = Request("", [seen], [READ, BY_CALL])
    messages = EncodedMessages(encode, load)
    assert len((await messages.blocks(request.messages, request.tools))[0]) == 2, "the result and its picture"
    messages.leave_out(messages.blobs_in(request, documents=False))
    assert not messages.blobs_in(request, documents=False), "there is none in it any more"
    ((said,),) = await messages.blocks(request.messages, request.tools)
    assert f'"tool_name":"{TOOL_CALL}"'.encode() in said


def called(body: Any) -> list[str]:
    """The names of the calls in a request's conversation."""
    calls = [call["function"] for message in body["messages"] for call in message.get("tool_calls", ())]
    blocks = [
        block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]
    ]
    return [call["name"] for call in (*calls, *(block for block in blocks if block["type"] == "tool_use"))]


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
async def test_every_wire_says_them_so(fake: FakeProvider, ports: ModelPorts, wire: Wire) -> None:
    fake.will(wire.answer())
    await ask(wire.open(fake.url, ports), saying(*TALK, tools=[READ, BY_CALL]))
    await ask(wire.open(fake.url, ports), saying(*TALK, tools=[READ]))
    assert [called(received.body) for received in fake.asked] == [["read", TOOL_CALL], ["read", "glob"]]

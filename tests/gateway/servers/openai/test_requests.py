"""Bodies: what makes a question, what is ignored, and what is refused by its name."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.messages import Image, UserMessage
from goclaw.gateway.servers.openai.errors import ApiError
from goclaw.gateway.servers.openai.requests import MAX_CHARACTERS, ChatRequest, ResponsesRequest, parse
from tests.gateway.servers.openai.calling import HELLO, content, service, world_with
from tests.harness import Answer
from tests.picture_support import GIF

PICTURE = f"data:image/gif;base64,{base64.b64encode(GIF).decode()}"
DEEP = b'{"model": "goclaw", "messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def chat(**changed: Any) -> ChatRequest:
    return parse(ChatRequest, json.dumps({"model": "goclaw", "messages": HELLO, **changed}).encode())


def responses(**changed: Any) -> ResponsesRequest:
    return parse(ResponsesRequest, json.dumps({"model": "goclaw", "input": "Hello", **changed}).encode())


def refusal(kind: Any, **changed: Any) -> tuple[str | None, str]:
    with pytest.raises(ApiError) as caught:
        kind(**changed).extract_question()
    assert caught.value.status == 400
    return caught.value.param, str(caught.value)


TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


@pytest.mark.parametrize(
    ("changed", "param"),
    [
        ({"tools": [TOOL]}, "tools"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"messages": []}, "messages"),
        ({"messages": "Hello"}, "messages"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [*HELLO, {"role": "assistant", "content": "Hello."}]}, "messages"),
        ({"messages": [{"role": "system", "content": " "}]}, "messages"),
        ({"messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}, *HELLO]}, "messages[0].role"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "exec"}}]}, *HELLO]},
            "messages[0].tool_calls",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
            "messages[0].content[0].type",
        ),
        ({"messages": [{"role": "user", "content": "x" * (MAX_CHARACTERS + 1)}]}, "messages"),
        ({"stream": "maybe"}, "stream"),
        ({"model": ""}, "model"),
    ],
)
def test_what_would_lose_its_meaning_is_refused_by_its_name(changed: dict[str, Any], param: str) -> None:
    assert refusal(chat, **changed)[0] == param


@pytest.mark.parametrize(
    ("changed", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"conversation": "memory:here", "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": []}, "input"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "input[0].type"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
            "input[0].content[0].type",
        ),
    ],
)
def test_so_it_is_in_responses(changed: dict[str, Any], param: str) -> None:
    assert refusal(responses, **changed)[0] == param


def test_what_only_steers_a_model_is_ignored() -> None:
    steering = {"temperature": 0.2, "top_p": 1, "max_tokens": 5, "max_completion_tokens": 5, "seed": 1, "stop": ["x"]}
    more = {"user": "u", "metadata": {"a": "b"}, "store": True, "tool_choice": "auto", "tools": [], "chat_id": "c"}
    assert (
        chat(**steering, **more, n=1, logprobs=False, response_format={"type": "text"}).extract_question().message.text
    )
    kept = {"truncation": "auto", "include": [], "reasoning": {"effort": "low"}, "max_output_tokens": 9}
    assert (
        responses(**kept, parallel_tool_calls=True, text={"verbosity": "low"}).extract_question().message.text
        == "Hello"
    )


def test_items_of_an_earlier_response_may_be_sent_back() -> None:
    output = [
        {"id": "rs_1", "type": "reasoning", "summary": []},
        {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "Hi.", "annotations": []}
        ]},
    ]  # fmt: skip
    asked = responses(input=[{"role": "user", "content": "Hello"}, *output, {"role": "user", "content": "And?"}],
                      instructions="Be brief.").extract_question()  # fmt: skip
    assert [(each.role, each.text) for each in asked.earlier] == [("user", "Be brief.\n\nHello"), ("assistant", "Hi.")]
    assert asked.message.text == "And?"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', DEEP, b"\xff\xfe", b'{"model": "goclaw"}'])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
async def test_a_body_that_is_no_request_is_refused(tmp_path: Path, body: bytes, path: str) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        refused = await served.send(body, path)
        assert refused.status == 400 and refused.error["type"] == "invalid_request_error"


async def test_pictures_of_the_message_and_of_the_history_reach_the_model(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("A dot."), Answer("The same."))
    part = {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}}
    question = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}
    later = [question, {"role": "assistant", "content": "A dot."}, {"role": "user", "content": "Sure?"}]
    async with world.running() as core, service(world, core) as served:
        assert content(await served.send({"model": "goclaw", "messages": [question]})) == "A dot."
        assert content(await served.send({"model": "goclaw", "messages": later})) == "The same."
        shown = [request.messages[0] for request in world.script.requests]
        blobs = core.sessions.ports.environment.blobs
        for message in shown:
            assert isinstance(message, UserMessage)
            (image,) = message.images
            assert image == Image(image.blob, "image/gif") and await blobs.get(image.blob) == GIF


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://example.org/a.png", "data: URL"),
        ("http://169.254.169.254/latest", "data: URL"),
        ("file:///etc/passwd", "data: URL"),
        ("data:image/png;base64,@@@", "not a picture"),
        ("data:image/png;base64,aGVsbG8=", "not a picture"),
        ("data:image/svg+xml,<svg/>", "not a picture"),
    ],
)
def test_a_picture_that_is_none_is_refused_and_no_address_is_fetched(url: str, words: str) -> None:
    part = {"type": "image_url", "image_url": {"url": url}}
    param, said = refusal(chat, messages=[{"role": "user", "content": [part]}])
    assert param == "messages[0].content[0].image_url" and words in said

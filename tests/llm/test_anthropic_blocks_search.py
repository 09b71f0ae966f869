"""Anthropic's own tool search on the wire: what is sent, what comes back, and what is said of a refusal."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from anthropic.types import ServerToolUseBlockParam, ToolSearchToolResultBlockParam
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from pydantic import SecretStr

from goclaw.common.config.schema import Config, ModelOptions, ModelsSettings, ProviderSettings
from goclaw.common.core.messages import AssistantMessage, Message, Native, ToolCall, ToolResult, UserMessage
from goclaw.common.specs import ToolSpec
from goclaw.llm.base import ChatModel, ModelPorts, Request
from goclaw.llm.open import open_model
from tests.llm.asking import TIME, WEATHER, ask, model_ports, saying
from tests.llm.caching_provider import stream
from tests.llm.fake_provider import FakeProvider, Reply, fake_provider, frames, refusal
from tests.llm.oracles import validated
from tests.llm.wires import ANTHROPIC, KEY, OPENAI

SEARCH: dict[str, Any] = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
MARK = {"cache_control": {"type": "ephemeral"}}
SEARCHED: dict[str, Any] = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "tool_search_tool_bm25",
    "input": {"query": "what time it is"},
}
FOUND: dict[str, Any] = {
    "type": "tool_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "get_time"}],
    },
}
CALLED: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "get_time", "input": {"tz": "UTC"}}
OURS = [ToolSpec(name, "Ours.", {"type": "object"}) for name in ("tool_search", "tool_call")]
ASKED = replace(saying("What time is it?", tools=[WEATHER, *OURS]), deferred=[TIME])


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        server.will(ANTHROPIC.answer())
        yield server


@pytest.fixture
async def ports() -> AsyncIterator[ModelPorts]:
    async with model_ports() as given:
        yield given


def model_at(
    fake: FakeProvider, ports: ModelPorts, spec: str = ANTHROPIC.spec, *, defers: bool = True, **options: Any
) -> ChatModel:
    settings = ProviderSettings(api_key=SecretStr(KEY), base_url=fake.url, defer_tools=defers)
    models = ModelsSettings(options={spec: ModelOptions(context_window=100_000, **options)})
    return open_model(spec, Config(providers={"anthropic": settings}, models=models), ports)


def saying_blocks(*blocks: dict[str, Any], stop: str = "") -> Reply:
    """An answer of these content blocks."""

    class Nothing:
        rest = read = written = 0

    events = list(stream(blocks, Nothing()))  # type: ignore[arg-type]  # of the counts nothing is asked here
    if stop:
        events[-2]["delta"]["stop_reason"] = stop
    return frames(*events)


async def bodies(model: ChatModel, fake: FakeProvider, *requests: Request) -> list[dict[str, Any]]:
    for request in requests:
        assert (await ask(model, request)).error is None
    return [received.body for received in fake.asked]


async def test_deferred_tools_follow_the_search_that_ends_what_is_cached(fake: FakeProvider, ports: ModelPorts) -> None:
    [body] = await bodies(model_at(fake, ports), fake, ASKED)
    shown, search, deferred = body["tools"]
    assert (shown["name"], search) == ("get_weather", SEARCH | MARK)
    assert deferred == {
        "name": "get_time",
        "description": TIME.description,
        "input_schema": TIME.schema,
        "defer_loading": True,
    }
    assert validated(MessageCreateParamsStreaming, body) == body


@pytest.mark.parametrize(
    ("spec", "defers"),
    [
        (ANTHROPIC.spec, False),
        ("anthropic:claude-3-5-haiku-latest", True),
        ("anthropic:claude-sonnet-4-20250514", True),
        ("anthropic:claude-opus-4-1", True),
    ],
)
async def test_switched_off_and_for_models_before_it_ours_stay(
    fake: FakeProvider, ports: ModelPorts, spec: str, defers: bool
) -> None:
    [body] = await bodies(model_at(fake, ports, spec, defers=defers), fake, ASKED)
    assert [tool["name"] for tool in body["tools"]] == ["get_weather", "tool_search", "tool_call"]
    assert "defer_loading" not in str(body)


@pytest.mark.parametrize("name", ["claude-opus-4-5", "claude-sonnet-4-5-20250929", "claude-haiku-4-5", "claude-opus-5"])
async def test_models_since_it_have_it(fake: FakeProvider, ports: ModelPorts, name: str) -> None:
    [body] = await bodies(model_at(fake, ports, f"anthropic:{name}"), fake, ASKED)
    assert SEARCH["name"] in [tool["name"] for tool in body["tools"]]


async def test_without_tools_of_an_index_nothing_is_searched(fake: FakeProvider, ports: ModelPorts) -> None:
    [body] = await bodies(model_at(fake, ports), fake, replace(ASKED, tools=[WEATHER], deferred=()))
    assert [tool["name"] for tool in body["tools"]] == ["get_weather"]


async def test_what_was_searched_and_found_goes_back_unchanged(fake: FakeProvider, ports: ModelPorts) -> None:
    thought = {"type": "thinking", "thinking": "The clock.", "signature": "EqQB"}
    fake.will(saying_blocks(thought, SEARCHED, FOUND, CALLED), ANTHROPIC.answer())
    model = model_at(fake, ports)
    answer = (await ask(model, ASKED)).finished.message
    assert [(call.name, call.input) for call in answer.calls] == [("get_time", {"tz": "UTC"})]
    again = replace(ASKED, messages=[*ASKED.messages, answer, ToolResult("toolu_1", "get_time", "six")])
    first, second = await bodies(model, fake, again)
    assert second["messages"][1] == {"role": "assistant", "content": [thought, SEARCHED, FOUND, CALLED]}
    assert second["tools"] == first["tools"]
    assert validated(ServerToolUseBlockParam, SEARCHED) == SEARCHED
    assert validated(ToolSearchToolResultBlockParam, FOUND) == FOUND


def an_answer(*blocks: dict[str, Any]) -> list[Message]:
    call = ToolCall("toolu_1", "get_time", {"tz": "UTC"})
    answer = AssistantMessage("", (call,), Native("anthropic", 1, list(blocks)))
    return [UserMessage("What time is it?"), answer, ToolResult("toolu_1", "get_time", "six")]


async def test_a_model_without_the_search_gets_the_words_and_the_calls_alone(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    said = an_answer(SEARCHED, FOUND, CALLED)
    [body] = await bodies(model_at(fake, ports, defers=False), fake, replace(ASKED, messages=said, tools=[WEATHER]))
    assert body["messages"][1]["content"] == [CALLED]


async def test_an_answer_with_thinking_alone_goes_back_without_the_search_too(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    thought = {"type": "thinking", "thinking": "The clock.", "signature": "EqQB"}
    said = an_answer(thought, CALLED)
    [body] = await bodies(model_at(fake, ports, defers=False), fake, replace(ASKED, messages=said, tools=[WEATHER]))
    assert body["messages"][1]["content"] == [thought, CALLED]


async def test_another_provider_reads_the_calls_alone(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(OPENAI.answer())
    said = replace(ASKED, messages=an_answer(SEARCHED, FOUND, CALLED))
    [body] = await bodies(OPENAI.open(fake.url, ports), fake, said)
    assert "tool_reference" not in str(body) and "srvtoolu" not in str(body)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["get_weather", "tool_search", "tool_call"]
    assert body["messages"][2]["tool_calls"][0]["function"]["name"] == "tool_call", "as it knows to make that call"


async def test_a_search_beside_calls_is_kept_and_one_that_was_cut_is_not(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(
        saying_blocks(SEARCHED, CALLED), saying_blocks({"type": "text", "text": "Well"}, SEARCHED, stop="max_tokens")
    )
    model = model_at(fake, ports)
    beside = (await ask(model, ASKED)).finished.message
    assert beside.native and beside.native.content == [SEARCHED, CALLED], "it is made when the results are there"
    cut = (await ask(model, ASKED)).finished.message
    assert (cut.text, cut.native) == ("Well", None)


async def test_a_tool_that_is_gone_is_no_end_of_the_conversation(fake: FakeProvider, ports: ModelPorts) -> None:
    words = "messages.1.content.1: Tool reference 'get_time' not found in available tools"
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": words}}
    fake.will(refusal(400, error), ANTHROPIC.answer())
    said = replace(ASKED, messages=an_answer(SEARCHED, FOUND, CALLED))
    _, second = await bodies(model_at(fake, ports), fake, said)
    assert second["messages"][1]["content"] == [CALLED]


@pytest.mark.parametrize(
    "words",
    [
        "tools.1: 'claude-x' does not support tool types: tool_search_tool_bm25_20251119",
        "tools.0.defer_loading: Extra inputs are not permitted",
    ],
)
async def test_who_knows_no_search_is_refused_in_words_that_name_the_key(
    fake: FakeProvider, ports: ModelPorts, words: str
) -> None:
    fake.will(refusal(400, {"type": "error", "error": {"type": "invalid_request_error", "message": words}}))
    failed = (await ask(model_at(fake, ports), ASKED)).failed
    assert "set `providers.anthropic.defer_tools: false`" in str(failed) and words in str(failed)
    assert len(fake.asked) == 1

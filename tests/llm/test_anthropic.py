from collections.abc import AsyncIterator

import orjson
import pytest
from pydantic import SecretStr

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.messages import AssistantMessage, Image, Message, Native, ToolCall, ToolResult, UserMessage
from goclaw.errors import ConfigError, ModelErrorKind
from goclaw.llm.anthropic import PROVIDER, AnthropicModel
from goclaw.llm.base import INVALID_JSON, UNCACHED, CachePoints, CallStarted, ModelPorts, Request, Stop
from goclaw.llm.encoded import clean
from tests.llm.asking import TOOLS, ask, saying
from tests.llm.fake_provider import FakeProvider, Reply, fake_provider, frames, recorded, refusal
from tests.llm.wires import ANTHROPIC, KEY, message_start, text_delta

MARK = {"type": "ephemeral"}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "SIG=="}


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        server.will(ANTHROPIC.answer())
        yield server


def thoughtful(call: ToolCall) -> AssistantMessage:
    block = {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}
    return AssistantMessage("", (call,), Native("anthropic", 1, [THINKING, block]))


async def test_thinking_text_and_parallel_calls_are_read(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(recorded("anthropic_tools.sse"))
    heard = await ask(ANTHROPIC.open(fake.url, ports), saying("hi", tools=TOOLS))
    assert heard.thinking == "Two cities, two calls."
    assert heard.text == "I'll look."
    assert [event.name for event in heard.events if isinstance(event, CallStarted)] == ["get_weather", "get_time"]
    message = heard.finished.message
    assert message.calls == (
        ToolCall("toolu_01A", "get_weather", {"city": "Tromsø"}),
        ToolCall("toolu_01B", "get_time", {}),
    )
    assert heard.finished.stop is Stop.TOOLS
    usage = heard.finished.usage
    assert (usage.input, usage.output) == (25 + 100 + 2000, 89)
    assert (usage.cache_read, usage.cache_write, usage.reasoning) == (2000, 100, 31)


@pytest.mark.promise("P-valid-context")
async def test_signed_thinking_goes_back_exactly_as_it_came(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(recorded("anthropic_tools.sse"))
    model = ANTHROPIC.open(fake.url, ports)
    answer = (await ask(model, saying("hi"))).finished.message
    results = [ToolResult(call.id, call.name, "fine") for call in answer.calls]
    fake.will(ANTHROPIC.answer())
    await ask(model, saying("hi", answer, *results))
    sent = fake.asked[-1].body["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"]
    assert sent[0] == {
        "type": "thinking",
        "thinking": "Two cities, two calls.",
        "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds",
    }
    assert orjson.loads(orjson.dumps(answer.native and answer.native.content)) == sent


async def test_an_answer_without_thinking_needs_no_blob(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(recorded("anthropic_text.sse"))
    assert (await ask(ANTHROPIC.open(fake.url, ports), saying("hi"))).finished.message.native is None


@pytest.mark.parametrize(
    "native",
    [
        Native("openai-chat", 1, {"reasoning": "hm"}),
        Native("anthropic", 2, [THINKING]),
        Native("anthropic", 1, {"not": "blocks"}),
        Native("anthropic", 1, [THINKING, {"type": "tool_use", "id": "other", "name": "x", "input": {}}]),
    ],
)
async def test_a_blob_of_another_provider_schema_or_answer_is_not_replayed(
    fake: FakeProvider, ports: ModelPorts, native: Native
) -> None:
    call = ToolCall("a", "get_time", {})
    request = saying("hi", AssistantMessage("I look.", (call,), native), ToolResult("a", "get_time", "noon"))
    await ask(ANTHROPIC.open(fake.url, ports), request)
    assert [block["type"] for block in fake.asked[0].body["messages"][1]["content"]] == ["text", "tool_use"]


async def test_thinking_that_no_longer_fits_is_left_out_once_and_for_all(fake: FakeProvider, ports: ModelPorts) -> None:
    words = "messages.1.content.0: Invalid thinking block. The block is bound to a different conversation prefix."
    rejected = refusal(400, {"type": "error", "error": {"type": "invalid_request_error", "message": words}})
    fake.will(rejected, ANTHROPIC.answer())
    model = ANTHROPIC.open(fake.url, ports)
    call = ToolCall("a", "get_time", {})
    request = saying("hi", thoughtful(call), ToolResult("a", "get_time", "noon"))
    assert (await ask(model, request)).text == "Hello"
    assert (await ask(model, request)).text == "Hello"
    kinds = [[block["type"] for block in received.body["messages"][1]["content"]] for received in fake.asked]
    assert kinds == [["thinking", "tool_use"], ["tool_use"], ["tool_use"]]


async def test_a_rejection_without_thinking_to_leave_out_is_final(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(refusal(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "thinking: bad"}}))
    heard = await ask(ANTHROPIC.open(fake.url, ports), saying("hi"))
    assert heard.failed.kind is ModelErrorKind.REJECTED
    assert len(fake.asked) == 1


@pytest.mark.promise("P-cache-stable")
async def test_the_stable_prefix_is_marked_for_the_cache_in_four_places(fake: FakeProvider, ports: ModelPorts) -> None:
    request = saying("one", AssistantMessage("1"), "two", AssistantMessage("2"), "three", tools=TOOLS)
    await ask(ANTHROPIC.open(fake.url, ports), request)
    body = fake.asked[0].body
    assert "cache_control" not in body["tools"][0]
    assert body["tools"][1]["cache_control"] == MARK
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    marked = [turn["content"][-1].get("cache_control") for turn in body["messages"]]
    assert marked == [None, None, MARK, None, MARK]


async def test_without_caching_nothing_is_marked(fake: FakeProvider, ports: ModelPorts) -> None:
    await ask(ANTHROPIC.open(fake.url, ports), Request("s", [UserMessage("hi")], TOOLS, cache=UNCACHED))
    assert b"cache_control" not in fake.asked[0].raw


@pytest.mark.parametrize("points", [CachePoints(after_tools=False), CachePoints(after_system=False)])
async def test_only_the_wanted_prefixes_are_marked(points: CachePoints, fake: FakeProvider, ports: ModelPorts) -> None:
    await ask(ANTHROPIC.open(fake.url, ports), Request("s", [UserMessage("hi")], TOOLS, cache=points))
    body = fake.asked[0].body
    assert ("cache_control" in body["system"][0]) is points.after_system
    assert ("cache_control" in body["tools"][-1]) is points.after_tools
    assert body["messages"][-1]["content"][-1]["cache_control"] == MARK


async def test_results_of_one_answer_share_one_turn_and_come_first(fake: FakeProvider, ports: ModelPorts) -> None:
    calls = AssistantMessage("", (ToolCall("a", "read", {}), ToolCall("b", "read", {})))
    meanwhile, after = UserMessage("faster!"), UserMessage("look", (Image("aa", "image/png"),))
    error = ToolResult("b", "read", "", is_error=True)
    await ask(
        ANTHROPIC.open(fake.url, ports), saying("hi", calls, ToolResult("a", "read", "1"), meanwhile, error, after)
    )
    turns = fake.asked[0].body["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[2]["content"][:2] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "1"},
        {"type": "tool_result", "tool_use_id": "b", "is_error": True},
    ]
    assert [block["type"] for block in turns[2]["content"][2:]] == ["text", "image", "text"]
    assert turns[2]["content"][3]["source"] == {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


async def test_ids_that_the_api_refuses_are_changed_alike_in_call_and_result(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    call = ToolCall("functions.read:0", "odd.name", {})
    await ask(
        ANTHROPIC.open(fake.url, ports), saying("hi", AssistantMessage("", (call,)), ToolResult(call.id, "read", "1"))
    )
    turns = fake.asked[0].body["messages"]
    assert turns[1]["content"][0]["id"] == turns[2]["content"][0]["tool_use_id"] == clean(call.id)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", Stop.END),
        ("stop_sequence", Stop.END),
        ("pause_turn", Stop.LENGTH),
        ("max_tokens", Stop.LENGTH),
        ("model_context_window_exceeded", Stop.WINDOW),
        ("refusal", Stop.REFUSAL),
        ("invented_tomorrow", Stop.END),
    ],
)
async def test_every_stop_reason_has_its_meaning(
    fake: FakeProvider, ports: ModelPorts, reason: str, stop: Stop
) -> None:
    fake.will(frames(*ANTHROPIC.opening, {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}}))
    assert (await ask(ANTHROPIC.open(fake.url, ports), saying("hi"))).finished.stop is stop


def calling(written: str, reason: str) -> Reply:
    block = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": written}
    return frames(
        message_start(),
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}},
        {"type": "message_stop"},
    )


@pytest.mark.parametrize("written", ['{"a', "[1]", "yes"])
async def test_arguments_that_are_no_object_are_kept_for_the_dispatcher_to_answer(
    fake: FakeProvider, ports: ModelPorts, written: str
) -> None:
    fake.will(calling(written, "tool_use"))
    [call] = (await ask(ANTHROPIC.open(fake.url, ports), saying("hi"))).finished.message.calls
    assert call.input == {INVALID_JSON: written}


async def test_a_call_that_the_output_limit_cut_is_dropped(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(calling('{"a', "max_tokens"))
    finished = (await ask(ANTHROPIC.open(fake.url, ports), saying("hi"))).finished
    assert (finished.message.calls, finished.stop) == ((), Stop.LENGTH)


async def test_events_blocks_and_deltas_of_tomorrow_are_passed_over(fake: FakeProvider, ports: ModelPorts) -> None:
    strange = (
        {"type": "message_hint", "hint": 1},
        {"type": "content_block_start", "index": 7, "content_block": {"type": "hologram", "data": "x"}},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "hologram_delta", "light": 1}},
    )
    fake.will(frames(*ANTHROPIC.opening, *strange, *ANTHROPIC.more, *ANTHROPIC.ending))
    assert (await ask(ANTHROPIC.open(fake.url, ports), saying("hi"))).finished.message.text == "Hello"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-opus-5-5", {"thinking": {"type": "adaptive", "display": "summarized"}, "max_tokens": 1_000}),
        ("claude-sonnet-4-6", {"thinking": {"type": "adaptive", "display": "summarized"}, "max_tokens": 1_000}),
        ("claude-sonnet-4-5", {"thinking": {"type": "enabled", "budget_tokens": 8_192}, "max_tokens": 9_192}),
        ("claude-opus-4-20250514", {"thinking": {"type": "enabled", "budget_tokens": 8_192}, "max_tokens": 9_192}),
    ],
)
async def test_thinking_is_asked_for_as_the_model_wants_it(
    fake: FakeProvider, ports: ModelPorts, name: str, expected: dict[str, object]
) -> None:
    options = ModelOptions(thinking="medium", max_output=1_000, context_window=100_000)
    settings = ProviderSettings(base_url=fake.url, api_key=SecretStr(KEY))
    await ask(AnthropicModel(f"anthropic:{name}", settings, options, ports), saying("hi"))
    body = fake.asked[0].body
    assert {key: body[key] for key in expected} == expected
    assert body.get("output_config") == ({"effort": "medium"} if "budget" not in str(expected) else None)


async def test_a_budget_is_left_out_while_the_running_turn_has_answers_without_thinking(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    call = ToolCall("a", "get_time", {})
    running: list[Message | str] = ["hi", AssistantMessage("", (call,)), ToolResult("a", "get_time", "noon")]
    options = ModelOptions(thinking="low", max_output=1_000, context_window=100_000)
    settings = ProviderSettings(base_url=fake.url, api_key=SecretStr(KEY))
    model = AnthropicModel("anthropic:claude-sonnet-4-5", settings, options, ports)
    await ask(model, saying(*running))
    await ask(model, saying(*running, AssistantMessage("Noon."), "thanks"))
    assert ["thinking" in received.body for received in fake.asked] == [False, True]


async def test_the_provider_counts_and_an_estimate_stands_in(fake: FakeProvider, ports: ModelPorts) -> None:
    model = ANTHROPIC.open(fake.url, ports)
    request = saying("hi", tools=TOOLS)
    fake.will(Reply([b'{"input_tokens": 4711}'], type="application/json"))
    assert await model.count(request) == 4711
    assert fake.asked[0].path == "/v1/messages/count_tokens"
    assert set(fake.asked[0].body) == {"model", "system", "tools", "messages"}
    for reply in (refusal(404, {}), Reply([b"nonsense"]), Reply([b"{}"])):
        fake.will(reply)
        assert 20 < await model.count(request) < 500


async def test_the_request_carries_key_and_version(fake: FakeProvider, ports: ModelPorts) -> None:
    await ask(ANTHROPIC.open(f"{fake.url}/v1/", ports), saying("hi", max_output=77))
    [received] = fake.asked
    headers = {name.lower(): value for name, value in received.headers.items()}
    assert (received.path, headers["x-api-key"], headers["anthropic-version"]) == ("/v1/messages", KEY, "2023-06-01")
    assert received.body["max_tokens"] == 77


async def test_without_a_key_the_model_cannot_be_opened(ports: ModelPorts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        PROVIDER.open("anthropic:x", ProviderSettings(), ModelOptions(), ports)


async def test_a_key_in_the_environment_is_enough(ports: ModelPorts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    model = PROVIDER.open("anthropic:claude-opus-5-5", ProviderSettings(), ModelOptions(), ports)
    assert (model.context_window, model.sees_images) == (1_000_000, True)


async def test_text_may_come_with_the_start_of_a_block(fake: FakeProvider, ports: ModelPorts) -> None:
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "A"}}
    fake.will(frames(message_start(), block, text_delta("B"), *ANTHROPIC.ending))
    assert (await ask(ANTHROPIC.open(fake.url, ports), saying("hi"))).text == "AB"

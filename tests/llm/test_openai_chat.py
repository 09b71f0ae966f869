from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.config.servers import SERVERS
from goclaw.common.core.messages import AssistantMessage, Image, Message, Native, ToolCall, ToolResult, UserMessage
from goclaw.errors import ConfigError, ModelErrorKind
from goclaw.llm.base import INVALID_JSON, CallStarted, ModelPorts, Request, Stop
from goclaw.llm.openai_chat import PROVIDER, OpenAIChatModel
from tests.llm.asking import TOOLS, ask, saying
from tests.llm.fake_provider import FakeProvider, fake_provider, frames, recorded
from tests.llm.wires import KEY, OPENAI, chunk

DONE = b"data: [DONE]\n\n"


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        server.will(OPENAI.answer())
        yield server


def at(fake: FakeProvider, ports: ModelPorts, server: str, **options: Any) -> OpenAIChatModel:
    settings = ProviderSettings(api_key=SecretStr(KEY), base_url=fake.url)
    known = {"context_window": 10_000, "max_output": 1_000, **options}
    return PROVIDER.open(f"{server}:some/model", settings, ModelOptions(**known), ports)  # type: ignore[return-value]  # this provider's models


@pytest.mark.parametrize(
    ("server", "name", "between"),
    [
        ("openai", "gpt-6", []),
        ("mistral", "open-hermes", ["assistant"]),
        ("openrouter", "mistralai/Devstral-Medium", ["assistant"]),
        ("vllm", "Qwen/Qwen4", []),
    ],
)
async def test_words_right_after_results_reach_every_model(
    fake: FakeProvider, ports: ModelPorts, server: str, name: str, between: list[str]
) -> None:
    settings = ProviderSettings(api_key=SecretStr(KEY), base_url=fake.url)
    model = PROVIDER.open(f"{server}:{name}", settings, ModelOptions(context_window=10_000, max_output=100), ports)
    call = ToolCall("call_a", "get_weather", {})
    # The first words were stored before the result, as after a crash.
    result, words = ToolResult("call_a", "get_weather", "rain"), (UserMessage("and there?"), UserMessage("and here?"))
    conversation: list[Message] = [UserMessage("hi"), AssistantMessage("", (call,)), words[0], result, words[1]]
    await ask(model, Request("", conversation, TOOLS))
    roles = [message["role"] for message in fake.asked[-1].body["messages"]]
    assert roles == ["user", "assistant", "tool", *between, "user", "user"]


async def test_interleaved_calls_are_put_together(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(recorded("openai_tools.sse"))
    heard = await ask(OPENAI.open(fake.url, ports), saying("hi", tools=TOOLS))
    assert heard.finished.message.calls == (
        ToolCall("call_a", "get_weather", {"city": "Tromsø"}),
        ToolCall("call_b", "get_time", {"tz": "UTC"}),
    )
    assert [event.name for event in heard.events if isinstance(event, CallStarted)] == ["get_weather", "get_time"]
    assert heard.finished.stop is Stop.TOOLS
    assert (heard.finished.usage.cache_read, heard.finished.usage.reasoning) == (30, 7)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", Stop.END),
        ("length", Stop.LENGTH),
        ("content_filter", Stop.FILTERED),
        ("function_call", Stop.TOOLS),
        ("invented_tomorrow", Stop.END),
    ],
)
async def test_every_finish_reason_has_its_meaning(
    fake: FakeProvider, ports: ModelPorts, reason: str, stop: Stop
) -> None:
    fake.will(frames(chunk({"content": "x"}), chunk({}, reason), DONE))
    assert (await ask(OPENAI.open(fake.url, ports), saying("hi"))).finished.stop is stop


async def test_a_provider_that_failed_behind_a_gateway_is_an_error(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(frames(chunk({"content": "x"}), chunk({}, "error"), DONE))
    assert (await ask(OPENAI.open(fake.url, ports), saying("hi"))).failed.kind is ModelErrorKind.SERVER
    fake.will(frames(chunk({"content": "x"}), {"error": {"code": 429, "message": "slow down"}}))
    assert (await ask(OPENAI.open(fake.url, ports), saying("hi"))).failed.kind is ModelErrorKind.RATE


@pytest.mark.parametrize("written", ['{"a', "[1]", "yes"])
async def test_arguments_that_are_no_object_can_be_answered_and_replayed(
    fake: FakeProvider, ports: ModelPorts, written: str
) -> None:
    piece = {"index": 0, "id": "a", "function": {"name": "read", "arguments": written}}
    fake.will(frames(chunk({"tool_calls": [piece]}), chunk({}, "tool_calls"), DONE), OPENAI.answer())
    model = OPENAI.open(fake.url, ports)
    answer = (await ask(model, saying("hi"))).finished.message
    assert answer.calls[0].input == {INVALID_JSON: written}
    await ask(model, saying("hi", answer, ToolResult("a", "read", "no JSON")))
    assert INVALID_JSON in fake.asked[1].body["messages"][2]["tool_calls"][0]["function"]["arguments"]


async def test_calls_without_index_or_id_are_kept_apart(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(
        frames(
            chunk({"tool_calls": [{"id": "a", "function": {"name": "read", "arguments": '{"n":'}}]}),
            chunk({"tool_calls": [{"function": {"arguments": "1}"}}]}),
            chunk({"tool_calls": [{"id": "b", "function": {"name": "read", "arguments": '{"n":2}'}}]}),
            chunk({}, "stop"),
            DONE,
        )
    )
    finished = (await ask(OPENAI.open(fake.url, ports), saying("hi"))).finished
    assert finished.message.calls == (ToolCall("a", "read", {"n": 1}), ToolCall("b", "read", {"n": 2}))
    assert finished.stop is Stop.TOOLS


async def test_calls_that_all_have_index_zero_but_own_ids_are_kept_apart(fake: FakeProvider, ports: ModelPorts) -> None:
    pieces = [{"index": 0, "id": name, "function": {"name": "read", "arguments": "{}"}} for name in ("a", "b")]
    fake.will(frames(*[chunk({"tool_calls": [piece]}) for piece in pieces], chunk({}, "tool_calls"), DONE))
    calls = (await ask(OPENAI.open(fake.url, ports), saying("hi"))).finished.message.calls
    assert [call.id for call in calls] == ["a", "b"]


async def test_calls_without_ids_get_ids_that_never_repeat(fake: FakeProvider, ports: ModelPorts) -> None:
    piece = {"index": 0, "function": {"name": "read", "arguments": "{}"}}
    fake.will(frames(chunk({"tool_calls": [piece]}), chunk({}, "tool_calls"), DONE))
    model = OPENAI.open(fake.url, ports)
    ids = {(await ask(model, saying("hi"))).finished.message.calls[0].id for _ in range(3)}
    assert len(ids) == 3


async def test_reasoning_is_heard_and_goes_back_to_the_server_that_wants_it(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    fake.will(recorded("deepseek_reasoning.sse"))
    model = at(fake, ports, "deepseek")
    heard = await ask(model, saying("hi"))
    assert heard.thinking == "Hm, weather."
    assert heard.finished.usage.cache_read == 16
    answer = heard.finished.message
    fake.will(OPENAI.answer())
    for server in ("deepseek", "openrouter"):
        await ask(at(fake, ports, server), saying("hi", answer, ToolResult("call_00_x", "get_weather", "rain")))
    own, foreign = (received.body["messages"][2] for received in fake.asked[1:])
    assert own["reasoning_content"] == "Hm, weather."
    assert not {"reasoning", "reasoning_content"} & foreign.keys()


async def test_a_field_that_only_the_server_understands_goes_back_with_its_call(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    fake.will(recorded("gemini_tools.sse"), OPENAI.answer())
    model = at(fake, ports, "gemini")
    answer = (await ask(model, saying("hi"))).finished
    assert answer.stop is Stop.TOOLS
    await ask(model, saying("hi", answer.message, ToolResult("function-call-1", "get_weather", "rain")))
    [call] = fake.asked[1].body["messages"][2]["tool_calls"]
    assert call["extra_content"] == {"google": {"thought_signature": "CsoBAVSoXO4"}}


async def test_lists_of_parts_are_read_and_ids_have_nine_characters_at_mistral(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Yes"}]
    fake.will(frames(chunk({"content": parts}), chunk({}, "stop", usage={"prompt_tokens": 4}), DONE))
    call = ToolCall("toolu_far_too_long", "read", {})
    answered = AssistantMessage("", (call,))
    heard = await ask(at(fake, ports, "mistral"), saying("hi", answered, ToolResult(call.id, "read", "1")))
    assert (heard.thinking, heard.text, heard.finished.usage.input) == ("hm", "Yes", 4)
    sent = fake.asked[0].body
    assert sent["messages"][2]["tool_calls"][0]["id"] == sent["messages"][3]["tool_call_id"]
    assert len(sent["messages"][3]["tool_call_id"]) == 9
    assert "stream_options" not in sent


@pytest.mark.parametrize("server", sorted(SERVERS))
async def test_each_server_gets_the_fields_of_its_row(fake: FakeProvider, ports: ModelPorts, server: str) -> None:
    await ask(at(fake, ports, server, thinking="high"), saying("hi", max_output=55))
    [received] = fake.asked
    row, body = SERVERS[server], received.body
    assert received.path == ("/v1/chat/completions" if row.local else "/chat/completions")
    assert body["model"] == "some/model"
    assert body[row.limit_field] == 55
    assert len({"max_tokens", "max_completion_tokens"} & body.keys()) == 1
    assert ("stream_options" in body) is row.stream_options
    assert body.get("reasoning_effort") == ("high" if row.effort == "word" else None)
    assert body.get("reasoning") == ({"effort": "high"} if row.effort == "object" else None)
    assert received.headers["Authorization"] == f"Bearer {KEY}"


async def test_pictures_are_data_urls(fake: FakeProvider, ports: ModelPorts) -> None:
    await ask(OPENAI.open(fake.url, ports), saying(UserMessage("look", (Image("aa", "image/png"),))))
    assert fake.asked[0].body["messages"][1]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]


async def test_an_empty_answer_is_sent_as_empty_text(fake: FakeProvider, ports: ModelPorts) -> None:
    odd = Native("openai-chat", 1, "no object")
    await ask(OPENAI.open(fake.url, ports), saying("hi", AssistantMessage("", native=odd), "still there?", system=""))
    assert [message.get("content") for message in fake.asked[0].body["messages"]] == ["hi", "", "still there?"]


@pytest.mark.parametrize("server", sorted(name for name, row in SERVERS.items() if row.key_variable))
async def test_without_its_key_a_server_cannot_be_opened(
    ports: ModelPorts, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    variable = str(SERVERS[server].key_variable)
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError, match=variable):
        PROVIDER.open(f"{server}:x", ProviderSettings(), ModelOptions(), ports)
    monkeypatch.setenv(variable, "k")
    assert PROVIDER.open(f"{server}:x", ProviderSettings(), ModelOptions(), ports).spec == f"{server}:x"


async def test_a_local_server_needs_no_key_and_gets_none(fake: FakeProvider, ports: ModelPorts) -> None:
    model = PROVIDER.open("vllm:x", ProviderSettings(base_url=fake.url), ModelOptions(), ports)
    assert (await ask(model, saying("hi"))).text == "Hello"
    assert "Authorization" not in fake.asked[0].headers

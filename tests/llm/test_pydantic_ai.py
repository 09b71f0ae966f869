"""Other providers through pydantic-ai, shown on its client for OpenAI's protocol: no key is needed for that."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.net import LOOPBACK_ONLY
from goclaw.errors import ConfigError, ModelErrorKind
from goclaw.llm import pydantic_ai
from goclaw.llm.base import CallStarted, ChatModel, ModelPorts, Stop
from goclaw.llm.pydantic_ai import PROVIDER
from tests.llm.asking import TOOLS, ask, saying
from tests.llm.fake_provider import FakeProvider, fake_provider, frames, recorded, refusal
from tests.llm.wires import OPENAI, chunk

KINDS = ModelErrorKind


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        server.will(recorded("openai_text.sse"))
        yield server


def open_at(fake: FakeProvider, ports: ModelPorts, spec: str = "openai-chat:gpt-6.1-sol", **options: Any) -> ChatModel:
    settings = ProviderSettings(api_key=SecretStr("k"), base_url=fake.url)
    return PROVIDER.open(spec, settings, ModelOptions(**{"max_output": 99, **options}), ports)


async def test_text_comes_in_pieces_and_whole(fake: FakeProvider, ports: ModelPorts) -> None:
    heard = await ask(open_at(fake, ports), saying("hi"))
    assert heard.text == heard.finished.message.text == "Grüß Gott, 👋!"
    assert heard.finished.stop is Stop.END
    assert (heard.finished.usage.input, heard.finished.usage.output, heard.finished.usage.cache_read) == (150, 50, 30)
    assert fake.asked[0].body["messages"][0]["content"] == "Be brief."


async def test_parallel_calls_are_read_and_answered(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(recorded("openai_tools.sse"), recorded("openai_text.sse"))
    model = open_at(fake, ports)
    heard = await ask(model, saying("hi", tools=TOOLS))
    answer = heard.finished.message
    assert answer.calls[0] == ToolCall("call_a", "get_weather", {"city": "Tromsø"})
    assert [event.name for event in heard.events if isinstance(event, CallStarted)] == ["get_weather", "get_time"]
    results = [ToolResult(call.id, call.name, "fine") for call in answer.calls]
    assert (await ask(model, saying("hi", answer, *results, "and?", tools=TOOLS))).text == "Grüß Gott, 👋!"
    roles = [message["role"] for message in fake.asked[1].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]


async def test_thinking_travels_in_the_blob_and_goes_back(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(recorded("deepseek_reasoning.sse"), recorded("openai_text.sse"))
    model = open_at(fake, ports)
    heard = await ask(model, saying("hi", tools=TOOLS))
    assert heard.thinking == "Hm, weather."
    answer = heard.finished.message
    assert answer.native is not None
    assert (answer.native.provider, answer.native.schema) == ("pydantic-ai/openai-chat", 1)
    assert (await ask(model, saying("hi", answer, ToolResult("call_00_x", "get_weather", "rain")))).text
    assert fake.asked[1].body["messages"][2]["reasoning_content"] == "Hm, weather."


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (400, "This model's maximum context length is 128000 tokens.", KINDS.OVERFLOW),
        (400, "bad", KINDS.REJECTED),
        (401, "bad key", KINDS.AUTH),
        (404, "no such model", KINDS.NOT_FOUND),
        (429, "slow down", KINDS.RATE),
        (500, "oh", KINDS.SERVER),
    ],
)
async def test_refusals_have_their_kind_and_are_not_repeated_inside(
    fake: FakeProvider, ports: ModelPorts, status: int, words: str, kind: ModelErrorKind
) -> None:
    code = "context_length_exceeded" if kind is KINDS.OVERFLOW else None
    fake.will(refusal(status, {"error": {"message": words, "type": "x", "code": code}}, retry_after="3"))
    heard = await ask(open_at(fake, ports), saying("hi"))
    assert heard.failed.kind is kind
    assert len(fake.asked) == 1
    if kind is KINDS.RATE:
        assert heard.failed.retry_after == 3


async def test_a_cut_is_a_cut(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(frames(*OPENAI.opening, end="cut"))
    heard = await ask(open_at(fake, ports), saying("hi"))
    assert (heard.failed.kind, heard.failed.partial) == (KINDS.TRUNCATED, True)


async def test_nobody_there_is_a_network_error(ports: ModelPorts) -> None:
    settings = ProviderSettings(api_key=SecretStr("k"), base_url="http://127.0.0.1:9")
    heard = await ask(PROVIDER.open("openai-chat:m", settings, ModelOptions(max_output=9), ports), saying("hi"))
    assert heard.failed.kind is KINDS.NETWORK


async def test_stopping_closes_the_connection(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(frames(chunk({"content": "Hel"}), end="hang"))
    async with asyncio.timeout(20):
        async with open_at(fake, ports).stream(saying("hi")) as events:
            await anext(events)
        await fake.left.wait()


async def test_a_provider_that_nobody_knows_is_named(fake: FakeProvider, ports: ModelPorts) -> None:
    model = open_at(fake, ports, "nobody-heard-of:x")
    with pytest.raises(ConfigError, match="nobody-heard-of"):
        await ask(model, saying("hi"))


async def test_without_the_extra_the_error_says_how_to_get_it(
    ports: ModelPorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pydantic_ai, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'goclaw\[providers\]'"):
        PROVIDER.open("cohere:command", ProviderSettings(), ModelOptions(), ports)


async def test_with_the_switch_no_other_provider_is_reached(ports: ModelPorts) -> None:
    with pytest.raises(ConfigError, match=LOOPBACK_ONLY):
        PROVIDER.open("cohere:command", ProviderSettings(), ModelOptions(), ports)

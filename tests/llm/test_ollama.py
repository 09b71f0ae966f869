import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import ollama
import pytest
from ollama._types import ChatRequest

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.messages import (
    NOT_SEEN,
    AssistantMessage,
    Image,
    Message,
    Native,
    ToolCall,
    ToolResult,
    UserMessage,
)
from goclaw.common.net import LOOPBACK_ONLY
from goclaw.common.specs import ToolSpec
from goclaw.errors import ModelErrorKind
from goclaw.llm import ollama as ollama_module
from goclaw.llm.base import CallStarted, ModelPorts, Stop
from goclaw.llm.ollama import OllamaModel
from goclaw.llm.token_counts import estimate_text
from tests.llm.asking import TOOLS, ask, saying
from tests.llm.fake_provider import FakeProvider, Reply, fake_provider, lines, recorded, refusal
from tests.llm.ollama_server import GB, knows
from tests.llm.oracles import CONVERSATION
from tests.llm.wires import OLLAMA, part


def shown(*capabilities: str, context: int = 40_960) -> Reply:
    body = {"capabilities": list(capabilities), "model_info": {"qwen3.context_length": context, "general.x": "y"}}
    return lines(body)


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        server.routes["/api/show"] = shown("completion", "tools", "thinking")
        server.will(OLLAMA.answer())
        yield server


def long(tokens: int) -> str:
    """A text of about so many tokens, as they are estimated."""
    word = "lobster "
    return word * (10 * tokens // estimate_text(word * 10))


def model_at(fake: FakeProvider, ports: ModelPorts, name: str = "qwen3:8b", **options: Any) -> OllamaModel:
    return OllamaModel(f"ollama:{name}", ProviderSettings(base_url=fake.url), ModelOptions(**options), ports)


async def test_thinking_and_calls_are_read(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(recorded("ollama_tools.ndjson"))
    heard = await ask(model_at(fake, ports), saying("hi", tools=TOOLS))
    assert heard.thinking == "Two calls."
    calls = heard.finished.message.calls
    assert [(call.name, call.input) for call in calls] == [
        ("get_weather", {"city": "Tromsø"}),
        ("get_time", {"tz": "UTC"}),
    ]
    assert len({call.id for call in calls}) == 2
    assert [event.name for event in heard.events if isinstance(event, CallStarted)] == ["get_weather", "get_time"]
    assert heard.finished.stop is Stop.TOOLS
    assert (heard.finished.usage.input, heard.finished.usage.output) == (26, 282)


async def test_many_who_wait_for_a_server_that_hangs_wait_once(
    fake: FakeProvider, ports: ModelPorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ollama_module, "LOOK_LIMIT", 0.5)  # in which a request arrives
    fake.routes["/api/show"] = Reply([], end="hang")
    model = model_at(fake, ports)
    async with asyncio.timeout(10):
        await asyncio.gather(*(model.look() for _ in range(5)))
        assert len(fake.received) == 1
        await model.look()
    assert len(fake.received) == 2, "the next one asks anew"


async def test_thinking_goes_back_with_its_calls(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(recorded("ollama_tools.ndjson"), OLLAMA.answer())
    model = model_at(fake, ports)
    answer = (await ask(model, saying("hi"))).finished.message
    foreign = AssistantMessage("", (ToolCall("x", "read", {}),), Native("anthropic", 1, []))
    results = [ToolResult(call.id, call.name, "fine") for call in answer.calls]
    await ask(model, saying("hi", foreign, ToolResult("x", "read", "1"), answer, *results))
    sent = fake.asked[1].body["messages"]
    assert sent[4]["thinking"] == "Two calls."
    assert "thinking" not in sent[2]
    assert sent[5] == {"role": "tool", "content": "fine", "tool_name": "get_weather"}


@pytest.mark.promise("P-context-fits")
async def test_a_window_of_a_server_that_does_not_tell_what_a_model_takes_grows_in_steps(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    model = model_at(fake, ports, max_output=1_000)
    for tokens in (10, 5_000, 10):
        await ask(model, saying(long(tokens)))
    assert [received.body["options"]["num_ctx"] for received in fake.asked] == [4_096, 8_192, 8_192]
    assert fake.asked[0].body["options"]["num_predict"] == 1_000


@pytest.mark.parametrize(
    ("own", "setting", "option", "largest"),
    [
        (40_960, 32_768, None, 32_768),
        (8_192, 32_768, None, 8_192),
        (40_960, 4_096, None, 4_096),
        (99_999, 4_096, 65_536, 65_536),
    ],
)
async def test_the_window_is_the_smallest_of_what_is_allowed(
    fake: FakeProvider, ports: ModelPorts, own: int, setting: int, option: int | None, largest: int
) -> None:
    fake.routes["/api/show"] = shown("completion", context=own)
    settings = ProviderSettings(base_url=fake.url, max_context=setting)
    model = OllamaModel("ollama:m", settings, ModelOptions(context_window=option), ports)
    await ask(model, saying(long(largest - 2_000)))
    assert fake.asked[0].body["options"]["num_ctx"] == largest
    assert model.context_window == largest


async def test_a_window_that_is_configured_is_asked_for_whole_from_the_first_request_on(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    knows(fake)
    await ask(model_at(fake, ports, context_window=24_000), saying("hi"))
    assert fake.asked[0].body["options"]["num_ctx"] == 24_000
    assert "/api/tags" not in {received.path for received in fake.received}, "no question about memory"


@pytest.mark.promise("P-window-fits")
@pytest.mark.parametrize(("free", "num_ctx"), [(None, 4_096), (8 * GB, 8_192), (64 * GB, 32_768)])
async def test_the_window_fits_the_free_memory_and_stays_with_every_request(
    fake: FakeProvider, ports: ModelPorts, free: int | None, num_ctx: int
) -> None:
    knows(fake)
    memory = [free]
    model = model_at(fake, replace(ports, free_memory=lambda: memory[0]), max_output=1_000)
    await model.look()
    assert model.context_window == (num_ctx if free else 32_768)
    memory[0] = free and 3 * GB
    for tokens in (10, 2_000):
        await ask(model, saying(long(tokens)))
    assert [received.body["options"]["num_ctx"] for received in fake.asked] == [num_ctx, num_ctx]
    assert sum(received.path == "/api/show" for received in fake.received) == 1


async def test_the_memory_of_this_machine_says_nothing_of_another_one(
    fake: FakeProvider, ports: ModelPorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    knows(fake)
    monkeypatch.delenv(LOOPBACK_ONLY)
    monkeypatch.setenv("http_proxy", fake.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    plenty = replace(ports, free_memory=lambda: 64 * GB)
    for url in (fake.url, "http://ollama.example:11434"):
        settings = ProviderSettings(base_url=url)
        await ask(OllamaModel("ollama:qwen3:8b", settings, ModelOptions(max_output=9), plenty), saying("hi"))
    assert [received.body["options"]["num_ctx"] for received in fake.asked] == [32_768, 4_096]


@pytest.mark.promise("P-small-windows")
@pytest.mark.parametrize(
    ("window", "known", "limit"), [(4_096, 1_500, 1_024), (4_096, 3_070, 931), (4_096, 3_500, 512), (40_960, 10, 8_192)]
)
async def test_prompt_and_answer_together_never_exceed_the_window(
    fake: FakeProvider, ports: ModelPorts, window: int, known: int, limit: int
) -> None:
    await ask(model_at(fake, ports, context_window=window), replace(saying("hi"), tokens=known))
    assert fake.asked[0].body["options"] == {"num_ctx": window, "num_predict": limit}


@pytest.mark.promise("P-context-fits")
async def test_what_does_not_fit_is_an_overflow_instead_of_a_silent_cut(fake: FakeProvider, ports: ModelPorts) -> None:
    heard = await ask(model_at(fake, ports), saying("x" * 200_000))
    assert heard.failed.kind is ModelErrorKind.OVERFLOW
    assert fake.asked == []


@pytest.mark.parametrize(
    ("known", "num_ctx"), [(500, 4_096), (3_096, 4_096), (3_097, 8_192), (7_193, 16_384), (31_000, 32_768)]
)
async def test_a_need_that_is_known_better_than_by_an_estimate_decides(
    fake: FakeProvider, ports: ModelPorts, known: int, num_ctx: int
) -> None:
    request = replace(saying(long(5_000)), tokens=known)
    await ask(model_at(fake, ports, max_output=1_000), request)
    assert fake.asked[0].body["options"]["num_ctx"] == num_ctx


async def test_a_known_need_that_does_not_fit_is_an_overflow_however_short_the_estimate(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    heard = await ask(model_at(fake, ports), replace(saying("hi"), tokens=32_500))
    assert heard.failed.kind is ModelErrorKind.OVERFLOW
    assert fake.asked == []


@pytest.mark.parametrize(
    ("name", "capabilities", "thinking", "expected"),
    [
        ("qwen3:8b", ["thinking"], "off", False),
        ("qwen3:8b", ["thinking"], "high", True),
        ("gpt-oss:20b", ["thinking"], "low", "low"),
        ("gpt-oss:20b", ["thinking"], "off", None),
        ("gemma:2b", ["completion"], "high", None),
    ],
)
async def test_thinking_is_asked_of_models_that_can(
    fake: FakeProvider, ports: ModelPorts, name: str, capabilities: list[str], thinking: str, expected: object
) -> None:
    fake.routes["/api/show"] = shown(*capabilities)
    await ask(model_at(fake, ports, name, thinking=thinking), saying("hi"))
    assert fake.asked[0].body.get("think") == expected


async def test_schemas_of_tools_arrive_whole(fake: FakeProvider, ports: ModelPorts) -> None:
    """The package's own tool type would drop everything but the types."""
    kinds = [{"type": "string"}, {"type": "integer"}]
    schema = {"type": "object", "properties": {"a": {"anyOf": kinds, "description": "Either."}}}
    await ask(model_at(fake, ports), saying("hi", tools=[ToolSpec("read", "Reads.", schema)]))
    assert fake.asked[0].body["tools"][0]["function"]["parameters"] == schema


async def test_a_server_that_is_not_there_is_no_trouble_before_the_question(ports: ModelPorts) -> None:
    model = OllamaModel("ollama:qwen3", ProviderSettings(base_url="http://127.0.0.1:9"), ModelOptions(), ports)
    await model.look()
    assert (await ask(model, saying("hi"))).failed.kind is ModelErrorKind.NETWORK


async def test_pictures_are_sent_where_the_server_says_that_the_model_sees(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    picture = saying(UserMessage("look", (Image("aa", "image/png"),)))
    seeing, blind = model_at(fake, ports, "unheard-of:7b"), model_at(fake, ports, "llava:7b")
    assert not seeing.sees_images and blind.sees_images
    await ask(blind, picture)
    assert fake.asked[0].body["messages"][1] == {"role": "user", "content": f"{NOT_SEEN}\nlook"}
    fake.routes["/api/show"] = shown("completion", "vision")
    await ask(seeing, picture)
    assert fake.asked[1].body["messages"][1] == {"role": "user", "content": "look", "images": ["iVBORw0KGgo="]}
    assert [seeing.sees_images, blind.sees_images] == [True, False]


async def test_a_missing_model_says_how_to_get_it(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(refusal(404, {"error": 'model "qwen3:8b" not found, try pulling it first'}))
    heard = await ask(model_at(fake, ports), saying("hi"))
    assert heard.failed.kind is ModelErrorKind.NOT_FOUND
    assert "ollama pull qwen3:8b" in str(heard.failed)


@pytest.mark.parametrize(("reason", "stop"), [("stop", Stop.END), ("length", Stop.LENGTH), ("load", Stop.LOADED)])
async def test_every_reason_has_its_meaning(fake: FakeProvider, ports: ModelPorts, reason: str, stop: Stop) -> None:
    fake.will(lines(part("x"), part(done=True, done_reason=reason)))
    assert (await ask(model_at(fake, ports), saying("hi"))).finished.stop is stop


async def test_the_body_is_one_of_the_packages_type(fake: FakeProvider, ports: ModelPorts) -> None:
    await ask(model_at(fake, ports), saying(*CONVERSATION, tools=TOOLS))
    body = fake.asked[0].body
    assert ChatRequest.model_validate(body).model == "qwen3:8b"
    assert [message["role"] for message in body["messages"]] == [
        *("system", "user", "assistant", "user", "assistant", "tool", "tool", "user")
    ]


@pytest.mark.parametrize("stream", ["ollama_text.ndjson", "ollama_tools.ndjson"])
async def test_the_package_reads_the_same_from_the_same_bytes(
    fake: FakeProvider, ports: ModelPorts, stream: str
) -> None:
    fake.will(recorded(stream))
    ours = (await ask(model_at(fake, ports), saying("hi", tools=TOOLS))).finished
    async with asyncio.timeout(10), ollama.AsyncClient(fake.url) as client:
        parts = [item async for item in await client.chat("m", [{"role": "user", "content": "hi"}], stream=True)]
    assert ours.message.text == "".join(item.message.content or "" for item in parts)
    calls = [call.function for item in parts for call in item.message.tool_calls or ()]
    assert [(call.name, call.input) for call in ours.message.calls] == [(call.name, call.arguments) for call in calls]
    assert (ours.usage.input, ours.usage.output) == (parts[-1].prompt_eval_count, parts[-1].eval_count)


async def test_the_server_is_asked_about_the_model_once(fake: FakeProvider, ports: ModelPorts) -> None:
    model = model_at(fake, ports)
    messages: list[Message | str] = ["hi"]
    for _ in range(3):
        await ask(model, saying(*messages))
    assert sum(received.path == "/api/show" for received in fake.received) == 1

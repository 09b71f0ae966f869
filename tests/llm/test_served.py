"""What servers say of their models: windows, fields that they refuse, models that call no tools, servers that start."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from goclaw.common.config.schema import Config
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import Looking, ModelLoading, ModelPorts, Usage
from goclaw.llm.chain import ModelChain
from goclaw.llm.open import open_model
from goclaw.llm.openai_chat import OpenAIChatModel
from goclaw.llm.served import ServedModels, WindowOrigin
from tests.llm.asking import TOOLS, ask, saying
from tests.llm.fake_provider import FakeProvider, Received, Reply, fake_provider, frames
from tests.llm.wires import OPENAI, chunk
from tests.ports import free_port

SPEC = "llama.cpp:qwen"
ANSWER = OPENAI.answer()


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        server.will(ANSWER)
        yield server


def at(url: str, ports: ModelPorts, spec: str = SPEC, **options: Any) -> OpenAIChatModel:
    provider = spec.partition(":")[0]
    models = {"options": {spec: options}} if options else {}
    config = Config.model_validate({"providers": {provider: {"base_url": url}}, "models": models})
    model = open_model(spec, config, ports)
    assert isinstance(model, OpenAIChatModel)
    return model


def json(body: object, status: int = 200) -> Reply:
    return Reply([orjson.dumps(body)], status=status, type="application/json")


def refusing(*fields: str, words: str = "Unrecognized request argument supplied: {}") -> Any:
    """A reply to every request: a refusal while it has one of the fields."""

    def reply(received: Received) -> Reply:
        sent = next((field for field in fields if field in received.body), "")
        return json({"error": {"message": words.format(sent), "code": 400}}, 400) if sent else ANSWER

    return reply


LLAMA = {"/v1/models": {"data": [{"id": "other", "meta": {"n_ctx_train": 32768}}]}}
WINDOWS = [
    (LLAMA | {"/props": {"default_generation_settings": {"n_ctx": 8192}}}, 8_192),
    ({"/v1/models": {"data": [{"id": "x", "max_model_len": 1}, {"id": "qwen", "max_model_len": 16384}]}}, 16_384),
    ({"/api/v0/models": {"data": [{"id": "qwen", "max_context_length": 32768, "loaded_context_length": 4096}]}}, 4_096),
    ({"/api/extra/true_max_context_length": {"value": 6144}}, 6_144),
    ({"/v1/models": {"data": [{"id": "qwen", "context_length": "large"}]}}, 32_768),
    ({}, 32_768),
]
"""llama.cpp, vLLM, LM Studio, KoboldCpp, one that says nothing usable, and one that says nothing."""


@pytest.mark.promise("P-context-fits")
@pytest.mark.parametrize(("routes", "window"), WINDOWS)
async def test_a_local_server_is_asked_for_its_window(
    fake: FakeProvider, ports: ModelPorts, routes: dict[str, Any], window: int
) -> None:
    fake.routes |= {path: json(body) for path, body in routes.items()}
    model = at(fake.url, ports)
    assert isinstance(model, Looking)
    await model.look()
    assert model.context_window == window
    asked = len(fake.received)
    await model.look()
    assert len(fake.received) == asked, "it is asked once"


async def test_the_output_limit_leaves_room_for_the_prompt_in_the_window(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.routes["/v1/models"] = json({"data": [{"id": "qwen", "max_model_len": 8192}]})
    await ask(at(fake.url, ports), saying("hi"))
    assert fake.asked[-1].body["max_tokens"] == 2_048


async def test_a_configured_window_counts_up_to_that_of_the_server(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.routes["/v1/models"] = json({"data": [{"id": "qwen", "max_model_len": 8192}]})
    small, large = at(fake.url, ports, context_window=6_000), at(fake.url, ports, context_window=60_000)
    await small.look()
    await large.look()
    assert (small.context_window, large.context_window) == (6_000, 8_192)


async def test_a_refusal_teaches_the_window_and_a_restart_remembers_it(fake: FakeProvider, ports: ModelPorts) -> None:
    words = "The input (40000 tokens) is longer than the model's context length (8192 tokens)."
    fake.will(json({"message": words}, 400))
    model = at(fake.url, ports)
    failed = (await ask(model, saying("hi"))).failed
    assert (failed.kind, model.context_window) == (ModelErrorKind.OVERFLOW, 8_192)
    assert ports.served.of(SPEC).window_words(8_192) == (
        "8,192 tokens, according to the server, which refused a longer request"
    )
    later, news = ServedModels(), ports.served.news()
    later.restore(orjson.loads(orjson.dumps(news)))
    later.open(SPEC, f"{fake.url}/v1")
    assert (later.of(SPEC).window, later.of(SPEC).origin) == (8_192, WindowOrigin.REFUSAL)
    assert ports.served.news() == {} == later.news()


@pytest.mark.parametrize(
    ("fields", "left"),
    [(("stream_options",), {"max_tokens"}), (("max_tokens",), {"max_completion_tokens", "stream_options"})],
)
async def test_a_field_that_is_refused_is_left_out_from_then_on(
    fake: FakeProvider, ports: ModelPorts, fields: tuple[str, ...], left: set[str]
) -> None:
    fake.routes["/v1/chat/completions"] = refusing(*fields)
    model = at(fake.url, ports)
    assert [(await ask(model, saying("hi"))).text for _ in range(2)] == ["Hello", "Hello"]
    bodies = [each.body for each in fake.received]
    assert len(bodies) == 3, "only the first request was refused"
    assert bodies[-1].keys() - {"model", "stream", "messages"} == left


async def test_an_output_limit_that_is_too_large_becomes_the_one_that_is_named(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    def reply(received: Received) -> Reply:
        words = "max_tokens is too large: 8192. This model supports at most 4096 completion tokens."
        return ANSWER if received.body["max_tokens"] <= 4_096 else json({"error": {"message": words}}, 400)

    fake.routes["/v1/chat/completions"] = reply
    model = at(fake.url, ports)
    assert [(await ask(model, saying("hi"))).text for _ in range(2)] == ["Hello", "Hello"]
    assert [each.body["max_tokens"] for each in fake.received] == [8_192, 4_096, 4_096]


async def test_a_request_that_stays_refused_teaches_nothing(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(json({"error": {"message": "no stream_options and no max_tokens: the moon is wrong"}}, 400))
    failed = (await ask(at(fake.url, ports), saying("hi"))).failed
    assert failed.kind is ModelErrorKind.REJECTED
    assert len(fake.asked) <= 4
    assert ports.served.of(SPEC).left_out == ()


async def test_a_server_that_refuses_tools_gets_none_from_then_on(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.routes["/v1/chat/completions"] = refusing("tools", words="qwen does not support tools")
    model = at(fake.url, ports)
    assert [(await ask(model, saying("hi", tools=TOOLS))).text for _ in range(2)] == ["Hello", "Hello"]
    assert [("tools" in each.body) for each in fake.received] == [True, False, False]
    assert ports.served.of(SPEC).tools is False


async def test_a_server_that_loads_its_model_is_waited_for(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(json({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, 503), ANSWER)
    heard = await ask(ModelChain([at(fake.url, ports)], ports.clock, local_wait=10), saying("hi"))
    assert heard.text == "Hello"
    assert heard.events[0] == ModelLoading(SPEC)


async def test_a_local_server_that_has_answered_is_waited_for_while_it_starts_anew(ports: ModelPorts) -> None:
    port = free_port()
    async with fake_provider(port) as first:
        first.will(ANSWER)
        model = at(first.url, ports)
        chain = ModelChain([model], ports.clock, local_wait=10)
        assert (await ask(chain, saying("hi"))).text == "Hello"
    asking = asyncio.create_task(ask(chain, saying("hi")))
    async with fake_provider(port) as second:
        second.will(ANSWER)
        assert (await asking).text == "Hello"


async def test_a_local_server_that_never_answered_is_not_waited_for(ports: ModelPorts) -> None:
    model = at(f"http://127.0.0.1:{free_port()}", ports)
    failed = (await ask(model, saying("hi"))).failed
    assert failed.kind is ModelErrorKind.NETWORK


async def test_the_wait_for_a_server_ends(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(json({"error": {"message": "Loading model"}}, 503))
    failed = (await ask(ModelChain([at(fake.url, ports)], ports.clock, local_wait=0), saying("hi"))).failed
    assert (failed.kind, len(fake.asked)) == (ModelErrorKind.LOADING, 1)


async def test_a_malformed_call_is_asked_for_once_more_and_both_answers_are_paid(
    fake: FakeProvider, ports: ModelPorts
) -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    reason = "function_call_filter: MALFORMED_FUNCTION_CALL"
    fake.will(frames(chunk({}, reason), usage, b"data: [DONE]\n\n"), ANSWER)
    finished = (await ask(ModelChain([at(fake.url, ports)], ports.clock), saying("hi"))).finished
    assert (finished.message.text, finished.wasted) == ("Hello", Usage(3, 2))


@pytest.mark.parametrize("base", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/chat/completions"])
@pytest.mark.parametrize("provider", ["llamacpp", "llama.cpp", "lmstudio", "vllm", "local", "jan", "koboldcpp"])
async def test_a_local_address_may_be_written_as_people_do(ports: ModelPorts, provider: str, base: str) -> None:
    assert at(base, ports, f"{provider}:m")._url == "http://h:1/v1/chat/completions"

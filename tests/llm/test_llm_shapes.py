"""Answers of every shape that JSON has: each wire takes what it can read and refuses the rest, in words."""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.codec import Codec
from goclaw.common.core.messages import AssistantMessage
from goclaw.conversation.agent.context.model_messages import sound
from goclaw.llm.base import CallStarted, ChatModel, ModelPorts, TextDelta, ThinkingDelta
from goclaw.llm.pydantic_ai import PROVIDER
from tests.lanes import repeats
from tests.llm.asking import TOOLS, Heard, ask, model_ports, saying
from tests.llm.fake_provider import FakeProvider, fake_provider, refusal
from tests.llm.wires import ANTHROPIC, OLLAMA, OPENAI, WIRES, Wire, chunk, message_start, part, text_delta
from tests.tables import table

STORED: Codec[AssistantMessage] = Codec(AssistantMessage)
GIVEN = '{"city": "Oslo"}'


def block(index: int, **content: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index: int, **content: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": content}


def called(**fields: Any) -> dict[str, Any]:
    return chunk({"tool_calls": [{"index": 0, **fields}]})


CALLING: Mapping[str, tuple[Any, ...]] = {
    ANTHROPIC.name: (
        message_start(),
        block(0, type="thinking", thinking="Hm", signature=""),
        delta(0, type="thinking_delta", thinking="m"),
        delta(0, type="signature_delta", signature="s"),
        block(1, type="text", text="Hel"),
        text_delta("lo") | {"index": 1},
        block(2, type="tool_use", id="c1", name="get_weather", input={}),
        delta(2, type="input_json_delta", partial_json=GIVEN),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ),
    OPENAI.name: (
        chunk({"role": "assistant", "content": "Hello", "reasoning_content": "Hmm"}),
        called(id="c1", type="function", function={"name": "get_weather", "arguments": GIVEN[:5]}),
        called(function={"arguments": GIVEN[5:]}),
        chunk({}, "tool_calls"),
        {"id": "c", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        b"data: [DONE]\n\n",
    ),
    OLLAMA.name: (
        part("Hello", thinking="Hmm") | {"done": False},
        {
            "model": "m",
            "message": {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}],
            },
            "done": False,
        },
        part(done=True, done_reason="stop", prompt_eval_count=3, eval_count=2),
    ),
}
"""A whole answer with a text and a call, as each wire streams it."""
Place = tuple[int | str, ...]
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every field of some JSON, the ones with others in them too."""
    if at:
        yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, each in inside:
        yield from places(each, (*at, key))


def with_value(frames: tuple[Any, ...], place: Place, value: Any) -> list[Any]:
    """The frames with another value in one place."""
    changed = copy.deepcopy(list(frames))
    holder: Any = changed
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return changed


def well_formed(heard: Heard) -> None:
    """An answer is a text and calls that can be stored, or an error in words."""
    if heard.error is not None:
        assert str(heard.error).partition(": ")[2]
        return
    assert all(isinstance(event.text, str) for event in heard.events if isinstance(event, TextDelta | ThinkingDelta))
    assert all(isinstance(event.name, str) for event in heard.events if isinstance(event, CallStarted))
    answer = heard.finished.message
    texts: list[Any] = [answer.text, *(call.name for call in answer.calls), *(call.id for call in answer.calls)]
    assert all(isinstance(text, str) for text in texts) and all(call.id for call in answer.calls)
    assert all(type(call.input) is dict for call in answer.calls)
    kept = sound(answer)
    assert STORED.from_json(STORED.to_json(kept)) == kept


def through_pydantic_ai(url: str, ports: ModelPorts) -> ChatModel:
    settings = ProviderSettings(api_key=SecretStr("k"), base_url=url)
    return PROVIDER.open("openai-chat:gpt-6.1-sol", settings, ModelOptions(max_output=99), ports)


OPENED: Mapping[str, tuple[Wire, Callable[[str, ModelPorts], ChatModel]]] = {
    **{wire.name: (wire, wire.open) for wire in WIRES},
    "pydantic-ai": (OPENAI, through_pydantic_ai),
}


@asynccontextmanager
async def opened(name: str) -> AsyncIterator[tuple[FakeProvider, ChatModel]]:
    async with fake_provider() as fake, model_ports() as ports:
        fake.routes["/api/show"] = refusal(404, {"error": "unknown"})
        yield fake, OPENED[name][1](fake.url, ports)


@pytest.mark.promise("P-no-silent-cut")
@pytest.mark.parametrize("name", OPENED)
@pytest.mark.deep
# pydantic-ai and the client below it warn about such values, which in a daemon is a line in its log.
@pytest.mark.filterwarnings(
    "ignore:Pydantic serializer", "ignore:Failed to extract usage", "ignore:Unexpected non-string value"
)
def test_no_value_in_any_field_of_an_answer_fails_without_words(name: str) -> None:
    wire, _ = OPENED[name]
    frames = CALLING[wire.name]
    fields = sorted(places(frames), key=str)
    with asyncio.Runner() as runner:
        session = opened(name)
        fake, model = runner.run(session.__aenter__())

        @settings(max_examples=repeats(25, 2_000), deadline=None)
        @given(st.lists(st.tuples(st.sampled_from(fields), JSON), min_size=1, max_size=2))
        def try_it(changes: list[tuple[Place, Any]]) -> None:
            changed = with_value(frames, *changes[0])
            for place, value in changes[1:]:
                if place in places(changed):
                    changed = with_value(tuple(changed), place, value)
            fake.will(wire.shape(*changed))
            well_formed(runner.run(ask(model, saying("hi", tools=TOOLS))))

        try:
            try_it()
        finally:
            runner.run(session.__aexit__(None, None, None))


ODD: tuple[Any, ...] = (None, True, 5, 2.5, "", [], ["a"], {}, {"a": 1})
_FUNCTION: Place = (1, "choices", 0, "delta", "tool_calls", 0)
NAMES: Mapping[str, Place] = {
    ANTHROPIC.name: (6, "content_block", "name"),
    OPENAI.name: (*_FUNCTION, "function", "name"),
    OLLAMA.name: (1, "message", "tool_calls", 0, "function", "name"),
}
IDS: Mapping[str, Place] = {ANTHROPIC.name: (6, "content_block", "id"), OPENAI.name: (*_FUNCTION, "id")}
"""Ollama's are not read."""
CASES = [(wire, place, odd) for places in (NAMES, IDS) for wire, place in places.items() for odd in ODD]


@pytest.mark.promise("P-tool-errors")
@table("name, place, odd", CASES, ids=str)
async def test_a_name_or_an_id_that_is_no_text_leaves_a_call_that_can_be_answered(
    name: str, place: Place, odd: Any
) -> None:
    async with opened(name) as (fake, model):
        fake.will(OPENED[name][0].shape(*with_value(CALLING[name], place, odd)))
        heard = await ask(model, saying("hi", tools=TOOLS))
    well_formed(heard)
    (call,) = heard.finished.message.calls
    assert call.input == {"city": "Oslo"}
    if place in NAMES.values():
        assert call.name == (str(odd) if type(odd) in (int, float) else "")


async def test_arguments_that_come_as_an_object_are_taken() -> None:
    place = (*_FUNCTION, "function", "arguments")
    frames = with_value(CALLING[OPENAI.name], place, {"city": "Oslo"})
    del frames[2]
    async with opened(OPENAI.name) as (fake, model):
        fake.will(OPENAI.shape(*frames))
        (call,) = (await ask(model, saying("hi", tools=TOOLS))).finished.message.calls
    assert call.input == {"city": "Oslo"}

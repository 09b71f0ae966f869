import asyncio
import cProfile
import gc
import re
import tracemalloc
from collections.abc import Sequence
from itertools import chain

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goclaw.common.config.schema import ModelOptions
from goclaw.common.config.servers import SERVERS
from goclaw.common.core.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage
from goclaw.llm import anthropic, ollama, openai_chat
from goclaw.llm.base import Request
from goclaw.llm.encoded import (
    Blocks,
    EncodedMessages,
    EncodedTools,
    Pictures,
    alternating,
    clean,
    results_first,
    splice,
    with_conversation,
)
from tests.lanes import repeats
from tests.llm.asking import PICTURE, TIME, TOOLS, WEATHER, model_ports
from tests.llm.conversations import CONVERSATIONS


async def load(key: str) -> bytes:
    return PICTURE


class Counting:
    """An encoder that knows how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, message: Message, pictures: Pictures) -> Blocks:
        self.calls += 1
        return (orjson.dumps([repr(message), dict(pictures)]),)


async def test_a_message_is_encoded_once_however_often_it_is_sent() -> None:
    encode = Counting()
    messages: list[Message] = [UserMessage("a"), AssistantMessage("b"), ToolResult("c", "read", "d")]
    kept = EncodedMessages(encode, load)
    first = await kept.blocks(messages)
    assert await kept.blocks([*messages, UserMessage("new")]) == [*first, await only(kept, UserMessage("new"))]
    assert encode.calls == 3 + 2


async def only(kept: EncodedMessages, message: Message) -> Blocks:
    [blocks] = await kept.blocks([message])
    return blocks


async def test_equal_messages_are_not_the_same_message() -> None:
    """Identity is what is cheap to ask; equality would compare whole texts."""
    encode = Counting()
    kept = EncodedMessages(encode, load)
    await kept.blocks([UserMessage("a"), UserMessage("a")])
    assert encode.calls == 2


async def test_what_is_kept_goes_when_the_message_goes() -> None:
    kept = EncodedMessages(Counting(), load)
    messages: list[Message] = [UserMessage(str(number)) for number in range(100)]
    await kept.blocks(messages)
    assert len(kept) == 100
    del messages[:50]
    gc.collect()
    assert len(kept) == 50


async def test_kept_forms_take_no_more_memory_than_they_are_long() -> None:
    """`orjson` leaves kilobytes of room behind a short text, in the same block of memory."""
    count, kept = 1_000, EncodedMessages(Counting(), load)
    messages = [UserMessage(str(number)) for number in range(count)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        longest = max(len(form) for [form] in await kept.blocks(messages))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken / count < 500 + longest


async def test_pictures_are_loaded_for_new_messages_only() -> None:
    loaded: list[str] = []

    async def count(key: str) -> bytes:
        loaded.append(key)
        return PICTURE

    kept = EncodedMessages(Counting(), count)
    message = UserMessage("look", (Image("aa", "image/png"), Image("bb", "image/png")))
    await kept.blocks([message])
    await kept.blocks([message])
    assert loaded == ["aa", "bb"]


def test_tools_are_encoded_again_only_when_one_is_another() -> None:
    seen: list[int] = []

    def encode(tools: object) -> bytes:
        seen.append(1)
        return b"[]"

    kept = EncodedTools(encode)
    for tools in (TOOLS, list(TOOLS), (WEATHER,), (WEATHER, TIME)):
        kept.text(tools)
    assert len(seen) == 3


def test_results_come_before_what_was_said_meanwhile() -> None:
    calls = AssistantMessage("", (ToolCall("a", "read", {}), ToolCall("b", "read", {})))
    before, between, after = UserMessage("before"), UserMessage("between"), UserMessage("after")
    one, two = ToolResult("a", "read", "1"), ToolResult("b", "read", "2")
    assert results_first([before, calls, between, one, after, two]) == [before, calls, one, two, between, after]


def one_by_one(messages: Sequence[Message]) -> Sequence[Message]:
    ordered, waiting = list[Message](), list[Message]()
    for message in messages:
        if isinstance(message, AssistantMessage):
            ordered, waiting = [*ordered, *waiting, message], []
        else:
            (waiting if isinstance(message, UserMessage) else ordered).append(message)
    return ordered + waiting


@given(CONVERSATIONS)
def test_results_are_put_first_as_if_each_message_were_looked_at(messages: list[Message]) -> None:
    assert results_first(messages) == one_by_one(messages)


def test_parts_are_spliced_into_one_object() -> None:
    assert orjson.loads(splice({"a": 1}, b=[b"1", b"{}"], c=b"3")) == {"a": 1, "b": [1, {}], "c": 3}
    assert orjson.loads(splice({}, b=b"2")) == {"b": 2}
    assert orjson.loads(splice({}, b=[], c=[b"1"])) == {"b": [], "c": [1]}


@given(st.text(), st.text())
def test_cleaned_names_are_valid_and_stay_different(one: str, other: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", clean(one))
    assert (clean(one) == clean(other)) is (one == other)


@pytest.mark.deep
@settings(max_examples=repeats(25, 300))
@given(CONVERSATIONS)
def test_kept_forms_equal_fresh_ones(messages: list[Message]) -> None:
    async def compare() -> None:
        async with model_ports() as ports:
            server = SERVERS["openai-chat"]
            chat = openai_chat.OpenAIChatModel("openai-chat:m", server, "", None, ModelOptions(), ports)
            for encode in (anthropic.encode, ollama.encode, chat._encode):
                kept = EncodedMessages(encode, load)
                for end in range(len(messages) + 1):
                    fresh = await EncodedMessages(encode, load).blocks(messages[:end])
                    assert await kept.blocks(messages[:end]) == fresh
                assert all(map(orjson.loads, chain.from_iterable(await kept.blocks(messages))))

    asyncio.run(compare())


async def test_the_body_of_a_known_conversation_is_joined_and_not_encoded_anew() -> None:
    """Counted in calls of functions, for a thousand messages."""
    messages: list[Message] = []
    for number in range(250):
        call = ToolCall(f"c{number}", "read", {"path": "a" * 20})
        messages += [UserMessage("x" * 200), AssistantMessage("", (call,)), ToolResult(call.id, "read", "y" * 400)]
        messages.append(AssistantMessage("z" * 300))
    kept = EncodedMessages(anthropic.encode, load)

    async def steps() -> int:
        with cProfile.Profile() as profile:
            ordered = results_first(messages)
            splice({"model": "m"}, messages=anthropic.join(ordered, await kept.blocks(ordered), marked=True))
        return sum(entry.callcount for entry in profile.getstats())

    anew, again = await steps(), await steps()
    assert again < min(anew / 2, 10 * len(messages)), (anew, again)


async def test_a_known_conversation_costs_no_step_a_message() -> None:
    messages: list[Message] = [UserMessage("x"), AssistantMessage("y")] * 500
    kept, tools = EncodedMessages(lambda message, _: (b"{}",), load), EncodedTools(openai_chat.encode_tools)

    async def steps() -> int:
        with cProfile.Profile() as profile:
            await with_conversation({}, Request("be brief", messages, ()), kept, tools)
        return sum(entry.callcount for entry in profile.getstats())

    await steps()
    assert await steps() < len(messages) / 2


def test_what_a_person_says_in_a_row_is_one_message_where_turns_must_alternate() -> None:
    picture = Image("ab" * 32, "image/png")
    rows: list[Message] = [UserMessage("a"), UserMessage("b", (picture,)), AssistantMessage("Yes."), UserMessage("c")]
    assert alternating(rows) == [UserMessage("a\n\nb", (picture,)), AssistantMessage("Yes."), UserMessage("c")]
    alternate = rows[1:]
    assert alternating(alternate) is alternate, "nothing is made anew where nothing is to do"


async def test_others_get_a_turn_after_a_large_form() -> None:
    turns: list[int] = []

    def encode(message: Message, pictures: Pictures) -> Blocks:
        asyncio.get_running_loop().call_soon(turns.append, 1)
        return (bytes(2 << 20),)

    await EncodedMessages(encode, load).blocks([UserMessage("hi")])
    assert turns == [1]

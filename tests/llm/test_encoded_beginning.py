"""What a long conversation's requests begin with is put together once, and is what putting it together anew gives."""

import asyncio
import cProfile
import gc
from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given, settings

from goclaw.common.config.schema import ModelOptions
from goclaw.common.config.servers import SERVERS
from goclaw.common.core.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage
from goclaw.conversation.agent.context.window import ContextEntry, Window
from goclaw.llm import ollama, openai_chat
from goclaw.llm.base import Beginning, Continued, Request
from goclaw.llm.encoded import LONG, MOST_JOINED, EncodedMessages, EncodedTools, Pictures, with_conversation
from tests.lanes import repeats
from tests.llm.asking import PICTURE, TOOLS, model_ports
from tests.llm.conversations import CONVERSATIONS

TOOL_TEXTS = EncodedTools(openai_chat.encode_tools)


async def load(key: str) -> bytes:
    return PICTURE


def encode(message: Message, pictures: Pictures) -> tuple[bytes, ...]:
    return (orjson.dumps([repr(message), dict(pictures)]),)


async def body(kept: EncodedMessages, messages: Sequence[Message], reminder: str = "") -> bytes:
    request = Request("be brief", messages, TOOLS, reminder=reminder)
    return await with_conversation({"model": "m"}, request, kept, TOOL_TEXTS)


def talk(count: int = LONG, text: str = "x") -> list[Message]:
    return [UserMessage(text) if number % 2 == 0 else AssistantMessage(text) for number in range(count)]


@pytest.mark.deep
@settings(max_examples=repeats(10, 100), deadline=None)
@given(CONVERSATIONS, CONVERSATIONS)
def test_a_growing_conversation_is_sent_as_a_new_one_of_the_same_messages_is(
    once: list[Message], more: list[Message]
) -> None:
    async def compare() -> None:
        async with model_ports() as ports:
            chat = openai_chat.OpenAIChatModel("m", SERVERS["openai-chat"], "", None, ModelOptions(), ports)
            for encoder in (ollama.encode, chat._encode):
                kept, window = EncodedMessages(encoder, load), Window()
                messages = [*talk(), *once, AssistantMessage("so far"), *(more * 3)]
                for row, message in enumerate(messages):
                    window.append(ContextEntry(row, message))
                    if row < LONG - 2:
                        continue
                    sent = window.messages()
                    for reminder in ("", "remember"):
                        anew = await body(EncodedMessages(encoder, load), list(sent), reminder)
                        assert await body(kept, sent, reminder) == anew

    asyncio.run(compare())


async def test_a_long_conversation_costs_no_step_for_the_messages_that_were_sent_before() -> None:
    kept, window = EncodedMessages(encode, load), Window()
    for row, message in enumerate(talk(1_000)):
        window.append(ContextEntry(row, message))
    window.append(ContextEntry(1_000, UserMessage("and now?")))
    await body(kept, window.messages())
    sent = window.messages()
    with cProfile.Profile() as profile:
        await body(kept, sent)
    assert sum(entry.callcount for entry in profile.getstats()) < 100


async def test_many_short_turns_leave_few_pieces_and_every_word() -> None:
    kept, beginning = EncodedMessages(encode, load), Beginning(talk())
    for number in range(100):
        sent = Continued(beginning, [UserMessage(f"question {number}")])
        assert await body(kept, sent) == await body(EncodedMessages(encode, load), list(sent))
        beginning.messages += [UserMessage(f"question {number}"), AssistantMessage(f"answer {number}")]
    texts, count = await kept.beginning(Continued(beginning, [UserMessage("end")]), TOOLS)
    assert count == LONG + 200
    assert len(texts) < 100


async def test_a_message_that_is_shown_otherwise_now_is_shown_so_in_what_was_put_together() -> None:
    kept = EncodedMessages(encode, load)
    seen = UserMessage("look", (Image("aa", "image/png"),))
    sent = Continued(Beginning([seen, AssistantMessage("nice"), *talk()]), [UserMessage("now?")])
    assert b"image/png" in await body(kept, sent)
    kept.store(seen, (b'"other"',))
    assert b'"other"' in await body(kept, sent)
    kept.drop_pictures()
    blind = await body(kept, sent)
    assert b'"other"' not in blind
    assert b"image/png" not in blind


async def test_a_message_that_changes_while_a_beginning_is_put_together_leaves_nothing_old_in_it() -> None:
    asked, allowed = asyncio.Event(), asyncio.Event()

    async def slowly(key: str) -> bytes:
        asked.set()
        await allowed.wait()
        return PICTURE

    kept = EncodedMessages(encode, slowly)
    first = UserMessage("look", (Image("aa", "image/png"),))
    beginning = Beginning([*talk(), first, AssistantMessage("nice")])
    putting = asyncio.create_task(body(kept, Continued(beginning, [UserMessage("now?")])))
    await asyncio.wait_for(asked.wait(), 10)
    kept.store(beginning.messages[0], (b'"other"',))
    allowed.set()
    assert b'"other"' in await asyncio.wait_for(putting, 10)


async def test_two_requests_of_one_conversation_at_once_are_both_whole() -> None:
    kept = EncodedMessages(encode, load)
    beginning = Beginning([*talk(400)])
    one = Continued(beginning, [UserMessage("one")])
    beginning.messages += [UserMessage("one"), AssistantMessage("done")]
    other = Continued(beginning, [UserMessage("two")])
    for sent in (one, other, one):
        assert await body(kept, sent) == await body(EncodedMessages(encode, load), list(sent))
    bodies = await asyncio.gather(*(body(kept, sent) for sent in (one, other, one, other)))
    assert bodies == [await body(EncodedMessages(encode, load), list(sent)) for sent in (one, other, one, other)]


async def test_beginnings_take_a_bounded_number_of_bytes_and_go_with_their_conversation() -> None:
    kept = EncodedMessages(encode, load)
    conversations = [Beginning(talk(text=str(number) * (MOST_JOINED // LONG // 3))) for number in range(5)]
    for beginning in conversations:
        await body(kept, Continued(beginning, [UserMessage("now?")]))
    assert 0 < sum(joined.size for joined in kept._joined.values()) <= MOST_JOINED
    assert conversations[-1] in kept._joined
    assert conversations[0] not in kept._joined
    del conversations, beginning
    gc.collect()
    assert not kept._joined


async def test_a_conversation_that_ends_with_its_beginning_keeps_a_reminder_with_its_last_words() -> None:
    call = ToolCall("c", "read", {})
    ends: list[Message] = [*talk(), UserMessage("and?"), AssistantMessage("", (call,)), ToolResult("c", "read", "ok")]
    sent = Continued(Beginning(ends), [])
    kept = EncodedMessages(encode, load)
    assert await body(kept, sent, "remember") == await body(EncodedMessages(encode, load), list(sent), "remember")

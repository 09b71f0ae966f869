"""Our Messages wire beside the official SDK and pydantic-ai."""

from typing import Any

import anthropic
import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from hypothesis import HealthCheck, given, settings
from pydantic import SecretStr

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.messages import Message
from goclaw.llm.base import Request, Stop
from goclaw.llm.pydantic_ai import PROVIDER
from tests.lanes import repeats
from tests.llm.asking import TOOLS, ask, model_ports, saying
from tests.llm.conversations import CONVERSATIONS
from tests.llm.fake_provider import fake_provider, recorded
from tests.llm.oracles import QUESTION, differences, sending, validated
from tests.llm.wires import ANTHROPIC

STOPS = {"end_turn": Stop.END, "tool_use": Stop.TOOLS}


@pytest.mark.deep
def test_any_conversation_becomes_a_body_of_the_sdks_type() -> None:
    with sending(ANTHROPIC) as bodies:

        @settings(max_examples=repeats(25, 300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(CONVERSATIONS)
        def check(messages: list[Message]) -> None:
            body = bodies.of(Request("Be brief.", messages, TOOLS))
            assert validated(MessageCreateParamsStreaming, body) == body
            check_rules(body)

        check()


def check_rules(body: dict[str, Any]) -> None:
    """What the API demands beyond types."""
    turns = body["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * (len(turns) // 2) + ["user"] * (len(turns) % 2)
    open_calls: set[str] = set()
    for turn in turns:
        assert turn["content"]
        results = [block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"]
        kinds = [block["type"] for block in turn["content"]]
        assert kinds[: len(results)] == ["tool_result"] * len(results)
        assert all(block["text"].strip() for block in turn["content"] if block["type"] == "text")
        if turn["role"] == "user":
            assert set(results) == open_calls
            open_calls = set()
        else:
            open_calls = {block["id"] for block in turn["content"] if block["type"] == "tool_use"}
    assert repr(body).count("cache_control") <= 4


@pytest.mark.parametrize("stream", ["anthropic_text.sse", "anthropic_tools.sse"])
async def test_the_sdk_reads_the_same_from_the_same_bytes(stream: str) -> None:
    async with fake_provider() as fake, model_ports() as ports:
        fake.will(recorded(stream))
        ours = (await ask(ANTHROPIC.open(fake.url, ports), saying("hi", tools=TOOLS))).finished
        async with (
            anthropic.AsyncAnthropic(base_url=fake.url, api_key="k", max_retries=0) as client,
            client.messages.stream(
                model="claude-opus-5-5", max_tokens=100, messages=[{"role": "user", "content": "hi"}]
            ) as reading,
        ):
            theirs = await reading.get_final_message()
    assert ours.message.text == "".join(block.text for block in theirs.content if block.type == "text")
    calls = [(block.id, block.name, block.input) for block in theirs.content if block.type == "tool_use"]
    assert [(call.id, call.name, call.input) for call in ours.message.calls] == calls
    assert ours.stop is STOPS[str(theirs.stop_reason)]
    assert ours.usage.output == theirs.usage.output_tokens
    assert ours.usage.cache_read == theirs.usage.cache_read_input_tokens
    assert ours.usage.cache_write == theirs.usage.cache_creation_input_tokens
    assert ours.usage.input == theirs.usage.input_tokens + ours.usage.cache_read + ours.usage.cache_write
    kept = [block.to_dict() for block in theirs.content if block.type in ("thinking", "redacted_thinking")]
    native = ours.message.native.content if ours.message.native else []
    assert [block for block in native if "thinking" in block["type"]] == kept


REASONED = {
    # We mark prefixes for the prompt cache; pydantic-ai does so when it is told to.
    "system[0].cache_control: only ours",
    "tools[1].cache_control: only ours",
    "messages[2].content[1].cache_control: only ours",
    "messages[4].content[0].cache_control: only ours",
    # It writes results as lists of blocks, we as strings: the API takes both.
    "messages[4].content[1].content",
    "messages[4].content[2].content",
    # It says `false` where that is the default.
    "messages[4].content[1].is_error: only theirs",
    # It says `auto`, which is the default.
    "tool_choice: only theirs",
    # It writes the system text as a string.
    "system",
}


async def test_pydantic_ai_sends_the_same_but_for_reasoned_fields() -> None:
    async with fake_provider() as fake, model_ports() as ports:
        fake.will(recorded("anthropic_text.sse"))
        await ask(ANTHROPIC.open(fake.url, ports), QUESTION)
        settings_ = ProviderSettings(api_key=SecretStr("k"), base_url=fake.url)
        other = PROVIDER.open(ANTHROPIC.spec, settings_, ModelOptions(), ports)
        assert (await ask(other, QUESTION)).text == "Grüß Gott, 👋!"
    ours, theirs = (received.body for received in fake.received)
    found = differences(ours, theirs)
    assert found <= REASONED, found - REASONED

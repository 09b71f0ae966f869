"""Our chat completions wire beside the official SDK and pydantic-ai."""

from typing import Any

import openai
import pytest
from hypothesis import HealthCheck, given, settings
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
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
from tests.llm.wires import OPENAI

STOPS = {"stop": Stop.END, "tool_calls": Stop.TOOLS}


@pytest.mark.deep
def test_any_conversation_becomes_a_body_of_the_sdks_type() -> None:
    with sending(OPENAI) as bodies:

        @settings(max_examples=repeats(25, 300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(CONVERSATIONS)
        def check(messages: list[Message]) -> None:
            body = bodies.of(Request("Be brief.", messages, TOOLS))
            assert validated(CompletionCreateParamsStreaming, body) == body
            check_rules(body["messages"])

        check()


def check_rules(messages: list[dict[str, Any]]) -> None:
    """What the API demands beyond types: after calls come their results, and nothing else."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert waiting == []
        waiting += [call["id"] for call in message.get("tool_calls", ())]
    assert waiting == []


@pytest.mark.parametrize("stream", ["openai_text.sse", "openai_tools.sse"])
async def test_the_sdk_reads_the_same_from_the_same_bytes(stream: str) -> None:
    async with fake_provider() as fake, model_ports() as ports:
        fake.will(recorded(stream))
        ours = (await ask(OPENAI.open(fake.url, ports), saying("hi", tools=TOOLS))).finished
        async with (
            openai.AsyncOpenAI(base_url=fake.url, api_key="k", max_retries=0) as client,
            client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "hi"}]) as reading,
        ):
            theirs = await reading.get_final_completion()
    choice = theirs.choices[0]
    assert ours.message.text == (choice.message.content or "")
    calls = [(call.id, call.function.name) for call in choice.message.tool_calls or ()]
    assert [(call.id, call.name) for call in ours.message.calls] == calls
    assert ours.stop is STOPS[choice.finish_reason]
    assert theirs.usage is not None
    assert theirs.usage.prompt_tokens_details is not None
    assert theirs.usage.completion_tokens_details is not None
    assert ours.usage.input == theirs.usage.prompt_tokens
    assert ours.usage.output == theirs.usage.completion_tokens
    assert ours.usage.cache_read == theirs.usage.prompt_tokens_details.cached_tokens
    assert ours.usage.reasoning == theirs.usage.completion_tokens_details.reasoning_tokens


REASONED = {
    # It says `auto`, which is the default.
    "tool_choice: only theirs",
    # It makes schemas strict where they allow it; ours go out as their tools declare them.
    "tools[0].function.strict: only theirs",
    "tools[0].function.parameters.additionalProperties: only theirs",
    "tools[1].function.parameters.additionalProperties: only theirs",
    # It wraps the text of a failed tool; ours are `{"error": …}` already, written by the dispatcher.
    "messages[6].content",
}


async def test_pydantic_ai_sends_the_same_but_for_reasoned_fields() -> None:
    async with fake_provider() as fake, model_ports() as ports:
        fake.will(recorded("openai_text.sse"))
        await ask(OPENAI.open(fake.url, ports), QUESTION)
        given_settings = ProviderSettings(api_key=SecretStr("k"), base_url=fake.url)
        other = PROVIDER.open(OPENAI.spec, given_settings, ModelOptions(), ports)
        assert (await ask(other, QUESTION)).text == "Grüß Gott, 👋!"
    ours, theirs = (received.body for received in fake.received)
    found = differences(ours, theirs)
    assert found <= REASONED, found - REASONED

"""What the runtime says behind the conversation, on every wire."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from hypothesis import HealthCheck, given, settings
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import SecretStr

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.messages import AssistantMessage, Image, Message, ToolResult, UserMessage
from goclaw.llm.base import Request
from goclaw.llm.encoded import RESULTS_SEEN
from goclaw.llm.pydantic_ai import PROVIDER
from goclaw.llm.token_counts import estimate_request
from tests.lanes import repeats
from tests.llm import test_anthropic_oracle, test_openai_chat_oracle
from tests.llm.asking import TOOLS, ask, model_ports
from tests.llm.conversations import CONVERSATIONS
from tests.llm.fake_provider import fake_provider
from tests.llm.oracles import CALL_A, CALL_B, sending, validated
from tests.llm.wires import ANTHROPIC, OLLAMA, OPENAI, WIRES, Wire

REMINDER = "<system-reminder>\nThe user sees a graph.\n</system-reminder>"
ASKED: list[Message] = [UserMessage("How is the weather?", (Image("aa", "image/png"),))]
ANSWERED: list[Message] = [
    *ASKED,
    AssistantMessage("I look.", (CALL_A, CALL_B)),
    ToolResult("toolu_a", "get_weather", "rain"),
    ToolResult("toolu_b", "get_time", "noon"),
]
JOINED: list[Message] = [*ANSWERED, UserMessage("Quick!")]


def reminding(messages: Sequence[Message]) -> Request:
    return Request("Be brief.", messages, TOOLS, 1_000, reminder=REMINDER)


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
@pytest.mark.parametrize("messages", [ASKED, ANSWERED, JOINED], ids=["asked", "answered", "joined"])
def test_it_is_said_once_last_of_all_and_changes_nothing_before_it(wire: Wire, messages: list[Message]) -> None:
    with sending(wire) as bodies:
        request, model = reminding(messages), bodies.open()
        told = bodies.of(request, model)
        without = bodies.of(replace(request, reminder=""), model)
    assert repr(told).count("The user sees a graph.") == 1
    assert texts_of(told)[-1].endswith(REMINDER), "behind everything else"
    assert texts_of(told)[: len(texts_of(without)) - 1] == texts_of(without)[:-1]
    assert {key: value for key, value in told.items() if key != "messages"} == {
        key: value for key, value in without.items() if key != "messages"
    }


def texts_of(body: dict[str, Any]) -> list[str]:
    """Every text of the conversation, in order."""
    blocks = [
        block
        for message in body["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [message["content"]])
    ]
    found = [block if isinstance(block, str | None) else block.get("text", block.get("content")) for block in blocks]
    return [text for text in found if isinstance(text, str) and text]


def test_at_anthropic_it_is_a_block_behind_the_results_and_behind_the_cache_mark() -> None:
    with sending(ANTHROPIC) as bodies:
        told = bodies.of(reminding(ANSWERED))
        without = bodies.of(replace(reminding(ANSWERED), reminder=""))
    *results, last = told["messages"][-1]["content"]
    assert [block["type"] for block in results] == ["tool_result", "tool_result"]
    assert results == without["messages"][-1]["content"], "what is cached, mark included"
    assert "cache_control" in results[-1] and last == {"type": "text", "text": REMINDER}


def test_at_openai_it_is_a_persons_message_behind_results_and_no_system_message() -> None:
    with sending(OPENAI) as bodies:
        told = bodies.of(reminding(ANSWERED))["messages"]
    assert [message["role"] for message in told[-3:]] == ["tool", "tool", "user"]
    assert [message["role"] for message in told].count("system") == 1 and told[0]["role"] == "system"
    assert told[-1]["content"] == REMINDER


@pytest.mark.parametrize("wire", [OPENAI, OLLAMA], ids=lambda wire: wire.name)
def test_behind_a_persons_words_it_continues_them_for_some_templates_refuse_two_in_a_row(wire: Wire) -> None:
    with sending(wire) as bodies:
        told = bodies.of(reminding(JOINED))["messages"]
        seeing = wire.open(bodies._fake.url, bodies._ports, images=True)
        first = bodies.of(reminding(ASKED), seeing)["messages"]
    assert told[-1] == {"role": "user", "content": f"Quick!\n\n{REMINDER}"}
    assert [message["role"] for message in first] == ["system", "user"], "the picture is kept beside it"
    assert "image" in repr(first[-1])


def test_where_the_order_is_strict_the_assistant_says_a_word_between() -> None:
    with sending(OPENAI) as bodies:
        wire = replace(OPENAI, spec="mistral:mistral-large-latest")
        told = bodies.of(reminding(ANSWERED), wire.open(bodies._fake.url, bodies._ports))["messages"]
    assert [message["role"] for message in told[-3:]] == ["tool", "assistant", "user"]
    assert told[-2]["content"] == RESULTS_SEEN.text and told[-1]["content"] == REMINDER


@pytest.mark.deep
@pytest.mark.parametrize(
    ("wire", "kind"), [(ANTHROPIC, MessageCreateParamsStreaming), (OPENAI, CompletionCreateParamsStreaming)]
)
def test_any_conversation_with_it_is_one_of_the_sdks_type_and_of_the_apis_rules(wire: Wire, kind: Any) -> None:
    with sending(wire) as bodies:

        @settings(max_examples=repeats(25, 300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(CONVERSATIONS)
        def check(messages: list[Message]) -> None:
            body = bodies.of(reminding(messages))
            assert validated(kind, body) == body
            assert texts_of(body)[-1].endswith(REMINDER)
            if wire is ANTHROPIC:
                test_anthropic_oracle.check_rules(body)
            else:
                test_openai_chat_oracle.check_rules(body["messages"])

        check()


@pytest.mark.parametrize("wire", [ANTHROPIC, OPENAI], ids=lambda wire: wire.name)
async def test_pydantic_ai_says_it_last_too(wire: Wire) -> None:
    async with fake_provider() as fake, model_ports() as ports:
        fake.will(wire.answer())
        settings = ProviderSettings(api_key=SecretStr("k"), base_url=fake.url)
        spec = "anthropic:claude-opus-5-5" if wire is ANTHROPIC else "openai-chat:gpt-6.1-sol"
        model = PROVIDER.open(spec, settings, ModelOptions(context_window=100_000, max_output=1_000), ports)
        await ask(model, reminding(ANSWERED))
        body = fake.asked[-1].body
    assert repr(body).count("The user sees a graph.") == 1
    assert texts_of(body)[-1] == REMINDER


def test_it_counts_in_the_estimate_of_a_request() -> None:
    request = reminding(ANSWERED)
    assert estimate_request(request) > estimate_request(replace(request, reminder="")) + 10

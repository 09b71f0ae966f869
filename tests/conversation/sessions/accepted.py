"""What Anthropic and OpenAI would make of a request: the types of their SDKs, and the rules that no type holds."""

from typing import Any

from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from tests.llm import test_anthropic_oracle, test_openai_chat_oracle
from tests.llm.oracles import validated


def check_anthropic(body: dict[str, Any]) -> None:
    """Fail unless Anthropic takes the body as it is."""
    assert validated(MessageCreateParamsStreaming, body) == body
    test_anthropic_oracle.check_rules(body)


def check_openai(body: dict[str, Any]) -> None:
    """Fail unless OpenAI takes the body as it is."""
    assert validated(CompletionCreateParamsStreaming, body) == body
    test_openai_chat_oracle.check_rules(body["messages"])

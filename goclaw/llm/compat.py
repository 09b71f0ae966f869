"""THE table of servers that speak OpenAI's chat completions, and where each of them differs.

Where they are stands in `config.servers`; a new server is one line there and one here. Sources: the API reference of
each server as of 2026; a column is set only where the default is wrong.
"""

from typing import Literal

from goclaw.records import record


@record
class CompatibleServer:
    """One server that speaks OpenAI's protocol."""

    data_id: str | None = None
    """The provider's name in the model data; None: the data know nothing of it."""
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_options: bool = True
    """Whether it takes `stream_options: {include_usage: true}`; the others refuse it and send usage unasked."""
    reasoning_field: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    """Field in which its thinking is streamed and sent back. Reading accepts both names."""
    replay_reasoning: bool = False
    """Whether thinking is sent back with the tool calls that it led to."""
    effort: Literal["word", "object", "none"] = "none"
    """Form of the request for thinking: `reasoning_effort: "high"`, `reasoning: {effort: "high"}`, or none."""
    short_ids: bool = False
    """Whether ids of tool calls must be nine letters and digits, as Mistral has it."""
    strict_order: bool = False
    """Whether all its models refuse a person's words right after tool results, as Mistral's do (error 3230)."""
    local: bool = False
    """Runs on the user's own machine: costs nothing, and its window is small unless configured."""


SERVERS = {
    "cerebras": CompatibleServer(
        "cerebras",
        "max_completion_tokens",
        reasoning_field="reasoning",
    ),
    "deepseek": CompatibleServer("deepseek", replay_reasoning=True),
    "fireworks": CompatibleServer("fireworks", effort="word"),
    "gemini": CompatibleServer("google", effort="word"),
    "groq": CompatibleServer("groq", "max_completion_tokens", reasoning_field="reasoning"),
    "llamacpp": CompatibleServer(local=True),
    "lmstudio": CompatibleServer(local=True),
    "mistral": CompatibleServer(
        "mistral",
        stream_options=False,
        short_ids=True,
        strict_order=True,
    ),
    "moonshotai": CompatibleServer("moonshotai", replay_reasoning=True),
    "openai": CompatibleServer("openai", "max_completion_tokens", effort="word"),
    "openai-chat": CompatibleServer("openai", "max_completion_tokens", effort="word"),
    "openrouter": CompatibleServer(
        "openrouter",
        reasoning_field="reasoning",
        replay_reasoning=True,
        effort="object",
    ),
    "together": CompatibleServer("together", reasoning_field="reasoning"),
    "vllm": CompatibleServer(local=True),
    "xai": CompatibleServer("x-ai", "max_completion_tokens", effort="word"),
    "zai": CompatibleServer("zai", replay_reasoning=True),
}
"""By the provider's name in a spec. `openai` and `openai-chat` are the same server."""

"""THE table of servers that speak OpenAI's protocol: where each is, which variable has its key, how its chats differ.

`providers.<name>.base_url` and `.api_key` of the configuration take precedence. Whether one has models that chat or
models that embed is not known here. A new server is one row. Sources: the API reference of each server as of 2026; a
column is set only where the default is wrong.
"""

from typing import Literal

from goclaw.records import record


@record
class KnownServer:
    """A server known by name."""

    base_url: str
    """Up to and without `/chat/completions`, `/embeddings` …"""
    key_variable: str | None = None
    """Environment variable of the key; None: works without a key, sends one that is configured."""
    data_id: str | None = None
    """The provider's name in the model data; None: the data know nothing of it."""
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_options: bool = True
    """Whether it takes `stream_options: {include_usage: true}`; the others refuse it and send usage unasked."""
    reasoning_field: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    """Where its thinking is streamed, and where it is sent back. Reading accepts both names."""
    replay_reasoning: bool = False
    """Whether thinking is sent back with the tool calls that it led to."""
    effort: Literal["word", "object", "none"] = "none"
    """How thinking is asked for: `reasoning_effort: "high"`, `reasoning: {effort: "high"}`, or not at all."""
    short_ids: bool = False
    """Whether ids of tool calls must be nine letters and digits, as Mistral has it."""
    strict_order: bool = False
    """Whether all its models refuse a person's words right after tool results, as Mistral's do (error 3230)."""
    local: bool = False
    """Runs on the user's own machine: costs nothing, and its window is small unless configured."""


_OPENAI = KnownServer(
    "https://api.openai.com/v1", "OPENAI_API_KEY", "openai", limit_field="max_completion_tokens", effort="word"
)
SERVERS = {
    "cerebras": KnownServer(
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        "cerebras",
        limit_field="max_completion_tokens",
        reasoning_field="reasoning",
    ),
    "deepseek": KnownServer("https://api.deepseek.com", "DEEPSEEK_API_KEY", "deepseek", replay_reasoning=True),
    "fireworks": KnownServer("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", "fireworks", effort="word"),
    "gemini": KnownServer(
        "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", "google", effort="word"
    ),
    "groq": KnownServer(
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        "groq",
        limit_field="max_completion_tokens",
        reasoning_field="reasoning",
    ),
    "llamacpp": KnownServer("http://127.0.0.1:8080/v1", local=True),
    "lmstudio": KnownServer("http://127.0.0.1:1234/v1", local=True),
    "mistral": KnownServer(
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        "mistral",
        stream_options=False,
        short_ids=True,
        strict_order=True,
    ),
    "moonshotai": KnownServer("https://api.moonshot.ai/v1", "MOONSHOTAI_API_KEY", "moonshotai", replay_reasoning=True),
    "openai": _OPENAI,
    "openai-chat": _OPENAI,
    "openrouter": KnownServer(
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        "openrouter",
        reasoning_field="reasoning",
        replay_reasoning=True,
        effort="object",
    ),
    "together": KnownServer("https://api.together.xyz/v1", "TOGETHER_API_KEY", "together", reasoning_field="reasoning"),
    "vllm": KnownServer("http://127.0.0.1:8000/v1", local=True),
    "xai": KnownServer(
        "https://api.x.ai/v1", "XAI_API_KEY", "x-ai", limit_field="max_completion_tokens", effort="word"
    ),
    "zai": KnownServer("https://api.z.ai/api/paas/v4", "ZAI_API_KEY", "zai", replay_reasoning=True),
}
"""By the provider's name in a spec. `openai` and `openai-chat` are the same server."""

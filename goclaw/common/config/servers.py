"""THE table of servers that speak OpenAI's protocol: where each is, which variable has its key, how its chats differ.

`providers.<name>.base_url` and `.api_key` of the configuration take precedence (`place_of`). Whether one has models
that chat or models that embed is not known here. A new server is one row. Sources: the API reference of each server as
of 2026; a column is set only where the default is wrong.
"""

import os
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from goclaw.common.config.schema import ProviderSettings
from goclaw.common.core.records import record
from goclaw.common.core.redact import remember
from goclaw.errors import ConfigError


@record
class KnownServer:
    """A server known by name."""

    base_url: str
    """Up to and without `/chat/completions`, `/embeddings` …"""
    key_variable: str | None = None
    """Environment variable of the key; None: works without a key, but sends a configured one."""
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
    strict: bool = False
    """Whether it is as Mistral: ids of tool calls must be nine letters and digits, and all models refuse a person's
    words right after tool results (error 3230)."""
    local: bool = False
    """Runs on the user's own machine: costs nothing, and its window is small unless configured."""


_OPENAI = KnownServer(
    "https://api.openai.com/v1", "OPENAI_API_KEY", "openai", limit_field="max_completion_tokens", effort="word"
)
_LLAMACPP = KnownServer("http://127.0.0.1:8080/v1", local=True)
_LMSTUDIO = KnownServer("http://127.0.0.1:1234/v1", local=True)
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
    "jan": KnownServer("http://127.0.0.1:1337/v1", local=True),
    "koboldcpp": KnownServer("http://127.0.0.1:5001/v1", local=True),
    "llama-cpp": _LLAMACPP,
    "llama.cpp": _LLAMACPP,
    "llamacpp": _LLAMACPP,
    "lm-studio": _LMSTUDIO,
    "lmstudio": _LMSTUDIO,
    "local": KnownServer("", local=True),
    "mistral": KnownServer(
        "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral", stream_options=False, strict=True
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
    "text-generation-webui": KnownServer("http://127.0.0.1:5000/v1", local=True),
    "together": KnownServer("https://api.together.xyz/v1", "TOGETHER_API_KEY", "together", reasoning_field="reasoning"),
    "vllm": KnownServer("http://127.0.0.1:8000/v1", local=True),
    "xai": KnownServer(
        "https://api.x.ai/v1", "XAI_API_KEY", "x-ai", limit_field="max_completion_tokens", effort="word"
    ),
    "zai": KnownServer("https://api.z.ai/api/paas/v4", "ZAI_API_KEY", "zai", replay_reasoning=True),
}
"""By the provider's name in a spec. Names with the same row are the same server; `local` is any, with a `base_url`."""
DOUBLE_NAMES = frozenset({"llama-cpp", "llama.cpp", "lm-studio", "openai"})
"""Names of servers that stand in the table under another name, too."""


def provider_settings(providers: Mapping[str, ProviderSettings], name: str) -> ProviderSettings:
    """Return `providers.<name>` of the configuration, also where it has another name of the same local server."""
    if name in providers:
        return providers[name]
    row = SERVERS.get(name)
    others = (found for other, found in providers.items() if row and row.local and SERVERS.get(other) is row)
    return next(others, ProviderSettings())


def full_address(base_url: str, server: KnownServer | None) -> str:
    """Return an address up to and without `/chat/completions`, as people write it: with that, or without `/v1`."""
    url = base_url.rstrip("/").removesuffix("/chat/completions")
    is_bare = urlsplit(url).path in ("", "/")
    return f"{url}/v1" if server and server.local and is_bare else url


def place_of(
    setting: str, name: str, settings: ProviderSettings, known: Mapping[str, KnownServer]
) -> tuple[str, dict[str, str]]:
    """Base URL and headers for the provider `name` that the configuration's `setting` wants: `providers.<name>` of the
    configuration takes precedence over what is `known`. The variable's key goes to the server that it is for only.

    Raises:
        ConfigError: the address or the key is missing.
    """
    server = known.get(name)
    base_url = settings.base_url or (server.base_url if server else None)
    if not base_url:
        raise ConfigError(
            f"{setting}: no server is known as {name}; set providers.{name}.base_url (http://host:port/v1), "
            f"or take one of {', '.join(sorted(known))}"
        )
    key = settings.api_key.get_secret_value() if settings.api_key else None
    if key is None and server and server.key_variable and not settings.base_url:
        key = os.environ.get(server.key_variable)
        if not key:
            raise ConfigError(f"{setting}: no key; set {server.key_variable} or providers.{name}.api_key")
        remember(key)
    return full_address(base_url, server), {"authorization": f"Bearer {key}"} if key else {}

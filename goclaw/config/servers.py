"""THE table of servers that speak OpenAI's protocol: where each is, and which variable has its key.

`providers.<name>.base_url` and `.api_key` of the configuration take precedence. Whether one has models that chat or
models that embed is not known here; how they differ in chats stands in `llm.compat`. Sources: the API reference of each
server as of 2026.
"""

from goclaw.records import record


@record
class KnownServer:
    """A server known by name."""

    base_url: str
    """Up to and without `/chat/completions`, `/embeddings` …"""
    key_variable: str | None = None
    """Environment variable of the key; None: works without a key, sends one that is configured."""


SERVERS = {
    "cerebras": KnownServer("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "deepseek": KnownServer("https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    "fireworks": KnownServer("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "gemini": KnownServer("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "groq": KnownServer("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "llamacpp": KnownServer("http://127.0.0.1:8080/v1"),
    "lmstudio": KnownServer("http://127.0.0.1:1234/v1"),
    "mistral": KnownServer("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "moonshotai": KnownServer("https://api.moonshot.ai/v1", "MOONSHOTAI_API_KEY"),
    "openai": KnownServer("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openai-chat": KnownServer("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openrouter": KnownServer("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "together": KnownServer("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "vllm": KnownServer("http://127.0.0.1:8000/v1"),
    "xai": KnownServer("https://api.x.ai/v1", "XAI_API_KEY"),
    "zai": KnownServer("https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
}
"""By the provider's name in a spec. `openai` and `openai-chat` are the same server."""

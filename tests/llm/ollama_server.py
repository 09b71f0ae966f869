"""What a fake Ollama says of its models: the answers of `/api/show`, `/api/tags` and `/api/ps`."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.llm.fake_provider import FakeProvider, Received, Reply, lines

GB = 10**9
QWEN3_8B: dict[str, Any] = {
    "general.architecture": "qwen3",
    "qwen3.block_count": 36,
    "qwen3.context_length": 40_960,
    "qwen3.embedding_length": 4_096,
    "qwen3.attention.head_count": 32,
    "qwen3.attention.head_count_kv": 8,
    "qwen3.attention.key_length": 128,
    "qwen3.attention.value_length": 128,
}
"""As its file has it: 147,456 bytes a token."""
QWEN3_TOKEN = 147_456
QWEN3_WEIGHTS = 5_225_388_164


def knows(
    fake: FakeProvider,
    info: Mapping[str, Any] = QWEN3_8B,
    *,
    name: str = "qwen3:8b",
    weights: int = QWEN3_WEIGHTS,
    loaded: int = 0,
    heads: Sequence[int] = (),
) -> None:
    """Have the server know one model. `heads`: of each layer, which only a verbose answer tells."""
    running = [{"name": name, "size": weights, "size_vram": 0, "context_length": loaded}] if loaded else []

    def show(asked: Received) -> Reply:
        told = dict(info)
        if heads:
            architecture = info["general.architecture"]
            told["tokenizer.ggml.tokens"] = ['"', "a", "b"] if asked.body.get("verbose") else None
            told[f"{architecture}.attention.head_count_kv"] = list(heads) if asked.body.get("verbose") else None
        return lines({"capabilities": ["completion", "tools"], "model_info": told})

    fake.routes |= {
        "/api/show": show,
        "/api/tags": lines({"models": [{"name": "other:1b", "size": 1}, {"name": name, "size": weights}]}),
        "/api/ps": lines({"models": running}),
    }

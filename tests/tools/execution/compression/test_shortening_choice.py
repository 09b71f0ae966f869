"""For which models outputs are compressed."""

from typing import Any

import pytest

from goclaw.common.config.schema import Config
from goclaw.tools.execution.compression.shortening import wants_compression


@pytest.mark.parametrize(
    ("spec", "given", "expected"),
    [
        ("ollama:qwen3", {}, True),
        ("lmstudio:x", {}, True),
        ("vllm:x", {}, True),
        ("llamacpp:x", {}, True),
        ("anthropic:x", {}, False),
        ("openai-chat:x", {}, False),
        ("demo", {}, False),
        ("openai-chat:x", {"providers": {"openai-chat": {"base_url": "http://localhost:1/v1"}}}, True),
        ("openai-chat:x", {"providers": {"openai-chat": {"base_url": "http://127.0.0.2:1/v1"}}}, True),
        ("anthropic:x", {"providers": {"anthropic": {"base_url": "http://[::1]:1"}}}, True),
        ("openai-chat:x", {"providers": {"openai-chat": {"base_url": "http://10.0.0.1:1/v1"}}}, False),
        ("openai-chat:x", {"providers": {"groq": {"base_url": "http://localhost:1/v1"}}}, False),
        ("anthropic:x", {"tools": {"exec": {"compress_output": True}}}, True),
        ("ollama:x", {"tools": {"exec": {"compress_output": False}}}, False),
        (
            "ollama:x",
            {
                "tools": {"exec": {"compress_output": False}},
                "models": {"options": {"ollama:x": {"compress_output": True}}},
            },
            True,
        ),
        (
            "anthropic:x",
            {
                "tools": {"exec": {"compress_output": True}},
                "models": {"options": {"anthropic:x": {"compress_output": False}}},
            },
            False,
        ),
        ("anthropic:x", {"models": {"options": {"ollama:x": {"compress_output": True}}}}, False),
    ],
)
def test_the_model_comes_before_exec_before_where_it_runs(spec: str, given: dict[str, Any], expected: bool) -> None:
    assert wants_compression(spec, Config.model_validate(given)) is expected

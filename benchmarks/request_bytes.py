"""What the first request of a new installation weighs: the daemon's real one, as a model server receives it.

Every byte of it is paid for with each request, and read by a local model before its first word.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import orjson

from benchmarks.figures import Figure, Json, Options
from goclaw.llm.token_counts import estimate_text
from tests.acceptance.daemon import SPEC, installation
from tests.acceptance.model import echo_model

TOTALS: Mapping[int, tuple[int, int | None]] = {200_000: (12_000, None), 8_192: (7_000, 1_800)}
"""Bytes and tokens that a first request may have, by the model's window."""
PROMPTS: Mapping[int, int] = {200_000: 2_800, 8_192: 1_500}
"""Bytes of the system prompt, index and files of the workspace included."""
TOOLS: Mapping[str, int] = {
    "read": 1_114,
    "write": 503,
    "edit": 620,
    "search": 1_219,
    "exec": 829,
    "web_fetch": 650,
    "message": 994,
    "memory_search": 352,
    "memory_write": 555,
    "ask_user": 1_088,
    "tool_search": 358,
    "tool_call": 303,
}
"""Bytes of each tool. What grows one first sees what else of it can go; a new tool goes to the index."""


def weigh(body: Json) -> dict[str, int]:
    """The bytes of a request to an OpenAI-compatible server: of all, its prompt and each tool."""
    tools = {tool["function"]["name"]: len(orjson.dumps(tool)) for tool in body.get("tools", ())}
    prompts = [message["content"] for message in body["messages"] if message["role"] == "system"]
    return {"all": len(orjson.dumps(body)), "prompt": sum(len(prompt.encode()) for prompt in prompts), **tools}


async def first_request(window: int, *, forks: bool = False) -> Json:
    """The body of it, where a person says hello to a model with this window, by default configuration."""
    with tempfile.TemporaryDirectory(prefix="goclaw-bytes-", ignore_cleanup_errors=True) as name:
        async with echo_model() as model, installation(Path(name), None, model.url, forks=forks) as home:
            home.config["models"]["options"][SPEC]["context_window"] = window
            home.write_config()
            await home.start()
            ran = await home.run("send", "hello")
            await home.stop()
            if ran.code or not model.requests:
                raise RuntimeError(f"no request was made: {ran.out}{ran.err}")
            return model.requests[0]


async def measure_request_bytes(options: Options) -> list[Figure]:
    """With a large and with a small window."""
    figures: list[Figure] = []
    for window, (most, tokens) in TOTALS.items():
        figures += figures_of(await first_request(window), window, most, tokens)
    return figures


def figures_of(body: Json, window: int, most: int, tokens: int | None) -> list[Figure]:
    """A line for the whole request, for its prompt and for each of its tools."""
    weights, where = weigh(body), f"first request, window of {window:,}"
    estimated = estimate_text(orjson.dumps(body).decode())
    return [
        Figure(where, "B", weights.pop("all"), most),
        Figure(f"{where}, about", "tokens", estimated, tokens),
        Figure(f"{where}, prompt", "B", weights.pop("prompt"), PROMPTS[window]),
        *(Figure(f"{where}, {name}", "B", bytes_, TOOLS.get(name, 0)) for name, bytes_ in weights.items()),
    ]

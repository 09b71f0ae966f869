"""An Anthropic server that keeps a prompt cache by the rules of the API's documentation and counts what it reads.

A prefix (tools, system text, content blocks in their order) is kept at every mark, if it is as long as the model's
minimum. A later request reads the longest kept prefix that ends at one of its own marks or up to twenty blocks before.
The marks themselves are not part of it.
"""

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import orjson
from aiohttp import web

from goclaw.llm.anthropic import MARK
from tests.http_server import serve
from tests.llm.fake_provider import frame

LOOK_BACK = 20
BYTES_PER_TOKEN = 4
MINIMA = (
    (re.compile(r"opus-4-[56]\b|haiku-4-5"), 4_096),
    (re.compile(r"opus-4-7|sonnet-4-6|haiku-3|3-5-haiku|3-haiku"), 2_048),
    (re.compile(r"(opus|fable|mythos)-5"), 512),
)
"""Tokens of the shortest prefix that is cached, by model, as published up to November 2026; all others have 1,024. The
longer one counts where two pages disagree (Sonnet 4.6); 5.5, of which none tells, is taken to be like 5."""

Blocks = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Asked:
    """A request and what the cache did for it, in tokens."""

    raw: bytes
    read: int
    written: int
    rest: int

    @property
    def whole(self) -> int:
        """All that was sent."""
        return self.read + self.written + self.rest

    @property
    def unmarked(self) -> bytes:
        """The body without its cache marks, and without what closes it."""
        return self.raw.replace(MARK, b"}").rstrip(b"]}")

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.raw)
        return found

    def goes_on(self, before: "Asked") -> bool:
        """Whether it begins with all that was sent before, byte for byte, and all of that came from the cache."""
        return self.unmarked.startswith(before.unmarked) and self.read == before.read + before.written


@dataclass
class CachingProvider:
    """Answers with the given content blocks, one list after the other."""

    answers: list[Blocks] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    _kept: set[bytes] = field(default_factory=set)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        asked = self._look_up(await request.read())
        self.asked.append(asked)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        blocks = self.answers.pop(0)
        for item in stream(blocks, asked):
            await response.write(frame(item))
        await response.write_eof()
        return response

    def _look_up(self, raw: bytes) -> Asked:
        body = orjson.loads(raw)
        blocks = list(blocks_of(body))
        marks = [index for index, block in enumerate(blocks) if MARK[1:-1] in block]
        assert 0 < len(marks) <= 4, "the API allows four"
        plain = [block.replace(MARK, b"}") for block in blocks]
        prefixes = list(accumulate(plain))
        ends = (index for mark in reversed(marks) for index in range(mark, max(-1, mark - LOOK_BACK), -1))
        found = next((index for index in ends if prefixes[index] in self._kept), -1)
        kept = [mark for mark in marks if tokens(plain[: mark + 1]) >= minimum(body["model"])]
        self._kept.update(prefixes[mark] for mark in kept)
        read, whole = tokens(plain[: found + 1]), tokens(plain)
        marked = tokens(plain[: kept[-1] + 1]) if kept else 0
        return Asked(raw, read, marked - read, whole - marked)


def minimum(model: str) -> int:
    """Tokens of the shortest prefix that this model's cache keeps."""
    return next((tokens for pattern, tokens in MINIMA if pattern.search(model)), 1_024)


def tokens(blocks: Sequence[bytes]) -> int:
    return sum(len(block) // BYTES_PER_TOKEN for block in blocks)


def blocks_of(body: dict[str, Any]) -> Iterator[bytes]:
    """What a prefix is made of, in the order of the API."""
    tools = body.get("tools", ())
    shown = [tool for tool in tools if not tool.get("defer_loading")]
    assert not tools or shown, "the API refuses a list of deferred tools alone"
    assert not any("cache_control" in tool for tool in tools if tool not in shown), "and marks on them"
    yield from map(orjson.dumps, shown)
    yield from map(orjson.dumps, body.get("system", ()))
    for turn in body["messages"]:
        for block in turn["content"]:
            yield turn["role"].encode() + orjson.dumps(block)


def stream(blocks: Blocks, asked: Asked) -> Iterator[dict[str, Any]]:
    """The events of an answer."""
    usage = {
        "input_tokens": asked.rest,
        "cache_read_input_tokens": asked.read,
        "cache_creation_input_tokens": asked.written,
        "output_tokens": 1,
    }
    yield {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": usage}}
    for index, block in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block | _empty(block)}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 20}}
    yield {"type": "message_stop"}


def _empty(block: dict[str, Any]) -> dict[str, Any]:
    """How a block begins: its text is still to come."""
    return {name: {} if name == "input" else "" for name in ("text", "thinking", "signature", "input") if name in block}


def _deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "text":
            yield {"type": "text_delta", "text": block["text"]}
        case "thinking":
            yield {"type": "thinking_delta", "thinking": block["thinking"]}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_search_tool_result":
            pass  # comes whole
        case _:
            yield {"type": "input_json_delta", "partial_json": orjson.dumps(block["input"]).decode()}


@asynccontextmanager
async def caching_provider() -> AsyncIterator[CachingProvider]:
    """Serve on a free port of this machine."""
    provider = CachingProvider()
    async with serve(web.post("/v1/messages", provider.answer)) as provider.url:
        yield provider

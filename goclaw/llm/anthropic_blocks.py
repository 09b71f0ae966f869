"""Content blocks of Anthropic's Messages API: an answer assembled from its stream, and searches for tools.

Unknown kinds of events, blocks and deltas are ignored: the API's versioning rules announce that such will come.

The API's own tool search is `tool_search_tool_bm25_20251119`, documented November 2026: tools of the index are sent
with `defer_loading`, stand in no prompt until a search names them, and are then called like all others. A search and
its results are blocks of the answer (`server_tool_use`, `tool_search_tool_result`), which are sent back as they came.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from goclaw.common.core.messages import AssistantMessage, Native, ToolCall
from goclaw.common.specs import ToolSpec
from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.base import INVALID_JSON, CallStarted, Finished, ModelEvent, Stop, TextDelta, ThinkingDelta, Usage
from goclaw.llm.failures import error_in, fail, from_object, parse_object, piece_of_text
from goclaw.llm.http_streams import UNFRAMED, ServerEvent
from goclaw.llm.token_counts import fields, reported_tokens
from goclaw.llm.tool_calls import read_arguments, read_id, read_name, trimmed_schema

STOPS = {
    "end_turn": Stop.END,
    "stop_sequence": Stop.END,
    "pause_turn": Stop.LENGTH,  # the server stopped between searches for tools: the rest is asked for
    "tool_use": Stop.TOOLS,
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.WINDOW,
    "refusal": Stop.REFUSAL,
}
PLAIN = frozenset({"text", "tool_use"})
"""Kinds of blocks that our own message type holds whole."""

SEARCH_TOOL = b'{"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"}'
WITHOUT_SEARCH = re.compile(r"claude-([12]\b|3|instant|(opus|sonnet|haiku)-4-([01]\b|20))")
"""Models before 4.5 do not know it."""
UNKNOWN_SEARCH = re.compile(r"defer_loading|tool_search_tool_(bm25|regex)")
"""In a rejection: the model, or a server that speaks the same protocol, does not know it."""
STALE_SEARCH = re.compile(r"tool.?reference|server_tool_use|tool_search_tool_result", re.IGNORECASE)
"""In a rejection: a replayed block names a tool that no longer exists, or lost its other half to a compaction."""
SEARCH_RESULT, SEARCH_CALL = "tool_search_tool_result", "server_tool_use"


class AnthropicAnswer:
    """Takes the stream's JSON objects, one after the other; gives events, and the whole at the end.

    Anything in an unexpected shape raises ValueError (through `failures.reading`: an answer that broke off).
    """

    def __init__(self, spec: str) -> None:
        self.ended = False
        """True after `message_stop`."""
        self._spec = spec
        self._blocks: dict[int, dict[str, Any]] = {}
        self._partial_json: dict[int, list[str]] = {}
        self._stop: str | None = None
        self._usage: dict[str, Any] = {}

    def decode_all(self, frames: Iterable[ServerEvent]) -> Iterator[ModelEvent]:
        """Yield the additions of the stream's next events, up to the message's end."""
        for frame in frames:
            if frame.name == UNFRAMED:
                yield from self._whole(frame.data)
            else:
                yield from self.decode(orjson.loads(frame.data))
            if self.ended:
                return

    def _whole(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield the answer that came as one object in place of a stream."""
        if self._stop or not data.strip():
            return
        found = parse_object(self._spec, data)
        if not isinstance(found.get("content"), list):
            raise from_object(self._spec, error_in(found) or found)
        for index, block in enumerate(found["content"]):
            yield from self._start(index, block)
        self._stop = found.get("stop_reason") or "end_turn"
        self._count(found.get("usage"))
        self.ended = True

    def decode(self, frame: Any) -> Iterator[ModelEvent]:
        """Yield what one object of the stream adds.

        Raises:
            ModelError: it is an error of the server.
        """
        kind = frame.get("type") if isinstance(frame, dict) else None
        if kind == "content_block_delta":
            yield from self._delta(int(frame["index"]), frame["delta"])
        elif kind == "content_block_start":
            yield from self._start(int(frame["index"]), frame["content_block"])
        elif kind == "message_start":
            self._count(frame["message"].get("usage"))
        elif kind == "message_delta":
            self._stop = frame["delta"].get("stop_reason") or self._stop
            self._count(frame.get("usage"))
        elif kind == "message_stop":
            self.ended = True
        elif kind == "error":
            raise from_object(self._spec, frame.get("error"))

    def finish(self) -> Finished:
        """Return the whole answer.

        Raises:
            ModelError: the stream ended before the model said why it stopped.
        """
        if self._stop is None:
            words = "the stream ended without a stop reason"
            raise fail(ModelErrorKind.TRUNCATED, self._spec, words, accepted=True)
        stop = STOPS.get(self._stop, Stop.END)
        blocks = self._whole_blocks(stop)
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        calls = tuple(
            ToolCall(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"
        )
        if calls and stop is Stop.END:
            stop = Stop.TOOLS
        native = Native("anthropic", 1, blocks) if any(block["type"] not in PLAIN for block in blocks) else None
        return Finished(AssistantMessage(text, calls, native), self._read_usage(), stop, self._spec)

    def _start(self, index: int, block: dict[str, Any]) -> Iterator[ModelEvent]:
        self._blocks[index] = block = dict(block)
        if block["type"] == "tool_use":
            block["name"], block["id"] = read_name(block.get("name")), read_id(block.get("id"))
            yield CallStarted(block["name"])
        elif block["type"] == "text" and piece_of_text(block.get("text") or ""):
            yield TextDelta(block["text"])
        elif block["type"] == "thinking" and piece_of_text(block.get("thinking") or ""):
            yield ThinkingDelta(block["thinking"])

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        block = self._blocks[index]
        match delta.get("type"):
            case "text_delta":
                block["text"] = (block.get("text") or "") + piece_of_text(delta["text"])
                yield TextDelta(delta["text"])
            case "thinking_delta":
                block["thinking"] = (block.get("thinking") or "") + piece_of_text(delta["thinking"])
                yield ThinkingDelta(delta["thinking"])
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "input_json_delta":
                self._partial_json.setdefault(index, []).append(delta["partial_json"])

    def _whole_blocks(self, stop: Stop) -> list[dict[str, Any]]:
        """Return the blocks in order, tool inputs parsed; without a call cut by the output limit or empty text."""
        whole = []
        for index, block in sorted(self._blocks.items()):
            if block["type"] == SEARCH_CALL:
                given = "".join(self._partial_json.get(index, []))
                whole.append(block | {"input": read_arguments(given, block.get("input"))})
            elif block["type"] == "tool_use":
                read = read_arguments("".join(self._partial_json.get(index, [])), block.get("input"))
                if INVALID_JSON in read and stop is Stop.LENGTH:
                    continue
                whole.append({"type": "tool_use", "id": block["id"], "name": block["name"], "input": read})
            elif block["type"] != "text":
                whole.append(block)
            elif block["text"]:
                whole.append({"type": "text", "text": block["text"]})
        if any(block["type"] == "tool_use" for block in whole):
            return whole  # with calls of ours beside it, a search is made when their results are there
        # An answer that was cut may end with a search without a result, and would be refused.
        found = {block.get("tool_use_id") for block in whole if block["type"] == SEARCH_RESULT}
        return [block for block in whole if block["type"] != SEARCH_CALL or block.get("id") in found]

    def _count(self, usage: object) -> None:
        """Replace earlier counts: they are cumulative."""
        self._usage.update({key: value for key, value in fields(usage).items() if value is not None})

    def _read_usage(self) -> Usage:
        read = reported_tokens(self._usage.get("cache_read_input_tokens"))
        written = reported_tokens(self._usage.get("cache_creation_input_tokens"))
        details = fields(self._usage.get("output_tokens_details"))
        return Usage(
            # The API counts what came from and went to the cache apart.
            input=reported_tokens(self._usage.get("input_tokens")) + read + written,
            output=reported_tokens(self._usage.get("output_tokens")),
            cache_read=read,
            cache_write=written,
            reasoning=reported_tokens(details.get("thinking_tokens")),
        )


def encode_tools(tools: Sequence[ToolSpec], **more: Any) -> bytes:
    """Return the JSON list of the tools, with `more` fields in each."""
    told = [
        {"name": tool.name, "description": tool.description, "input_schema": trimmed_schema(tool.schema), **more}
        for tool in tools
    ]
    return orjson.dumps(told)


def joined_tools(shown: bytes, deferred: bytes, search: bytes) -> bytes:
    """Return the list of all tools: `search` ends the part that is cached, for no deferred tool may be marked."""
    return b"[" + b",".join(filter(None, (shown[1:-1], search, deferred[1:-1]))) + b"]"


def has_search(blocks: Iterable[Any]) -> bool:
    """Whether an answer with these blocks was given with a search."""
    return any(block.get("type") in (SEARCH_RESULT, SEARCH_CALL) for block in blocks)


def search_refusal(error: ModelError) -> ModelError | None:
    """Return the error for people where the provider refuses to search; None: it refused something else."""
    if (
        error.kind is not ModelErrorKind.REJECTED
        or STALE_SEARCH.search(str(error))
        or not UNKNOWN_SEARCH.search(str(error))
    ):
        return None
    sentence = "it does not support deferred tools; set `providers.anthropic.defer_tools: false`"
    return fail(error.kind, error.spec, str(error).removeprefix(f"{error.spec}: "), sentence=sentence)

"""One answer of Anthropic's Messages API, assembled from the events of its stream.

Unknown kinds of events, blocks and deltas are ignored: the API's versioning rules announce that such will come.
"""

from collections.abc import Iterator
from typing import Any

from goclaw.errors import ModelErrorKind
from goclaw.llm.anthropic_search import CALL, paired
from goclaw.llm.arguments import read_arguments
from goclaw.llm.base import (
    INVALID_JSON,
    CallStarted,
    Finished,
    ModelEvent,
    Stop,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from goclaw.llm.failures import fail, from_object
from goclaw.llm.usage import fields, tokens
from goclaw.messages import AssistantMessage, Native, ToolCall

STOPS = {
    "end_turn": Stop.END,
    "stop_sequence": Stop.END,
    "pause_turn": Stop.LENGTH,  # the server stopped between searches for tools: the rest is asked for
    "tool_use": Stop.TOOLS,
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    "refusal": Stop.REFUSAL,
}
PLAIN = frozenset({"text", "tool_use"})
"""Kinds of blocks that our own message type holds whole."""


class AnthropicAnswer:
    """Takes the stream's JSON objects, one after the other; gives events, and the whole at the end.

    Anything in an unexpected shape raises ValueError (through `reading`: an answer that broke off).
    """

    def __init__(self, spec: str) -> None:
        self.ended = False
        """True after `message_stop`."""
        self._spec = spec
        self._blocks: dict[int, dict[str, Any]] = {}
        self._partial_json: dict[int, list[str]] = {}
        self._stop: str | None = None
        self._usage: dict[str, Any] = {}

    def take(self, frame: Any) -> Iterator[ModelEvent]:
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
            raise fail(ModelErrorKind.TRUNCATED, self._spec, "the stream ended without a stop reason")
        stop = STOPS.get(self._stop, Stop.END)
        blocks = self._whole_blocks(stop)
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        calls = tuple(
            ToolCall(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"
        )
        if calls and stop is Stop.END:
            stop = Stop.TOOLS
        native = None
        if any(block["type"] not in PLAIN for block in blocks):
            native = Native("anthropic", 1, blocks)
        return Finished(AssistantMessage(text, calls, native), self._read_usage(), stop, self._spec)

    def _start(self, index: int, block: dict[str, Any]) -> Iterator[ModelEvent]:
        self._blocks[index] = dict(block)
        if block["type"] == "tool_use":
            yield CallStarted(str(block["name"]))
        elif block["type"] == "text" and block.get("text"):
            yield TextDelta(block["text"])
        elif block["type"] == "thinking" and block.get("thinking"):
            yield ThinkingDelta(block["thinking"])

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        block = self._blocks[index]
        match delta.get("type"):
            case "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
                yield TextDelta(delta["text"])
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta["thinking"]
                yield ThinkingDelta(delta["thinking"])
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "input_json_delta":
                self._partial_json.setdefault(index, []).append(delta["partial_json"])

    def _whole_blocks(self, stop: Stop) -> list[dict[str, Any]]:
        """Return the blocks in order, tool inputs parsed; without a call cut by the output limit or empty text."""
        whole = []
        for index, block in sorted(self._blocks.items()):
            if block["type"] == CALL:
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
        # With calls of ours beside it, a search is made when their results are there.
        return whole if any(block["type"] == "tool_use" for block in whole) else paired(whole)

    def _count(self, usage: object) -> None:
        """Replace earlier counts: they are cumulative."""
        self._usage.update({key: value for key, value in fields(usage).items() if value is not None})

    def _read_usage(self) -> Usage:
        read = tokens(self._usage.get("cache_read_input_tokens"))
        written = tokens(self._usage.get("cache_creation_input_tokens"))
        details = fields(self._usage.get("output_tokens_details"))
        return Usage(
            # The API counts what came from and went to the cache apart.
            input=tokens(self._usage.get("input_tokens")) + read + written,
            output=tokens(self._usage.get("output_tokens")),
            cache_read=read,
            cache_write=written,
            reasoning=tokens(details.get("thinking_tokens")),
        )

"""The answer of OpenAI's chat completions, assembled from the chunks of its stream.

Servers differ in their omissions: names and ids may come once or with every piece, thinking has two field names,
usage comes in a chunk of its own, in the last one, or never.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from goclaw.common.core.messages import AssistantMessage, Native, ToolCall
from goclaw.errors import ModelErrorKind
from goclaw.llm.base import INVALID_JSON, CallStarted, Finished, ModelEvent, Stop, TextDelta, ThinkingDelta, Usage
from goclaw.llm.failures import error_in, fail, from_object, parse_object, piece_of_text
from goclaw.llm.http_streams import UNFRAMED, ServerEvent
from goclaw.llm.token_counts import fields, reported_tokens
from goclaw.llm.tool_calls import PartialCall, read_arguments, read_name

DONE = b"[DONE]"
"""The data of the last frame, as the protocol has it."""
NATIVE_SCHEMA = 1
REASONING_FIELDS = ("reasoning_content", "reasoning")
TEXT_FIELDS = frozenset({"role", "content"})
"""Fields of a delta that is a piece of text and nothing else, as nearly all are."""
CALL_FIELDS = frozenset({"index", "id", "type", "function"})
"""Fields of a call that our own type holds; others (Gemini's signatures) must come back as they were."""

STOPS = {
    "stop": Stop.END,
    "eos": Stop.END,
    "tool_calls": Stop.TOOLS,
    "function_call": Stop.TOOLS,
    "length": Stop.LENGTH,
    "model_length": Stop.LENGTH,
}
"""Reasons of OpenAI, and `eos` (Together) and `model_length` (Mistral)."""
OTHER_STOPS = (
    (re.compile(r"malformed|unexpected_tool_call", re.IGNORECASE), Stop.MALFORMED),
    (re.compile(r"filter|safety|prohibited|recitation|blocklist|spii|sensitive", re.IGNORECASE), Stop.FILTERED),
    (re.compile(r"refusal", re.IGNORECASE), Stop.REFUSAL),
    (re.compile(r"context.*(window|length|exceeded)", re.IGNORECASE), Stop.WINDOW),
)
"""Reasons by what they have in common: `function_call_filter: MALFORMED_FUNCTION_CALL` (Gemini), `content_filter`,
`sensitive` and `model_context_window_exceeded` (Z.ai). All others count as the end."""
FAILED = frozenset({"error", "network_error", "insufficient_system_resource"})
"""The reasons that OpenRouter, Z.ai and DeepSeek give when the server behind them failed."""


class OpenAIAnswer:
    """Takes the stream's JSON objects, one after the other; gives events, and the whole at the end.

    Anything in an unexpected shape raises LookupError, TypeError … (through `reading`: an answer that broke off).
    """

    def __init__(self, spec: str, provider: str) -> None:
        self._spec = spec
        self._provider = provider
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, PartialCall] = {}
        self._last_of: dict[int, int] = {}
        """The latest call by an index that several share."""
        self._stop: str | None = None
        self._usage: Mapping[str, Any] = {}
        self.ended = False
        """The server has sent its last frame."""

    def decode_all(self, frames: Iterable[ServerEvent]) -> Iterator[ModelEvent]:
        """Yield the additions of the stream's next events."""
        for frame in frames:
            if frame.data == DONE:
                self.ended = True
                return
            if frame.name == UNFRAMED:
                yield from self._whole(frame.data)
            else:
                yield from self.decode(orjson.loads(frame.data))

    def _whole(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield the answer that came as one object in place of a stream."""
        if self._stop or self.ended or not data.strip():
            return  # behind a whole answer it means nothing
        found = parse_object(self._spec, data)
        if not found.get("choices"):
            raise from_object(self._spec, error_in(found) or found)
        yield from self.decode(found)
        self.ended = True  # whole, also without a reason

    def decode(self, chunk: dict[str, Any]) -> Iterator[ModelEvent]:
        """Yield what one object of the stream adds.

        Raises:
            ModelError: it is an error of the server.
        """
        if error := error_in(chunk):
            raise from_object(self._spec, error)
        # Mistral and Groq put usage beside the last choice, all others into a chunk without choices.
        usage = chunk.get("usage") or ("x_groq" in chunk and fields(chunk["x_groq"]).get("usage"))
        if usage:
            self._usage = fields(usage)
        for choice in (chunk.get("choices") or ())[:1]:
            if choice.get("error"):
                raise from_object(self._spec, choice["error"])
            # Some servers close with a whole `message` in the place of a delta; it is news where nothing came before.
            is_news = not (self._text or self._reasoning or self._calls)
            yield from self._delta(choice.get("delta") or (is_news and choice.get("message")) or {})
            self._stop = choice.get("finish_reason") or self._stop

    def finish(self) -> Finished:
        """Return the whole answer.

        Raises:
            ModelError: the stream ended before the server said why.
        """
        if self._stop is None and not self.ended:
            words = "the stream ended without a finish reason"
            raise fail(ModelErrorKind.TRUNCATED, self._spec, words, accepted=True)
        if self._stop in FAILED:
            raise fail(ModelErrorKind.SERVER, self._spec, accepted=True)
        stop = stop_of(self._stop or "")
        calls = self._whole_calls(stop)
        if calls and stop is Stop.END:
            stop = Stop.TOOLS
        extra = {call.id: call.extra for call in self._calls.values() if call.extra}
        reasoning = "".join(self._reasoning)
        native = None
        if self._calls and (extra or reasoning):
            native = Native(self._provider, NATIVE_SCHEMA, {"reasoning": reasoning, "extra": extra})
        message = AssistantMessage("".join(self._text), calls, native)
        return Finished(message, self._read_usage(), stop, self._spec)

    def _delta(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        content = delta.get("content")
        if content and isinstance(content, str) and delta.keys() <= TEXT_FIELDS:
            self._text.append(content)
            yield TextDelta(content)
            return
        for name in REASONING_FIELDS:
            if isinstance(delta.get(name), str) and delta[name]:
                self._reasoning.append(delta[name])
                yield ThinkingDelta(delta[name])
                break  # a server that sends both names says the same twice
        if isinstance(content, list):
            yield from self._parts(content)
        elif content:
            yield self._add_text(content)
        if delta.get("refusal"):
            yield self._add_text(delta["refusal"])
        for piece in delta.get("tool_calls") or ():
            yield from self._call_delta(piece)

    def _parts(self, parts: list[dict[str, Any]]) -> Iterator[ModelEvent]:
        """Yield a list's parts, as of Mistral: `{type: thinking, thinking: [{text}]}` and `{type: text, text}`."""
        for part in parts:
            if part.get("type") == "thinking":
                thought = "".join(inner.get("text", "") for inner in part["thinking"])
                yield ThinkingDelta(thought)
            elif part.get("text"):
                yield self._add_text(part["text"])

    def _add_text(self, text: object) -> TextDelta:
        self._text.append(piece_of_text(text))
        return TextDelta(self._text[-1])

    def _call_delta(self, piece: dict[str, Any]) -> Iterator[ModelEvent]:
        function = piece.get("function") or {}
        name, given = read_name(function.get("name")), function.get("arguments")
        # Some servers send the object itself.
        written = given if isinstance(given, str) else orjson.dumps(given).decode() if given else ""
        index = self._index(piece)
        if index in self._calls and self._calls[index].is_followed_by(name, written):
            self._last_of[piece.get("index") or 0] = index = max(self._calls) + 1
        call = self._calls.setdefault(index, PartialCall())
        call.given_id = call.given_id or read_name(piece.get("id"))
        if name and not call.name:
            yield CallStarted(name)
        call.add(name, written)
        call.extra.update({key: value for key, value in piece.items() if key not in CALL_FIELDS and value is not None})

    def _index(self, piece: dict[str, Any]) -> int:
        """Return the call of a piece: its index; without one, a new id begins a new call (Gemini, Ollama)."""
        index = piece.get("index")
        last = len(self._calls) - 1
        if index is None:
            return last + 1 if piece.get("id") or last < 0 else last
        known = self._calls.get(self._last_of.get(index, index))
        # Some servers number every call 0 but give each an id and a name of its own.
        new = known is not None and piece.get("id") and known.given_id not in ("", read_name(piece["id"]))
        if new and (piece.get("function") or {}).get("name"):
            self._last_of[index] = max(self._calls) + 1
        return int(self._last_of.get(index, index))

    def _whole_calls(self, stop: Stop) -> tuple[ToolCall, ...]:
        """Return the calls in order, without one that the output limit cut."""
        calls = []
        for _, call in sorted(self._calls.items()):
            read = read_arguments(call.arguments)
            if INVALID_JSON in read and stop is Stop.LENGTH:
                continue
            calls.append(ToolCall(call.id, call.name, read))
        return tuple(calls)

    def _read_usage(self) -> Usage:
        prompt = fields(self._usage.get("prompt_tokens_details"))
        completion = fields(self._usage.get("completion_tokens_details"))
        # DeepSeek counts cache hits beside the details.
        cached = prompt.get("cached_tokens") or self._usage.get("prompt_cache_hit_tokens") or 0
        return Usage(
            input=reported_tokens(self._usage.get("prompt_tokens")),
            output=reported_tokens(self._usage.get("completion_tokens")),
            cache_read=reported_tokens(cached),
            cache_write=reported_tokens(prompt.get("cache_write_tokens")),
            reasoning=reported_tokens(completion.get("reasoning_tokens")),
        )


def stop_of(reason: str) -> Stop:
    """Return the meaning of a finish reason; a server that gives none has ended as the protocol says."""
    return STOPS.get(reason) or next((stop for pattern, stop in OTHER_STOPS if pattern.search(reason)), Stop.END)

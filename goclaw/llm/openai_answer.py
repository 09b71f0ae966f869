"""One answer of a chat completions server, assembled from the chunks of its stream.

Servers differ in what they leave out: names and ids may come once or with every piece, thinking has two field names,
usage comes in a chunk of its own, in the last one, or never.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from goclaw.errors import ModelErrorKind
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

NATIVE_SCHEMA = 1
STOPS = {
    "stop": Stop.END,
    "eos": Stop.END,
    "tool_calls": Stop.TOOLS,
    "function_call": Stop.TOOLS,
    "length": Stop.LENGTH,
    "model_length": Stop.LENGTH,
    "content_filter": Stop.REFUSAL,
}
"""Reasons of OpenAI, and `eos` (Together) and `model_length` (Mistral); others count as the end."""
FAILED = "error"
"""The reason that OpenRouter gives when the provider behind it failed."""
REASONING_FIELDS = ("reasoning_content", "reasoning")
CALL_FIELDS = frozenset({"index", "id", "type", "function"})
"""Fields of a call that our own type holds; others (Gemini's signatures) must come back as they were."""


@dataclass(slots=True)
class PartialCall:
    """A tool call while it is written."""

    name: str = ""
    given_id: str = ""
    own_id: str = field(default_factory=lambda: f"call_{uuid4().hex}")
    """An id for servers without ids; unique, because steps of a turn are named after it."""
    written: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.given_id or self.own_id


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
        self._stop: str | None = None
        self._usage: Mapping[str, Any] = {}

    def take(self, chunk: dict[str, Any]) -> Iterator[ModelEvent]:
        """Yield what one object of the stream adds.

        Raises:
            ModelError: it is an error of the server.
        """
        if chunk.get("error"):
            raise from_object(self._spec, chunk["error"])
        # Mistral and Groq put usage beside the last choice, all others into a chunk without choices.
        usage = chunk.get("usage") or fields(chunk.get("x_groq")).get("usage")
        if usage:
            self._usage = fields(usage)
        for choice in (chunk.get("choices") or ())[:1]:
            if choice.get("error"):
                raise from_object(self._spec, choice["error"])
            # Some servers close with a whole `message` in the place of a delta.
            yield from self._delta(choice.get("delta") or {})
            self._stop = choice.get("finish_reason") or self._stop

    def finish(self) -> Finished:
        """Return the whole answer.

        Raises:
            ModelError: the stream ended before the server said why.
        """
        if self._stop is None:
            raise fail(ModelErrorKind.TRUNCATED, self._spec, "the stream ended without a finish reason")
        if self._stop == FAILED:
            raise fail(ModelErrorKind.SERVER, self._spec)
        stop = STOPS.get(self._stop, Stop.END)
        calls = self._whole_calls(stop)
        if calls and stop is Stop.END:
            stop = Stop.TOOLS
        message = AssistantMessage("".join(self._text), calls, self._native())
        return Finished(message, self._read_usage(), stop, self._spec)

    def _delta(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        for name in REASONING_FIELDS:
            if isinstance(delta.get(name), str) and delta[name]:
                self._reasoning.append(delta[name])
                yield ThinkingDelta(delta[name])
                break  # a server that sends both names says the same twice
        content = delta.get("content")
        if isinstance(content, list):
            yield from self._parts(content)
        elif content:
            self._text.append(content)
            yield TextDelta(content)
        if delta.get("refusal"):
            self._text.append(delta["refusal"])
            yield TextDelta(delta["refusal"])
        for piece in delta.get("tool_calls") or ():
            yield from self._call_delta(piece)

    def _parts(self, parts: list[dict[str, Any]]) -> Iterator[ModelEvent]:
        """Yield a list's parts, as of Mistral: `{type: thinking, thinking: [{text}]}` and `{type: text, text}`."""
        for part in parts:
            if part.get("type") == "thinking":
                thought = "".join(inner.get("text", "") for inner in part["thinking"])
                yield ThinkingDelta(thought)
            elif part.get("text"):
                self._text.append(part["text"])
                yield TextDelta(part["text"])

    def _call_delta(self, piece: dict[str, Any]) -> Iterator[ModelEvent]:
        function = piece.get("function") or {}
        call = self._calls.setdefault(self._index(piece), PartialCall())
        call.given_id = call.given_id or piece.get("id") or ""
        if function.get("name") and not call.name:
            call.name = function["name"]
            yield CallStarted(call.name)
        if function.get("arguments"):
            call.written.append(function["arguments"])
        call.extra.update({key: value for key, value in piece.items() if key not in CALL_FIELDS and value is not None})

    def _index(self, piece: dict[str, Any]) -> int:
        """Return the call of a piece: its index; without one, a new id begins a new call (Gemini, Ollama)."""
        index = piece.get("index")
        last = len(self._calls) - 1
        if index is None:
            return last + 1 if piece.get("id") or last < 0 else last
        known = self._calls.get(index)
        # Some servers number every call 0 but give each an id and a name of its own.
        new = known is not None and piece.get("id") and known.given_id not in ("", piece["id"])
        return max(self._calls) + 1 if new and (piece.get("function") or {}).get("name") else int(index)

    def _whole_calls(self, stop: Stop) -> tuple[ToolCall, ...]:
        """Return the calls in order, without one that the output limit cut."""
        calls = []
        for _, partial in sorted(self._calls.items()):
            read = read_arguments("".join(partial.written))
            if INVALID_JSON in read and stop is Stop.LENGTH:
                continue
            calls.append(ToolCall(partial.id, partial.name, read))
        return tuple(calls)

    def _native(self) -> Native | None:
        """Return data that only this server understands; None if it has only tool calls."""
        extra = {call.id: call.extra for call in self._calls.values() if call.extra}
        reasoning = "".join(self._reasoning)
        if not self._calls or not (extra or reasoning):
            return None
        return Native(self._provider, NATIVE_SCHEMA, {"reasoning": reasoning, "extra": extra})

    def _read_usage(self) -> Usage:
        prompt = fields(self._usage.get("prompt_tokens_details"))
        completion = fields(self._usage.get("completion_tokens_details"))
        # DeepSeek counts cache hits beside the details.
        cached = prompt.get("cached_tokens") or self._usage.get("prompt_cache_hit_tokens") or 0
        return Usage(
            input=tokens(self._usage.get("prompt_tokens")),
            output=tokens(self._usage.get("completion_tokens")),
            cache_read=tokens(cached),
            cache_write=tokens(prompt.get("cache_write_tokens")),
            reasoning=tokens(completion.get("reasoning_tokens")),
        )

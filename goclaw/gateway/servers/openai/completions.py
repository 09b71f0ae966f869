"""Answers as chat completions, whole and in chunks (API reference, "Chat")."""

from collections.abc import Sequence
from typing import Any

from goclaw.durable.store.spending import Spent
from goclaw.gateway.servers.event_stream import StreamEvent
from goclaw.gateway.servers.openai.asking import Answered
from goclaw.gateway.servers.openai.errors import ApiError
from goclaw.gateway.servers.openai.places import TURN
from goclaw.gateway.servers.openai.reading import Delta

DONE = "[DONE]"
"""The data of a stream's last event."""


class Completion:
    """Implements `streaming.Form`."""

    def __init__(self, turn: str, model: str, created: float, *, include_usage: bool = False) -> None:
        """`include_usage`: whether a stream ends with a chunk that has the tokens."""
        self._head = {"id": f"chatcmpl-{turn.removeprefix(TURN)}", "created": int(created), "model": model}
        self._include_usage = include_usage

    def whole(self, text: str, end: Answered) -> Any:
        """Return the body of an answer that is not streamed."""
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(end)}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": _usage(end.spent)}

    def start(self) -> Sequence[StreamEvent]:
        """Return the first chunk: who speaks."""
        return [self._chunk({"role": "assistant", "content": ""})]

    def piece(self, delta: Delta) -> Sequence[StreamEvent]:
        """Return the chunk for a piece; reasoning stands where DeepSeek has it, which clients know."""
        return [self._chunk({"content" if delta.kind == "text" else "reasoning_content": delta.text})]

    def end(self, end: Answered) -> Sequence[StreamEvent]:
        """Return the last chunks."""
        usage = {**self._body(), "choices": [], "usage": _usage(end.spent)}
        counted = [StreamEvent("", usage)] if self._include_usage else []
        return [self._chunk({}, _reason(end)), *counted, StreamEvent("", DONE)]

    def fail(self, error: ApiError) -> Sequence[StreamEvent]:
        """Return the error as clients of OpenAI expect it in a stream."""
        return [StreamEvent("", error.data())]

    def _body(self) -> dict[str, Any]:
        body = {**self._head, "object": "chat.completion.chunk"}
        return {**body, "usage": None} if self._include_usage else body

    def _chunk(self, delta: dict[str, str], reason: str | None = None) -> StreamEvent:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return StreamEvent("", {**self._body(), "choices": [choice]})


def _reason(end: Answered) -> str:
    return "stop" if end.is_whole else "length"


def _usage(spent: Spent) -> dict[str, Any]:
    return {
        "prompt_tokens": spent.input,
        "completion_tokens": spent.output,
        "total_tokens": spent.input + spent.output,
        "prompt_tokens_details": {"cached_tokens": spent.cache_read},
    }

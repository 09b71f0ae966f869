"""One answer of Ollama's `/api/chat`, assembled from the objects of its stream."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from goclaw.errors import ModelErrorKind
from goclaw.llm.base import CallStarted, Finished, ModelEvent, Stop, TextDelta, ThinkingDelta, Usage
from goclaw.llm.failures import fail
from goclaw.llm.usage import tokens
from goclaw.messages import AssistantMessage, Native, ToolCall

PROVIDER_NAME = "ollama"
NATIVE_SCHEMA = 1


class OllamaAnswer:
    """Takes the stream's JSON objects, one after the other; gives events, and the whole at the end.

    Anything in an unexpected shape raises LookupError, TypeError …: an answer that broke off.
    """

    def __init__(self, spec: str) -> None:
        self.begun = False
        """Whether anything was received."""
        self._spec = spec
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[ToolCall] = []
        self._last: Mapping[str, Any] | None = None

    def take(self, part: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """Yield what one object of the stream adds."""
        self.begun = True
        message = part.get("message") or {}
        if message.get("thinking"):
            self._thinking.append(message["thinking"])
            yield ThinkingDelta(message["thinking"])
        if message.get("content"):
            self._text.append(message["content"])
            yield TextDelta(message["content"])
        for call in message.get("tool_calls") or ():
            function = call["function"]
            # Ids are ours: older servers give none, and a step of the turn is named after it.
            self._calls.append(ToolCall(f"call_{uuid4().hex}", function["name"], dict(function.get("arguments") or {})))
            yield CallStarted(function["name"])
        if part.get("done"):
            self._last = part

    def finish(self) -> Finished:
        """Return the whole answer.

        Raises:
            ModelError: the stream ended before the server said that it is done.
        """
        if self._last is None:
            raise fail(ModelErrorKind.TRUNCATED, self._spec, "the stream ended without `done`")
        stop = Stop.TOOLS if self._calls else Stop.END
        if self._last.get("done_reason") == "length":
            stop = Stop.LENGTH
        native = None
        if self._calls and self._thinking:
            native = Native(PROVIDER_NAME, NATIVE_SCHEMA, {"thinking": "".join(self._thinking)})
        usage = Usage(tokens(self._last.get("prompt_eval_count")), tokens(self._last.get("eval_count")))
        return Finished(AssistantMessage("".join(self._text), tuple(self._calls), native), usage, stop, self._spec)


def replayable(message: AssistantMessage) -> dict[str, Any]:
    """Return the fields that an Ollama model must get back with its own tool calls."""
    native = message.native
    if native is None or native.provider != PROVIDER_NAME or native.schema != NATIVE_SCHEMA:
        return {}
    return dict(native.content) if isinstance(native.content, dict) else {}

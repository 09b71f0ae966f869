"""A model that answers by a script: the shipped fake for tests, and for daemons under test.

In code: `ScriptedModel([Answer("Hello"), Answer(calls=(ToolCall("c1", "read", {"path": "a"}),))])`.

In a configuration: `scripted:path/to/file.json`, a list of answers or `{"answers": [...], "rest": {...}}`. An answer
has any of `text`, `thinking`, `calls` (`[{"id", "name", "input"}]`), `error` (a `ModelErrorKind`), `message` (the
error's words), `retry_after`, `stop`, `seconds` (waited after the first delta), `deltas` (pieces of the text) and
`when`. Answers are given one after the other. One with `when` is given instead, and as often as wanted, while the last
message contains that text: such a script depends on nothing but the conversation, so it survives a restart.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.messages import AssistantMessage, Image, Message, Native, ToolCall, ToolResult
from goclaw.common.core.records import record
from goclaw.errors import ConfigError, ModelError, ModelErrorKind
from goclaw.llm.base import (
    CallStarted,
    Finished,
    ModelEvent,
    ModelPorts,
    Provider,
    Request,
    Stop,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from goclaw.llm.token_counts import estimate_request

CONTEXT_WINDOW = 200_000
"""A usual window, so that a test sees compaction only when it asks for it."""


@with_config(ConfigDict(extra="forbid"))
@record
class Answer:
    """One answer of the script. With `error`, any text is streamed before it is raised."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    error: ModelErrorKind | None = None
    message: str = "the script says so"
    retry_after: float | None = None
    status: int | None = None
    """Of HTTP, with `error`."""
    usage: Usage = Usage(input=10, output=5)
    stop: Stop | None = None
    """None: `tools` with calls, else `end`."""
    native: Native | None = None
    deltas: int = 2
    """Pieces that the text is streamed in."""
    seconds: float = 0
    """Pause after the first delta, in the clock's time."""
    when: str | None = None
    """Give this answer whenever the last message contains this text."""


@with_config(ConfigDict(extra="forbid"))
@record
class Script:
    """A script as a file holds it."""

    answers: tuple[Answer, ...]
    rest: Answer | None = None
    """Given when the answers are used up; without it, the model then fails with `rejected`."""


SCRIPT: TypeAdapter[Script] = TypeAdapter(Script)
ANSWERS: TypeAdapter[tuple[Answer, ...]] = TypeAdapter(tuple[Answer, ...])


class ScriptedModel:
    """A `ChatModel` that plays answers and remembers its requests.

    `gate`: while it is a cleared event, answers stall after their first delta. `streaming` is set as soon as an answer
    has begun. `closed` counts streams that were left. `rest` is given when the answers are used up.
    """

    def __init__(
        self,
        answers: Sequence[Answer] = (),
        *,
        rest: Answer | None = None,
        spec: str = "scripted:test",
        context_window: int = CONTEXT_WINDOW,
        sees_images: bool = True,
        reads_documents: bool = False,
        clock: Clock | None = None,
        gate: asyncio.Event | None = None,
    ) -> None:
        self.spec = spec
        self.context_window = context_window
        self.sees_images = sees_images
        self.reads_documents = reads_documents
        self.gate = gate
        self.streaming = asyncio.Event()
        self.closed = 0
        self.requests: list[Request] = []
        """Every request, oldest first."""
        self._fixed = [answer for answer in answers if answer.when is not None]
        self._queue = [answer for answer in answers if answer.when is None]
        self.rest = rest
        self._clock = clock or RealClock()

    def add(self, *answers: Answer) -> None:
        """Append to the script."""
        self._queue.extend(answers)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Play the next answer.

        Raises:
            ModelError: the script says so, or it has no answer left (`rejected`).
        """
        return aclosing(self._events(request))

    def takes(self, image: Image) -> bool:
        """Whether it is shown this picture or document."""
        return self.reads_documents if image.pages else self.sees_images

    async def count(self, request: Request) -> int:
        """Return an estimate."""
        return estimate_request(request)

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        answer = self._next(request.messages)
        self.streaming.set()
        try:
            if answer.thinking:
                yield ThinkingDelta(answer.thinking)
            for number, piece in enumerate(pieces(answer.text, answer.deltas)):
                yield TextDelta(piece)
                if number == 0:
                    await self._stall(answer)
            for call in answer.calls:
                yield CallStarted(call.name)
            if not answer.text:
                await self._stall(answer)
            if answer.error is not None:
                raise self._error(answer)
            yield Finished(
                AssistantMessage(answer.text, answer.calls, answer.native),
                answer.usage,
                answer.stop or (Stop.TOOLS if answer.calls else Stop.END),
                self.spec,
            )
        finally:
            self.closed += 1

    def _next(self, messages: Sequence[Message]) -> Answer:
        last = text_of(messages[-1]) if messages else ""
        for answer in self._fixed:
            if answer.when is not None and answer.when in last:
                return answer
        if self._queue:
            return self._queue.pop(0)
        return self.rest or Answer(error=ModelErrorKind.REJECTED, message="the script has no answer left")

    async def _stall(self, answer: Answer) -> None:
        if answer.seconds:
            await self._clock.sleep(answer.seconds)
        if self.gate is not None:
            await self.gate.wait()

    def _error(self, answer: Answer) -> ModelError:
        error = ModelError(
            answer.error or ModelErrorKind.REJECTED,
            f"{self.spec}: {answer.message}",
            spec=self.spec,
            retry_after=answer.retry_after,
            partial=bool(answer.text),
        )
        error.status = answer.status
        return error


def text_of(message: Message) -> str:
    """Return the text of a message of any role."""
    return message.content if isinstance(message, ToolResult) else message.text


def pieces(text: str, count: int) -> list[str]:
    """Return the text in at most `count` parts of equal length; none of an empty text."""
    size = max(1, -(-len(text) // max(1, count)))
    return [text[start : start + size] for start in range(0, len(text), size)]


def read_script(path: Path) -> Script:
    """Read a script file.

    Raises:
        ConfigError: it is missing or is no script; the message says where.
    """
    try:
        data = path.read_bytes()
        if data.lstrip().startswith(b"["):
            return Script(ANSWERS.validate_json(data))
        return SCRIPT.validate_json(data)
    except OSError as error:
        raise ConfigError(f"scripted:{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ConfigError(f"scripted:{path}: is not a script: {error}") from error


def open_scripted(spec: str, settings: ProviderSettings, options: ModelOptions, ports: ModelPorts) -> ScriptedModel:
    """Return the model for `scripted:path/to/file.json`.

    Raises:
        ConfigError: the file is missing or is no script.
    """
    script = read_script(Path(spec.partition(":")[2]))
    return ScriptedModel(
        script.answers,
        rest=script.rest,
        spec=spec,
        context_window=options.context_window or CONTEXT_WINDOW,
        sees_images=options.images is not False,
        reads_documents=options.documents,
        clock=ports.clock,
    )


PROVIDER = Provider("scripted", open_scripted)

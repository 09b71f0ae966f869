"""Several models as one: repeats what may pass, falls back where it does not, returns to the first when it is well.

It never falls back on a prompt that is too long (the agent compacts it) or on a request that was rejected or
refused (another model would be asked the same wrong thing).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

from goclaw.common.core.clock import Backoff, Clock
from goclaw.common.core.messages import AssistantMessage, Image, UserMessage
from goclaw.errors import ModelError, ModelErrorKind
from goclaw.llm.base import (
    LOCAL_WAIT,
    AskedModel,
    ChatModel,
    DocumentModel,
    Emptiness,
    Finished,
    Looking,
    ModelEvent,
    ModelLoading,
    ModelWatch,
    Request,
    Restarted,
    Stop,
    TextDelta,
    ThinkingDelta,
)
from goclaw.llm.repetition import Repetition
from goclaw.llm.thinking_tags import ThinkingTags

REPEATABLE = frozenset(
    {
        ModelErrorKind.RATE,
        ModelErrorKind.OVERLOADED,
        ModelErrorKind.SERVER,
        ModelErrorKind.NETWORK,
        ModelErrorKind.TIMEOUT,
        ModelErrorKind.TRUNCATED,
    }
)
"""Trouble that may be gone a second later."""
FALLBACK = REPEATABLE | {ModelErrorKind.AUTH, ModelErrorKind.NOT_FOUND, ModelErrorKind.LOADING}
"""Trouble of one model that another model need not have."""

EMPTY_AGAIN = frozenset({Emptiness.MALFORMED, Emptiness.LOADING, Emptiness.THOUGHT, Emptiness.EMPTY})
"""Empty answers that the same request may not have the next time."""
OF_STOP = {
    Stop.REFUSAL: Emptiness.REFUSED,
    Stop.FILTERED: Emptiness.FILTERED,
    Stop.MALFORMED: Emptiness.MALFORMED,
    Stop.WINDOW: Emptiness.WINDOW,
    Stop.LOADED: Emptiness.LOADING,
}
TRIES_PER_MODEL = 3
TRIES_ACCEPTED = 2
"""The same where the server had begun an answer, which may be billed."""
TRIES_PER_ANSWER = 6
"""Requests for one answer over all models: a failing turn must not become a flood."""
FIRST_WAIT = 1.0
"""Seconds before the first repetition; doubles with each."""
MAX_WAIT = 30.0
"""Seconds; a server that asks for a longer wait is skipped for now."""
LOADING_WAIT = 2.0
"""Seconds at most between two requests to a server that loads its model."""
FIRST_COOL_DOWN = 60.0
MAX_COOL_DOWN = 1_800.0
"""Seconds that a model is passed over after it failed; doubles with each failure in a row."""


@dataclass(slots=True)
class ModelHealth:
    """Health of one model, as the chain has seen it."""

    model: ChatModel
    well_at: float = 0.0
    """Monotonic time from which it is asked again."""
    cool_down: Backoff = field(default_factory=lambda: Backoff(FIRST_COOL_DOWN, MAX_COOL_DOWN))
    looking: Looking | None = field(init=False)
    """The model, where it looks for its window."""

    def __post_init__(self) -> None:
        self.looking = self.model if isinstance(self.model, Looking) else None


@dataclass(slots=True)
class ModelTries:
    """The tries of one model during one answer."""

    number: int = 1
    loading_until: float | None = None
    """Monotonic time until which its server is waited for; None: it was not loading so far."""
    loading_told: bool = False


@dataclass(slots=True)
class ChainAttempt:
    """State of the chain during one answer."""

    requests: int = 0
    shown: bool = False
    """Whether events of an answer that is now void were handed on."""
    text_shown: bool = False
    restarts: int = 0
    thought: bool = False
    """Whether thinking was streamed of the answer that is being read."""
    empty: Finished | None = None
    """An empty answer, after which the request is repeated."""
    answer: Finished | None = None
    failures: dict[str, tuple[ModelError, int]] = field(default_factory=dict)
    """Last error and number of tries, by spec."""

    @property
    def last_error(self) -> ModelError:
        """The newest failure. Only to be asked after one."""
        return list(self.failures.values())[-1][0]

    @property
    def restart_reason(self) -> str:
        """Why the answer starts over, for logs and clients."""
        void = self.empty and self.empty.empty
        return void.value if void and not self.failures else self.last_error.kind.value

    @property
    def may_repeat(self) -> bool:
        """Before any text was shown freely, after a cut once."""
        return self.requests < TRIES_PER_ANSWER and (not self.text_shown or self.restarts == 0)


class AnswerReader:
    """Reads the events of one request: thinking between tags becomes thinking, an answer that repeats itself ends."""

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._tags = ThinkingTags()
        self._repetition = Repetition()

    def process(self, event: ModelEvent) -> Iterator[ModelEvent]:
        """Yield the events in the place of one; nothing is to be read after `Finished`."""
        for each in self._tags.process(event):
            yield each
            if self._repetition.add(each):
                yield self._repetition.finish(self._spec)
                return


class ModelChain:
    """A `ChatModel` made of several, the first being the preferred one.

    `notice` gets a line for people whenever another model takes over or the first one is back; a server that loads its
    model is waited for up to `local_wait` seconds.
    """

    def __init__(
        self,
        models: Sequence[ChatModel],
        clock: Clock,
        notice: Callable[[str], None] = lambda line: None,
        watches: Sequence[ModelWatch] = (),
        local_wait: float = LOCAL_WAIT,
    ) -> None:
        if not models:
            raise ValueError("a chain needs at least one model")
        self._healths = [ModelHealth(model) for model in models]
        self._clock = clock
        self._notice = notice
        self._watches = watches
        self._local_wait = local_wait
        self._answering = models[0].spec

    @property
    def models(self) -> tuple[ChatModel, ...]:
        """The models in their order."""
        return tuple(health.model for health in self._healths)

    @property
    def spec(self) -> str:
        """The model that would be asked now."""
        return self._candidates()[0].model.spec

    @property
    def context_window(self) -> int:
        """Window of the model that would be asked now; a smaller one that takes over answers `overflow` if it must."""
        return self._candidates()[0].model.context_window

    @property
    def sees_images(self) -> bool:
        return self._candidates()[0].model.sees_images

    def takes(self, image: Image) -> bool:
        """Whether the model that would be asked now is shown this picture or document; others do as they can."""
        model = self._candidates()[0].model
        return isinstance(model, DocumentModel) and model.takes(image)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask the models in turn until one has answered. `Restarted` comes before an answer that starts over.

        Raises:
            ModelError: none could answer; the message names every model and why. The kind is the first model's.
        """
        return aclosing(self._events(request))

    async def look(self) -> None:
        """Find the window of the model that would be asked now; see `base.Looking`."""
        looking = self._candidates()[0].looking
        if looking is not None:
            await looking.look()

    async def count(self, request: Request) -> int:
        """Count the tokens as the model does that would be asked now."""
        return await self._candidates()[0].model.count(request)

    def _candidates(self) -> list[ModelHealth]:
        """Return the models that are well; if none is, all of them: an attempt is better than none."""
        now = self._clock.monotonic()
        return [health for health in self._healths if health.well_at <= now] or self._healths

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        attempt = ChainAttempt()
        for health in self._candidates():
            async with aclosing(self._try(health, request, attempt)) as events:
                async for event in events:
                    yield event
            if attempt.answer:
                return
            self._set_aside(health, attempt)
            if not attempt.may_repeat:
                break
        raise failure(attempt)

    async def _try(
        self, health: ModelHealth, request: Request, attempt: ChainAttempt
    ) -> AsyncGenerator[ModelEvent, None]:
        """Ask one model, repeatedly where that may help; an empty answer is no failure, and asked for again once."""
        tries = ModelTries()
        while True:
            try:
                async with aclosing(self._ask(health, request, attempt)) as events:
                    async for event in events:
                        yield event
                if attempt.answer:
                    return
                continue
            except ModelError as error:
                error.partial = attempt.text_shown
                attempt.failures[health.model.spec] = (error, tries.number)
                if error.kind not in FALLBACK:
                    raise
                is_loading = error.kind is ModelErrorKind.LOADING
                pause = self._pause_while_loading(tries, attempt) if is_loading else pause_before(error, tries, attempt)
            if pause is None:
                return
            if is_loading and not tries.loading_told:
                tries.loading_told = True
                yield ModelLoading(health.model.spec)
            await self._clock.sleep(pause)

    def _pause_while_loading(self, tries: ModelTries, attempt: ChainAttempt) -> float | None:
        """Return the seconds until a server that loads its model is asked again; None: that was long enough."""
        attempt.requests -= 1  # it cost nothing
        now = self._clock.monotonic()
        if tries.loading_until is None:
            tries.loading_until = now + self._local_wait
        return LOADING_WAIT if now < tries.loading_until else None

    async def _ask(
        self, health: ModelHealth, request: Request, attempt: ChainAttempt
    ) -> AsyncGenerator[ModelEvent, None]:
        attempt.requests += 1
        if attempt.shown:
            attempt.restarts += attempt.text_shown
            attempt.shown = attempt.text_shown = False
            yield Restarted(attempt.restart_reason)
        attempt.thought = False
        stream, reader = health.model.stream(request), AnswerReader(health.model.spec)
        async with self._watch(health.model.spec, stream, attempt) if self._watches else stream as events:
            async for given in events:
                for event in reader.process(given):
                    attempt.thought = attempt.thought or isinstance(event, ThinkingDelta)
                    if isinstance(event, Finished):
                        event = judge(event, attempt.thought)
                        if event.empty in EMPTY_AGAIN and attempt.empty is None and not has_answered(request):
                            attempt.empty = event
                            return
                        if attempt.empty:
                            event = replace(event, wasted=attempt.empty.usage)
                        attempt.answer = event
                        self._well(health, attempt)
                    attempt.shown = True
                    attempt.text_shown = attempt.text_shown or isinstance(event, TextDelta)
                    yield event
                if attempt.answer:
                    return

    @asynccontextmanager
    async def _watch(
        self, spec: str, stream: AbstractAsyncContextManager[AsyncIterator[ModelEvent]], attempt: ChainAttempt
    ) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        """Tell the watches of a request when it begins and when it ends, however it ends."""
        asked = AskedModel(spec, attempt.requests)
        for watch in self._watches:
            watch.on_request(asked)
        try:
            async with stream as events:
                yield events
        except ModelError as error:
            asked.failure = error.kind.value
            raise
        finally:
            asked.answer = attempt.answer
            for watch in self._watches:
                watch.on_end(asked)

    def _well(self, health: ModelHealth, attempt: ChainAttempt) -> None:
        spec = health.model.spec
        if spec != self._answering:
            why = f" ({attempt.last_error.kind.value})" if attempt.failures else ""
            again = "again" if health is self._healths[0] else f"instead of {self._answering}{why}"
            self._notice(f"{spec} answers {again}")
            self._answering = spec
        health.well_at = 0.0
        health.cool_down.reset()

    def _set_aside(self, health: ModelHealth, attempt: ChainAttempt) -> None:
        """Pass the model over for a while: longer each time, and at least for the time its server wishes."""
        wished = attempt.failures[health.model.spec][0].retry_after or 0.0
        span = max(health.cool_down.next(), min(wished, MAX_COOL_DOWN))
        health.well_at = self._clock.monotonic() + span


def pause_before(error: ModelError, tries: ModelTries, attempt: ChainAttempt) -> float | None:
    """Return the seconds before the next try of a model that failed with `error`; None when another one is useless."""
    number, most = tries.number, TRIES_ACCEPTED if error.accepted else TRIES_PER_MODEL
    if error.kind not in REPEATABLE or number >= most or not attempt.may_repeat:
        return None
    tries.number += 1
    wished = error.retry_after or 0.0
    return None if wished > MAX_WAIT else max(FIRST_WAIT * 2.0 ** (number - 1), wished)


def judge(done: Finished, thought: bool) -> Finished:
    """Return an answer with the reason why there is nothing in it, if so; `thought`: the model has thought."""
    if done.message.text.strip() or done.message.calls:
        return done
    empty = OF_STOP.get(done.stop) or (Emptiness.THOUGHT if thought else Emptiness.EMPTY)
    return replace(done, empty=empty)


def has_answered(request: Request) -> bool:
    """Whether the model has said something since the person spoke: it may end with nothing more to say."""
    for message in reversed(request.messages):
        if isinstance(message, UserMessage):
            return False
        if isinstance(message, AssistantMessage) and message.text.strip():
            return True
    return False


def failure(attempt: ChainAttempt) -> ModelError:
    """Return the error that ends the search: the only model's own, or one that names every model and why."""
    first, _ = next(iter(attempt.failures.values()))
    lines = [f"{error} ({count} tries)" if count > 1 else str(error) for error, count in attempt.failures.values()]
    message = lines[0] if len(lines) == 1 else "no model could answer:\n" + "\n".join(f"- {line}" for line in lines)
    return ModelError(first.kind, message, spec=first.spec, retry_after=first.retry_after, partial=attempt.text_shown)

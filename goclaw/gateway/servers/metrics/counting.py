"""Counts of turns, tools and models since the start, and where the time of a turn goes.

Everything is learnt by watching: events of the bus, requests of the model chains, and the lane for the time a message
waited. A turn's overhead is the time when it has neither a request, nor a tool, nor a person to wait for.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from structlog.contextvars import get_contextvars

from goclaw.common.core import catalog
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import (
    AGENT_TURN,
    Notice,
    NoticeKind,
    QuestionAnswered,
    QuestionAsked,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.records import BoundedDict
from goclaw.durable.engine.base import Engine
from goclaw.llm.base import AskedModel

OTHER = "other"
"""The label for everything beyond a bound: tools that are not built in, and models beyond `MAX_MODELS`."""
MAX_MODELS = 50
MAX_TURNS = 10_000
"""Running turns whose time is measured."""
TOOLS = frozenset([*catalog.TOOLS, *(name for tools in catalog.GATED_TOOLS.values() for name in tools)])
"""Tools that are a label of their own. Names of other tools come from servers, packages and models."""
TOOL_OUTCOMES = ("ok", "error", "refused", "stopped")
SECONDS = (0.01, 0.05, 0.25, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0)
SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Histogram:
    """Counts of durations by upper bound."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds

    def buckets(self) -> Iterator[tuple[str, float]]:
        """Return each upper bound, `+Inf` last, and how many durations were no longer."""
        return zip((*map(repr, self._bounds), "+Inf"), accumulate(self._counts), strict=True)


class TurnTimes:
    """The time of one running turn: its overhead so far, and its present wait."""

    def __init__(self, now: float) -> None:
        self.began = now
        self._overhead = 0.0
        self._alone_since = now
        """Since when it waits for nothing."""
        self.waits_for: dict[Hashable, float] = {}
        """The calls that it waits for, and since when."""

    def start(self, what: Hashable, now: float) -> None:
        """Note that it waits for something."""
        if not self.waits_for:
            self._overhead += now - self._alone_since
        self.waits_for[what] = now

    def end(self, what: Hashable, now: float) -> float | None:
        """Note that the wait is over; return its seconds, None if it did not wait for that."""
        since = self.waits_for.pop(what, None)
        if since is None:
            return None
        if not self.waits_for:
            self._alone_since = now
        return now - since

    def overhead(self, now: float) -> float:
        """Return the seconds until now without a wait."""
        return self._overhead if self.waits_for else self._overhead + now - self._alone_since


@dataclass(frozen=True, slots=True)
class _Call:
    """A tool call that a turn waits for."""

    turn: str
    id: str
    tool: str


@dataclass(slots=True)
class Counts:
    """Numbers since the start, by label."""

    turns: Counter[str] = field(default_factory=Counter)
    """By outcome."""
    turn_seconds: Histogram = field(default_factory=Histogram)
    queue_wait: Histogram = field(default_factory=Histogram)
    overhead: Histogram = field(default_factory=lambda: Histogram(SHORT_SECONDS))
    tool_calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By tool and outcome."""
    tool_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    model_requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By model and outcome: `answered`, `ended` by its caller, or the kind of the error."""
    model_retries: int = 0
    model_seconds: defaultdict[str, Histogram] = field(default_factory=lambda: defaultdict(Histogram))
    model_tokens: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By model and kind."""


class Counting:
    """Counts reported events. Implements `llm.base.ModelWatch`."""

    def __init__(self, clock: Clock, engine: Engine) -> None:
        self.counts = Counts()
        self._clock = clock
        self._engine = engine
        self._running: BoundedDict[str, TurnTimes] = BoundedDict(MAX_TURNS)
        self._asked: dict[AskedModel, tuple[TurnTimes | None, float]] = {}
        self._models: set[str] = set()

    def watch(self, bus: Bus) -> None:
        """Count the events of a bus from now on."""
        bus.watch(TurnStarted, self._turn_started)
        bus.watch(TurnFinished, self._turn_finished)
        bus.watch(ToolStarted, self._tool_started)
        bus.watch(ToolFinished, self._tool_finished)
        bus.watch(QuestionAsked, self._question_asked)
        bus.watch(QuestionAnswered, self._question_answered)
        bus.watch(Notice, self._noticed)

    def on_request(self, request: AskedModel) -> None:
        now = self._clock.monotonic()
        # The lane binds the turn for the log; agents that work for a turn, and summaries on its way, inherit that.
        times = self._running.get(get_contextvars().get("turn", ""))
        if times:
            times.start(request, now)
        self._asked[request] = times, now
        self.counts.model_retries += request.number > 1

    def on_end(self, request: AskedModel) -> None:
        now = self._clock.monotonic()
        times, since = self._asked.pop(request, (None, now))
        if times:
            times.end(request, now)
        model = self._model(request.spec)
        self.counts.model_seconds[model].observe(now - since)
        self.counts.model_requests[model, "answered" if request.answer else request.failure or "ended"] += 1
        if request.answer:
            usage, tokens = request.answer.usage, self.counts.model_tokens
            for kind in ("input", "output", "cache_read", "cache_write"):
                tokens[model, kind] += max(0, getattr(usage, kind))

    def _turn_started(self, event: TurnStarted) -> None:
        if self._engine.running(event.session) != event.turn:
            return  # that of an agent, which is a tool of its turn
        self._running[event.turn] = TurnTimes(self._clock.monotonic())
        received = self._engine.received_at(event.session)
        if received is not None:
            self.counts.queue_wait.observe(max(0.0, self._clock.now() - received))

    def _turn_finished(self, event: TurnFinished) -> None:
        if self._engine.running(event.session) != event.turn:
            return
        self.counts.turns[event.outcome.value] += 1
        times = self._running.pop(event.turn, None)
        if times is None:
            return
        now = self._clock.monotonic()
        self.counts.turn_seconds.observe(now - times.began)
        self.counts.overhead.observe(times.overhead(now))
        for cut in times.waits_for:
            if isinstance(cut, _Call):
                self.counts.tool_calls[cut.tool, "stopped"] += 1

    def _tool_started(self, event: ToolStarted) -> None:
        if times := self._times(event.turn):
            times.start(_Call(event.turn, event.call_id, tool_label(event.name)), self._clock.monotonic())

    def _tool_finished(self, event: ToolFinished) -> None:
        tool, times = tool_label(event.name), self._times(event.turn)
        # A call of an MCP client has no turn here: then the time counts that the tool itself measured.
        seconds = times.end(_Call(event.turn, event.call_id, tool), self._clock.monotonic()) if times else event.seconds
        self.counts.tool_calls[tool, "refused" if event.denied else "error" if event.is_error else "ok"] += 1
        self.counts.tool_seconds[tool] += seconds or 0.0

    def _question_asked(self, event: QuestionAsked) -> None:
        if times := self._times(event.turn):
            times.start(event.question.id, self._clock.monotonic())

    def _question_answered(self, event: QuestionAnswered) -> None:
        if times := self._times(event.turn):
            times.end(event.question_id, self._clock.monotonic())

    def _noticed(self, event: Notice) -> None:
        """Take a pause (`/pause`) out of a turn's overhead."""
        if event.kind is NoticeKind.TEXT or not (times := self._times(event.turn)):
            return
        change = times.start if event.kind is NoticeKind.PAUSED else times.end
        change(NoticeKind.PAUSED, self._clock.monotonic())

    def _times(self, turn: str) -> TurnTimes | None:
        """Return the times of a running turn, or of that for which an agent's turn works (`turn_of_agent`)."""
        mark = turn
        while mark and turn not in self._running:
            turn, mark, _ = turn.rpartition(AGENT_TURN)
        return self._running.get(turn)

    def _model(self, spec: str) -> str:
        """Return the label of a model."""
        if spec in self._models or len(self._models) < MAX_MODELS:
            self._models.add(spec)
            return spec
        return OTHER


def tool_label(name: str) -> str:
    """Return the label of a tool: its name if it is built in."""
    return name if name in TOOLS else OTHER

"""What is counted of turns, tools and models, and where the time of a turn goes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from structlog.contextvars import bound_contextvars

from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import (
    Address,
    Notice,
    NoticeKind,
    Outcome,
    Question,
    QuestionAnswered,
    QuestionAsked,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
    TurnStarted,
    turn_of_agent,
)
from goclaw.common.core.messages import AssistantMessage, ToolCall
from goclaw.durable.engine.base import Engine
from goclaw.errors import DeliveryError, ModelErrorKind
from goclaw.gateway.servers.metrics.counting import MAX_MODELS, OTHER, Counting, Histogram
from goclaw.llm.base import AskedModel, Finished, Stop, Usage
from tests.gateway.servers.metrics.calling import MetricsWorld, reading, site
from tests.harness import Answer

TURN, SESSION = "m1", "s"
ASKED = Question("q1", "approval", "memory:here", "May it?", "")


class Lanes:
    """The part of the engine that counting asks."""

    def __init__(self) -> None:
        self.turns: dict[str, tuple[str, float | None]] = {}

    def running(self, session: str) -> str | None:
        return self.turns.get(session, (None, None))[0]

    def received_at(self, session: str) -> float | None:
        return self.turns.get(session, (None, 0.0))[1]


class Daemon:
    """A bus, a clock, and what counts."""

    def __init__(self) -> None:
        self.clock, self.lanes = SteppedClock(), Lanes()
        self.bus = Bus(self.clock)
        self.counting = Counting(self.clock, cast("Engine", self.lanes))
        self.counting.watch(self.bus)
        self.counts = self.counting.counts

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @contextmanager
    def turn(self, outcome: Outcome = Outcome.ANSWERED, *, waited: float | None = 0.0) -> Iterator[None]:
        """One turn that runs while the block does."""
        self.lanes.turns[SESSION] = TURN, None if waited is None else self.clock.now() - waited
        self.bus.publish(TurnStarted(TURN, SESSION, Address("memory", "here")))
        with bound_contextvars(turn=TURN):
            yield
        self.bus.publish(TurnFinished(TURN, SESSION, outcome, ""))
        self.lanes.turns.clear()

    def request(self, seconds: float, spec: str = "a:b", *, number: int = 1, failure: str = "") -> None:
        """One request to a model."""
        answer = Finished(AssistantMessage("ok"), Usage(10, 5, 3, 2), Stop.END, spec)
        asked = AskedModel(spec, number)
        self.counting.on_request(asked)
        self.wait(seconds)
        asked.answer, asked.failure = None if failure else answer, failure
        self.counting.on_end(asked)

    def call(
        self,
        seconds: float,
        name: str = "read",
        turn: str = TURN,
        content: str = "",
        *,
        bad: bool = False,
        denied: bool = False,
    ) -> None:
        """One call of a tool."""
        self.bus.publish(ToolStarted(turn, SESSION, "c1", name, {}))
        self.wait(seconds)
        self.bus.publish(ToolFinished(turn, SESSION, "c1", name, content, bad, seconds, denied=denied))


def test_overhead_is_what_is_neither_model_nor_tool() -> None:
    daemon = Daemon()
    with daemon.turn(waited=1.5):
        daemon.wait(0.5)
        daemon.request(20)
        daemon.wait(0.25)
        daemon.call(30)
        daemon.wait(0.25)
    counts = daemon.counts
    assert (counts.overhead.sum, counts.turn_seconds.sum, counts.queue_wait.sum) == (1.0, 51.0, 1.5)
    assert counts.model_seconds["a:b"].sum == 20 and counts.tool_seconds == {"read": 30}


def test_what_runs_at_the_same_time_counts_once() -> None:
    """An agent is a tool whose own requests and tools are inside its time."""
    daemon = Daemon()
    agents = turn_of_agent(TURN, "x1")
    with daemon.turn():
        daemon.wait(1)
        daemon.bus.publish(ToolStarted(TURN, SESSION, "c0", "agent", {}))
        daemon.bus.publish(TurnStarted(agents, "s:agent:x1", Address("memory", "here")))
        daemon.request(5)
        daemon.call(6, turn=agents)
        daemon.bus.publish(TurnFinished(agents, "s:agent:x1", Outcome.ANSWERED, ""))
        daemon.wait(2)
        daemon.bus.publish(ToolFinished(TURN, SESSION, "c0", "agent", "", is_error=False, seconds=13))
    assert daemon.counts.overhead.sum == 1
    assert daemon.counts.turns == {"answered": 1}, "an agent's turn is a tool of the person's"
    assert daemon.counts.tool_seconds == {"agent": 13, "read": 6}
    assert dict(daemon.counts.queue_wait.buckets())["+Inf"] == 1


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        (QuestionAsked(TURN, SESSION, ASKED), QuestionAnswered(TURN, SESSION, ASKED.id, "allow")),
        (Notice(SESSION, "", TURN, kind=NoticeKind.PAUSED), Notice(SESSION, "", TURN, kind=NoticeKind.RESUMED)),
    ],
    ids=["a question", "a pause"],
)
def test_waiting_for_a_person_is_no_overhead(begins: TurnEvent, ends: TurnEvent) -> None:
    daemon = Daemon()
    with daemon.turn():
        daemon.wait(1)
        daemon.bus.publish(begins)
        daemon.wait(3_600)
        daemon.bus.publish(ends)
        daemon.wait(1)
    assert daemon.counts.overhead.sum == 2


def test_tools_are_counted_by_name_and_outcome_and_names_of_others_are_one() -> None:
    daemon = Daemon()
    with daemon.turn(Outcome.STOPPED):
        daemon.call(1, content='{"result": "denied: whatever the page says"}')
        daemon.call(1, content='{"error": "no such file"}', bad=True)
        daemon.call(1, "exec", denied=True)
        daemon.call(1, "mcp__files__read")
        daemon.call(1, "no such tool")
        daemon.bus.publish(ToolStarted(TURN, SESSION, "c9", "web_fetch", {}))
    daemon.call(2, "read", turn="a call of an MCP client")
    calls = {("read", "ok"): 2, ("read", "error"): 1, ("exec", "refused"): 1, (OTHER, "ok"): 2}
    assert daemon.counts.tool_calls == {**calls, ("web_fetch", "stopped"): 1}
    assert daemon.counts.tool_seconds["read"] == 4 and daemon.counts.turns == {"stopped": 1}


def test_models_are_counted_with_their_tokens_failures_and_retries() -> None:
    daemon = Daemon()
    daemon.request(1, failure="rate")
    daemon.request(2, number=2)
    daemon.request(3, failure="")
    counts = daemon.counts
    assert counts.model_requests == {("a:b", "rate"): 1, ("a:b", "answered"): 2}
    assert (counts.model_retries, counts.model_seconds["a:b"].sum) == (1, 6)
    assert counts.model_tokens == {
        ("a:b", "input"): 20,
        ("a:b", "output"): 10,
        ("a:b", "cache_read"): 6,
        ("a:b", "cache_write"): 4,
    }


def test_models_beyond_a_bound_are_one() -> None:
    daemon = Daemon()
    for number in range(MAX_MODELS + 20):
        daemon.request(0, f"openai-chat:m{number}")
    models = {model for model, _ in daemon.counts.model_requests}
    assert len(models) == MAX_MODELS + 1 and daemon.counts.model_requests[OTHER, "answered"] == 20


def test_a_turn_that_is_taken_up_again_has_not_waited_and_one_that_is_not_known_is_no_trouble() -> None:
    daemon = Daemon()
    with daemon.turn(waited=None):
        pass
    daemon.lanes.turns[SESSION] = "m2", 0.0
    daemon.bus.publish(TurnFinished("m2", SESSION, Outcome.FAILED, ""))
    daemon.bus.publish(QuestionAnswered("m9", SESSION, "q1", "allow"))
    assert dict(daemon.counts.queue_wait.buckets())["+Inf"] == 0
    assert daemon.counts.turns == {"answered": 1, "failed": 1}


def test_a_histogram_counts_what_is_no_longer_than_each_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for seconds in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(seconds)
    assert list(histogram.buckets()) == [("1.0", 2), ("2.0", 3), ("+Inf", 4)] and histogram.sum == 12


async def test_a_conversation_of_the_daemon_is_counted(tmp_path: Path) -> None:
    calls = (ToolCall("c1", "read", {}), ToolCall("c2", "nothing", {}))
    script = Answer(calls=calls), Answer("Done."), Answer(error=ModelErrorKind.REJECTED)
    world = MetricsWorld(tmp_path, *script, tools=[reading])
    async with world.running() as core, site(world, core) as page:
        core.bus.watch(TurnStarted, lambda _: world.clock.advance(0.75))
        world.room.failures.append(DeliveryError("not now"))
        await core.say("hi")
        await core.engine.idle()
        await core.settled_in(world.clock)  # the delivery is tried again
        await core.say("again")
        await core.engine.idle()
        await core.settled()
        found = await page.scrape()
    assert found["goclaw_turns_total", "outcome=answered"] == found["goclaw_turns_total", "outcome=failed"] == 1
    assert found["goclaw_tool_calls_total", "outcome=ok,tool=read"] == 1
    assert found["goclaw_tool_calls_total", "outcome=error,tool=other"] == 1
    assert found["goclaw_model_requests_total", "model=scripted:test,outcome=answered"] == 2
    assert found["goclaw_model_requests_total", "model=scripted:test,outcome=rejected"] == 1
    assert found["goclaw_model_tokens_total", "kind=input,model=scripted:test"] == 20
    assert found["goclaw_deliveries_total", "channel=memory,outcome=sent"] == 2
    assert found["goclaw_retries_total", "of=delivery"] == 1
    assert found["goclaw_queue_wait_seconds_count", ""] == 2
    assert found["goclaw_turn_overhead_seconds_sum", ""] == 1.5

"""What a very long conversation costs beside the model: compacted, and taken up after a restart."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.figures import Figure, Options, percentile
from benchmarks.gateways import WATCHED_GOCLAW
from benchmarks.history import write_history
from benchmarks.lag_probe import lateness_in
from benchmarks.stage import PEOPLE, World, open_daemon, open_world, prepare
from goclaw.common.config.schema import CompactionSettings
from goclaw.common.core.clock import RealClock
from goclaw.common.core.messages import AssistantMessage
from goclaw.conversation.agent.context.compaction import Basis, CompactionGoal, Summarizer, SummarySource, compact
from goclaw.conversation.agent.context.window import Window
from goclaw.conversation.compaction.compacting import NOTHING
from goclaw.durable.store.open import open_database
from goclaw.durable.store.transcripts import StoredCompaction, Transcripts
from goclaw.llm.base import Finished, ModelEvent, Request, Stop, Usage

MESSAGES = 10_000
ROUNDS = 8
"""As many people, each with such a conversation."""
WIRE = "openai-chat"
SUMMARY_DELTAS, THINK = 60, 0.3
"""A summary of about 500 characters, and seconds before it begins: next to nothing for a model that reads so much."""
CHANGES = {
    "models": {
        "agent": [f"{WIRE}:bench"],
        "summary": [f"{WIRE}:bench"],
        "options": {f"{WIRE}:bench": {"context_window": 2_000_000}},
    },
    # These read the conversation, too, at a moment of their own.
    "checkpoint": {"enabled": False},
    "memory": {"flush": {"enabled": False}},
}

Span = tuple[float, float]
"""When something began and ended, on the machine's monotonic clock."""


async def measure_compaction(options: Options) -> list[Figure]:
    """The compaction by itself, with the store but without a daemon; then in a daemon, with the loop watched."""
    return [*await measure_bookkeeping(options), *await measure_in_daemon(options)]


class Summarising:
    """A model that takes its time to write a summary, and knows how long it took."""

    spec, context_window, sees_images = "bench:summary", 2_000_000, False
    seconds = 0.0

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        """See `ChatModel`."""
        began = time.perf_counter()
        yield self._events()
        self.seconds = time.perf_counter() - began

    async def _events(self) -> AsyncIterator[ModelEvent]:
        await asyncio.sleep(THINK)
        yield Finished(AssistantMessage("Nothing was decided. " * 25), Usage(), Stop.END, self.spec)

    async def count(self, request: Request) -> int:
        """Nobody asks."""
        raise NotImplementedError


async def measure_bookkeeping(options: Options) -> list[Figure]:
    """From the decision to compact to the shorter window, the summary stored; the model's time is taken off."""
    times = []
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-", ignore_cleanup_errors=True) as name:
        database = Path(name) / "state.db"
        people = [f"bench:{number}" for number in range(1 + options.times(ROUNDS))]
        await write_history(database, people, MESSAGES)
        async with open_database(database) as opened:
            for person in people:
                times.append(await _bookkeeping(Transcripts(opened), person))
    detail = {"repetitions": len(times) - 1, "min": round(min(times[1:]), 1), "max": round(max(times[1:]), 1)}
    return [Figure(f"compacting {MESSAGES:,} messages, p50", "ms", percentile(times[1:], 50), 50, detail=detail)]


class Progress:
    """Books nothing, and fails where a source does."""

    clock = RealClock()

    async def spent(self, finished: Finished) -> None:
        pass

    def record_failure(self, source: SummarySource, reason: str) -> None:
        raise RuntimeError(f"no summary by {source}: {reason}")


async def _bookkeeping(transcripts: Transcripts, session: str) -> float:
    window, model = Window.of(*await transcripts.context(session)), Summarising()

    async def keep(compaction: StoredCompaction) -> bool:
        await transcripts.add_compaction(session, compaction)
        window.drop_before(compaction.first_kept, compaction.summary)
        return True

    async def originals(before: int) -> Basis:
        raise NotImplementedError  # only for what a stub stands for

    job = CompactionGoal(window.tokens(0), 0, budget=model.context_window // 2)
    began = time.perf_counter()
    summarizers = [Summarizer(SummarySource.LLM, model)]
    await compact(window, summarizers, CompactionSettings(), job, Progress(), keep=keep, originals=originals)
    return 1000 * (time.perf_counter() - began - model.seconds)


async def measure_in_daemon(options: Options) -> list[Figure]:
    """Each person writes once, then has the conversation compacted; another one has nothing to compact."""
    people = PEOPLE[1 : 1 + options.times(ROUNDS)]
    first: list[float] = []
    compacted: list[float] = []
    nothing: list[float] = []
    spans: list[list[Span]] = [[], []]
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-", ignore_cleanup_errors=True) as name:
        async with open_world() as world:
            path, config = prepare(Path(name), world.url, WIRE, CHANGES)
            await write_history(config.database_path, [f"telegram:{person}" for person in people], MESSAGES)
            async with open_daemon(world, path, WATCHED_GOCLAW):
                await world.model(deltas=SUMMARY_DELTAS, think=THINK)
                await world.talk(PEOPLE[:1], 3)
                for person in people:
                    first.append(await _timed(world, person, "hello", spans[0]))
                    compacted.append(await _timed(world, person, "/compact", spans[1]))
                    nothing.append(await _timed(world, person + len(PEOPLE) // 2, "/compact", []))
        late = [max(late for span in each for late in lateness_in(path, *span)) for each in spans]
    # What every command costs on its way through Telegram is not the compaction's.
    compacted = [taken - percentile(nothing, 50) for taken in compacted]
    return [
        *_figures(f"{MESSAGES:,} messages, first turn after a restart", first, late[0], 500),
        *_figures(f"{MESSAGES:,} messages, /compact", compacted, late[1], None),
    ]


async def _timed(world: World, person: int, text: str, spans: list[Span]) -> float:
    """Milliseconds from the message to the whole reply, without the model's own time."""
    began = time.monotonic()
    talk = await world.command(person, text)
    spans.append((began, time.monotonic()))
    if text == "/compact" and not any(words in talk["wrong"][0] for words in ("Summary source: LLM", NOTHING)):
        raise RuntimeError(f"not compacted: {talk['wrong']}")
    return float(1000 * (talk["replies"][0] - sum(talk["model"])))


def _figures(name: str, times: Sequence[float], late: float, target: float | None) -> list[Figure]:
    detail = {"repetitions": len(times), "min": round(min(times), 1), "max": round(max(times), 1)}
    return [
        Figure(f"{name}, p50", "ms", percentile(times, 50), target, detail=detail),
        Figure(f"{name}, event loop lateness, max", "ms", late, 50),
    ]

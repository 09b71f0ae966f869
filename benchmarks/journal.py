"""What being durable costs: the transactions of one plain turn, through the engine and the store, in this process."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, Options, percentile
from benchmarks.history import ANSWER, QUESTION
from goclaw.channels.memory import NAME, Room
from goclaw.common.core.clock import RealClock
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Actor, Address, Delivery, Inbound
from goclaw.common.core.messages import AssistantMessage, UserMessage
from goclaw.durable.engine.base import Turn, TurnHandler
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.lanes import Lanes, open_lanes
from goclaw.durable.engine.outbox import Outbox, open_outbox
from goclaw.durable.store.database import BoundStatement, Database, Row, StatementResult
from goclaw.durable.store.open import open_database
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of
from goclaw.testing import MemoryChannel

TURNS = 300
WARM_UP = 20
SESSION = f"{NAME}:bench"
_USER: Codec[UserMessage] = Codec(UserMessage)
_ANSWER: Codec[AssistantMessage] = Codec(AssistantMessage)


class Relaxed(Database):
    """A database that waits for the disk at no transaction (`synchronous=NORMAL` throughout)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, *statements: BoundStatement, durable: bool = False) -> list[StatementResult]:
        return await self._database.write(*statements)

    async def read(self, statement: BoundStatement) -> Sequence[Row]:
        return await self._database.read(statement)


async def measure_journal(options: Options) -> list[Figure]:
    """A turn whose question and answer are there at once: what is left is the journal, the transcript, the outbox."""
    figures = []
    for name, target, relaxed in (("as configured", 4.0, False), ("NORMAL", 1.0, True)):
        with tempfile.TemporaryDirectory(prefix="goclaw-bench-") as folder:
            async with open_database(Path(folder) / "goclaw.db") as database:
                times = await turns(Relaxed(database) if relaxed else database, WARM_UP + options.times(TURNS))
        kept = times[WARM_UP:]
        detail = {"repetitions": len(kept), "p95": round(percentile(kept, 95), 2), "min": round(min(kept), 2)}
        figures.append(Figure(f"journal cost per turn, {name}, p50", "ms", percentile(kept, 50), target, detail=detail))
    return figures


async def turns(database: Database, count: int) -> list[float]:
    """Milliseconds of so many turns, one after the other: from the message to the recorded receipt of its answer."""
    clock = RealClock()
    transcripts = Transcripts(database)

    async def handle(turn: Turn) -> Sequence[Delivery]:
        return await plain_turn(turn, transcripts)

    async def failed(turn: Turn, error: Exception) -> Sequence[Delivery]:
        raise error

    room = Room()
    async with open_outbox(database, {NAME: MemoryChannel(room, clock)}, clock) as outbox:
        async with open_lanes(Journal(database), outbox, clock) as lanes:
            await outbox.resume()
            await lanes.resume(TurnHandler(handle, failed), {NAME})
            times = [await one(lanes, outbox, number) for number in range(count)]
    if len(room.all) != count:
        raise RuntimeError(f"{len(room.all)} of {count} answers arrived")
    return times


async def one(lanes: Lanes, outbox: Outbox, number: int) -> float:
    """One turn, to its end."""
    actor, address = Actor("tui:bench", NAME), Address(NAME, "bench")
    began = time.perf_counter()
    await lanes.submit(Inbound(f"bench:{number}", actor, SESSION, QUESTION, address, 0.0))
    await lanes.idle()
    await outbox.flush(10)
    return 1000 * (time.perf_counter() - began)


async def plain_turn(turn: Turn, transcripts: Transcripts) -> Sequence[Delivery]:
    """The steps of a turn without tools."""

    async def hear() -> UserMessage:
        return UserMessage(turn.inbound.text)

    async def answer() -> AssistantMessage:
        return AssistantMessage(ANSWER)

    await turn.step(
        "user",
        hear,
        _USER,
        rows=lambda said: [
            *rows_of(said, Origin(SESSION, turn.id, "user", 0.0)),
            transcripts.ensure_session(SESSION, 0.0),
        ],
    )
    await turn.step("model:1", answer, _ANSWER, rows=lambda said: rows_of(said, Origin(SESSION, turn.id, "model", 0.0)))
    return [Delivery(f"{turn.id}:deliver:1", turn.inbound.address, ANSWER, turn=turn.id)]

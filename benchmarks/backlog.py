"""How long the memory index takes to catch up with a million messages, and whether retention's deletions stall it."""

import asyncio
import random
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

from benchmarks.figures import Figure, Options
from benchmarks.memory_speed import vocabulary
from goclaw.common.core.clock import RealClock
from goclaw.common.core.messages import AssistantMessage, UserMessage
from goclaw.common.core.supervise import background
from goclaw.durable.store.forgetting import Forgetting, Retention
from goclaw.durable.store.open import open_database
from goclaw.durable.store.reading import TranscriptFeed
from goclaw.durable.store.sqlite.database import run
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of
from goclaw.memory.index import talk
from goclaw.memory.index.database import open_index
from goclaw.memory.transcript_indexer import TranscriptIndexer

MESSAGES, PER_SESSION = 1_000_000, 1_000
DELETED = 50
"""Sessions that retention deletes while the second half is indexed: 50,000 messages."""
WORDS = 25
"""Of a message."""
END = 1e9
"""A moment after all messages."""
AT_ONCE, LOOK_SECONDS = 10_000, 0.2


async def measure_backlog(options: Options) -> list[Figure]:
    """Index a million messages that are there at the start; the older half, then the rest beside deletions."""
    messages = MESSAGES // 10 if options.quick else MESSAGES
    with tempfile.TemporaryDirectory(prefix="goclaw-backlog-") as folder:
        place = Path(folder)
        async with open_database(place / "goclaw.db") as database, open_index(place / "memory.db") as index:
            await asyncio.to_thread(_write, place / "goclaw.db", Transcripts(database), messages)
            indexer = TranscriptIndexer(index, TranscriptFeed(database), RealClock())
            retention = Retention(database, Forgetting(database))
            began, used = time.perf_counter(), time.process_time()

            async def until(row: int) -> tuple[float, float]:
                seen, newest = 0, 0
                while seen < row or (row == messages and newest):
                    await asyncio.sleep(LOOK_SECONDS)
                    seen, newest = await index.read(_progress)
                return time.perf_counter() - began, time.process_time() - used

            async with background(indexer.run(), "indexing"):
                half = await until(messages // 2)
                for number in range(messages * DELETED // MESSAGES):
                    await retention.prune(_session(number), END, END)
                    indexer.deleted[_session(number)] = (number + 1) * PER_SESSION + 1
                whole = await until(messages)
    rates = [messages / 2 / half[1], messages / 2 / (whole[1] - half[1])]
    detail = {"seconds": round(whole[0], 1), "rows a second of CPU": [round(rate) for rate in rates]}
    name = f"to index {messages:,} messages"
    return [
        Figure(f"{name}, one core", "s", whole[1], 300 * messages / MESSAGES, detail=detail),
        Figure(
            f"{name}: the second half, beside deletions, of the speed of the first",
            "x",
            rates[1] / rates[0],
            0.5,
            "higher",
        ),
    ]


def _progress(connection: sqlite3.Connection) -> tuple[int, int]:
    return talk.highest_row(connection), talk.newest_seen(connection)


def _session(number: int) -> str:
    return f"tui:{number}"


def _write(database: Path, transcripts: Transcripts, messages: int) -> None:
    chance, (words, weights) = random.Random(5), vocabulary()
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for first in range(0, messages, AT_ONCE):
            connection.execute("BEGIN")
            for number in range(first, min(first + AT_ONCE, messages), 2):
                session, turn, at = _session(number // PER_SESSION), f"t{number}", float(number)
                if number % PER_SESSION == 0:
                    run(connection, transcripts.ensure_session(session, at))
                said = Origin(session, turn, "user", at, "tui:ann", "<context>Friday; Ann via tui</context>")
                for statement in (
                    *rows_of(UserMessage(" ".join(chance.choices(words, cum_weights=weights, k=WORDS))), said),
                    *rows_of(
                        AssistantMessage(" ".join(chance.choices(words, cum_weights=weights, k=WORDS))),
                        Origin(session, turn, "model:1", at),
                    ),
                ):
                    run(connection, statement)
            connection.execute("COMMIT")

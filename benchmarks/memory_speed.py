"""How long a search of conversations takes and what it keeps in memory: 100,000 passages, a million.

`python -m benchmarks.memory_speed FOLDER PASSAGES SEARCHES` is the searching process, of which nothing else is part.
Passages are sentences of LoCoMo, mixed anew, where `LOCOMO_FOLDER` names it, with made-up words among them as frequent
as words are (Zipf); else such words alone. Each passage has a vector, five times as many as the product makes.
"""

import asyncio
import json
import os
import random
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import date
from functools import partial
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Json, Options, percentile
from benchmarks.gateways import ROOT
from benchmarks.lag_probe import look
from benchmarks.recall.dataset import conversations, given_folder
from benchmarks.stage import pss_kibibytes
from goclaw.memory.base import TranscriptQuery
from goclaw.memory.excerpts import quotes
from goclaw.memory.index import talk
from goclaw.memory.index.database import IndexFile, open_index
from goclaw.memory.index.schema import Scope, place_of
from goclaw.memory.index.talk import IndexedRow
from goclaw.memory.index.text_vectors import LOADED_AT_ONCE, Embedded
from goclaw.memory.ranking import REACH, WINDOW_DEPTH
from goclaw.memory.searching import ranked_places

if TYPE_CHECKING:
    from goclaw.memory.matrix import Matrix

SEARCHES = 200
STILL = 2.0
"""Seconds for which nothing is searched, to know what the machine itself does to the loop."""
EMBEDDING = 0.008
"""Seconds that the stub of an embedder takes: a small model on this machine needs two to ten milliseconds."""
DIMENSIONS = 384
PER_SESSION = 2_000
ROWS_AT_ONCE = 200
QUOTES, BUDGET = 10, 1_000
KIBIBYTE, MEGABYTE = 1_024, 1_000_000


async def measure_memory_search(options: Options) -> list[Figure]:
    """A hundred thousand passages: a busy year."""
    found = await _measured(100_000, options.times(SEARCHES))
    return [
        *_times("search of 100,000 passages", found["keyword"], 40, 80),
        *_times("the same with 100,000 vectors and embedding", found["hybrid"], 55, 100),
        Figure("memory of 100,000 vectors, over idle", "MB", found["memory"], 60),
        _late(found, 10),
    ]


async def measure_large_memory_search(options: Options) -> list[Figure]:
    """A million passages."""
    found = await _measured(1_000_000, options.times(SEARCHES) // 2)
    return [
        *_times("search of 1,000,000 passages", found["keyword"], None, 900),
        *_times("the same with 1,000,000 vectors and embedding", found["hybrid"], None, 900),
        Figure("memory of 1,000,000 vectors, over idle", "MB", found["memory"], 450),
        _late(found, None),
    ]


def _times(name: str, found: Sequence[tuple[float, float]], p50: float | None, p95: float) -> list[Figure]:
    times, used = zip(*found, strict=True)
    processor = {f"p{percent}": round(percentile(used, percent), 1) for percent in (50, 95)}
    detail = {"repetitions": len(times), "max": round(max(times), 1), "processor": processor}
    return [
        Figure(f"{name}, p50", "ms", percentile(times, 50), p50, detail=detail),
        Figure(f"{name}, p95", "ms", percentile(times, 95), p95),
    ]


def _late(found: Json, target: float | None) -> Figure:
    before = {"before them": round(percentile(found["late before"], 99), 1)}
    late = percentile(found["late"], 99)
    return Figure("event loop late during these searches, p99", "ms", late, target, detail=before)


async def _measured(passages: int, searches: int) -> Json:
    """What the searching process found."""
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-") as folder:
        async with open_index(Path(folder) / "memory.db") as index:
            await _fill(index, passages)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.memory_speed", folder, str(passages), str(searches)),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError("the searching process failed; what it said stands above")
    found: Json = json.loads(said)
    return found


async def _fill(index: IndexFile, passages: int) -> None:
    texts = _texts(random.Random(1))
    for begin in range(0, passages, ROWS_AT_ONCE):
        rows = [_said(row, *next(texts)) for row in range(begin + 1, min(begin + ROWS_AT_ONCE, passages) + 1)]
        await index.write(partial(talk.put, rows=rows))


def _said(row: int, speaker: str, text: str) -> IndexedRow:
    # A message a minute, a pause of two hours after twenty.
    at = 1_500_000_000.0 + 60 * row + 7_200 * (row // 20)
    return IndexedRow(row, f"s{row // PER_SESSION}", f"t{row // 2}", "user", text, speaker, speaker, at)


def _texts(chance: random.Random) -> Iterator[tuple[str, str]]:
    """Speakers and what they say."""
    folder = given_folder()
    turns = [turn for each in conversations(folder) for turn in each.turns] if folder else []
    sentences = [each for turn in turns for each in re.split(r"(?<=[.!?])\s+", turn.text) if each]
    speakers = sorted({turn.speaker for turn in turns}) or ["Anna", "Bert", "Carla", "Dirk"]
    words, frequencies = vocabulary()
    while True:
        said = [chance.choice(sentences) for _ in range(chance.randint(1, 3))] if sentences else []
        said += chance.choices(words, cum_weights=frequencies, k=chance.randint(2, 8) + 16 * (not sentences))
        yield chance.choice(speakers), " ".join(said)


def _queries(count: int) -> list[str]:
    chance = random.Random(2)
    folder = given_folder()
    if folder:
        asked = [question.text for each in conversations(folder) for question in each.questions]
        return [chance.choice(asked) for _ in range(count)]
    words, frequencies = vocabulary()
    return [f"When did {' '.join(chance.choices(words, cum_weights=frequencies, k=5))}?" for _ in range(count)]


def vocabulary() -> tuple[list[str], list[float]]:
    """Return 60,000 words and their cumulated weights: a few are in every text, most in hardly any."""
    chance = random.Random(3)
    syllables = [first + second for first in "bcdfghklmnprstvw" for second in "aeiou"]
    words = ["".join(chance.choices(syllables, k=chance.randint(2, 4))) for _ in range(60_000)]
    return words, list(accumulate(1 / (rank + 20) for rank in range(len(words))))


async def search_all(folder: Path, passages: int, searches: int) -> Json:
    """What the searching process does: by words, then with vectors, watched all the time."""
    sessions = [f"s{number}" for number in range(passages // PER_SESSION + 1)]
    queries = _queries(searches + 5)
    late: list[tuple[float, float]] = []
    before: list[tuple[float, float]] = []
    async with open_index(folder / "memory.db") as index:
        scope = await index.read(partial(talk.scope, wanted=TranscriptQuery("", sessions)))
        for query in queries[:5]:
            await _search(index, query, scope)
        async with watched(before):
            await asyncio.sleep(STILL)
        async with watched(late):
            keyword = [await _search(index, query, scope) for query in queries[5:]]
        idle = pss_kibibytes(os.getpid())
        matrix = await asyncio.to_thread(_matrix, passages)
        async with watched(late):
            hybrid = [await _search(index, query, scope, matrix) for query in queries[5:]]
        memory = (pss_kibibytes(os.getpid()) - idle) * KIBIBYTE / MEGABYTE
    lateness = {"late": [each for _, each in late], "late before": [each for _, each in before]}
    return {"keyword": keyword, "hybrid": hybrid, "memory": memory} | lateness


@asynccontextmanager
async def watched(late: list[tuple[float, float]]) -> AsyncIterator[None]:
    """Note how late the event loop is during the block."""
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(look(late))
        yield
        watch.cancel()


async def _search(index: IndexFile, query: str, scope: Scope, matrix: "Matrix | None" = None) -> tuple[float, float]:
    """Milliseconds from a query to its quotes, and of the processor's time."""
    began, used = time.perf_counter(), time.process_time()
    near: list[tuple[int, int, float]] = []
    if matrix is not None:
        await asyncio.sleep(EMBEDDING)
        vector = random.Random(query).randbytes(DIMENSIONS)
        near = await asyncio.to_thread(matrix.nearest, vector, scope, WINDOW_DEPTH)

    def shown(connection: sqlite3.Connection) -> object:
        ranked = ranked_places(connection, "talk", query, scope, near, date(2026, 3, 18))
        return quotes(connection, ranked, scope, QUOTES, BUDGET)

    await index.read(shown)
    return 1000 * (time.perf_counter() - began), 1000 * (time.process_time() - used)


def _matrix(passages: int) -> "Matrix":
    """Vectors, one for each passage. The module is imported here, as in the product: when there are vectors."""
    matrix: Matrix = import_module("goclaw.memory.matrix").Matrix()
    chance = random.Random(4)
    for begin in range(0, passages, LOADED_AT_ONCE):
        places = [_place(row) for row in range(begin, begin + LOADED_AT_ONCE)]
        matrix.grow([Embedded(place, place, place, chance.randbytes(DIMENSIONS)) for place in places])
    return matrix


def _place(row: int) -> int:
    session, number = divmod(row, PER_SESSION)
    return place_of(session + 1, number + number // 20 * REACH)


if __name__ == "__main__":
    json.dump(asyncio.run(search_all(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))), sys.stdout)

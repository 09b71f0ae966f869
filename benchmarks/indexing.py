"""What it costs to keep memory files searchable by their words, and whether the event loop notices."""

import asyncio
import random
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.figures import Figure, Options, percentile
from benchmarks.forgetting import measure_forgetting
from benchmarks.lag_probe import look
from goclaw.common.config.schema import MemorySettings
from goclaw.common.core.clock import RealClock
from goclaw.common.core.supervise import background
from goclaw.common.workspace import Workspace
from goclaw.memory.file_indexer import FileIndexer, name_of
from goclaw.memory.index import notes
from goclaw.memory.index.database import IndexFile, open_index
from goclaw.memory.watching import watch

FILES, FOLDERS, CHANGED = 5_000, 50, 100
SECTIONS, LINES, LINE = 3, 6, 12
"""Of a note: 1.4 kB of words, three passages."""
WORDS = 8_000


async def measure_indexing(options: Options) -> list[Figure]:
    """5,000 notes in this process: first index, unchanged, 100 changed; writes until they are found; forgetting."""
    count = FILES // 4 if options.quick else FILES
    async with _open(count) as stage:
        idle = await stage.timed(asyncio.sleep(1))
        first = await stage.timed(stage.sweep())
        await stage.check(count)
        again = [await stage.timed(stage.sweep()) for _ in range(options.times(12))]
        await asyncio.to_thread(stage.change, CHANGED)
        changed = await stage.timed(stage.sweep())
        visible, watching = await stage.until_visible(options.times(12))
    busy = [*first.late, *changed.late, *(late for span in again for late in span.late)]
    return [
        Figure(f"first index of {count:,} notes", "notes/s", count / first.seconds, 1_000, "higher", first.detail()),
        Figure(
            f"unchanged sweep of {count:,} notes, p50",
            "ms",
            1_000 * percentile([span.seconds for span in again], 50),
            100,
            detail={"rounds": [round(1_000 * span.seconds, 1) for span in again]},
        ),
        Figure(f"sweep with {CHANGED} changed notes", "ms", 1_000 * changed.seconds, 500, detail=changed.detail()),
        Figure(
            "event loop lateness during sweeps, p99",
            "ms",
            percentile(busy, 99),
            10,
            detail=_lateness(busy) | {"idle": _lateness(idle.late)},
        ),
        Figure(
            "a write until it is found through the watch, worst",
            "s",
            max(visible),
            2,
            detail={"p50": round(percentile(visible, 50), 2), "lateness": _lateness(watching)},
        ),
        *await measure_forgetting(options),
    ]


@dataclass(frozen=True, slots=True)
class Span:
    """How long something took, and how late the event loop was meanwhile."""

    seconds: float
    processor: float
    late: list[float]

    def detail(self) -> dict[str, object]:
        """For the JSON."""
        return {"seconds": round(self.seconds, 3), "cpu": round(self.processor, 3), "lateness": _lateness(self.late)}


@dataclass(frozen=True, slots=True)
class _Stage:
    workspace: Workspace
    index: IndexFile
    sweeper: FileIndexer

    async def sweep(self) -> None:
        await self.sweeper.sweep(self.workspace)

    async def timed(self, work: Awaitable[None]) -> Span:
        looks: list[tuple[float, float]] = []
        async with background(look(looks), "looking how late the loop is"):
            await asyncio.sleep(0.02)
            began, processor = time.perf_counter(), time.process_time()
            await work
            seconds, processor = time.perf_counter() - began, time.process_time() - processor
        return Span(seconds, processor, [late for _, late in looks])

    async def check(self, count: int) -> None:
        """Whether all is there."""
        name = name_of(self.workspace)
        found = len(await self.index.read(lambda corpus: notes.files(corpus, name, "")))
        if found != count:
            raise RuntimeError(f"{found} of {count} notes are in the index")

    def change(self, count: int) -> None:
        """Add a line to some."""
        for path in sorted(self.workspace.root.rglob("*.md"))[:: FILES // count][:count]:
            path.write_text(path.read_text("utf-8") + "\nOne more line.\n", "utf-8")

    async def until_visible(self, times: int) -> tuple[list[float], list[float]]:
        """Seconds from a write to the word being found, with nothing but the watch to tell of it; the lateness."""
        waits, looks, settled = list[float](), list[tuple[float, float]](), asyncio.Event()

        async def changed() -> None:
            await self.sweep()
            settled.set()

        async with (
            background(look(looks), "looking how late the loop is"),
            watch(self.workspace, (), RealClock(), changed),
        ):
            await settled.wait()
            await asyncio.sleep(1)
            for number in range(times):
                # At another moment between two looks each time.
                await asyncio.sleep(0.1 * (number % 5))
                path = self.workspace.root / f"memory/room{number}/new.md"
                await asyncio.to_thread(path.write_text, f"The zebra{number} is here.\n", "utf-8")
                began = time.perf_counter()
                settled.clear()
                while not await self.index.read(partial(_has, word=f"zebra{number}")):
                    await settled.wait()
                    settled.clear()
                waits.append(time.perf_counter() - began)
        return waits, [late for _, late in looks]


@asynccontextmanager
async def _open(count: int) -> AsyncIterator[_Stage]:
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-") as name:
        root = Path(name) / "workspace"
        await asyncio.to_thread(_make, root, count)
        async with Workspace(root) as workspace, open_index(Path(name) / "memory.db") as index:
            yield _Stage(workspace, index, FileIndexer(index, MemorySettings()))


def _make(root: Path, count: int) -> None:
    chosen = random.Random(1)
    words = ["".join(chosen.choices("etaoinshrdlu", k=chosen.randint(3, 9))) for _ in range(WORDS)]
    for number in range(count):
        folder = root / f"memory/room{number % FOLDERS}"
        folder.mkdir(parents=True, exist_ok=True)
        sections = [
            f"## Part {part}\n\n" + "\n".join(" ".join(chosen.choices(words, k=LINE)) for _ in range(LINES))
            for part in range(SECTIONS)
        ]
        (folder / f"note{number}.md").write_text(f"# Note {number}\n\n" + "\n\n".join(sections) + "\n", "utf-8")


def _has(corpus: sqlite3.Connection, word: str) -> bool:
    return bool(corpus.execute("SELECT 1 FROM note_words WHERE note_words MATCH ?", (f'"{word}"',)).fetchall())


def _lateness(late: list[float]) -> dict[str, object]:
    return {"p50": round(percentile(late, 50), 2), "p99": round(percentile(late, 99), 2), "max": round(max(late), 2)}

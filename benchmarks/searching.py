"""What it costs to look through a workspace: `search` with Landlock and without, `glob`, and a tree that is large."""

import asyncio
import gc
import random
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.figures import Figure, Options, percentile
from goclaw.tools.builtin import ripgrep
from goclaw.tools.builtin.listing import glob
from goclaw.tools.builtin.search import search
from tests.tools.builtin.memory_support import Surroundings, surroundings

FILES, LARGE_FILES, LARGE_FILE = 10_000, 1_024, 1 << 20
TIMES = 12
TARGET, TARGET_PIPED, TARGET_GLOB = 300, 5_000, 1_000
"""Milliseconds; the first is the catalogue's, the others say when something is broken."""
WORDS = ("import", "return", "value", "index", "result", "config", "handler", "request", "while", "error")


async def measure_search(options: Options) -> list[Figure]:
    """In this process, in a workspace of 10,000 files of 2 kB in 200 folders, a hundred of which have the word."""
    async with _workspace() as around:
        await asyncio.to_thread(_make, around.the_workspace.root, FILES, 2_000, 100)
        figures = [
            await _figure(
                "search of 10,000 files", TARGET, options.times(TIMES), lambda: _search(around, "needle_\\w+")
            ),
            await _figure(
                "search, every file matches", TARGET * 2, options.times(TIMES), lambda: _search(around, "return")
            ),
            await _figure("glob of 10,000 files", TARGET_GLOB, options.times(TIMES), lambda: _glob(around)),
        ]
        usual = ripgrep.can_confine  # type: ignore[attr-defined]  # what it imports
        ripgrep.can_confine = lambda: False  # type: ignore[attr-defined, assignment]  # as on old kernels
        try:
            piped = lambda: _search(around, "needle_\\w+")  # noqa: E731 -- as above
            figures.append(
                await _figure("search of 10,000 files without Landlock", TARGET_PIPED, options.times(4), piped)
            )
        finally:
            ripgrep.can_confine = usual  # type: ignore[attr-defined]  # as above
    return figures


async def measure_large_search(options: Options) -> list[Figure]:
    """A tree of 1 GiB: how long, and how much this process grows (ripgrep is one of its own)."""
    async with _workspace() as around:
        count = LARGE_FILES // 4 if options.quick else LARGE_FILES
        await asyncio.to_thread(_make, around.the_workspace.root, count, LARGE_FILE, 10)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rare = await _figure("search of 1 GiB", 10_000, 1, lambda: _search(around, "needle_\\w+"))
        every = await _figure("search of 1 GiB, every line matches", 12_000, 1, lambda: _search(around, "."))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return [rare, every, Figure("search of 1 GiB, growth of the daemon", "MiB", grown, 200)]


@asynccontextmanager
async def _workspace() -> AsyncIterator[Surroundings]:
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-") as name:
        async with surroundings(Path(name), enabled=False) as around:
            yield around


def _make(root: Path, files: int, size: int, hits: int) -> None:
    chosen = random.Random(1)
    for number in range(files):
        folder = root / f"room{number % 200}"
        folder.mkdir(exist_ok=True)
        lines = [" ".join(chosen.choices(WORDS, k=8)) for _ in range(min(size, 20_000) // 60)]
        if number % (files // hits) == 0:
            lines.append(f"needle_{number} = 1")
        text = "\n".join(lines) + "\n"
        (folder / f"file{number}.py").write_text(text * max(1, size // len(text)))


async def _search(around: Surroundings, pattern: str) -> None:
    answer = await around.call(search, {"pattern": pattern})
    if "matching line" not in answer:
        raise RuntimeError(f"the search found nothing: {answer[:200]}")


async def _glob(around: Surroundings) -> None:
    await around.call(glob, {"pattern": "**/*99.py"})


async def _figure(name: str, target: float, times: int, act: Callable[[], Awaitable[None]]) -> Figure:
    spans = []
    for _ in range(times):
        began = time.perf_counter()
        await act()
        spans.append((time.perf_counter() - began) * 1e3)
    detail = {"repetitions": times, "max": round(max(spans), 1), "min": round(min(spans), 1)}
    return Figure(f"{name}, p50", "ms", percentile(spans, 50), target, detail=detail)

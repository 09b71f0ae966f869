"""What it costs to read far behind in a large file, beside `wc -l` of the same file in the same run."""

import asyncio
import random
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, Options, percentile
from goclaw.tools.builtin.read import read
from goclaw.tools.builtin.search import search
from tests.tools.builtin.memory_support import surroundings

BLOCKS = 160
"""Of 6 MB each."""
ROUNDS = 8
TARGET = 3.0


async def measure_large_read(options: Options) -> list[Figure]:
    """A file of 1 GB: its first, a middle and its last lines, each by turns with `wc -l`; and a search in it."""
    blocks = BLOCKS // 4 if options.quick else BLOCKS
    figures = []
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-") as name:
        async with surroundings(Path(name), enabled=False) as around:
            path = around.the_workspace.root / "big.txt"
            lines = await asyncio.to_thread(_make, path, blocks)
            for place, offset in (("first", 0), ("middle", lines // 2), ("last", lines - 100)):
                given = {"path": path.name, "offset": offset, "limit": 50}
                ratios, spans = [], []
                for _ in range(options.times(ROUNDS)):
                    count = await asyncio.to_thread(_count, path)
                    began = time.perf_counter()
                    answer = await around.call(read, given)
                    spans.append(time.perf_counter() - began)
                    ratios.append(spans[-1] / count)
                    if f"{offset + 1:6}\t" not in answer:
                        raise RuntimeError(f"line {offset + 1} was not read: {answer[:200]}")
                detail = {"rounds": len(ratios), "max": round(max(ratios), 2), "seconds": round(min(spans), 3)}
                figures.append(
                    Figure(
                        f"read, {place} lines of {blocks * 6} MB",
                        "x wc -l",
                        percentile(ratios, 50),
                        TARGET,
                        detail=detail,
                    )
                )
            began = time.perf_counter()
            if "(1 matching line)" not in await around.call(search, {"path": path.name, "pattern": "needle"}):
                raise RuntimeError("the search found nothing")
            figures.append(Figure(f"search in {blocks * 6} MB", "s", time.perf_counter() - began, 10))
    return figures


def _make(path: Path, blocks: int) -> int:
    chosen = random.Random(1)
    block = "".join("x" * chosen.randint(20, 100) + "\n" for _ in range(100_000))
    with path.open("w") as file:
        for _ in range(blocks):
            file.write(block)
        file.write("needle\n")
    return blocks * 100_000 + 1


def _count(path: Path) -> float:
    began = time.perf_counter()
    subprocess.run(["wc", "-l", path], check=True, capture_output=True)
    return time.perf_counter() - began

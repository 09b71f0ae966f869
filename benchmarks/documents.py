"""What it takes to open a long PDF to its outline and first pages, beside `pdftotext` of the same file."""

import asyncio
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, Options, percentile
from goclaw.testing import open_bench
from goclaw.tools.builtin.read import read
from tests.extensions.documents.made import pdf

PAGES = 500
ROUNDS = 8
SECONDS, RATIO = 2.0, 3.0
LINE = "The quick brown fox jumps over the lazy dog, and the number of line {} is {}."


async def measure_documents(options: Options) -> list[Figure]:
    """A PDF of 500 full pages with 50 bookmarks: the whole call of `read`, sandbox and worker included."""
    program = shutil.which("pdftotext")
    if program is None:
        raise RuntimeError("pdftotext is not installed (Debian: poppler-utils)")
    spans, ratios = [], []
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-") as name:
        async with open_bench(Path(name) / "bench", read) as bench:
            path = bench.folder / "long.pdf"
            pages = ["\n".join(LINE.format(line, page * line) for line in range(1, 51)) for page in range(1, PAGES + 1)]
            path.write_bytes(pdf(pages, [(f"Chapter {at}", at * 10) for at in range(50)]))
            await bench.call("read", {"path": path.name})  # proves the sandbox, once a daemon
            for _ in range(options.times(ROUNDS)):
                other = await asyncio.to_thread(_extract, program, path)
                began = time.perf_counter()
                result = await bench.call("read", {"path": path.name})
                spans.append(time.perf_counter() - began)
                ratios.append(spans[-1] / other)
                if "- Chapter 49 (page 491)" not in result.content:
                    raise RuntimeError(f"no outline: {result.content[:200]}")
    detail = {"rounds": len(spans), "max": round(max(spans), 3)}
    return [
        Figure("500 pages to the outline", "s", percentile(spans, 50), SECONDS, detail=detail),
        Figure("500 pages to the outline, beside pdftotext", "x pdftotext", percentile(ratios, 50), RATIO),
    ]


def _extract(program: str, path: Path) -> float:
    began = time.perf_counter()
    subprocess.run([program, str(path), "/dev/null"], check=True, capture_output=True)
    return time.perf_counter() - began

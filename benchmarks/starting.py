"""How long a person waits for the program: its help, and a daemon's first look at Telegram."""

import asyncio
import subprocess
import time

from benchmarks.figures import Figure, Options, percentile
from benchmarks.stage import PYTHON, ROOT, open_stage


async def measure_help(options: Options) -> list[Figure]:
    """`goclaw --help`, from the process's start to its end."""
    times = [await asyncio.to_thread(help_milliseconds) for _ in range(1 + options.times(20))][1:]
    detail = {"repetitions": len(times), "min": round(min(times), 1)}
    return [Figure("goclaw --help, p50", "ms", percentile(times, 50), 150, detail=detail)]


def help_milliseconds() -> float:
    """One run of it."""
    began = time.monotonic()
    subprocess.run([PYTHON, "-m", "goclaw", "--help"], cwd=ROOT, capture_output=True, check=True)
    return 1000 * (time.monotonic() - began)


async def measure_start(options: Options) -> list[Figure]:
    """From the daemon's process start to its first getUpdates, on an empty state folder."""
    times = []
    for _ in range(1 + options.times(12)):
        async with open_stage() as (world, daemon):
            times.append((await world.state())["first_poll"] - daemon.started)
    detail = {"repetitions": len(times) - 1, "min": round(min(times), 3)}
    return [Figure("process start to first getUpdates, p50", "s", percentile(times[1:], 50), 0.6, detail=detail)]

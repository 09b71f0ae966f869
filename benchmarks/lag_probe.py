"""`python -m benchmarks.lag_probe --config FILE gateway`: the daemon with a watch on its event loop.

The watch asks to be woken every few milliseconds and notes how much later it was. At the end it writes the lateness of
every time, in milliseconds, to `lag.json` beside the configuration.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from goclaw.cli.daemon import run_daemon, serve
from goclaw.config.load import load_config

INTERVAL = 0.005
"""Seconds between two looks."""


async def watched(path: Path) -> None:
    """Serve until SIGTERM, then write what was seen."""
    lateness: list[float] = []
    watch = asyncio.create_task(look(lateness))
    try:
        await serve(load_config(path).config)
    finally:
        watch.cancel()
        path.with_name("lag.json").write_text(json.dumps(lateness), "utf-8")


async def look(lateness: list[float]) -> None:
    """Note how late the loop wakes us."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(INTERVAL)
        lateness.append(1000 * (time.perf_counter() - began - INTERVAL))


if __name__ == "__main__":
    run_daemon(watched(Path(sys.argv[sys.argv.index("--config") + 1])))

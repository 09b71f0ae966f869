"""`python -m benchmarks.lag_probe --config FILE gateway`: the daemon with a watch on its event loop.

With `floor` instead of `gateway` it is the floor. The watch asks to be woken every few milliseconds and notes how much
later it was. At the end it writes every time, on the machine's monotonic clock, and its lateness in milliseconds to
`lag.json` beside the configuration.
"""

import asyncio
import json
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import uvloop

from benchmarks import floor
from goclaw.common.config.load import load_config
from goclaw.program.cli.daemon import serve
from goclaw.program.cli.loop import run_daemon

INTERVAL = 0.005
"""Seconds between two looks."""


async def watched(path: Path, served: Coroutine[Any, Any, None]) -> None:
    """Serve until SIGTERM, then write what was seen."""
    looks: list[tuple[float, float]] = []
    watch = asyncio.create_task(look(looks))
    try:
        await served
    finally:
        watch.cancel()
        path.with_name("lag.json").write_text(json.dumps(looks), "utf-8")


def lateness_in(config: Path, since: float = 0.0, until: float = float("inf")) -> list[float]:
    """What the watch has written, of the looks that began in this time."""
    looks: list[tuple[float, float]] = json.loads(config.with_name("lag.json").read_text("utf-8"))
    return [late for began, late in looks if since <= began <= until]


async def look(looks: list[tuple[float, float]]) -> None:
    """Note how late the loop wakes us."""
    while True:
        began = time.monotonic()
        await asyncio.sleep(INTERVAL)
        looks.append((began, 1000 * (time.monotonic() - began - INTERVAL)))


if __name__ == "__main__":
    *_, given, command = sys.argv
    config = Path(given)
    if command == "floor":
        uvloop.run(watched(config, floor.serve(config)))
    else:
        run_daemon(watched(config, serve(load_config(config))))

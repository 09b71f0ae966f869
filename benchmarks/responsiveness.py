"""Whether one conversation holds up the others: how late the event loop is while fifty chats talk at once."""

import tempfile
from pathlib import Path

from benchmarks.figures import Figure, Options, percentile
from benchmarks.gateways import WATCHED_GOCLAW
from benchmarks.lag_probe import lateness_in
from benchmarks.stage import PEOPLE, open_daemon, open_world, prepare

MESSAGES = 20


async def measure_lag(options: Options) -> list[Figure]:
    """Lateness of the loop from the start of the daemon to its end, under full load."""
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-", ignore_cleanup_errors=True) as name:
        async with open_world() as world:
            path, _ = prepare(Path(name), world.url, "openai-chat")
            async with open_daemon(world, path, WATCHED_GOCLAW):
                await world.talk(PEOPLE[:1], 1)
                await world.talk(PEOPLE, options.times(MESSAGES))
        lateness = lateness_in(path)
    detail = {"looks": len(lateness), "p50": round(percentile(lateness, 50), 2), "max": round(max(lateness), 2)}
    return [Figure("event loop lateness under full load, p99", "ms", percentile(lateness, 99), 50, detail=detail)]

"""The daemon in this process, until it is stopped, when its channels have begun: all of its modules at once."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from goclaw.app import GRACE_SECONDS, open_app
from goclaw.cli.loop import last_resort
from goclaw.cli.process import LaunchRecord, is_in_background, remember
from goclaw.config.load import Loaded
from goclaw.core.clock import RealClock
from goclaw.errors import ConfigError
from goclaw.health.logs import open_logs
from goclaw.health.vitals import open_vitals
from goclaw.toolkit.parts import parts_of

MAX_END = 2 * GRACE_SECONDS + 5.0
"""Seconds from the signal until the process is gone for sure; less than a service manager and `goclaw stop` wait."""


async def serve_with(loaded: Loaded, launch: LaunchRecord | None, begun: Mapping[str, object]) -> None:
    """Run the gateway; see `daemon.serve`. `begun`: what the channels have begun, under the state folder's lock."""
    config = loaded.config
    with open_logs(config, None if is_in_background(config) else sys.stderr):
        await _serve(loaded, launch, begun)


async def _serve(loaded: Loaded, launch: LaunchRecord | None, begun: Mapping[str, object]) -> None:
    config, clock = loaded.config, RealClock()
    async with (
        _stop_signals() as stopping,
        open_vitals(clock) as vitals,
        open_app(
            config,
            clock,
            vitals=vitals.lines,
            counts=vitals.counts,
            config_file=launch.config if launch else None,
            parts=parts_of(loaded.packaged),
            begun=begun,
        ) as app,
    ):
        print(f"GoClaw is running. Workspace: {config.workspace_path}. Talk to it with `goclaw tui`.", flush=True)
        if launch:
            await asyncio.to_thread(remember, config, launch)
        with suppress(ConfigError):
            await app.models.agent()
        print(app.models.sentence, flush=True)
        # What is there now stays to the end: the collector need never look at it again.
        gc.freeze()
        gc.enable()
        await vitals.ready()
        await stopping.wait()
        await vitals.stopping()
        print("Stopping; what is unfinished goes on at the next start.", flush=True)


@asynccontextmanager
async def _stop_signals() -> AsyncIterator[asyncio.Event]:
    """Yield an event set by the first signal. The second one ends the process, as does an end that takes too long."""
    stopping = asyncio.Event()
    # Counted from the first signal, also while the daemon still starts.
    last = last_resort(MAX_END, 1, "something hangs while the daemon ends")

    def stop(number: int) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()
        last.start()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        yield stopping
    finally:
        last.cancel()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

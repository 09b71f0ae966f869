"""The daemon in this process, until somebody ends it."""

import asyncio
import faulthandler
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from goclaw.app import open_app
from goclaw.cli.process import is_in_background
from goclaw.cli.started import Started, remember
from goclaw.clock import RealClock
from goclaw.config.schema import Config
from goclaw.errors import ConfigError
from goclaw.health.vitals import open_vitals
from goclaw.logs import open_logs


def run_daemon(work: Coroutine[Any, Any, None]) -> None:
    """Run the daemon's own loop: uvloop where there is one."""
    # Should the interpreter itself break, or a service manager's watchdog send SIGABRT: every thread's last place.
    faulthandler.enable()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(work)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def serve(config: Config, told: Started | None = None) -> None:
    """Run the gateway until SIGTERM or SIGINT. A second signal ends it at once: the journal is made for that.

    What it was `told` is remembered for `goclaw restart`.
    """
    with open_logs(config, None if is_in_background(config) else sys.stderr):
        await _serve(config, told)


async def _serve(config: Config, told: Started | None) -> None:
    clock = RealClock()
    async with (
        _stop_signals() as stopping,
        open_vitals(clock) as vitals,
        open_app(config, clock, vitals=vitals.lines) as app,
    ):
        print(f"GoClaw is running. Workspace: {config.workspace_path}. Talk to it with `goclaw tui`.", flush=True)
        if told:
            await asyncio.to_thread(remember, config, told)
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
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            os._exit(1)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield stopping
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

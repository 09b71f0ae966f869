"""The daemon in this process, until it is stopped."""

import asyncio
import faulthandler
import gc
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from goclaw.app import GRACE_SECONDS, open_app
from goclaw.cli.process import LaunchRecord, is_in_background, remember
from goclaw.config.load import Loaded
from goclaw.core.clock import RealClock
from goclaw.errors import ConfigError
from goclaw.health.logs import open_logs
from goclaw.health.stuck_tasks import thread_stacks
from goclaw.health.vitals import open_vitals
from goclaw.toolkit.parts import parts_of

MAX_END = 2 * GRACE_SECONDS + 5.0
"""Seconds from the signal until the process is gone for sure; less than a service manager and `goclaw stop` wait."""
THREAD_SECONDS = 2.0
"""Time for threads that still work after everything else has ended and is on disk."""


def run_daemon(work: Coroutine[Any, Any, None]) -> None:
    """Run the daemon's own loop: uvloop where there is one."""
    # Should the interpreter itself break, or a service manager's watchdog send SIGABRT: every thread's last place.
    faulthandler.enable()
    runner = asyncio.Runner(loop_factory=_loop_factory())
    code = 1
    try:
        runner.run(work)
        code = 0
    finally:
        # A tool's thread that hangs cannot be ended; Python would wait for it forever.
        with _gone_after(THREAD_SECONDS, code, "threads still work"):
            runner.close()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def serve(loaded: Loaded, launch: LaunchRecord | None = None) -> None:
    """Run the gateway until SIGTERM or SIGINT. A second signal ends it at once: the journal is made for that.

    `launch` is stored for `goclaw restart`.
    """
    config = loaded.config
    with open_logs(config, None if is_in_background(config) else sys.stderr):
        await _serve(loaded, launch)


async def _serve(loaded: Loaded, launch: LaunchRecord | None) -> None:
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
    last = _last_resort(MAX_END, 1, "something hangs while the daemon ends")

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


@contextmanager
def _gone_after(seconds: float, code: int, reason: str) -> Iterator[None]:
    """End the process if the block takes longer."""
    last = _last_resort(seconds, code, reason)
    last.start()
    try:
        yield
    finally:
        last.cancel()


def _last_resort(seconds: float, code: int, reason: str) -> threading.Timer:
    """End the process from a thread of its own, where the event loop may hang; print why, and all stacks."""

    def end() -> None:
        print(f"GoClaw ends without waiting any longer: {reason}.\n{thread_stacks()}", file=sys.stderr, flush=True)
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    return timer

"""The daemon in this process, until it is stopped, when its channels have begun: all of its modules together."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from goclaw.common.config.load import Loaded
from goclaw.common.core.clock import RealClock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.supervise import background
from goclaw.common.health.logs import open_logs
from goclaw.common.health.vitals import open_vitals
from goclaw.errors import ConfigError
from goclaw.program.app import GRACE_SECONDS, App, open_app
from goclaw.program.cli.hangups import has_terminal
from goclaw.program.cli.loop import last_resort
from goclaw.program.cli.process import LaunchRecord, is_in_background, remember
from goclaw.tools.toolkit.parts import parts_of

log = logging.getLogger(__name__)

GC_THRESHOLDS = (700, 10, 100)
"""Of the garbage collector: Python's own, but full collections are ten times rarer.

With a thousand turns in flight one takes 0.2 s, and turns leave it next to nothing: they make no reference cycles.
"""
MAX_END = 2 * GRACE_SECONDS + 5.0
"""Seconds from the signal until the process is gone for sure; less than a service manager and `goclaw stop` wait."""


@dataclass(frozen=True)
class Signals:
    """The orders that signals give the daemon."""

    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    reload: asyncio.Event = field(default_factory=asyncio.Event)


async def serve_with(loaded: Loaded, launch: LaunchRecord | None, begun: Mapping[str, object]) -> None:
    """Run the gateway; see `daemon.serve`. `begun`: things the channels have begun, under the state folder's lock."""
    config, clock = loaded.config, RealClock()
    async with AsyncExitStack() as stack:
        # Signals first: a log that is open is opened anew at SIGHUP.
        signals = await stack.enter_async_context(open_signals())
        reopen_log = stack.enter_context(open_logs(config, None if is_in_background(config) else sys.stderr))
        if launch:  # before anything listens: a command that finds the daemon finds its record
            await asyncio.to_thread(remember, config, launch)
        vitals = await stack.enter_async_context(open_vitals(clock))
        opened = open_app(
            config,
            clock,
            vitals=vitals.lines,
            counts=vitals.counts,
            config_file=launch.config if launch else None,
            parts=parts_of(loaded.packaged),
            begun=begun,
        )
        app = await stack.enter_async_context(opened)
        _print(f"GoClaw is running. Workspace: {config.workspace_path}. Talk to it with `goclaw tui`.")
        with suppress(ConfigError):
            await app.models.agent()
        _print(app.models.sentence)
        # What is there now stays to the end: the collector need never look at it again.
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()
        await vitals.ready()
        async with background(_reload_forever(signals.reload, app, reopen_log), "reloading"):
            await signals.stopping.wait()
        await vitals.stopping()
        _print("Stopping; unfinished work resumes at the next start.")


def _print(words: str) -> None:
    """Print words; where the terminal is gone, nothing is printed from then on."""
    try:
        print(words, flush=True)
    except OSError:
        # What is still buffered would fail once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _reload_forever(wanted: asyncio.Event, app: App, reopen_log: Callable[[], None]) -> None:
    """Reload at each SIGHUP: users (they and access tokens are also watched), and the log's file by its name."""
    while True:
        await wanted.wait()
        wanted.clear()
        reopen_log()
        await app.foundation.users.refresh()
        after = daemon_command("restart")
        log.info("SIGHUP: reloaded users and reopened the log; config.yaml takes effect after %s", after)


@asynccontextmanager
async def open_signals() -> AsyncIterator[Signals]:
    """Yield the events that signals set: `stopping` by SIGTERM and SIGINT, and by SIGHUP one of the two (`serve`).

    The second SIGTERM or SIGINT ends the process, as does an end that takes too long.
    """
    signals = Signals()
    stopping = signals.stopping
    # Counted from the first signal, also while the daemon still starts.
    last = last_resort(MAX_END, 1, "the daemon hangs while it stops")

    def stop(number: int) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()
        last.start()

    def hang_up() -> None:
        if not in_terminal:
            signals.reload.set()
        elif not stopping.is_set():  # a terminal that is closed may say so twice
            stop(signal.SIGHUP)

    in_terminal = has_terminal()
    loop = asyncio.get_running_loop()
    handled: dict[int, Callable[[], None]] = {n: partial(stop, n) for n in (signal.SIGTERM, signal.SIGINT)}
    if not (in_terminal and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN):  # nohup: to survive the terminal
        handled[signal.SIGHUP] = hang_up
    for number, handle in handled.items():
        loop.add_signal_handler(number, handle)
    try:
        yield signals
    finally:
        last.cancel()
        for number in handled:
            loop.remove_signal_handler(number)

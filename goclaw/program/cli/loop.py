"""The daemon's event loop, and how long the end of its process may take."""

import asyncio
import ctypes
import faulthandler
import os
import resource
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from goclaw.common.health.stuck_tasks import thread_stacks

M_ARENA_MAX = -8
"""malloc.h of glibc."""
MAX_FILES = 8_192
"""Open files of the daemon: a turn has one while its model writes, and a command some pipes."""
THREAD_SECONDS = 2.0
"""Time for threads that still work after everything else has ended and is on disk."""


def run_daemon(work: Coroutine[Any, Any, None]) -> None:
    """Run the daemon's own loop: uvloop where there is one."""
    # Should the interpreter itself break, or a service manager's watchdog send SIGABRT: every thread's last place.
    faulthandler.enable()
    _share_heap()
    _allow_files()
    runner = asyncio.Runner(loop_factory=_loop_factory())
    code = 1
    try:
        runner.run(work)
        code = 0
    finally:
        # A tool's thread that hangs cannot be ended; Python would wait for it forever.
        last = last_resort(THREAD_SECONDS, code, "threads are still running")
        last.start()
        try:
            runner.close()
        finally:
            last.cancel()


def _share_heap() -> None:
    """Let all threads allocate from one heap, where the C library is glibc (mallopt(3)).

    Else each of them has its own, and what one has freed no other can use: 10 MB after 2,500 messages. Python's own
    lock leaves them little to compete for.
    """
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def _allow_files() -> None:
    """Raise the soft limit of open files, which is often 1,024 for the sake of old programs that use select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a sandbox around the daemon may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def last_resort(seconds: float, code: int, reason: str) -> threading.Timer:
    """Return a timer that ends the process, where the event loop may hang; it prints why, and all stacks."""

    def end() -> None:
        print(f"GoClaw exits without waiting any longer: {reason}.\n{thread_stacks()}", file=sys.stderr, flush=True)
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    return timer

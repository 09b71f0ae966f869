"""Resource limits of the worker: low priority, bounded memory, and an end together with GoClaw."""

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

NICENESS = 10
OOM_SCORE = 800
"""Of 1,000: the kernel ends this process before others when memory runs out."""
HARD_FACTOR, HARD_EXTRA = 2, 1024
"""Allocation limit as a factor of the memory limit plus megabytes: libraries allot more than they use."""
_PR_SET_PDEATHSIG = 1
"""prctl(2)."""


def lower(megabytes: int) -> None:
    """Be nice, die with the parent, leave no core, and fail rather than eat the machine's memory."""
    os.nice(NICENESS)
    if sys.platform == "linux":
        # The pipe's end shows the same, but not while a library that is imported holds the interpreter.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
        most = (HARD_FACTOR * megabytes + HARD_EXTRA) << 20
        with suppress(ValueError, OSError):  # a lower one is in force already
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def used() -> int:
    """Return the megabytes of memory that this process has now; where that is unknown, its maximum so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak >> (20 if sys.platform == "darwin" else 10)
    return pages * resource.getpagesize() >> 20

"""Counts of what must not grow in a daemon that runs for months: tasks, open files, threads, objects.

For `goclaw status --json` and the dump on SIGUSR2; the soak test looks at both.
"""

import asyncio
import gc
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

MAX_TYPES = 60
"""Types listed in the dump: the few with many objects are those that grow."""
DESCRIPTORS = Path("/proc/self/fd")


def counts() -> Mapping[str, int]:
    """Return the number of tasks of the running loop, threads, and open descriptors where the system has them."""
    found = {"tasks": len(asyncio.all_tasks()), "threads": threading.active_count()}
    try:
        return {**found, "descriptors": len(list(DESCRIPTORS.iterdir())) - 1}  # without the current task
    except OSError:
        return found  # not Linux


def objects_by_type() -> Mapping[str, int]:
    """Count the objects that the collector watches, by type, the most frequent first; `total` leads.

    It takes a twentieth of a second and more, so it is run by hand only. Objects made during the start are frozen and
    not counted.
    """
    objects = gc.get_objects()
    found = Counter(map(type, objects))
    total = {"total": len(objects)}
    return total | {f"{kind.__module__}.{kind.__qualname__}": count for kind, count in found.most_common(MAX_TYPES)}

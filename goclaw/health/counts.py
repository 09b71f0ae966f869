"""What a daemon that runs for months must not gather: tasks, open files, threads, objects. Counted when asked.

For `goclaw status --json` and the dump on SIGUSR2; the soak test looks at both.
"""

import asyncio
import gc
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

MAX_TYPES = 60
"""What the dump lists: the few types of which there are many are those that grow."""
DESCRIPTORS = Path("/proc/self/fd")


def counts() -> Mapping[str, int]:
    """Tasks of the running loop, threads, and open descriptors where the system tells them."""
    found = {"tasks": len(asyncio.all_tasks()), "threads": threading.active_count()}
    try:
        return {**found, "descriptors": len(list(DESCRIPTORS.iterdir())) - 1}  # without the one that looks
    except OSError:
        return found  # not Linux


def objects_by_type() -> Mapping[str, int]:
    """How many objects the collector watches, by type, those that there are most of; `total` comes first.

    It takes a twentieth of a second and more: for whoever asks by hand. What was there at the start is frozen and not
    counted.
    """
    objects = gc.get_objects()
    found = Counter(map(type, objects))
    total = {"total": len(objects)}
    return total | {f"{kind.__module__}.{kind.__qualname__}": count for kind, count in found.most_common(MAX_TYPES)}

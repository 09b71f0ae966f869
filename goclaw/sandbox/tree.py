"""All descendants of a process, detached ones included, as the kernel knows them.

Runs in the broker, so it imports nothing but the standard library. A process whose parent ends is handed to the
nearest ancestor that asked for orphans (PR_SET_CHILD_SUBREAPER, or the first process of a namespace), so from such an
ancestor on nothing can leave the tree.
"""

import os
import select
import signal


def descendants(pid: int, most: int = 100_000) -> list[int]:
    """Return the ids of the processes below `pid`, parents first, at most `most`; they may change meanwhile."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < most:
        children = children_of(waiting.pop())
        found += children
        waiting += children
    return found[:most]


def end_children(deadline: float = 0.2) -> None:
    """Kill every descendant of the calling process, a subreaper, and reap them all; returns when none is left.

    `deadline` is the longest pause, in seconds, between two looks at stubborn processes (uninterruptible sleep).
    """
    pause = 0.0005
    while True:
        for pid in descendants(os.getpid()):
            kill(pid)
        if not reap_all()[1]:
            return
        select.select([], [], [], pause)
        pause = min(pause * 2, deadline)


def reap_all() -> tuple[dict[int, int], bool]:
    """Collect every ended child: exit codes by process id (128 + signal number), and whether any child is left."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        code = os.waitstatus_to_exitcode(status)
        ended[pid] = code if code >= 0 else 128 - code


def kill(pid: int) -> None:
    """SIGKILL, if the process is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # ended meanwhile


def children_of(pid: int) -> list[int]:
    """Return the ids of the direct children of `pid`, of all its threads; none when it has ended."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 -- pathlib would triple the broker's start
        for thread in threads:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123 -- the same
                found += map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass  # it ended while we looked
    return found

"""What it costs to judge a name: a file of a workspace, opened and checked, beside merely opening it."""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.figures import Figure, Options
from goclaw.common.workspace import Workspace

TIMES, ROUNDS = 500, 60
ME, OTHER = "telegram:5", "telegram:6"
NAMES = {"a name": "file.txt", "three folders deep": "a/b/c/file.txt", "own notes": f"memory/users/{ME}/file.txt"}
STATE_FILES = 1_000


async def measure_paths(options: Options) -> list[Figure]:
    """In this process, in a workspace with notes of two people; without the way through a thread."""
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-") as name:
        root, state = Path(name) / "work", Path(name) / "state"
        state.mkdir()
        for number in range(STATE_FILES):
            (state / str(number)).touch()
        root.mkdir()
        async with Workspace(root, [state], notes=state / "notes") as workspace:
            for path in (*NAMES.values(), f"memory/users/{OTHER}/file.txt"):
                await workspace.write_bytes(path, b"x")
            return await asyncio.to_thread(_figures, workspace.seen_by(ME), options)


def _figures(workspace: Workspace, options: Options) -> list[Figure]:
    figures = []
    for name, path in NAMES.items():
        whole = str(workspace.on_disk(path))
        judged = _microseconds(partial(_judge, workspace, path), options)
        plain = _microseconds(partial(_open, whole), options)
        detail = {"opened and judged": round(judged, 2), "merely opened": round(plain, 2)}
        figures.append(Figure(f"path check, {name}", "µs", judged - plain, 20, detail=detail))
    return figures


def _judge(workspace: Workspace, path: str) -> None:
    with workspace._file(path, os.O_RDONLY):
        pass


def _open(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    os.fstat(descriptor)
    os.close(descriptor)


def _microseconds(use: Callable[[], None], options: Options) -> float:
    """Processor time of one use, in the round that the rest of the machine disturbed least."""
    times, best = options.times(TIMES), float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(times):
            use()
        best = min(best, time.thread_time() - began)
    return best / times * 1e6

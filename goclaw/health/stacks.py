"""Stacks of all threads and tasks as text for the log: files, lines and source, never a variable's value."""

import asyncio
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import Iterable
from types import FrameType
from typing import Any

MAX_PLACES = 100
MAX_NAMES = 20
"""Tasks named in one dump of a daemon with thousands: most of them stand in the same few places."""


def thread_stacks() -> str:
    """Return the stacks of all threads of this process. Can be called in any of them."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    # Documented, though its name begins with an underscore: the only way to see other threads.
    return "".join(
        f"thread {names.get(identity, identity)}:\n{''.join(traceback.format_stack(frame))}"
        for identity, frame in sys._current_frames().items()
    )


def task_stacks(tasks: "Iterable[asyncio.Task[Any]]") -> str:
    """Format where `tasks` stand, those in the same place together. Call it in the thread of their loop."""
    names: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        names[_place(task)].append(task.get_name())
    places = sorted(names, key=lambda place: -len(names[place]))
    shown = [f"{_list(names[place])}:\n{place}" for place in places[:MAX_PLACES]]
    left_out = len(places) - len(shown)
    return "".join([*shown, *([f"… and tasks in {left_out} more places\n"] if left_out else [])])


def _place(task: "asyncio.Task[Any]") -> str:
    """Return a task's stack through everything that it awaits: `Task.get_stack` knows only the outermost frame."""
    frames = []
    awaited: Any = task.get_coro()
    while (frame := _first(awaited, "cr_frame", "gi_frame", "ag_frame")) is not None:
        frames.append(frame)
        awaited = _first(awaited, "cr_await", "gi_yieldfrom", "ag_await")
    return f"{_text(frames)}  {'is about to run' if awaited is None else f'waits for {type(awaited).__name__}'}\n"


def _first(awaited: Any, *names: str) -> Any:
    """Return the first of these attributes: coroutines, generators and asynchronous generators name them apart."""
    return next((value for name in names if (value := getattr(awaited, name, None)) is not None), None)


def _text(frames: list[FrameType]) -> str:
    return "".join(traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames).format())


def _list(names: list[str]) -> str:
    more = f" … and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{len(names)} task{'s' if len(names) > 1 else ''}: {', '.join(names[:MAX_NAMES])}{more}"

"""Unhandled errors: exceptions of tasks whose results were never retrieved, callbacks that failed.

None is expected, ever: each is a line in the log with its stack, and a count in the status that a soak test looks at.
"""

import asyncio
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

log = logging.getLogger(__name__)


class Unhandled:
    """Unhandled errors since the start. Made by `catching`."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error as the loop's exception handler."""
        self.count += 1
        error: BaseException | None = context.get("exception")
        task = context.get("task") or context.get("future")
        who = f" ({task.get_name()})" if isinstance(task, asyncio.Task) else ""
        what = f": {type(error).__name__}" if error else ""
        stack = "".join(traceback.format_exception(error)) if error else ""
        log.error("nobody handled this: %s%s%s", context.get("message", "an error"), who, what, extra={"stack": stack})


@contextmanager
def catching() -> Iterator[Unhandled]:
    """Collect unhandled errors of the running loop while the block runs."""
    loop, unhandled = asyncio.get_running_loop(), Unhandled()
    before = loop.get_exception_handler()
    loop.set_exception_handler(unhandled.take)
    try:
        yield unhandled
    finally:
        loop.set_exception_handler(before)

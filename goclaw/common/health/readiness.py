"""Readiness of the daemon for messages, for `/readyz`, `/status` and `goclaw status`."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field

from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record
from goclaw.errors import StateError

PATIENCE = 2.0
"""Time limit in seconds for a test write: the database waits longer for a lock than a probe may."""
KEEP_SECONDS = 5.0
"""Lifetime of an answer, so that frequent probes do not keep the disk busy."""


@record
class Readiness:
    """The daemon's state at one moment."""

    problems: tuple[str, ...] = ()
    """Why messages are not taken now; empty when they are."""
    channels: Mapping[str, str] = field(default_factory=dict)
    """State of each channel. A service that is away makes the daemon no less ready: others may still write."""

    @property
    def ready(self) -> bool:
        """Whether a message that comes now is kept and answered."""
        return not self.problems

    def public(self) -> dict[str, object]:
        """Return the answer for unauthenticated callers: no names of people, chats or machines."""
        # Details, which may contain names, follow a comma or the like.
        channels = {name: re.split(r"[,:;(]", line, maxsplit=1)[0].strip()[:60] for name, line in self.channels.items()}
        return {"ready": self.ready, "problems": list(self.problems), "channels": channels}


class Probe:
    """Looks when asked, by doing: it writes."""

    def __init__(
        self, write: Callable[[], Awaitable[None]], channels: Callable[[], Mapping[str, str]], clock: Clock
    ) -> None:
        self._write = write
        self._channels = channels
        self._clock = clock
        self._problems: tuple[str, ...] = ()
        self._at: float | None = None
        self._looking = asyncio.Lock()

    async def look(self) -> Readiness:
        """Return the readiness now, or as of some seconds ago."""
        async with self._looking:
            now = self._clock.monotonic()
            if self._at is None or now - self._at >= KEEP_SECONDS:
                self._problems, self._at = await self._try(), now
        return Readiness(self._problems, self._channels())

    async def _try(self) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._write()
        except TimeoutError:
            return (f"the database did not accept a write within {PATIENCE:g} s",)
        except StateError:
            return ("the database cannot be written; see `goclaw doctor` and the log",)
        return ()

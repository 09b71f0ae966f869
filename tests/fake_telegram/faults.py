"""Trouble on order: errors, lost answers, delays, flood limits."""

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Literal

from goclaw.common.core.clock import Clock
from tests.fake_telegram.rules import ApiError

FLOOD_BURST = 3
FLOOD_PER_SECOND = 1
FLOOD_GROUP_PER_MINUTE = 20
FLOOD_ALL_PER_SECOND = 30


@dataclass
class Fault:
    """What goes wrong with the next `times` calls of `method` (`*`: of any)."""

    method: str
    times: int = 1
    status: int | None = None
    description: str = "Fault injected"
    retry_after: int | None = None
    migrate_to: int | None = None
    """The group became the supergroup with this id."""
    cut: Literal["before", "after"] | None = None
    """Close the connection without an answer: before the call took effect, or after it."""
    body: bytes | None = None
    """Answer these bytes with status 200 instead of JSON."""
    delay: float = 0
    """Seconds of the fake's clock before the call is handled."""
    gate: asyncio.Event | None = None
    """The call is handled when this is set: a delay without a clock."""
    chat: int | None = None
    """Only calls for this chat."""

    def error(self) -> ApiError | None:
        """The answer, where the fault is one."""
        if self.status is None:
            return None
        listed = {"retry_after": self.retry_after, "migrate_to_chat_id": self.migrate_to}
        parameters = {name: value for name, value in listed.items() if value is not None}
        return ApiError(self.status, self.description, **parameters)


@dataclass
class Faults:
    """The faults that are still to happen."""

    waiting: list[Fault] = field(default_factory=list)

    def take(self, method: str, chat: object) -> Fault | None:
        """The fault for this call, used up by one."""
        for fault in self.waiting:
            if fault.method.lower() in ("*", method.lower()) and fault.chat in (None, chat):
                fault.times -= 1
                if fault.times <= 0:
                    self.waiting.remove(fault)
                return fault
        return None


@dataclass
class FloodControl:
    """Telegram's documented limits for messages and edits; going past one is answered with 429."""

    clock: Clock
    recent: dict[int, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    everywhere: deque[float] = field(default_factory=deque)

    def check(self, chat: int) -> None:
        """Count one message to `chat`, or raise `ApiError` 429."""
        now = self.clock.monotonic()
        mine = self.recent[chat]
        forget(mine, now - 60)
        forget(self.everywhere, now - 1)
        if len(self.everywhere) >= FLOOD_ALL_PER_SECOND:
            raise too_many(1)
        if chat < 0 and len(mine) >= FLOOD_GROUP_PER_MINUTE:
            raise too_many(60 - int(now - mine[0]))
        window = FLOOD_BURST / FLOOD_PER_SECOND
        if sum(1 for at in mine if at > now - window) >= FLOOD_BURST:
            raise too_many(1)
        mine.append(now)
        self.everywhere.append(now)


def forget(times: deque[float], before: float) -> None:
    """Drop what is older than `before`."""
    while times and times[0] <= before:
        times.popleft()


def too_many(seconds: int) -> ApiError:
    """The 429 of flood control."""
    return ApiError(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)

"""Telegram's rate limits per chat, per group and in total, its requests to wait, and a circuit breaker.

Every limit is a sliding window, because that is how Telegram counts. A request to wait (429) holds back one chat only;
one for a preview (a draft, the typing sign) holds back only previews there, never an answer. The circuit breaker pauses
calls that fail repeatedly, and tries them again later: nothing is given up for good.
"""

import math
from collections import deque
from collections.abc import Callable

from goclaw.common.config.schema import TelegramSettings
from goclaw.common.core.clock import Clock

GROUP_SECONDS = 60.0
MANY_CHATS = 1_000
"""Maximum chats remembered; beyond that, quiet ones are dropped."""


class SlidingWindow:
    """At most `count` events in any `seconds`, or the part of that rate which `share` gives: it changes with the other
    processes.

    A part is rounded down, so that all parts together are no more than the whole; below one, an event comes less often.
    """

    def __init__(self, count: int, seconds: float, share: Callable[[], float] | None = None) -> None:
        self._count = count
        self._seconds = seconds
        self._rate = count / seconds
        self._share = share
        self._times: deque[float] = deque()

    def free(self, now: float) -> int:
        """Return the number of events that fit now; less than none where the part has become smaller."""
        if self._share:
            rate = self._rate * self._share()
            self._count, self._seconds = (math.floor(rate), 1.0) if rate >= 1 else (1, 1 / rate)
        while self._times and self._times[0] <= now - self._seconds:
            self._times.popleft()
        return self._count - len(self._times)

    def has_plenty(self, now: float) -> bool:
        """Whether something that can be left out may take a place: a quarter stays for what cannot."""
        return self.free(now) > max(1, self._count // 4)

    def wait(self, now: float) -> float:
        """Return the seconds until one fits."""
        free = self.free(now)
        return 0.0 if free > 0 else self._times[-free] + self._seconds - now

    def is_quiet(self, now: float) -> bool:
        """Whether nothing that still counts happened."""
        return self.free(now) == self._count

    def count(self, now: float) -> None:
        """Count one."""
        self._times.append(now)


class RateLimiter:
    """The limits of one bot. Asked before every message and every edit.

    Where several processes send for it, each has its part of the limit in total. Those of a chat are not divided: one
    process sends to it, but for groups with topics that are sessions of several; there Telegram's 429 counts, as in
    `pause`, which all of them hear of.
    """

    def __init__(self, settings: TelegramSettings, clock: Clock, share: Callable[[], float] | None = None) -> None:
        """`share`: returns the part of the limit in total that this process may use now; None: all of it."""
        self._settings = settings
        self._clock = clock
        self.on_hold: Callable[[int, float], None] | None = None
        """Called with the chat and the seconds when Telegram asked to wait."""
        rate = settings.messages_per_second
        self._all = window_of(rate, 1, share)
        self._chats: dict[int, list[SlidingWindow]] = {}
        self._owed: set[int] = set()
        self._held: dict[int, float] = {}
        self._quiet: dict[int, float] = {}

    async def pace(self, chat: int) -> None:
        """Return when a message to `chat` may go out; it is counted."""
        while (wait := self.wait(chat)) > 0:
            await self._clock.sleep(wait)
        self._count(chat)

    async def cool(self, chat: int) -> None:
        """Wait until Telegram accepts calls for `chat` again: for calls that do not count as messages."""
        while (wait := self._held.get(chat, 0.0) - self._clock.monotonic()) > 0:
            await self._clock.sleep(wait)

    def may_show(self, chat: int) -> bool:
        """Whether something for show may go to `chat`."""
        return self.quiet(chat) <= 0

    def quiet(self, chat: int) -> float:
        """Return the seconds until something for show may go to `chat` again."""
        until = max(self._held.get(chat, 0.0), self._quiet.get(chat, 0.0))
        return until - self._clock.monotonic()

    def spare(self, chat: int) -> bool:
        """Count a message that is not needed (a preview), or say no: the answer itself must find room immediately."""
        now = self._clock.monotonic()
        if not self.may_show(chat) or not all(window.has_plenty(now) for window in [self._all, *self._windows(chat)]):
            return False
        self._count(chat)
        return True

    def mark_pending(self, chat: int) -> None:
        """Messages to `chat` are on their way, or have to be tried again: nothing new may begin above them."""
        self._owed.add(chat)

    def clear_pending(self, chat: int) -> None:
        """Note that all of them have arrived, or never will."""
        self._owed.discard(chat)

    def is_pending(self, chat: int) -> bool:
        """Whether a message to `chat` is not there yet."""
        return chat in self._owed

    def pause(self, chat: int, seconds: float) -> None:
        """Pause a chat as Telegram asks, in all processes."""
        self._extend_pause(self._held, chat, seconds)
        if self.on_hold:
            self.on_hold(chat, seconds)

    def adopt_pause(self, chat: int, seconds: float) -> None:
        """Pause a chat as Telegram asked another process to."""
        self._extend_pause(self._held, chat, seconds)

    def pause_shows(self, chat: int, seconds: float) -> None:
        """Pause previews and the like of a chat, as Telegram asks."""
        self._extend_pause(self._quiet, chat, seconds)

    def _extend_pause(self, held: dict[int, float], chat: int, seconds: float) -> None:
        now = self._clock.monotonic()
        if len(held) >= MANY_CHATS:
            for other in [other for other, until in held.items() if until <= now]:
                del held[other]
        held[chat] = max(held.get(chat, 0.0), now + seconds)

    def wait(self, chat: int) -> float:
        """Return the seconds until a message to `chat` may go out; 0 where it may now."""
        now = self._clock.monotonic()
        held = self._held.get(chat, 0.0) - now
        if held <= 0:
            self._held.pop(chat, None)
        return max(0.0, held, *(window.wait(now) for window in [self._all, *self._windows(chat)]))

    def _count(self, chat: int) -> None:
        now = self._clock.monotonic()
        for window in [self._all, *self._windows(chat)]:
            window.count(now)

    def _windows(self, chat: int) -> list[SlidingWindow]:
        """Return the limits of one chat: its rate, and for a group (a negative id) the rate per minute."""
        if chat not in self._chats:
            if len(self._chats) >= MANY_CHATS:
                self._forget_quiet_chats()
            self._chats[chat] = [window_of(self._settings.chat_messages_per_second, self._settings.burst)]
            if chat < 0:
                per_minute = self._settings.group_messages_per_minute
                self._chats[chat].append(window_of(per_minute / GROUP_SECONDS, math.ceil(per_minute)))
        return self._chats[chat]

    def _forget_quiet_chats(self) -> None:
        now = self._clock.monotonic()
        self._chats = {
            chat: windows
            for chat, windows in self._chats.items()
            if not all(window.is_quiet(now) for window in windows)
        }


def window_of(rate: float, burst: int, share: Callable[[], float] | None = None) -> SlidingWindow:
    """`rate` events a second on average, `burst` of them at the same time; a high rate allows more together."""
    count = max(burst, math.ceil(rate))
    return SlidingWindow(count, count / rate, share)


FAILURES = 3
"""Consecutive failures: a single one may be an accident."""
PAUSE_SECONDS = 60.0


class CircuitBreaker:
    """A circuit breaker that opens after three consecutive failures for 60 s. Do not report rate-limit responses."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0

    def wait(self) -> float:
        """Return the seconds until it is open again; 0 where it is."""
        return max(0.0, self._until - self._clock.monotonic())

    def record_success(self) -> None:
        """A try went well."""
        self._failures = 0

    def record_failure(self) -> None:
        """A try went wrong."""
        self._failures += 1
        if self._failures >= FAILURES:
            self.shut(PAUSE_SECONDS)

    def shut(self, seconds: float) -> None:
        """Do not try for so long."""
        self._failures = 0
        self._until = self._clock.monotonic() + seconds

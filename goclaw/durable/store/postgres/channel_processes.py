"""State shared by the channels of all processes on one schema. Implements `channels.processes.Processes`.

Part of it is the share of a service's limit that one of several processes may use: the limit divided by those that are
alive. Each process counts the others once a second, and trusts the count for `VALID_SECONDS` at most. One that begins,
or was paused for so long that the others may have divided its part among themselves, uses next to nothing until they
have counted it. So the parts of all never make more than the whole but for `NEWCOMER`, also while one comes, goes or is
paused.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from goclaw.common.core.clock import Clock
from goclaw.durable.store.database import Statement
from goclaw.durable.store.ownership import LeaseStore
from goclaw.durable.store.postgres.database import PostgresDatabase
from goclaw.errors import StateError

log = logging.getLogger(__name__)

TOPIC = "channels"
"""Of the notices between the channels of all processes."""
LOOK_SECONDS = 1.5
"""Seconds between two counts of the processes."""
VALID_SECONDS = 2.5
"""Seconds for which a count is valid: one check, and a late one."""
WINDOW_SECONDS = 1.0
"""Seconds over which services count: after them the requests under the previous share no longer count."""
NEWCOMER = 1 / 30
"""The part of a process that the others have not counted yet: of Telegram's thirty messages a second, one."""

_SEEN_WITHIN = "seen_at > clock_timestamp() - make_interval(secs => :{})"
_COUNT = Statement(
    f"SELECT count(*) FILTER (WHERE id = :own AND {_SEEN_WITHIN.format('late')}) AS seen, "  # noqa: S608  # our own
    f"count(*) FILTER (WHERE id <> :own AND {_SEEN_WITHIN.format('gone')}) AS others FROM replicas"
)


class ReplicaShare:
    """The part of one process; kept up to date while `follow` runs."""

    def __init__(self, database: PostgresDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._stall = database.settings.stall_seconds
        """Seconds unseen after which a process counts as dead, and not here."""
        # Where the heartbeat was seen three eighths of that ago, the others count this process for five eighths more.
        self._valid = min(VALID_SECONDS, self._stall * 5 / 8)
        self._counted_at: float | None = None
        self._joined_at = 0.0
        self._others = 0
        self._gone, self._gone_at = 0, 0.0
        """Those that were counted before and are not any more, and since when: what they sent last still counts."""
        self._has_met = False
        """Whether there was another process when this one joined: alone, it need not wait for anyone."""

    def part(self) -> float:
        """Return the part, more than 0 and at most 1."""
        now = self._clock.monotonic()
        if self._counted_at is None or now - self._counted_at > self._valid:
            return NEWCOMER
        if self._has_met and now - self._joined_at < VALID_SECONDS + WINDOW_SECONDS:
            return NEWCOMER
        gone = self._gone if now - self._gone_at < WINDOW_SECONDS else 0
        return 1 / (1 + self._others + gone)

    async def follow(self) -> None:
        """Count until cancelled."""
        while True:
            try:
                await self._count()
            except StateError as error:
                log.debug("the processes cannot be counted: %s", error)
            await self._clock.sleep(min(LOOK_SECONDS, self._stall * 3 / 8))

    async def _count(self) -> None:
        own = self._database.replica
        before = self._clock.monotonic()
        # One snapshot, in which this process is seen itself: of two that begin at once, the later one sees the other.
        [found] = await self._database.read(_COUNT(own=own, late=self._stall * 3 / 8, gone=self._stall))
        if not found["seen"]:
            return
        others = int(found["others"])
        if self._counted_at is None or before - self._counted_at > self._stall * 5 / 8:
            self._joined_at, self._has_met = before, others > 0
        if others < self._others:
            self._gone, self._gone_at = self._others - others, self._clock.monotonic()
        self._counted_at, self._others = before, others


class PostgresProcesses:
    """The processes of one schema. All methods that wait raise `DiskError` as `Database` does."""

    is_alone = False

    def __init__(self, database: PostgresDatabase, ownership: LeaseStore, clock: Clock) -> None:
        self._database = database
        self._ownership = ownership
        self._share = ReplicaShare(database, clock)
        self._heard: dict[str, Callable[[str], None]] = {}
        self.takes: list[Callable[[str], Awaitable[None]]] = []
        # A notice that is lost is made up for by the service's own refusal.
        database.notices.subscribe(TOPIC, self._dispatch, lambda: None)

    def holds(self, session: str) -> bool:
        return self._ownership.is_sure_of(session)

    async def lead(self, duty: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await self._ownership.lead(duty, run)

    def share(self) -> float:
        return self._share.part()

    async def follow(self) -> None:
        await self._share.follow()

    def subscribe(self, kind: str, heard: Callable[[str], None]) -> None:
        self._heard[kind] = heard

    async def broadcast(self, kind: str, words: str) -> None:
        await self._database.write(self._database.notices.notice_for(TOPIC, f"{kind} {words}"))

    def _dispatch(self, payload: str) -> None:
        kind, _, words = payload.partition(" ")
        if heard := self._heard.get(kind):
            heard(words)

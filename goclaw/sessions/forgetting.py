"""Deletion of conversations: on request (`/forget`), and by age (`retention.days`).

Database rows are deleted by `store.forgetting` and `store.retention`; this module handles the windows in memory, the
files outside the database, the memory index, and the confirmation code that prevents deletion by a slip.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable

from goclaw.blobs import Blobs
from goclaw.clock import Clock
from goclaw.errors import StateError
from goclaw.events import SessionForgotten, TurnEvent
from goclaw.records import record
from goclaw.sessions.models import Models
from goclaw.sessions.overheard import Overheard
from goclaw.sessions.state import Contexts
from goclaw.store.forgetting import Extent, Forgetting, Owed
from goclaw.store.retention import Retention
from goclaw.tasks.base import Tasks

log = logging.getLogger(__name__)

DAY = 24 * 3600.0
CODE_SECONDS = 5 * 60.0
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Characters of codes, without I, O, 0 and 1: people type them."""
CODE_LENGTH = 6


@record
class ForgettingPorts:
    """The services that deletion uses."""

    blobs: Blobs
    clock: Clock
    contexts: Contexts
    end_external_runs: Callable[[str], Awaitable[None]]
    """Ends the agents of a session that work for external callers."""
    forgetting: Forgetting
    memory: Callable[[], Awaitable[bool]]
    """`MemoryPort.forget`."""
    models: Models
    overheard: Overheard
    publish: Callable[[TurnEvent], None]
    retention: Retention
    tasks: Tasks


class Codes:
    """Codes that confirm an order: each for one person and one session, for five minutes, for one use."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._given: dict[tuple[str, str], tuple[str, float]] = {}

    def give(self, person: str, session: str) -> str:
        """Return a new code; an earlier one is void."""
        now = self._clock.monotonic()
        self._given = {key: given for key, given in self._given.items() if given[1] > now}
        code = "".join(secrets.choice(LETTERS) for _ in range(CODE_LENGTH))
        self._given[person, session] = (code, now + CODE_SECONDS)
        return code

    def take(self, person: str, session: str, code: str) -> bool:
        """Whether `code` is the current code; any attempt invalidates it."""
        given, until = self._given.pop((person, session), ("", 0.0))
        return self._clock.monotonic() < until and secrets.compare_digest(given.encode(), code.encode())


class Forgetter:
    """Does it. One order at a time."""

    def __init__(self, ports: ForgettingPorts, days: int | None) -> None:
        self._ports = ports
        self._days = days
        self._lock = asyncio.Lock()
        self.codes = Codes(ports.clock)

    async def extent(self, session: str) -> Extent:
        """Return how much a deletion would remove."""
        return await self._ports.forgetting.extent(session)

    async def unfinished(self, session: str) -> bool:
        """Whether messages of the session wait for an answer, or answers for their chat."""
        return await self._ports.forgetting.unfinished(session) > 0

    async def forget(self, session: str) -> tuple[int, bool]:
        """Delete a conversation with those of its subagents; none of their turns may run (`Engine.alone`).

        Returns the number of rows, and whether nothing is left to do: files that another turn may be about to use, and
        a database file with active readers, are retried at the next start and once a day.
        """
        async with self._lock:
            await self._ports.tasks.forget(session)
            await self._ports.end_external_runs(session)
            rows = 0
            for agent in await self._ports.forgetting.agents_of(session):
                rows += await self._forget(agent)
            rows += await self._forget(session)
            log.info("a conversation was forgotten: %d rows", rows, extra={"session": session})
            return rows, await self._finish()

    async def _forget(self, session: str) -> int:
        try:
            rows = await self._ports.forgetting.forget(session, self._ports.clock.now())
        finally:
            self._ports.contexts.forget(session, gone=True)
            self._ports.models.forget(session)
        self._ports.publish(SessionForgotten(session))
        return rows

    async def prune(self) -> None:
        """Once a day: delete what is older than wanted, and do what is owed."""
        async with self._lock:
            if self._days:
                await self._prune(self._days)
            await self._finish()

    async def _prune(self, days: int) -> None:
        ports, now = self._ports, self._ports.clock.now()
        before = now - days * DAY
        rows = sessions = 0
        for session in await ports.retention.sessions(before):
            pruned = await ports.retention.prune(session, before, now)
            ports.contexts.forget_before(session, pruned.first_kept, whole=pruned.whole)
            rows, sessions = rows + pruned.rows, sessions + (pruned.rows > 0)
        await ports.overheard.prune(before)
        await ports.retention.empty_receipts(before)
        if rows:
            log.info("%d rows of %d sessions were older than retention.days (%d): deleted", rows, sessions, days)

    async def _finish(self) -> bool:
        """Do what is owed; True when nothing is left."""
        ports = self._ports
        owed = await ports.forgetting.owed()
        if not owed:
            return True
        # Turns that are open now put pictures that no row refers to yet; what they put bears a later time.
        now, open_since = ports.clock.now(), await ports.forgetting.oldest_open_turn()
        until = now if open_since is None else min(now, open_since)
        left = await ports.blobs.remove_media(owed.media - await ports.forgetting.referred_media(), until)
        await ports.blobs.remove_outputs(owed.outputs)
        rewritten = not owed.rewrite or await ports.forgetting.rewrite()
        remembered = owed.memory and not await self._forgotten_in_memory()
        remaining = Owed(frozenset(left), rewrite=not rewritten, memory=remembered)
        await ports.forgetting.owe(remaining)
        return not remaining

    async def _forgotten_in_memory(self) -> bool:
        try:
            return await self._ports.memory()
        except StateError as error:
            log.warning("the memory index has not forgotten yet: %s", error)
            return False

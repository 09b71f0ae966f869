"""Deletion of conversations, on request (`/forget`) and by age (`retention.days`), and of unused files.

Database rows are deleted by `store.forgetting`; this module handles the windows in memory, the files outside the
database, the memory index, words in the audit log, and the confirmation code that prevents deletion by a slip.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from goclaw.common.auth.audit_chain import BlankAudit, Blanking
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import APART_SECONDS, Clock
from goclaw.common.core.events import SessionForgotten
from goclaw.common.core.records import record
from goclaw.conversation.sessions.models import Models
from goclaw.conversation.sessions.overheard import Overheard
from goclaw.conversation.sessions.state import Contexts
from goclaw.durable.store.blobs import Blobs
from goclaw.durable.store.forgetting import Extent, Forgetting, PendingDeletion
from goclaw.durable.store.media import NeededMedia
from goclaw.durable.store.settings import Settings
from goclaw.errors import StateError
from goclaw.tools.toolkit.base import ToolEnvironment

log = logging.getLogger(__name__)

DAY = 24 * 3600.0
CODE_SECONDS = 5 * 60.0
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Characters of codes, without I, O, 0 and 1: people type them."""
CODE_LENGTH = 6
SWEEP_SECONDS = 300.0
"""Seconds between sweeps."""
STRAY_SECONDS = 600.0
"""Seconds for which a file stays that no message refers to: the message may still be on its way."""


@record
class Codes:
    """Codes that confirm an order: each for one person and one session, for five minutes, for one use.

    They are settings of the session: of several processes on one store each takes the code that another one gave.
    """

    settings: Settings
    clock: Clock

    async def issue(self, person: str, session: str) -> str:
        """Return a new code; an earlier one is void."""
        code = "".join(secrets.choice(LETTERS) for _ in range(CODE_LENGTH))
        given = {"code": code, "until": self.clock.now() + CODE_SECONDS}
        await self.settings.set(session, _code_of(person), given)
        return code

    async def redeem(self, person: str, session: str, code: str) -> bool:
        """Whether `code` is the current code; any attempt invalidates it."""
        given = (await self.settings.of_session(session)).get(_code_of(person))
        if given is None or not await self.settings.unset(session, _code_of(person), given):
            return False
        left = given["until"] - self.clock.now()
        return 0 < left <= CODE_SECONDS + APART_SECONDS and secrets.compare_digest(
            given["code"].encode(), code.encode()
        )


def _code_of(person: str) -> str:
    """Return the name of the session's setting that has a person's code."""
    return f"forget code {person}"


@dataclass(slots=True, eq=False)
class Forgetter:
    """Deletes conversations, one order at a time."""

    environment: ToolEnvironment
    blank_audit: BlankAudit
    """Blanks the words of lines of the audit log; False: it could not be done now."""
    bus: Bus
    codes: Codes
    contexts: Contexts
    end_external_runs: Callable[[str], Awaitable[None]]
    """Ends the agents of a session that work for external callers."""
    forgetting: Forgetting
    models: Models
    overheard: Overheard
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def extent(self, session: str) -> Extent:
        """Return how much a deletion would remove."""
        return await self.forgetting.extent(session)

    @property
    def describe_copies(self) -> str:
        """Where deleted words stay outside the store, in a sentence for people; empty: nowhere."""
        return self.forgetting.describe_copies

    async def has_open_work(self, session: str) -> bool:
        """Whether messages of the session wait for an answer, or answers for their chat."""
        return await self.forgetting.count_open_work(session) > 0

    async def forget(self, session: str) -> tuple[int, bool]:
        """Delete a conversation with those of its subagents; none of their turns may run (`Engine.alone`).

        Returns the number of rows, and whether nothing is left to do: files that another turn may be about to use, and
        a database file with active readers, are retried at the next start and once a day.
        """
        async with self._lock:
            await self.environment.tasks.forget(session)
            await self.end_external_runs(session)
            rows = 0
            for agent in await self.forgetting.agents_of(session):
                rows += await self._forget(agent)
            rows += await self._forget(session)
            log.info("deleted a conversation: %d rows", rows, extra={"session": session})
            return rows, await self._finish()

    async def _forget(self, session: str) -> int:
        try:
            rows = await self.forgetting.forget(session, self.environment.clock.now())
        finally:
            self.contexts.forget(session, gone=True)
            self.models.forget(session)
        self.bus.publish(SessionForgotten(session))
        return rows

    async def prune(self) -> None:
        """Delete rows older than wanted, and do the work owed; to be called once a day."""
        async with self._lock:
            if days := self.environment.config.retention.days:
                await self._prune(days)
            await self._finish()

    async def _prune(self, days: int) -> None:
        now = self.environment.clock.now()
        before = now - days * DAY
        rows = sessions = 0
        for session in await self.forgetting.retention.sessions(before):
            pruned = await self.forgetting.retention.prune(session, before, now)
            self.contexts.forget_before(session, pruned.first_kept, whole=pruned.whole)
            rows, sessions = rows + pruned.rows, sessions + (pruned.rows > 0)
        await self.overheard.prune(before)
        await self.forgetting.retention.empty_receipts(before)
        await self.blank_audit(Blanking(before=before))
        if rows:
            log.info("deleted %d rows of %d sessions, older than retention.days (%d)", rows, sessions, days)

    async def _finish(self) -> bool:
        """Do the work owed; True when nothing is left."""
        owed = await self.forgetting.list_pending()
        if not owed:
            return True
        # Turns that are open now put pictures that no row refers to yet; what they put bears a later time.
        now, open_since = self.environment.clock.now(), await self.forgetting.oldest_open_turn()
        until = now if open_since is None else min(now, open_since)
        left = await self.environment.blobs.remove_media(owed.media - await self.forgetting.referred_media(), until)
        await self.environment.blobs.remove_outputs(owed.outputs)
        # With Postgres the lines of the audit log are in the database, too.
        silent = not owed.audit or await self.blank_audit(Blanking(owed.audit))
        rewritten = not owed.rewrite or await self.forgetting.rewrite()
        remembered = owed.memory and not await self._forgotten_in_memory()
        remaining = PendingDeletion(
            frozenset(left), rewrite=not rewritten, memory=remembered, audit=frozenset() if silent else owed.audit
        )
        await self.forgetting.replace_pending(remaining)
        return not remaining

    async def _forgotten_in_memory(self) -> bool:
        try:
            return await self.environment.memory.forget()
        except StateError as error:
            log.warning("the memory index has not deleted its copy yet: %s", error)
            return False


@record
class MediaSweep:
    """A periodic sweep of media that no message refers to, and of the oldest beyond a bound; see `store.media`.

    A file stored during a sweep, again or for the first time, is newer than those the sweep removes: it stays.
    """

    blobs: Blobs
    needed: NeededMedia
    clock: Clock
    max_bytes: int
    """`media.max_megabytes`, in bytes."""

    async def run(self) -> None:
        """Sweep forever.

        Raises:
            StateError: the database or the disk refuses; begin again later.
        """
        while True:
            await self.sweep()
            await self.clock.sleep(SWEEP_SECONDS)

    async def sweep(self) -> int:
        """Sweep once; returns how many files went."""
        until = self.clock.now() - STRAY_SECONDS
        fetching_since = await self.needed.oldest_unprocessed()
        if fetching_since is not None:
            # Files of a running turn are stored later than that, and referred to once all of them are there.
            until = min(until, fetching_since)
        await self.blobs.tidy(until)
        old = await self.blobs.old_media(until)
        if not old:
            return 0
        needed = await self.needed.keys()
        stray = old - needed - await self.needed.referred()
        removed = len(stray) - len(await self.blobs.remove_media(stray, until))
        if removed:
            log.info("removed %d pictures and files that no message refers to", removed)
        surplus = await self.blobs.list_surplus(self.max_bytes, needed) & old
        fewer = len(surplus) - len(await self.blobs.remove_media(surplus, until))
        if fewer:
            log.info("removed the %d oldest pictures and copies of files (media.max_megabytes)", fewer)
        return removed + fewer

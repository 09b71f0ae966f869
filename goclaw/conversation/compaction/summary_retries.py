"""Retries of missing summaries: a stub in a context is replaced as soon as a model can summarise its messages.

The messages are read from the store, so that it works after a restart and whatever happened meanwhile. Where processes
share the store, one of them makes the summaries of all sessions; the one that has a session in memory is notified,
and shows it there.
"""

import asyncio
import logging
from dataclasses import dataclass, field, replace

from goclaw.common.core.events import Notice
from goclaw.conversation.agent.context.compaction import SummaryRequest, SummarySource, summarize
from goclaw.conversation.agent.context.summary import MAX_SUMMARY
from goclaw.conversation.compaction.compacting import Compactor
from goclaw.conversation.compaction.summaries import CompactionPorts
from goclaw.conversation.sessions.state import Session
from goclaw.durable.store.ownership import Ownership
from goclaw.durable.store.transcripts import StoredCompaction
from goclaw.errors import StateError
from goclaw.llm.base import is_small
from goclaw.llm.token_counts import estimate_text

log = logging.getLogger(__name__)

MAX_PAUSE = 3600.0
"""Seconds: a session whose summary fails repeatedly is retried once an hour, not once a minute: it costs money."""

SUMMARIES = "summaries"
"""Topic of the announcement that the summary of a session, which was owed, is written."""


@dataclass(slots=True, eq=False)
class SummaryRetries:
    """The background task that makes owed summaries, one at a time, for all sessions."""

    ports: CompactionPorts
    compactor: Compactor
    ownership: Ownership
    _written: set[str] = field(default_factory=set)
    """Sessions for which another process has written a summary."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _again: dict[int, tuple[float, float]] = field(default_factory=dict)
    """When a compaction's summary is tried again (monotonic), and the pause after that; by row."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.ownership.hear(SUMMARIES, self.on_summary, self.on_missed_summaries)

    async def count(self) -> int:
        """Return the number of sessions with a missing summary."""
        return len(await self.ports.transcripts.list_missing_summaries())

    async def run(self) -> None:
        """Make owed summaries forever, every `compaction.retry_interval_seconds`."""
        while True:
            await self.ports.clock.sleep(self.compactor.settings.retry_interval_seconds)
            try:
                await self.retry_due()
            except StateError as error:
                log.warning("delayed summaries have to wait: %s", error)

    def on_summary(self, session: str) -> None:
        """Another process may have written the summary of a session."""
        self._written.add(session)
        self._news.set()

    def on_missed_summaries(self) -> None:
        """Other processes may have written the summaries of any sessions."""
        self._written.update(self.ports.contexts.owing())
        self._news.set()

    async def follow(self) -> None:
        """Show what other processes have written, until cancelled.

        Raises:
            StateError: it cannot be read; it is shown when this begins again.
        """
        while True:
            await self._news.wait()
            self._news.clear()
            while self._written:
                session = next(iter(self._written))
                await self._show_summary(session)
                self._written.discard(session)

    async def retry_now(self, session: str) -> None:
        """Retry the missing summary of one session."""
        async with self._lock:
            for key, compaction in await self.ports.transcripts.list_missing_summaries():
                if key == session:
                    await self._retry(session, compaction)

    async def retry_due(self) -> None:
        """Try every summary that is owed and due, one after the other; in a small window `maintenance` says when."""
        async with self._lock:
            owed = await self.ports.transcripts.list_missing_summaries()
            known = {compaction.id for _, compaction in owed}
            self._again = {row: when for row, when in self._again.items() if row in known}
            for session, compaction in owed:
                at, pause = self._again.get(compaction.id, (0.0, self.compactor.settings.retry_interval_seconds))
                if at > self.ports.clock.monotonic() or is_small(await self.compactor.context_window(session)):
                    continue
                try:
                    paid = await self._retry(session, compaction)
                except StateError as error:
                    log.warning("the summary that %s waits for could not be stored: %s", session, error)
                    paid = False
                if not paid:
                    self._again[compaction.id] = (self.ports.clock.monotonic() + pause, min(2 * pause, MAX_PAUSE))

    async def _retry(self, session: str, owed: StoredCompaction) -> bool:
        """Write one summary and put it in the stub's place. False: a model was asked in vain."""
        try:
            return await self._summarize(session, owed)
        finally:
            if self.ownership.fence_of(session) is None:
                self.ports.contexts.forget(session)  # it changes elsewhere from here on

    async def _summarize(self, session: str, owed: StoredCompaction) -> bool:
        if self.ownership.fence_of(session) is None:
            self.ports.contexts.forget(session)
        known, context_window = await self.ports.contexts.session(session), await self.compactor.context_window(session)
        basis = await self.compactor.originals(known, owed.first_kept)
        async with self.compactor.attempt(session) as attempt:
            summarizers = await attempt.summarizers()
            if not summarizers:
                return True  # no model to ask now: that costs nothing, and is looked at again soon
            longest = min(MAX_SUMMARY, self.compactor.longest_summary(known, context_window))
            seconds, in_one = self.compactor.settings.full_timeout_seconds, is_small(context_window)
            wanted = SummaryRequest(seconds, longest=longest, person_waits=False, in_one=in_one)
            source, text = await summarize(basis, summarizers, wanted, attempt)
            attempt.finish(source)
        if source is SummarySource.EMERGENCY:
            return False
        paid = replace(
            owed,
            summary=text,
            source=source,
            retry_owed=False,
            tokens_after=owed.tokens_after - estimate_text(owed.summary) + estimate_text(text),
            at=self.ports.clock.now(),
            id=0,
            pays=owed.id,
        )
        await self._swap(session, owed, paid)
        return True

    async def _swap(self, key: str, owed: StoredCompaction, paid: StoredCompaction) -> None:
        """Store the summary and show it, unless the context was compacted or cleared meanwhile."""
        session = await self.ports.contexts.session(key)
        async with session.lock:
            if not await self.ports.transcripts.replace_stub(key, paid, *self.ownership.announce(SUMMARIES, key)):
                log.info("the context of %s has changed; its delayed summary is no longer needed", key)
                return
            log.info("the delayed summary of %s is written, by %s", key, paid.source)
            if self.ownership.fence_of(key) is not None:
                self._show(session, paid)

    def _show(self, session: Session, paid: StoredCompaction) -> None:
        if session.window.owed and session.window.holds(paid.first_kept):
            session.window.swap_summary(paid.summary)
        self.ports.bus.publish(Notice(session.key, f"The delayed summary is now written ({paid.source})."))

    async def _show_summary(self, key: str) -> None:
        session = self.ports.contexts.find(key)
        if session is None:
            return
        async with session.lock:
            stored, _ = await self.ports.transcripts.context(key) if session.window.owed else (None, ())
            if stored is not None and stored.pays is not None and not stored.retry_owed and session.window.owed:
                self._show(session, stored)

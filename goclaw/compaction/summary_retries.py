"""Retries of missing summaries: a stub in a context is replaced as soon as a model can summarise its messages.

The messages are read from the store, so that it works after a restart and whatever happened meanwhile.
"""

import asyncio
import logging
from dataclasses import dataclass, field, replace

from goclaw.agent.context.budget import is_small
from goclaw.agent.context.compaction import SummaryRequest, SummarySource, summarized
from goclaw.agent.context.summary import MAX_SUMMARY
from goclaw.compaction.compacting import Compactor
from goclaw.config.schema import CompactionSettings
from goclaw.core.bus import Bus
from goclaw.core.clock import Clock
from goclaw.core.events import Notice
from goclaw.errors import StateError
from goclaw.llm.token_counts import estimate_text
from goclaw.sessions.state import Contexts
from goclaw.store.transcripts import StoredCompaction, Transcripts

log = logging.getLogger(__name__)

MAX_PAUSE = 3600.0
"""Seconds: a session whose summary fails repeatedly is retried once an hour, not once a minute: it costs money."""


@dataclass(slots=True, eq=False)
class SummaryRetries:
    """The background task that makes owed summaries, one at a time, for all sessions."""

    settings: CompactionSettings
    contexts: Contexts
    compactor: Compactor
    transcripts: Transcripts
    clock: Clock
    bus: Bus
    _again: dict[int, tuple[float, float]] = field(default_factory=dict)
    """When a compaction's summary is tried again (monotonic), and the pause after that; by row."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def count(self) -> int:
        """Return the number of sessions with a missing summary."""
        return len(await self.transcripts.owed())

    async def run(self) -> None:
        """Make owed summaries forever, every `compaction.retry_interval_seconds`."""
        while True:
            await self.clock.sleep(self.settings.retry_interval_seconds)
            try:
                await self.pay()
            except StateError as error:
                log.warning("owed summaries wait: %s", error)

    async def pay_now(self, session: str) -> None:
        """Retry the missing summary of one session."""
        async with self._lock:
            for key, compaction in await self.transcripts.owed():
                if key == session:
                    await self._pay(session, compaction)

    async def pay(self) -> None:
        """Try every summary that is owed and due, one after the other; in a small window `maintenance` says when."""
        async with self._lock:
            owed = await self.transcripts.owed()
            known = {compaction.id for _, compaction in owed}
            self._again = {row: when for row, when in self._again.items() if row in known}
            for session, compaction in owed:
                at, pause = self._again.get(compaction.id, (0.0, self.settings.retry_interval_seconds))
                if at > self.clock.monotonic() or is_small(await self.compactor.context_window(session)):
                    continue
                try:
                    paid = await self._pay(session, compaction)
                except StateError as error:
                    log.warning("the summary that %s waits for could not be kept: %s", session, error)
                    paid = False
                if not paid:
                    self._again[compaction.id] = (self.clock.monotonic() + pause, min(2 * pause, MAX_PAUSE))

    async def _pay(self, session: str, owed: StoredCompaction) -> bool:
        """Write one summary and put it in the stub's place. False: a model was asked in vain."""
        known, context_window = await self.contexts.session(session), await self.compactor.context_window(session)
        basis = await self.compactor.originals(known, owed.first_kept)
        async with self.compactor.attempt(session) as attempt:
            summarizers = await attempt.summarizers()
            if not summarizers:
                return True  # no model to ask now: that costs nothing, and is looked at again soon
            longest = min(MAX_SUMMARY, self.compactor.longest_summary(known, context_window))
            seconds, in_one = self.settings.full_timeout_seconds, is_small(context_window)
            wanted = SummaryRequest(seconds, longest=longest, person_waits=False, in_one=in_one)
            source, text = await summarized(basis, summarizers, wanted, attempt)
            attempt.ended(source)
        if source is SummarySource.EMERGENCY:
            return False
        paid = replace(
            owed,
            summary=text,
            source=source,
            retry_owed=False,
            tokens_after=owed.tokens_after - estimate_text(owed.summary) + estimate_text(text),
            at=self.clock.now(),
            id=0,
            pays=owed.id,
        )
        await self._swap(session, owed, paid)
        return True

    async def _swap(self, key: str, owed: StoredCompaction, paid: StoredCompaction) -> None:
        """Store the summary and show it, unless the context was compacted or cleared meanwhile."""
        session = await self.contexts.session(key)
        async with session.lock:
            cleared, still_owed = session.cleared, await self.transcripts.owed()
            if session.cleared != cleared or all(compaction.id != owed.id for _, compaction in still_owed):
                log.info("the context of %s has changed: the summary that was owed is not needed any more", key)
                return
            await self.transcripts.add_compaction(key, paid)
            if session.window.owed and session.window.holds(paid.first_kept):
                session.window.swap_summary(paid.summary)
        log.info("the summary that %s waited for is there, from %s", key, paid.source)
        self.bus.publish(Notice(key, f"The summary that was owed is written now ({paid.source})."))

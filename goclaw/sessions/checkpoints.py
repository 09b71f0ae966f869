"""Makes checkpoints of long conversations, beside the turns; see `context.checkpoint`."""

import asyncio
import logging
from collections.abc import Sequence

from goclaw.config.schema import CheckpointSettings
from goclaw.context.checkpoint import CHECKPOINT, Checkpoint, reached, write_checkpoint
from goclaw.context.compaction import Ready, Source, Summarizer
from goclaw.context.summary import Material, SummaryFailed, told
from goclaw.messages import UserMessage
from goclaw.sessions.compacting import Compactor
from goclaw.sessions.state import Session
from goclaw.sessions.summaries import Attempt
from goclaw.store.checkpoints import CheckpointStore, StoredCheckpoint

log = logging.getLogger(__name__)


class Checkpoints:
    """Decides when one is due, has it written, and finds it again."""

    def __init__(self, settings: CheckpointSettings, store: CheckpointStore) -> None:
        self._settings = settings
        self._store = store

    async def latest(self, session: str) -> Ready | None:
        """The newest one, as a compaction takes it."""
        stored = await self._store.latest(session)
        return Ready(CHECKPOINT.from_json(stored.body).text(), stored.covers_to) if stored else None

    async def is_due(self, session: Session, context_window: int) -> bool:
        """Whether the conversation has crossed a mark, or enough was said, since the last one."""
        tokens = session.window.tokens(session.overhead)
        if not self._settings.enabled or tokens < self._settings.min_tokens or session.window.owed:
            return False
        entries = session.window.entries
        last = await self._store.latest(session.key)
        if last is None or not entries or last.covers_to < entries[0].row:
            # None of this cycle: what was said before the compaction has its summary.
            turns = sum(isinstance(entry.message, UserMessage) for entry in entries)
            return bool(entries) and (reached(tokens, context_window) > 0 or turns >= self._settings.every_turns)
        turns = await self._store.turns_since(session.key, last.covers_to)
        crossed = reached(tokens, context_window) > reached(last.tokens, context_window)
        return crossed or turns >= self._settings.every_turns

    async def make(self, session: Session, covers_to: int, compactor: Compactor, now: float) -> bool:
        """Have one written of the conversation up to a row. False: nobody could, or there is nothing (any more)."""
        window = session.window
        messages = [entry.message for entry in window.entries if entry.row <= covers_to]
        if not messages or window.owed:
            return False
        before, tokens = window.summary, window.tokens(session.overhead)
        material = Material(before, await asyncio.to_thread(lambda: [told(message) for message in messages]))
        async with compactor.attempt(session.key, "checkpoint") as attempt:
            written = await self._written(material, await attempt.summarizers(), attempt, compactor.full_timeout)
        if written is None:
            return False
        await self._store.add(session.key, StoredCheckpoint(covers_to, tokens, CHECKPOINT.to_json(written), now))
        log.info("checkpoint of %s at %d tokens", session.key, tokens)
        return True

    async def _written(
        self, material: Material, summarizers: Sequence[Summarizer], attempt: Attempt, seconds: float
    ) -> Checkpoint | None:
        for summarizer in summarizers:
            if summarizer.source is Source.FALLBACK and not self._settings.main_model:
                continue
            try:
                async with asyncio.timeout(seconds):
                    written = await write_checkpoint(material, summarizer.model, attempt.ports.spent)
            except SummaryFailed as error:
                attempt.ports.failed(summarizer.source, str(error))
            except TimeoutError:
                attempt.ports.failed(summarizer.source, f"{summarizer.model.spec} took longer than {seconds:.0f} s")
            else:
                attempt.ended(summarizer.source)
                return written
        return None

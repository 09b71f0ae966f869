"""Creation of checkpoints of long conversations, outside turns; see `context.checkpoint`."""

import asyncio
import logging

from goclaw.clock import Clock
from goclaw.config.schema import CheckpointSettings, CompactionSettings
from goclaw.context.checkpoint import CHECKPOINT, reached, write_checkpoint
from goclaw.context.room import filled, is_small
from goclaw.context.summary import Material, told
from goclaw.messages import UserMessage
from goclaw.records import record
from goclaw.sessions.compacting import Compactor
from goclaw.sessions.state import Session
from goclaw.store.checkpoints import CheckpointStore, StoredCheckpoint

log = logging.getLogger(__name__)


@record
class Checkpoints:
    """Decides when one is due, and has it written."""

    settings: CheckpointSettings
    compaction: CompactionSettings
    store: CheckpointStore
    compactor: Compactor
    clock: Clock

    async def enough_said(self, session: str, row: int) -> bool:
        """Whether the minimum of people's messages came after a row."""
        return await self.store.turns_since(session, row) >= self.settings.every_turns

    async def is_due(self, session: Session, context_window: int) -> bool:
        """Whether the conversation has crossed a mark, or enough was said, since the last one."""

        def mark(tokens: int) -> int:
            return reached(filled(tokens, context_window, session.fixed, self.compaction))

        tokens = session.window.tokens(session.overhead)
        if not self.settings.enabled or tokens < self.settings.min_tokens or session.window.owed:
            return False
        entries = session.window.entries
        last = await self.store.latest(session.key)
        if last is None or not entries or last.covers_to < entries[0].row:
            # None of this cycle: what was said before the compaction has its summary.
            turns = sum(isinstance(entry.message, UserMessage) for entry in entries)
            return bool(entries) and (mark(tokens) > 0 or turns >= self.settings.every_turns)
        return mark(tokens) > mark(last.tokens) or await self.enough_said(session.key, last.covers_to)

    async def make(self, session: Session, covers_to: int, context_window: int) -> bool:
        """Write a checkpoint of the conversation up to a row. False if nothing needs one or no model wrote it."""
        window, now = session.window, self.clock.now()
        messages = [entry.message for entry in window.entries if entry.row <= covers_to]
        if not messages or window.owed:
            return False
        before, tokens = window.summary, window.tokens(session.overhead)
        texts = await asyncio.to_thread(lambda: [told(message) for message in messages])
        material = Material(before, texts, in_one=is_small(context_window))
        async with self.compactor.attempt(session.key, "checkpoint") as attempt:
            written = await attempt.first(
                lambda model: write_checkpoint(material, model, attempt.spent),
                self.compactor.full_timeout,
                main_model=self.settings.main_model,
            )
        if written is None:
            return False
        await self.store.add(session.key, StoredCheckpoint(covers_to, tokens, CHECKPOINT.to_json(written), now))
        log.info("checkpoint of %s at %d tokens", session.key, tokens)
        return True

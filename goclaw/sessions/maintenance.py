"""Background work of sessions, outside turns: checkpoints and memory notes, one at a time.

In a small window the model for this work is usually the one that answers: it is asked once in `every_turns` turns, only
after the person has been quiet for a moment, and the request is cancelled as soon as a message arrives.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from goclaw.clock import Clock
from goclaw.context.room import is_small
from goclaw.errors import ConfigError, StateError
from goclaw.events import Actor
from goclaw.sessions.checkpoints import Checkpoints
from goclaw.sessions.compacting import Compactor
from goclaw.sessions.flush import Due, Flush
from goclaw.sessions.models import Models
from goclaw.sessions.state import Contexts, Session
from goclaw.sessions.summary_retries import SummaryRetries
from goclaw.store.settings import Settings
from goclaw.supervise import background

log = logging.getLogger(__name__)

MAX_DUE = 20
"""Maximum conversations that wait for notes after a compaction: each holds all of its messages in memory."""
MAX_WAITING = 1_000
"""Maximum sessions that wait; beyond that the work is dropped: a checkpoint is a convenience."""
QUIET_SECONDS = 5.0
"""Pause after a turn: a person who writes again at once should not find the model busy."""
BESIDE = "beside"
"""The session's setting with the row, and the purpose, of the last background request to a model."""
SUMMARY, NOTES = "summary", "notes"


@dataclass(slots=True, eq=False)
class MaintenanceQueue:
    """A queue of conversations to look at."""

    checkpoints: Checkpoints
    clock: Clock
    compactor: Compactor
    contexts: Contexts
    flush: Flush
    models: Models
    stored: Settings
    summary_retries: SummaryRetries
    _waiting: dict[str, tuple[Actor, int]] = field(default_factory=dict)
    _due: deque[tuple[Session, Actor, Due]] = field(default_factory=deque)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _yielding: asyncio.Task[None] | None = None
    """The current background request in a small window."""

    def __post_init__(self) -> None:
        self.compactor.beginning.append(self._compacting)

    def turn_ended(self, session: str, actor: Actor, last_row: int) -> None:
        """Look at a conversation when there is time.

        `last_row`: where it ends now. What later turns say is theirs: `/clear` may spare it while it hides the rest.
        """
        if len(self._waiting) < MAX_WAITING:
            self._waiting[session] = actor, last_row
            self._news.set()

    async def run(self) -> None:
        """Run forever."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self.clock.sleep(QUIET_SECONDS)
            await self.catch_up()

    def make_way(self) -> None:
        """Cancel the background request, since its model may have to answer a new message."""
        if self._yielding is not None:
            self._yielding.cancel()

    async def _compacting(self, session: Session, context_window: int) -> None:
        """Claim the notes of a conversation before a part of it leaves the context; they are taken later."""
        if session.actor is None or len(self._due) >= MAX_DUE or is_small(context_window):
            return  # in a small window notes are taken from the store
        if due := await self.flush.claim(session, session.actor, context_window):
            self._due.append((session, session.actor, due))
            self._news.set()

    async def catch_up(self) -> None:
        """Do all waiting work."""
        while self._due or self._waiting:
            try:
                if self._due:
                    await self.flush.take_notes(*self._due.popleft())
                else:
                    key = next(iter(self._waiting))
                    await self.look_at(key, *self._waiting.pop(key))
            except (ConfigError, StateError) as error:
                log.warning("no checkpoint or notes: %s", error)

    async def look_at(self, key: str, actor: Actor, last_row: int) -> None:
        """Do what is due for a conversation."""
        session = await self.contexts.session(key)
        context_window = (await self.models.agent(key)).context_window
        if is_small(context_window):
            if not self.contexts.busy:
                await self._until_a_message_comes(self._one_thing(session, actor, last_row, context_window))
            return
        if due := await self.flush.claim(session, actor, context_window):
            await self.flush.take_notes(session, actor, due)
        if await self.checkpoints.is_due(session, context_window):
            await self.checkpoints.make(session, last_row, context_window)

    async def _one_thing(self, session: Session, actor: Actor, last_row: int, context_window: int) -> None:
        """A summary or notes, in turns where both are due, if it is long enough since the last one."""
        key = session.key
        last = (await self.stored.of_session(key)).get(BESIDE, {"row": 0, "for": ""})
        if not await self.checkpoints.enough_said(key, last["row"]):
            return
        purpose, work = SUMMARY, await self._summary(session, last_row, context_window)
        if work is None or last["for"] == SUMMARY:
            due = await self.flush.claim(session, actor, context_window)
            if due is not None:
                purpose, work = NOTES, partial(self.flush.take_notes, session, actor, await self._whole(session, due))
        if work is not None:
            # Before it is done: who writes all the time is not to have it begun again and again.
            await self.stored.set(key, BESIDE, {"row": last_row, "for": purpose})
            await work()

    async def _summary(
        self, session: Session, last_row: int, context_window: int
    ) -> Callable[[], Awaitable[None]] | None:
        """Return the work that writes the owed summary, else a due checkpoint; None: neither is due."""
        if session.window.owed:
            return partial(self.summary_retries.pay_now, session.key)
        if await self.checkpoints.is_due(session, context_window):
            return partial(self._write_checkpoint, session, last_row, context_window)
        return None

    async def _until_a_message_comes(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`; cancel it when a message arrives that the same model may have to answer."""
        async with background(work, "work beside the turns") as self._yielding:
            await asyncio.wait({self._yielding})
        self._yielding = None

    async def _whole(self, session: Session, due: Due) -> Due:
        """With what was left out of a context meanwhile, where no summary stands for it."""
        if not session.window.owed:
            return due
        basis = await self.compactor.originals(session)
        return replace(due, summary=basis.summary, messages=basis.messages)

    async def _write_checkpoint(self, session: Session, last_row: int, context_window: int) -> None:
        await self.checkpoints.make(session, last_row, context_window)

"""What is done beside the turns: checkpoints and notes. One thing at a time, for nobody waits."""

import asyncio
import logging
from collections import deque

from goclaw.clock import Clock
from goclaw.errors import ConfigError, StateError
from goclaw.events import Actor
from goclaw.records import record
from goclaw.sessions.checkpoints import Checkpoints
from goclaw.sessions.compacting import Compactor
from goclaw.sessions.flush import Due, Flush
from goclaw.sessions.models import Models
from goclaw.sessions.state import Contexts, Session

log = logging.getLogger(__name__)

MOST_DUE = 20
"""Conversations that may wait to be noted after they were compacted: each holds all of its messages in memory."""
MOST_WAITING = 1_000
"""Sessions that may wait; beyond that the work is dropped: a checkpoint is a convenience."""


@record
class AsidePorts:
    """What the work stands on."""

    checkpoints: Checkpoints
    clock: Clock
    compactor: Compactor
    contexts: Contexts
    flush: Flush
    models: Models


class Aside:
    """A queue of conversations to look at."""

    def __init__(self, ports: AsidePorts) -> None:
        self._ports = ports
        self._waiting: dict[str, tuple[Actor, int]] = {}
        self._due: deque[tuple[Session, Actor, Due]] = deque()
        self._news = asyncio.Event()

    def turn_ended(self, session: str, actor: Actor, last_row: int) -> None:
        """Look at a conversation when there is time.

        `last_row`: where it ends now. What later turns say is theirs: `/clear` may spare it while it hides the rest.
        """
        if len(self._waiting) < MOST_WAITING:
            self._waiting[session] = actor, last_row
            self._news.set()

    async def run(self) -> None:
        """Work for ever."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self.catch_up()

    async def compacting(self, session: Session, context_window: int) -> None:
        """Look at a conversation before a part of it is gone from the context: what is to be noted is noted later."""
        if session.actor is None or len(self._due) >= MOST_DUE:
            return
        if due := await self._ports.flush.claim(session, session.actor, context_window):
            self._due.append((session, session.actor, due))
            self._news.set()

    async def catch_up(self) -> None:
        """Do all that waits."""
        while self._due or self._waiting:
            try:
                if self._due:
                    await self._take_notes(*self._due.popleft())
                else:
                    key = next(iter(self._waiting))
                    await self.look_at(key, *self._waiting.pop(key))
            except (ConfigError, StateError) as error:
                log.warning("no checkpoint or notes: %s", error)

    async def look_at(self, key: str, actor: Actor, last_row: int) -> None:
        """Do what is due for a conversation."""
        ports = self._ports
        session = await ports.contexts.session(key)
        context_window = (await ports.models.agent(key)).context_window
        if due := await ports.flush.claim(session, actor, context_window):
            await self._take_notes(session, actor, due)
        if await ports.checkpoints.is_due(session, context_window):
            await ports.checkpoints.make(session, last_row, ports.compactor, ports.clock.now())

    async def _take_notes(self, session: Session, actor: Actor, due: Due) -> None:
        await self._ports.flush.take_notes(session, actor, due, self._ports.compactor, self._ports.clock.now())

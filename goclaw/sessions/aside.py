"""What is done beside the turns when one has ended: checkpoints and notes. One thing at a time, for nobody waits."""

import asyncio
import logging
from dataclasses import dataclass

from goclaw.clock import Clock
from goclaw.errors import ConfigError, StateError
from goclaw.events import Actor
from goclaw.sessions.checkpoints import Checkpoints
from goclaw.sessions.compacting import Compactor
from goclaw.sessions.flush import Flush
from goclaw.sessions.models import Models
from goclaw.sessions.state import Contexts

log = logging.getLogger(__name__)

MOST_WAITING = 1_000
"""Sessions that may wait; beyond that the work is dropped: a checkpoint is a convenience."""


@dataclass(frozen=True, slots=True)
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

    async def catch_up(self) -> None:
        """Do all that waits."""
        while self._waiting:
            session = next(iter(self._waiting))
            actor, last_row = self._waiting.pop(session)
            try:
                await self.look_at(session, actor, last_row)
            except (ConfigError, StateError) as error:
                log.warning("no checkpoint of %s: %s", session, error)

    async def look_at(self, key: str, actor: Actor, last_row: int) -> None:
        """Do what is due for a conversation."""
        ports = self._ports
        session = await ports.contexts.session(key)
        context_window = (await ports.models.agent(key)).context_window
        if await ports.flush.is_due(session, actor, context_window):
            await ports.flush.take_notes(session, actor, ports.compactor, context_window, ports.clock.now())
        if await ports.checkpoints.is_due(session, context_window):
            await ports.checkpoints.make(session, last_row, ports.compactor, ports.clock.now())

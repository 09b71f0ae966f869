"""The daemon beside others on one store: what it does for its own sessions only, and what one at a time does.

Loaded only where the store is shared. Of several processes each takes in messages; who answers is settled for each
session (`engine.shared_sessions`).
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from goclaw.app.parts import App, Shared, SharingPart
from goclaw.channels.base import Channel
from goclaw.core import catalog
from goclaw.core.clock import Clock
from goclaw.core.events import LOCAL
from goclaw.core.plugins import load
from goclaw.core.records import record
from goclaw.engine.lanes import Lanes
from goclaw.engine.outbox import Outbox
from goclaw.engine.shared_lanes import SharedLanes
from goclaw.engine.shared_outbox import SharedOutbox, open_shared_outbox
from goclaw.engine.shared_sessions import SharedSessions, open_shared_sessions
from goclaw.gateway.shared_gateway import SharedGateway
from goclaw.store.database import Database
from goclaw.store.ownership import OwnershipPart


def _open_outbox(
    database: Database, channels: Mapping[str, Channel], clock: Clock
) -> AbstractAsyncContextManager[Outbox]:
    ownership = load(catalog.OWNERSHIPS["postgres"], OwnershipPart).open(database, clock)
    return open_shared_outbox(database, channels, clock, ownership)


def _lanes(database: Database, channels: Mapping[str, Channel], outbox: Outbox) -> Callable[..., Lanes]:
    ownership = _shared(outbox).ownership
    return partial(SharedLanes, database=database, ownership=ownership, channels={LOCAL, *channels})


def _shared(outbox: Outbox) -> SharedOutbox:
    if not isinstance(outbox, SharedOutbox):
        raise TypeError("the outbox is not shared")
    return outbox


@asynccontextmanager
async def _open_sessions(app: App) -> AsyncIterator[Shared]:
    """Work on sessions for as long as the block lasts.

    Raises:
        TypeError: the outbox or the lanes are not those that were opened for this.
    """
    outbox, lanes, clock = _shared(app.outbox), app.engine, app.foundation.clock
    if not isinstance(lanes, SharedLanes):
        raise TypeError("the lanes are not shared")
    shared = SharedSessions(app.foundation.database, app.journal, lanes, outbox, _Memory(app), clock)
    async with open_shared_sessions(shared, lanes, clock):
        yield Shared(shared.begin_no_more, outbox.ownership.lead, partial(SharedGateway, shared=shared))


@record
class _Memory:
    """Implements `SessionMemory` on the parts of the daemon."""

    app: App

    async def take(self, session: str) -> None:
        self.leave(session)
        app = self.app
        await app.sessions.pauses.reload(session)
        await app.foundation.environment.tasks.restore()
        parked = [each for each in await app.journal.parked() if each.session == session]
        app.sessions.ports.questions.restore(parked)

    def leave(self, session: str) -> None:
        self.app.sessions.contexts.forget(session)
        self.app.models.forget(session)
        self.app.sessions.ports.questions.forget(session)

    def is_needed(self, session: str) -> bool:
        return self.app.foundation.environment.tasks.count(session) > 0


SHARING = SharingPart(_open_outbox, _lanes, _open_sessions)
"""The part that `SHARING` of the catalogue names."""

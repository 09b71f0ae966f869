"""The daemon beside others on one store: what it does for its own sessions only, and what one at a time does.

Loaded only where the store is shared. Of several processes each takes in messages; who answers is settled for each
session (`engine.shared_sessions`).
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

from goclaw.app.parts import App, Shared, SharingPart, StoreSharing
from goclaw.channels.base import Channel
from goclaw.core import catalog
from goclaw.core.clock import Clock
from goclaw.core.events import LOCAL
from goclaw.core.plugins import load
from goclaw.core.supervise import background, keep_running
from goclaw.engine.absent_gateways import AbsentGateways
from goclaw.engine.outbox import Outbox
from goclaw.engine.shared_bus import SharedBus
from goclaw.engine.shared_outbox import SharedOutbox, open_shared_outbox
from goclaw.engine.shared_sessions import SharedSessions, open_shared_sessions
from goclaw.store.database import Database
from goclaw.store.exchange import ExchangePart
from goclaw.store.fencing import HELD
from goclaw.store.ownership import OwnershipPart
from goclaw.store.postgres.database import PostgresDatabase

SUMMARIES = "summaries"
"""Topic of the notices that the summary of a session, which was owed, is written."""


def _open_store(database: Database, clock: Clock) -> StoreSharing:
    part = load(catalog.OWNERSHIPS["postgres"], OwnershipPart)
    ownership = part.open(database, clock)
    exchange = load(catalog.EXCHANGES["postgres"], ExchangePart).open(database)
    bus = SharedBus(database, exchange, ownership.wanted_if_idle, clock)
    return StoreSharing(ownership, part.channels(database, ownership, clock), bus)


def _open_outbox(
    database: Database, channels: Mapping[str, Channel], clock: Clock, sharing: StoreSharing
) -> AbstractAsyncContextManager[Outbox]:
    return open_shared_outbox(database, channels, clock, sharing.ownership)


@asynccontextmanager
async def _open_sessions(app: App) -> AsyncIterator[Shared]:
    """Work on sessions for as long as the block lasts.

    Raises:
        TypeError: outbox, bus or database are not such that were opened for this.
    """
    if not isinstance(app.outbox, SharedOutbox):
        raise TypeError("the outbox is not shared")
    bus = _shared_bus(app)
    database, clock, ownership = app.foundation.database, app.foundation.clock, app.outbox.ownership
    if not isinstance(database, PostgresDatabase):
        raise TypeError(f"{database.name} has no notices")
    shared = SharedSessions(
        *(ownership, database, app.journal, app.engine, app.outbox, {LOCAL, *app.channels}, clock),
        partial(_take, app),
        partial(_leave, app),
        lambda session: app.foundation.environment.tasks.count(session) > 0,
    )
    retries = app.sessions.summary_retries
    retries.works_on, retries.telling = ownership.holds, lambda session: [database.notices.told(SUMMARIES, session)]
    database.notices.hear(SUMMARIES, retries.heard, retries.missed)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(bus.open(app.sessions.inspection.now))
        await stack.enter_async_context(background(keep_running(SUMMARIES, retries.follow, clock), SUMMARIES))
        await stack.enter_async_context(open_shared_sessions(shared, app.engine, clock))
        if app.foundation.config.replica.workspaces == "own":
            absent = AbsentGateways(ownership, app.journal, app.outbox, app.foundation.bus.publish, clock)
            telling = keep_running("telling of gateways that are gone", absent.run, clock)
            await stack.enter_async_context(background(telling, "telling of gateways that are gone"))
        yield Shared(shared.begin_no_more, ownership.lead)


def _shared_bus(app: App) -> SharedBus:
    if not isinstance(app.foundation.bus, SharedBus):
        raise TypeError("the bus is not shared")
    return app.foundation.bus


async def _take(app: App, session: str) -> None:
    """Read anew what is in memory of a session that this process takes: another one may have changed it."""
    _leave(app, session)
    await app.sessions.pauses.reload(session)
    await app.foundation.environment.tasks.restore()
    if sharing := app.foundation.sharing:
        for take in sharing.channels.takes:
            await take(session)
    parked = [each for each in await app.journal.parked() if each.session == session]
    app.sessions.ports.questions.restore(parked)
    if fence := HELD.get():
        await _shared_bus(app).taken(fence)


def _leave(app: App, session: str) -> None:
    """Drop what is in memory of a session that is another process's from here on."""
    app.sessions.contexts.forget(session)
    app.models.forget(session)
    app.sessions.costs.reservations.leave(session)
    app.sessions.ports.questions.forget(session)
    _shared_bus(app).left(session)


SHARING = SharingPart(_open_store, _open_outbox, _open_sessions)
"""The part that `SHARING` of the catalogue names."""

"""The daemon among others on one store: its work for its own sessions only, and the work of one at a time.

Loaded only where the store is shared. Of several processes each takes in messages; who answers is settled for each
session (`engine.shared_sessions`).
"""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from goclaw.channels.base import Channel
from goclaw.common.auth.audit import fact_of
from goclaw.common.core import catalog
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import LOCAL
from goclaw.common.core.plugins import load
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background, keep_running
from goclaw.durable.engine.absent_gateways import AbsentGateways
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.leases import Leases
from goclaw.durable.engine.shared_sessions import SharedSessions, open_shared_sessions
from goclaw.durable.engine.views.remote_sessions import RemoteSessions
from goclaw.durable.store.database import Database
from goclaw.durable.store.exchange import ExchangePart
from goclaw.durable.store.fencing import HELD
from goclaw.durable.store.ownership import OwnershipPart
from goclaw.durable.store.postgres.database import PostgresDatabase
from goclaw.gateway.intake.owners import SessionOwners
from goclaw.program.app.parts import App, Shared, SharingPart, StoreSharing
from goclaw.program.app.shared_folders import look_at_folders

log = logging.getLogger(__name__)

AUDIT_SECONDS = 365 * 24 * 3600.0
"""Seconds for which the audit log of a gateway that does not come back is kept in the database."""
PRUNE_SECONDS = 24 * 3600.0
SUMMARIES = "summaries"
"""Topic of the notices that the summary of a session, which was owed, is written."""


def _open_store(database: Database, bus: Bus, clock: Clock) -> StoreSharing:
    part = load(catalog.OWNERSHIPS["postgres"], OwnershipPart)
    ownership = part.open(database, clock)
    exchange = load(catalog.EXCHANGES["postgres"], ExchangePart).open(database)
    remote = RemoteSessions(bus, database, exchange, ownership.wanted_if_idle, clock)
    return StoreSharing(ownership, part.channels(database, ownership, clock), remote)


def _leases(
    database: Database, channels: Mapping[str, Channel], journal: Journal, clock: Clock, sharing: StoreSharing
) -> Leases:
    return Leases(database, sharing.ownership, journal, {LOCAL, *channels}, clock)


@asynccontextmanager
async def _open_sessions(app: App) -> AsyncIterator[Shared]:
    """Work on sessions while the block runs.

    Raises:
        TypeError: lanes or database were not opened for this.
    """
    outbox, leases, sharing = app.outbox, app.leases, app.foundation.sharing
    if leases is None or sharing is None:
        raise TypeError("the store is not shared")
    database, clock, ownership = app.foundation.database, app.foundation.clock, sharing.ownership
    if not isinstance(database, PostgresDatabase):
        raise TypeError(f"{database.name} has no notices")
    shared = SharedSessions(database, app.journal, app.engine, leases, outbox, _Memory(app, sharing), ownership, clock)
    retries = app.sessions.summary_retries
    retries.works_on = lambda session: ownership.fence_of(session) is not None
    retries.telling = lambda session: [database.notices.told(SUMMARIES, session)]
    database.notices.hear(SUMMARIES, retries.heard, retries.missed)
    app.sessions.external_runs.ownership = ownership
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(sharing.remote_sessions.open(app.sessions.inspection.now))
        await stack.enter_async_context(background(keep_running(SUMMARIES, retries.follow, clock), SUMMARIES))
        old_audits = keep_running("old audit logs", partial(_prune_audits, app), clock)
        await stack.enter_async_context(background(old_audits, "old audit logs"))
        await stack.enter_async_context(open_shared_sessions(shared, app.engine, clock))
        if app.foundation.config.replica.workspaces == "shared":
            await look_at_folders(stack, app)
        else:
            absent = AbsentGateways(ownership, app.journal, outbox, app.foundation.bus.publish, clock)
            telling = keep_running("telling of gateways that are gone", absent.run, clock)
            await stack.enter_async_context(background(telling, "telling of gateways that are gone"))
        yield Shared(shared.begin_no_more, ownership.lead, partial(SessionOwners, shared))


async def _prune_audits(app: App) -> None:
    """Delete once a day the audit logs of gateways that have ended long ago, which no other one rotates."""
    files, clock = app.foundation.files, app.foundation.clock
    while files is not None:
        for chain in await files.audits.prune(clock.now() - AUDIT_SECONDS):
            await app.sessions.ports.settings.unlearn(fact_of(chain))
            log.warning("an audit log was removed, to which its gateway has added nothing for a year: %s", chain)
        await clock.sleep(PRUNE_SECONDS)


@record
class _Memory:
    """Implements `SessionMemory` on the parts of the daemon."""

    app: App
    sharing: StoreSharing

    async def take(self, session: str) -> None:
        self.leave(session)
        app = self.app
        await app.sessions.pauses.reload(session)
        await app.foundation.environment.tasks.restore()
        for take in self.sharing.channels.takes:
            await take(session)
        parked = [each for each in await app.journal.parked() if each.session == session]
        app.sessions.ports.questions.restore(parked)
        if fence := HELD.get():
            await self.sharing.remote_sessions.taken(fence)

    def leave(self, session: str) -> None:
        self.forget(session)
        self.app.sessions.costs.reservations.leave(session)
        self.sharing.remote_sessions.left(session)

    def forget(self, session: str) -> None:
        self.app.sessions.contexts.forget(session)
        self.app.models.forget(session)
        self.app.sessions.ports.questions.forget(session)

    def is_needed(self, session: str) -> bool:
        return self.app.foundation.environment.tasks.count(session) > 0


SHARING = SharingPart(_open_store, _leases, _open_sessions)
"""The part that `SHARING` of the catalogue names."""

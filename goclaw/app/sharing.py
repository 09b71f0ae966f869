"""The daemon beside others on one store: what it does for its own sessions only, and what one at a time does.

Loaded only where the store is shared. Of several processes each takes in messages; who answers is settled for each
session (`engine.shared_sessions`).
"""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from goclaw.app.parts import App, Shared, SharingPart
from goclaw.auth.workplaces import folders_of
from goclaw.channels.base import Channel
from goclaw.core import catalog
from goclaw.core.clock import Clock
from goclaw.core.events import LOCAL
from goclaw.core.plugins import load
from goclaw.core.supervise import background, keep_running
from goclaw.engine.absent_gateways import AbsentGateways
from goclaw.engine.outbox import Outbox
from goclaw.engine.shared_outbox import SharedOutbox, open_shared_outbox
from goclaw.engine.shared_sessions import SharedSessions, open_shared_sessions
from goclaw.errors import StateError
from goclaw.store.database import Database, StorePart
from goclaw.store.ownership import OwnershipPart
from goclaw.store.replicas import FolderProbe

log = logging.getLogger(__name__)

WORKSPACES = "workspaces"
"""Name of the alert that gateways do not see the same folders."""


def _open_outbox(
    database: Database, channels: Mapping[str, Channel], clock: Clock
) -> AbstractAsyncContextManager[Outbox]:
    ownership = load(catalog.OWNERSHIPS["postgres"], OwnershipPart).open(database, clock)
    return open_shared_outbox(database, channels, clock, ownership)


@asynccontextmanager
async def _open_sessions(app: App) -> AsyncIterator[Shared]:
    """Work on sessions for as long as the block lasts.

    Raises:
        TypeError: the outbox is not one that was opened for this.
    """
    if not isinstance(app.outbox, SharedOutbox):
        raise TypeError("the outbox is not shared")
    database, clock, ownership = app.foundation.database, app.foundation.clock, app.outbox.ownership
    shared = SharedSessions(
        *(ownership, database, app.journal, app.engine, app.outbox, {LOCAL, *app.channels}, clock),
        partial(_take, app),
        partial(_leave, app),
        lambda session: app.foundation.environment.tasks.count(session) > 0,
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(open_shared_sessions(shared, app.engine, clock))
        if app.foundation.config.replica.workspaces == "shared":
            await _look_at_folders(stack, app)
        else:
            absent = AbsentGateways(ownership, app.journal, app.outbox, app.foundation.bus.publish, clock)
            telling = keep_running("telling of gateways that are gone", absent.run, clock)
            await stack.enter_async_context(background(telling, "telling of gateways that are gone"))
        yield Shared(shared.begin_no_more, ownership.lead)


async def _look_at_folders(stack: AsyncExitStack, app: App) -> None:
    """Answer other gateways whether this one sees their folders, and ask them once about its own."""
    foundation = app.foundation

    def folders() -> Mapping[str, Path]:
        return folders_of(foundation.config, foundation.users.all())

    probe = load(catalog.STORES["postgres"], StorePart).probe(foundation.database, folders, foundation.clock)
    answering = keep_running("answering about folders", probe.run, foundation.clock)
    await stack.enter_async_context(background(answering, "answering about folders"))
    await stack.enter_async_context(background(_ask_about_folders(app, probe), "asking about folders"))


async def _ask_about_folders(app: App, probe: FolderProbe) -> None:
    try:
        unseen = await probe.unseen()
    except StateError as error:
        log.warning("the other gateways could not be asked whether they see the same folders: %s", error)
        return
    for words in unseen:
        log.warning("%s: a conversation that moves to it does not find its files", words)
    if unseen:
        app.foundation.alerts.tell(
            WORKSPACES, f"{unseen[0]}; `goclaw doctor` lists all, docs/replicas.md says what helps"
        )
    else:
        app.foundation.alerts.clear(WORKSPACES)


async def _take(app: App, session: str) -> None:
    """Read anew what is in memory of a session that this process takes: another one may have changed it."""
    _leave(app, session)
    await app.sessions.pauses.reload(session)
    await app.foundation.environment.tasks.restore()
    parked = [each for each in await app.journal.parked() if each.session == session]
    app.sessions.ports.questions.restore(parked)


def _leave(app: App, session: str) -> None:
    """Drop what is in memory of a session that is another process's from here on."""
    app.sessions.contexts.forget(session)
    app.models.forget(session)
    app.sessions.ports.questions.forget(session)


SHARING = SharingPart(_open_outbox, _open_sessions)
"""The part that `SHARING` of the catalogue names."""

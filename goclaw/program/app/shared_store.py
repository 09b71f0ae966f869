"""The daemon's part in a store that several gateways may share.

What it has in memory of sessions is read when it takes one, and dropped when it leaves it. Gateways look whether they
see the same folders, and remove the audit logs of those that are gone.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from goclaw.common.auth.audit import fact_of
from goclaw.common.auth.workplaces import folders_of
from goclaw.common.core import catalog
from goclaw.common.core.events import SessionNow
from goclaw.common.core.plugins import load
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.durable.store.database import StorePart
from goclaw.durable.store.replicas import FolderProbe
from goclaw.errors import StateError
from goclaw.program.app.parts import App, Foundation

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Seconds between two looks whether there is a workspace."""
AUDIT_SECONDS = 365 * 24 * 3600.0
"""Seconds for which the audit log of a gateway that does not come back is kept in the database."""
PRUNE_SECONDS = 24 * 3600.0
WORKSPACES = "workspaces"
"""Name of the alert that gateways do not see the same folders."""


async def compare_folders(foundation: Foundation) -> None:
    """Answer other gateways whether this one sees their folders, and ask them once about its own; until cancelled."""

    def folders() -> Mapping[str, Path]:
        return folders_of(foundation.config, foundation.users.all())

    probe = load(catalog.STORES[foundation.storage.database.kind], StorePart).probe(
        foundation.storage.database, folders, foundation.clock
    )
    async with background(_ask_about_folders(foundation, probe), "asking about folders"):
        await run_with_restarts("answering about folders", probe.run, foundation.clock)


async def _ask_about_folders(foundation: Foundation, probe: FolderProbe) -> None:
    # It is made when it is first used.
    while not await asyncio.to_thread(foundation.config.workspace_path.is_dir):
        await foundation.clock.sleep(LOOK_SECONDS)
    try:
        unseen = await probe.unseen()
    except StateError as error:
        log.warning("the other gateways could not be asked whether they see the same folders: %s", error)
        return
    for words in unseen:
        log.warning("%s: a conversation that moves to it does not find its files", words)
    if unseen:
        foundation.alerts.tell(
            WORKSPACES, f"{unseen[0]}; `goclaw doctor` lists all of them, docs/replicas.md has the remedies"
        )
    else:
        foundation.alerts.clear(WORKSPACES)


async def prune_audits(app: App) -> None:
    """Delete once a day the audit logs of gateways that have ended long ago, which no other one rotates."""
    files, clock = app.foundation.storage.files, app.foundation.clock
    while files is not None:
        for chain in await files.audits.prune(clock.now() - AUDIT_SECONDS):
            await app.sessions.ports.store.settings.unlearn(fact_of(chain))
            log.warning("an audit log was removed, to which its gateway has added nothing for a year: %s", chain)
        await clock.sleep(PRUNE_SECONDS)


@record
class DaemonMemory:
    """Implements `SessionMemory` on the parts of the daemon."""

    app: App

    async def restore(self) -> None:
        self.app.sessions.ports.questions.restore(await self.app.foundation.storage.journal.list_open_questions())

    async def reload(self, session: str) -> None:
        self.leave(session)
        app = self.app
        await app.sessions.pauses.reload(session)
        await app.foundation.environment.tasks.restore()
        journal = app.foundation.storage.journal
        parked = [each for each in await journal.list_open_questions() if each.session == session]
        app.sessions.ports.questions.restore(parked)

    def leave(self, session: str) -> None:
        self.app.sessions.contexts.forget(session)
        self.app.models.forget(session)
        self.app.sessions.ports.questions.forget(session)
        self.app.sessions.costs.reservations.leave(session)

    def is_needed(self, session: str) -> bool:
        return self.app.foundation.environment.tasks.count(session) > 0

    async def inspect(self, session: str) -> SessionNow:
        return await self.app.sessions.inspection.now(session)

    async def compare_folders(self) -> None:
        await compare_folders(self.app.foundation)

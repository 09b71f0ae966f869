"""The parts of the open daemon: the environment of tools, the foundation, and the whole.

The environment is enough for `goclaw tool run`, and a part of the daemon.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from structlog.contextvars import bound_contextvars

from goclaw.channels.base import Channel, Routes
from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import Audit, AuditEntry, open_audit
from goclaw.common.auth.audit_chain import BlankAudit, Blanking
from goclaw.common.auth.shared_workspaces import approved_files
from goclaw.common.auth.users import Users
from goclaw.common.auth.workplaces import WorkspacePlace, place_of, places_of
from goclaw.common.config.schema import Config
from goclaw.common.config.state import (
    LOCKS,
    NOTES,
    Facts,
    check_apart,
    make_private,
    private_paths,
    running_pid,
    unusable,
)
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.events import Actor
from goclaw.common.core.files import Writer, lies_inside, lock_folder
from goclaw.common.core.records import record
from goclaw.common.health.readiness import Probe
from goclaw.common.health.resources import DiskGauge
from goclaw.common.net.pages.base import Web
from goclaw.common.net.pages.service import WebService
from goclaw.common.workspace import SHARED, ApprovedFiles, Workspace, link_shared, move_notes
from goclaw.common.workspace import USERS as NOTE_PATH
from goclaw.conversation.agent.prompt import write_templates
from goclaw.conversation.sessions.models import Models
from goclaw.conversation.turns.stuck import StuckTurns
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.lanes import Lanes
from goclaw.durable.engine.machine_faults import Outage
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.engine.sessions import OwnedSessions
from goclaw.durable.store.blobs import Blobs, open_blobs
from goclaw.durable.store.database import Database
from goclaw.durable.store.file_writer import file_writer
from goclaw.durable.store.reading import TranscriptFeed
from goclaw.errors import StateError, ToolError
from goclaw.gateway.intake.alerts import AlertDesk
from goclaw.llm.base import ModelPorts
from goclaw.memory.base import MemoryPort
from goclaw.memory.service import open_memory
from goclaw.program.app.sessions import SessionParts
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.execution.sandbox.select import open_sandbox
from goclaw.tools.execution.tasks.base import TaskRecord
from goclaw.tools.execution.tasks.room import TaskRoom, open_tasks
from goclaw.tools.toolkit.documents import text_for_search
from goclaw.tools.toolkit.parts import PackageParts
from goclaw.tools.toolkit.sources import BUILT_IN
from goclaw.tools.toolkit.tool_docs import QUICKSTART, ListedTool, ToolListing, write_quickstart

if TYPE_CHECKING:
    from goclaw.durable.store.shared_files import SharedFiles

log = logging.getLogger(__name__)

MOVED_NOTHING = "people now have their own workspaces in %s; older files stay in %s, which everybody sees as %s/"


Furnish = Callable[[Workspace], Awaitable[None]]
"""Puts what is missing into a workspace when that is first used."""


@dataclass(slots=True)
class Workspaces:
    """The workspaces of all people and groups, opened when they are first used."""

    config: Config
    users: Users
    stack: AsyncExitStack
    writer: Writer
    """Changes files of the state folder."""
    furnish: Furnish | None
    _opened: dict[WorkspacePlace, Workspace] = field(default_factory=dict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def open(self, actor: Actor, session: str) -> Workspace:
        """Return the workspace that the actor works in, in that session (`workplaces`); made when it is missing.

        It is seen with the actor's eyes: without the notes of others, but for the owner of the state folder.
        """
        place = self.place(actor.key, session)
        if place not in self._opened:
            async with self._opening:
                await self._open(place)
        opened = self._opened[place]
        return opened if actor.owner and not actor.behalf else opened.seen_by(actor.key)

    def place(self, key: str, session: str = "") -> WorkspacePlace:
        """Return where the workspace of the user with this key lies, in that session."""
        return place_of(self.config, self.users.get(key), session)

    async def _open(self, place: WorkspacePlace) -> None:
        if place in self._opened:
            return
        config, root, state = self.config, place.root, self.config.state_dir
        check_apart(state, root)
        if lies_inside(config.users_path, root):
            raise StateError(f"the users file lies inside the workspace {root}: move one of them")
        is_used = any(other.shared for other in places_of(config, self.users.all()).values())
        if is_used and lies_inside(config.people_path, root):
            raise StateError(f"the workspaces of people, {config.people_path}, lie inside the workspace {root}")
        await asyncio.to_thread(_prepare, config, place)
        if (root / NOTE_PATH).exists():
            log.warning("%s is seen by commands alone: private notes are in the state folder", root / NOTE_PATH)
        denied, spared = private_paths(config), [config.people_path]
        # Notes that are on this machine alone have locks of their own (`workspace.atomic`).
        note_writer = None if self.writer is lock_folder else self.writer
        workspace = await self.stack.enter_async_context(
            Workspace(root, denied, state / LOCKS, state / NOTES, place.shared, spared, note_writer)
        )
        if self.furnish:
            await self.furnish(workspace)
        self._opened[place] = workspace


@dataclass(slots=True)
class Environment:
    """The environment of tools. Implements `toolkit.base.ToolEnvironment`."""

    clock: Clock
    blobs: Blobs
    memory: MemoryPort
    sandbox: Sandbox
    tasks: TaskRoom
    web: Web
    audit: Callable[[AuditEntry], None]
    blank_audit: BlankAudit
    """Blanks the words of lines of the audit log; False: it could not be done now."""
    approved_files: ApprovedFiles
    """The approved prompt files of all workspaces."""
    workspaces: Workspaces

    @property
    def config(self) -> Config:
        return self.workspaces.config

    async def workspace(self, actor: Actor, session: str = "") -> Workspace:
        return await self.workspaces.open(actor, session)


@asynccontextmanager
async def open_environment(
    config: Config,
    users: Users,
    clock: Clock,
    record: TaskRecord | None = None,
    feed: TranscriptFeed | None = None,
    facts: Facts | None = None,
    shared: "SharedFiles | None" = None,
    furnish: Furnish | None = None,
) -> AsyncIterator[Environment]:
    """Yield the parts that tools stand on: enough for `goclaw tool run`, and a part of the daemon.

    `record`: where background tasks are written down; None: nothing can run in the background. `feed`: the transcripts;
    None: nothing that was said is searched. `facts`: the database's, which know the end of the audit log. `shared`: the
    files that the database has, too.
    """
    await asyncio.to_thread(_move_notes, config, users)
    writer = file_writer(config)
    refusal = "" if record else "a single command can run nothing in the background: it would end with the command"
    async with AsyncExitStack() as stack:
        chain = (lambda: shared.audits.chain) if shared is not None else (lambda: "")
        audit = await stack.enter_async_context(open_audit(config, clock, facts, chain))
        blobs = await stack.enter_async_context(
            open_blobs(config.state_dir / "blobs", clock, shared.media if shared else None)
        )
        environment = Environment(
            clock=clock,
            blobs=blobs,
            memory=await stack.enter_async_context(
                open_memory(
                    *(config.state_dir / "memory.db", config, clock, feed),
                    alone=record is None,
                    works_in=lambda key, root: place_of(config, users.get(key)).root == root,
                    document_text=lambda name, data: text_for_search(environment, name, data),
                )
            ),
            sandbox=await stack.enter_async_context(open_sandbox(config.tools.exec)),
            tasks=await stack.enter_async_context(open_tasks(blobs, clock, config.tools.tasks, record, refusal)),
            web=WebService(config, clock),
            audit=audit.record,
            blank_audit=audit.blank if shared is None else partial(_blank_both, audit, shared),
            approved_files=approved_files(config, users, clock, writer),
            workspaces=Workspaces(config, users, stack, writer, furnish),
        )
        yield environment


async def _blank_both(audit: Audit, shared: "SharedFiles", wanted: Blanking) -> bool:
    """Blank the words of lines in the folder and in the database, in the audit logs of other folders, too."""
    if not await audit.blank(wanted):
        return False
    try:
        await shared.audits.send()
        await shared.audits.blank(wanted)
    except StateError as error:
        log.error("words in the audit log cannot be blanked in the database: %s", error)
        return False
    return True


def _move_notes(config: Config, users: Users) -> None:
    """Move what earlier versions kept in workspaces, unless one of them runs now.

    Raises:
        StateError: one runs, or the disk refuses.
    """
    folder = config.state_dir / NOTES
    if not folder.is_dir() and running_pid(config) not in (None, os.getpid()):
        raise StateError(
            f"the daemon that uses {config.state_dir} runs an older version: {daemon_command('restart')} first"
        )
    make_private(config.state_dir)
    # A person's own workspace first: of two notes of one name that one keeps it.
    configured = place_of(config, None).root
    others = (place.root for place in places_of(config, users.all()).values() if place.root != configured)
    try:
        move_notes(folder, [*others, configured])
    except OSError as error:
        raise StateError(unusable(config.state_dir, error)) from error


def _prepare(config: Config, place: WorkspacePlace) -> None:
    root, shared = place.root, place.shared
    try:
        if shared is not None:
            _make_workspace(shared)
            if not config.people_path.exists():
                config.people_path.mkdir(mode=0o700)
                log.info(MOVED_NOTHING, config.people_path, shared, SHARED)
        _make_workspace(root)
        if shared is not None and not link_shared(root, shared):
            log.warning("%s hides the shared folder from commands: rename it", root / SHARED)
    except OSError as error:
        raise StateError(f"the workspace {root} cannot be created: {error.strerror}") from error


def _make_workspace(root: Path) -> None:
    if not root.exists():
        root.mkdir(parents=True, mode=0o700)
        write_templates(root)


_OWNER = Actor("", "quickstart", owner=True)


@record
class Quickstart:
    """Writes the quickstart: a description of the tools, into a workspace when that is first used."""

    config: Config
    users: Users
    access: Access
    listing: ToolListing

    async def write_missing(self, workspace: Workspace) -> None:
        """Write it into a workspace that is used for the first time since the start."""
        if not self.config.agents.quickstart:
            return
        try:
            if await write_quickstart(workspace, self._tools(workspace.root)):
                with bound_contextvars(turn="", session=""):  # no part of the story of the turn that came first
                    log.info("wrote %s into %s", QUICKSTART, workspace.root)
        except ToolError as error:
            log.warning("%s is not written into %s: %s", QUICKSTART, workspace.root, error)

    def _tools(self, root: Path) -> Sequence[ListedTool]:
        """Return the tools for the quickstart: GoClaw's own, and others that every user of the workspace may use.

        A tool of the operator's own must stay unknown to a person who may not use it.
        """
        people = [user.key for user in self.users.all() if place_of(self.config, user).root == root]
        actors = [Actor(key, "quickstart") for key in people]
        return [
            shown
            for shown in self.listing.of(_OWNER)
            if shown.origin == BUILT_IN
            or all(self.access.authorize(actor, "tool.use", shown.name).allowed for actor in actors)
        ]


@dataclass(slots=True)
class McpState:
    """The state of the listener for MCP clients."""

    line: str = ""
    """A line for people; empty: nothing to report."""
    port: int = 0
    """The port it listens on; 0: none."""


@record
class Storage:
    """The database, and what stands on it."""

    database: Database
    journal: Journal
    owned: OwnedSessions
    """The sessions of this process."""
    files: "SharedFiles | None"
    """The files of the state folder that the store has, too; None: the folder is all there is."""


@record
class ProcessFacts:
    """The facts of this process and its machine, for the status."""

    vitals: Callable[[], Mapping[str, str]]
    """Lines that the process around adds: name and text."""
    counts: Callable[[], Mapping[str, float]]
    """The same in numbers, for machines."""
    began: float
    """When the daemon began to open, by `Clock.awake_or_not`."""
    disk: DiskGauge


@record
class Foundation:
    """The parts that all others use."""

    users: Users
    tools: ToolListing
    bus: Bus
    storage: Storage
    environment: Environment
    ports: ModelPorts
    alerts: AlertDesk
    """Takes faults that need the operator."""
    routes: Routes
    """The routes of the HTTP listener besides its own pages."""
    process: ProcessFacts
    parts: PackageParts
    """The declarations of packages and one-file plugins."""

    @property
    def access(self) -> Access:
        return self.tools.registry.access

    @property
    def config(self) -> Config:
        return self.environment.config

    @property
    def clock(self) -> Clock:
        return self.environment.clock


@record
class App:
    """The running daemon, for the code that started it."""

    foundation: Foundation
    channels: Mapping[str, Channel]
    models: Models
    sessions: SessionParts
    engine: Lanes
    outbox: Outbox
    outage: Outage
    probe: Probe
    """Whether messages are taken now."""
    stuck: StuckTurns
    mcp_server: McpState = field(default_factory=McpState)
    """The state of the listener for MCP clients."""

"""The environment of tools: enough for `goclaw tool run`, and a part of the daemon."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from goclaw.agent.prompt import write_templates
from goclaw.audit import AuditEntry, open_audit
from goclaw.blobs import Blobs, open_blobs
from goclaw.clock import Clock
from goclaw.config.files import lies_inside
from goclaw.config.schema import Config
from goclaw.errors import StateError
from goclaw.events import Actor
from goclaw.memory.base import MemoryPort
from goclaw.memory.service import open_memory
from goclaw.memory.transcript_indexer import TranscriptSource
from goclaw.sandbox.base import Sandbox
from goclaw.sandbox.select import open_sandbox
from goclaw.state import LOCKS, check_apart, private_paths
from goclaw.tasks.base import TaskRecord
from goclaw.tasks.room import TaskRoom, open_tasks
from goclaw.users import Users
from goclaw.web.base import Web
from goclaw.web.service import WebService
from goclaw.workspace import Workspace


async def as_it_is(workspace: Workspace) -> None:
    """Put nothing into a workspace."""


@dataclass(slots=True)
class Environment:
    """The environment of tools. Implements `toolkit.base.ToolEnvironment`."""

    config: Config
    clock: Clock
    users: Users
    blobs: Blobs
    memory: MemoryPort
    sandbox: Sandbox
    tasks: TaskRoom
    web: Web
    audit: Callable[[AuditEntry], None]
    stack: AsyncExitStack
    furnish: Callable[[Workspace], Awaitable[None]] = as_it_is
    """Called with each workspace when it is first used."""
    _opened: dict[Path, Workspace] = field(default_factory=dict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def workspace(self, actor: Actor) -> Workspace:
        """Return the user's own workspace if users.json names one, else the configured one; made when it is missing.

        It is seen with the actor's eyes: without the notes of others, but for the owner of the state folder.
        """
        root = self.root(actor.key)
        if root not in self._opened:
            async with self._opening:
                await self._open(root)
        opened = self._opened[root]
        return opened if actor.owner and not actor.behalf else opened.seen_by(actor.key)

    def root(self, key: str) -> Path:
        """Return the folder of the workspace of the user with this key."""
        user = self.users.get(key)
        return (user.workspace if user and user.workspace else self.config.workspace_path).expanduser().absolute()

    async def _open(self, root: Path) -> None:
        if root not in self._opened:
            check_apart(self.config.state_dir, root)
            if lies_inside(self.config.users_path, root):
                raise StateError(f"the users file lies inside the workspace {root}: move one of them")
            await asyncio.to_thread(_prepare_workspace, root)
            denied, locks = private_paths(self.config), self.config.state_dir / LOCKS
            workspace = await self.stack.enter_async_context(Workspace(root, denied, locks))
            await self.furnish(workspace)
            self._opened[root] = workspace


@asynccontextmanager
async def open_environment(
    config: Config, users: Users, clock: Clock, record: TaskRecord | None = None, feed: TranscriptSource | None = None
) -> AsyncIterator[Environment]:
    """Yield the parts that tools stand on: enough for `goclaw tool run`, and a part of the daemon.

    `record`: where background tasks are written down; None: nothing can run in the background. `feed`: the transcripts;
    None: nothing that was said is searched.
    """
    refusal = "" if record else "nothing can run in the background of a single command: it would end with it"
    async with AsyncExitStack() as stack:
        audit = await stack.enter_async_context(open_audit(config, clock))
        blobs = await stack.enter_async_context(open_blobs(config.state_dir / "blobs", clock))
        environment = Environment(
            config=config,
            clock=clock,
            users=users,
            blobs=blobs,
            memory=await stack.enter_async_context(
                open_memory(config.state_dir / "memory.db", config, clock, feed, alone=record is None)
            ),
            sandbox=await stack.enter_async_context(open_sandbox(config.tools.exec)),
            tasks=await stack.enter_async_context(open_tasks(blobs, clock, config.tools.tasks, record, refusal)),
            web=WebService(config, clock),
            audit=audit.record,
            stack=stack,
        )
        yield environment


def _prepare_workspace(root: Path) -> None:
    try:
        if root.exists():
            return
        root.mkdir(parents=True, mode=0o700)
        write_templates(root)
    except OSError as error:
        raise StateError(f"the workspace {root} cannot be made: {error.strerror}") from error

"""What the MCP server stands on. Nothing here imports the library."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import Any, Literal, Protocol

from goclaw.access import Access, own_session
from goclaw.audit import Entry
from goclaw.blobs import Blobs
from goclaw.clock import Clock
from goclaw.config.schema import Config
from goclaw.events import Actor, Outline, SessionInfo, TranscriptRow
from goclaw.mcp.declared import Declared
from goclaw.records import record
from goclaw.tokens import Tokens
from goclaw.toolkit.dispatcher import Dispatcher
from goclaw.workspace import Workspace

ENTRY = "mcp"
"""The way in, as `Actor.entry` names it."""


@record
class Changed:
    """Something that can be read is not as it was."""

    resource: str
    """Its URI."""
    event: Literal["created", "updated", "deleted"]


@record
class ListChanged:
    """What there is to choose from is not as it was."""

    kind: Literal["tools", "prompts", "resources"]


@record
class Told:
    """A notification that code declares was sent."""

    name: str
    payload: Mapping[str, Any]


Change = Changed | ListChanged | Told


class Conversations(Protocol):
    """The gateway's own knowledge, wherever the server runs. Nothing here asks `authorize`: whoever calls it does."""

    async def sessions(self) -> Sequence[SessionInfo]:
        """Every conversation of people, the latest first."""
        ...

    async def outline(self, session: str, last: int) -> Outline:
        """A conversation beside its rows, and where its last `last` messages begin."""
        ...

    async def page(self, session: str, after: int) -> Sequence[TranscriptRow]:
        """The next rows after `after`, oldest first; none at the end."""
        ...

    async def status(self, actor: Actor) -> Mapping[str, Any]:
        """How the daemon stands, as far as the actor may know."""
        ...

    def changes(self, wanted: Callable[[], bool]) -> AbstractAsyncContextManager[AsyncIterator[Changed]]:
        """What changes from now on, as long as it is `wanted`. The stream ends when whoever reads lags far behind."""
        ...


@record
class McpPorts:
    """Filled in by `app` for the daemon and by `goclaw mcp serve` for itself."""

    config: Config
    clock: Clock
    access: Access
    dispatcher: Dispatcher
    blobs: Blobs
    workspace: Callable[[Actor], Awaitable[Workspace]]
    audit: Callable[[Entry], None]
    conversations: Conversations
    people: Callable[[], object]
    """Those who may do something, as users.json has it now; to be compared with what it was."""
    version: str = ""
    """GoClaw's own."""
    declared: Declared = field(default_factory=Declared)

    def session(self, actor: Actor) -> str:
        """The session in which the actor's calls are made: the actor's own."""
        return self.access.session_for(actor, own_session(actor.key))

    def may_read_files(self, actor: Actor) -> bool:
        """Files are for who may use `read`, as in the completion of a terminal; and only where that is offered."""
        spec = self.dispatcher.registry.spec("read")
        offered = spec is not None and self.access.select((self.config.mcp.server.tools,), spec)
        return offered and self.access.authorize(actor, "tool.use", "read").allowed


@record
class Listening:
    """The open listener."""

    port: int


@record
class McpPart:
    """A line of `catalog.SERVERS`: serves clients while the block runs. Raises StateError where it cannot listen."""

    name: str
    open: Callable[[McpPorts, Tokens], AbstractAsyncContextManager[Listening]]

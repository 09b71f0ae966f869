"""The gateway underlying the MCP server, as the server sees it. Nothing here imports the library."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from goclaw.common.auth.access import Access, own_session
from goclaw.common.auth.tokens import Tokens
from goclaw.common.config.mcp import McpServerSettings
from goclaw.common.config.state import SharedFacts
from goclaw.common.core.events import Actor, Outline, SessionInfo, TranscriptRow
from goclaw.common.core.messages import ToolResult
from goclaw.common.core.records import record
from goclaw.common.specs import TOOL_CALL, TOOL_SEARCH, ToolSpec
from goclaw.conversation.questions.turn_questions import ExternalCaller
from goclaw.errors import ToolError
from goclaw.tools.mcp.declared import Declared
from goclaw.tools.toolkit.agent_tasks import AgentPort, AgentReport, AgentTask, Forward
from goclaw.tools.toolkit.base import ToolEnvironment
from goclaw.tools.toolkit.dispatcher import Dispatcher
from goclaw.tools.toolkit.scope import CallScope

if TYPE_CHECKING:
    from goclaw.conversation.turns.external_runs import ExternalRuns

ENTRY = "mcp"
"""The way in, as `Actor.entry` names it."""

NO_AGENTS = (
    "agents run in the daemon, not in `goclaw mcp serve`: connect this client over HTTP (`mcp.server.enabled`, "
    "docs/mcp.md)"
)
_LISTED_ONLY = (f"-{TOOL_SEARCH}", f"-{TOOL_CALL}")
"""Clients list every tool, and need none to find others."""
_IN_A_CONVERSATION = ("-ask_user", "-command", "-message", "-schedule")
"""No client is offered these, whatever the settings name: there is no conversation over MCP. A call says so."""


@record
class Changed:
    """The change of a readable resource."""

    resource: str
    """Its URI."""
    event: Literal["created", "updated", "deleted"]


@record
class ListChanged:
    """The change of a list of tools, prompts or resources."""

    kind: Literal["tools", "prompts", "resources"]


@record
class ServerNotification:
    """A notification that code declares was sent."""

    name: str
    payload: Mapping[str, Any]


Change = Changed | ListChanged | ServerNotification


class Conversations(Protocol):
    """The gateway's own knowledge, wherever the server runs. Nothing here calls `authorize`: the callers do."""

    async def sessions(self) -> Sequence[SessionInfo]:
        """Return every conversation of people, the latest first."""

    async def outline(self, session: str, last: int) -> Outline:
        """Return the state of a conversation without its rows, and where its last `last` messages begin."""

    async def page(self, session: str, after: int) -> Sequence[TranscriptRow]:
        """Return the next rows after `after`, oldest first; empty at the end."""

    async def status(self, actor: Actor) -> Mapping[str, Any]:
        """Return the daemon's status, as far as the actor may see it."""

    def changes(self, wanted: Callable[[], bool]) -> AbstractAsyncContextManager[AsyncIterator[Changed]]:
        """Yield changes from now on, while `wanted`. The stream ends when its reader lags far."""


class NoExternalRuns:
    """The port where no agents run: in the process of `goclaw mcp serve`. Implements `AgentPort`, too."""

    without: Sequence[str] = ()

    @asynccontextmanager
    async def open_port(
        self, scope: CallScope, call: str, caller: ExternalCaller, tools: Sequence[str] | None
    ) -> AsyncIterator[AgentPort]:
        yield self

    async def spawn(self, task: AgentTask, step: str, call_id: str) -> AgentReport:
        raise ToolError(NO_AGENTS)

    async def forward(self, wanted: Forward, step: str, call_id: str) -> ToolResult:
        raise ToolError(NO_AGENTS)


@record
class McpBackend:
    """The parts of the gateway that serve MCP clients: of the daemon, or of the process of `goclaw mcp serve`."""

    environment: ToolEnvironment
    access: Access
    dispatcher: Dispatcher
    conversations: Conversations
    people: Callable[[], object]
    """The users with any rights, as users.json has them now; compared with an earlier result."""
    declared: Declared = field(default_factory=Declared)
    published: Sequence[str] = ()
    """Tool sets published in registries, as a selection: clients find them there and call them here."""
    external_runs: "ExternalRuns | NoExternalRuns" = field(default_factory=NoExternalRuns)
    """Runs of agents for clients."""
    facts: SharedFacts | None = None
    """Where open questions are stored, since any gateway of the store may get the answer; None: in memory."""
    state_key: bytes = b""
    """Seals what clients send back to any gateway of the store; empty: a key of this process."""

    @property
    def settings(self) -> McpServerSettings:
        return self.environment.config.mcp.server

    def session(self, actor: Actor) -> str:
        """Return the session for the actor's calls: the actor's own."""
        return self.access.session_for(actor, own_session(actor.key))

    def list_tools(self, actor: Actor) -> Sequence[ToolSpec]:
        """Return the tools that the actor may use, that are for clients, and that can work for them."""
        agents = ("-tag:agents",) if isinstance(self.external_runs, NoExternalRuns) else None
        offered = self.dispatcher.registry.offered_to(actor, _IN_A_CONVERSATION, agents, planning=False)
        return [spec for spec in offered if self.selection(spec) is not None]

    def selection(self, spec: ToolSpec | None) -> Sequence[str] | None:
        """Return the selection that offers clients a tool; None: they are not offered it."""
        chosen = (self.settings.tools, self.published)
        fitting = (one for one in chosen if spec and self.access.select((one, *self.without), spec))
        return next(fitting, None)

    @property
    def without(self) -> tuple[Sequence[str], ...]:
        """Return further selections; each must include the tool."""
        return (_LISTED_ONLY, self.external_runs.without) if self.external_runs.without else (_LISTED_ONLY,)

    def may_read_files(self, actor: Actor) -> bool:
        """Return whether the actor may read files: as in a terminal's completion this needs `read`, and `read` must be
        offered."""
        spec = self.dispatcher.registry.spec("read")
        return self.selection(spec) is not None and self.access.authorize(actor, "tool.use", "read").allowed


@record
class Listening:
    """The open listener."""

    port: int


@record
class McpPart:
    """A line of `catalog.SERVERS`: serves clients while the block runs. Raises StateError where it cannot listen."""

    name: str
    open: Callable[[McpBackend, Tokens], AbstractAsyncContextManager[Listening]]

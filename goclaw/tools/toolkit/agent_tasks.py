"""The ports through which a tool hands a task to an agent, its call to another tool, or work to a team of agents.

Agents and teams are run above (`turns.agents`, `turns.teams`).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from goclaw.common.core.messages import SourceKind, ToolResult
from goclaw.common.core.records import record
from goclaw.common.workspace import Workspace
from goclaw.errors import ToolError

LEAD = "lead"
"""How members call the agent that made the team."""
ALL = "all"
"""The address of all other members, the lead included."""
TEAM_CREATE, SEND_MESSAGE, TEAM_DELETE = "team_create", "send_message", "team_delete"
AGENT = "agent"
"""The tool that a person must be allowed to use for a team, because members are agents."""
NO_TEAM = (
    "you have no such team in this conversation: none was made, or it has ended (with its last member, its deletion, "
    "or a restart of the daemon)"
)


@record
class KeptWorktree:
    """A worktree with changes."""

    worktree: str
    """Relative to the person's workspace."""
    branch: str
    changes: str
    """The changes, in words."""

    def text(self) -> str:
        """Return the text for the model."""
        return f"[Its worktree is kept: {self.worktree}, branch {self.branch}\n{self.changes}]"


class WorkPlace(Protocol):
    """Where an agent works, if not in the person's workspace."""

    def open(self, agent: str) -> AbstractAsyncContextManager[Workspace]:
        """Open the worktree of the agent with this id, made or, after a crash, found. Raises ToolError."""
        ...

    def about(self, agent: str) -> str:
        """Return the text about the worktree for an agent."""
        ...

    async def leave(self, agent: str) -> KeptWorktree | None:
        """Clean up after the agent, and return the worktree if it is kept. Raises no error of its own."""
        ...


@record
class AgentTask:
    """A task for an agent."""

    text: str
    kind: str = ""
    """A name of `agents.kinds`; empty: the only one, or `general`."""
    description: str = ""
    """The task in a few words, for people."""
    background: bool = False
    """It goes on when the call that started it has ended."""
    place: WorkPlace | None = None
    """None: it works where its caller does."""
    exported: bool = False
    """It is asked through a tool that it exports: `kind` is exactly its name, which may be `main`."""
    own_tools: bool = False
    """It works with the tools of its own selection, whatever its caller has."""
    check: Callable[[str], str] | None = None
    """Returns the fault of the agent's last words, empty if they pass; on a fault it is asked again a few times."""


@record
class AgentReport:
    """The outcome of a task."""

    agent: str
    """The agent's id: its conversation is the session `<session>/agent:<id>`."""
    kind: str
    answer: str = ""
    """Its last words; empty while it goes on in the background."""
    requests: int = 0
    tokens: int = 0
    task: str = ""
    """Of one in the background: its id for the tools for tasks."""
    output: str = ""
    """Of one in the background: `output:<id>`, where its answer will be."""
    kept: KeptWorktree | None = None
    """The kept worktree, if the task had one of its own."""
    source: SourceKind = SourceKind.DOCUMENT
    """The source whose labels are those of what it has read."""


@record
class Forward:
    """A call that is handed on to another tool as it is."""

    tool: str
    input: Mapping[str, Any]
    agent: str
    """Which agent offers this."""
    own_tools: bool = False
    """The tool has to be among those of that agent, and not also among those of the caller."""


class AgentPort(Protocol):
    """The port for the call with this step's name and this id to agents and other tools."""

    async def spawn(self, task: AgentTask, step: str, call_id: str) -> AgentReport:
        """Run an agent to its end, or start it in the background, within the caller's rights.

        Raises:
            ToolError: it could not be started, or did not finish; the message says why.
        """
        ...

    async def forward(self, wanted: Forward, step: str, call_id: str) -> ToolResult:
        """Make a call of another tool in place of this one, as if the model had made it."""
        ...


@record
class NewMember:
    """A member as the lead wants it."""

    name: str
    task: str
    kind: str = ""
    """A name of `agents.kinds`; empty: the usual one."""


@record
class StartedMember:
    """A member that was started: a background task."""

    name: str
    kind: str
    agent: str
    task: str
    """Its id for the tools for tasks."""
    output: str
    """`output:<id>`: where what it says is kept."""


class TeamPort:
    """The team as one agent reaches it. This class stands for a place without a conversation, and refuses everything.

    Each method raises ToolError where the agent has no such team, or may not do that.
    """

    async def create(self, name: str, members: Sequence[NewMember], step: str) -> Sequence[StartedMember]:
        """Start a team: all members, or none. `step`: the name of the call's step in its turn."""
        raise ToolError("no team can be made here: there is no conversation that it could work for")

    async def send(self, to: str, text: str) -> Sequence[str]:
        """Put a message into the mailbox of a member, of the lead, or of all others; returns who got it."""
        raise ToolError(NO_TEAM)

    async def shut_down(self, to: str) -> Sequence[str]:
        """Have a member, or all, end after the turn that runs; returns who will."""
        raise ToolError(NO_TEAM)

    async def delete(self, name: str) -> Sequence[str]:
        """End every member now, and forget the team; returns who was ended."""
        raise ToolError(NO_TEAM)

"""The ports through which a tool hands a task to an agent, or its call to another tool.

Who runs agents is known above (`sessions.agents`).
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from goclaw.messages import ToolResult
from goclaw.records import record
from goclaw.workspace import Workspace


@record
class KeptWorktree:
    """A worktree in which something has changed."""

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

    def opened(self, agent: str) -> AbstractAsyncContextManager[Workspace]:
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

"""The run of one agent within a turn, and the steps of an agent inside the turn it works for.

An agent has the person's rights, limited by its own selection of tools and those of all its ancestors. Costs, the time
spent waiting for people, /pause and /stop are shared with all ancestors.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import field, replace
from typing import TypeVar

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Delivery, Inbound
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.records import record
from goclaw.common.workspace import Workspace
from goclaw.conversation.agent.kinds import Kind
from goclaw.conversation.agent.limits import RunPolicy
from goclaw.conversation.questions.turn_questions import ExternalCaller
from goclaw.conversation.sessions.pausing import Gate
from goclaw.conversation.sessions.state import Session
from goclaw.durable.engine.base import Step, Turn, TurnKind, never
from goclaw.durable.engine.journal import ignore_step, no_rows
from goclaw.durable.store.database import BoundStatement
from goclaw.errors import GoclawError

T = TypeVar("T")


@record
class SharedRun:
    """The state shared by all agents of one turn."""

    turn: Turn
    """The person's turn, which asks questions to people."""
    gate: Gate
    started: set[str] = field(default_factory=set)
    """Ids of the agents that this run of the daemon has started in it."""
    caller: ExternalCaller | None = None
    """Receives questions and events in place of the person, where there is no conversation."""


@record
class TeamMembership:
    """An agent's place in a team (`turns.teams`)."""

    team: str
    name: str
    briefing: str
    """The description of the team for the model."""


@record
class Delegation:
    """The call by which another agent started an agent."""

    own_tools: bool = False
    """The agent uses the tools of its own selection, without the limits of its ancestors."""
    name: str = ""
    """For people: its kind and, where it has one, the name of its task."""
    call_id: str = ""
    """The call that waits for it; empty: none does."""
    prefix: str = ""
    """Begins the names of its steps among those of the root."""


@record
class AgentWorktree:
    """A workspace other than the person's: a worktree of an agent, and of those that it starts."""

    workspace: Workspace
    about: str
    """Its description for the model."""


@record
class AgentRun:
    """An agent at work."""

    root: SharedRun
    turn: Turn
    session: Session
    policy: RunPolicy
    kind: Kind
    parent: "AgentRun | None" = None
    """The agent that started it; None: it answers the person."""
    delegation: Delegation = Delegation()
    worktree: AgentWorktree | None = None
    membership: TeamMembership | None = None
    """Of a member of a team."""

    def detach(self) -> "AgentRun":
        """Return the run without its ancestors' clocks, which have stopped: for an agent that outlives their turn."""
        above = self.parent.detach() if self.parent else None
        return replace(self, policy=RunPolicy(self.policy.rules), parent=above)

    @property
    def depth(self) -> int:
        """The number of ancestors."""
        return len(self.chain()) - 1

    @property
    def home(self) -> Session:
        """The person's session."""
        return self.chain()[-1].session

    @property
    def narrowed(self) -> tuple[Sequence[str], ...]:
        """The tool selections of the ancestors, up to the first agent that uses its own tools regardless.

        That of an unattended turn limits all agents at work in it.
        """
        found = list[Sequence[str]]()
        agent_run = self
        while not agent_run.delegation.own_tools and agent_run.parent is not None:
            agent_run = agent_run.parent
            found += [] if agent_run.kind.settings.tools is None else [agent_run.kind.settings.tools]
        unattended = self.root.turn.inbound.unattended
        if unattended and unattended.tools is not None:
            found.append(unattended.tools)
        return tuple(found)

    @property
    def lineage(self) -> set[str]:
        """The agents at work: itself and all above it."""
        return {agent_run.kind.name for agent_run in self.chain()}

    @contextmanager
    def pause_clock(self) -> Iterator[None]:
        """Stop its clock, and the clocks of those above, while the block waits for a person."""
        with self._pause(lambda agent_run: True):
            yield

    async def wait_for_resume(self) -> None:
        """Wait while the turn is paused (`/pause`)."""
        with self._pause(lambda agent_run: agent_run.parent is not None):  # the gate stops the clock of the root
            await self.root.gate.wait()

    def was_denied(self, call: ToolCall) -> bool:
        """Whether a person said no to the call, to this agent or to one above it."""
        return any(agent_run.policy.was_denied(call) for agent_run in self.chain())

    def _pause(self, which: "Callable[[AgentRun], bool]") -> AbstractContextManager[object]:
        stack = ExitStack()
        for agent_run in self.chain():
            if which(agent_run):
                stack.enter_context(agent_run.policy.pause_clock())
        return stack

    def chain(self) -> "Sequence[AgentRun]":
        """Return the run and those above it, up to the one that answers the person."""
        return [self, *(self.parent.chain() if self.parent else ())]


@record
class NestedTurn:
    """Implements `engine.base.Turn` on top of another one. Nothing joins it, and it is parked by its root only."""

    parent: Turn
    prefix: str
    """Begins the names of its steps: the call's step and a slash."""
    inbound: Inbound
    """The task as a message of the person whom the parent works for, in the agent's own session."""

    @property
    def id(self) -> str:
        return self.inbound.id

    @property
    def kind(self) -> TurnKind:
        return "message"

    @property
    def stopping(self) -> bool:
        return self.parent.stopping

    async def step(
        self,
        name: str,
        run: Callable[[], Awaitable[T]],
        codec: Codec[T],
        *,
        rows: Callable[[T], Sequence[BoundStatement]] = no_rows,
        kept: Callable[[Step[T]], None] = ignore_step,
        unknown: Callable[[], T] | None = None,
        hold: Callable[[T], bool] = never,
    ) -> Step[T]:
        # Never held: its outcome may go into other steps before the person's turn ends.
        return await self.parent.step(f"{self.prefix}{name}", run, codec, rows=rows, kept=kept, unknown=unknown)

    async def flush(self) -> None:
        """Do nothing: no step is held."""

    async def end(self, deliveries: Sequence[Delivery]) -> None:
        raise GoclawError("the work of an agent has no end of its own")

    def has_record(self, name: str) -> bool:
        return self.parent.has_record(f"{self.prefix}{name}")

    async def intend(self, name: str) -> None:
        await self.parent.intend(f"{self.prefix}{name}")

    def followers(self, *, past_others: bool) -> Sequence[Inbound]:
        return ()

    def watch(self, told: Callable[[], None] | None) -> None:
        """Do nothing: no message waits for the work of an agent."""

    async def join(
        self,
        name: str,
        inbound: Inbound,
        run: Callable[[Inbound], Awaitable[T]],
        codec: Codec[T],
        *,
        rows: Callable[[T], Sequence[BoundStatement]],
        kept: Callable[[Step[T]], None],
        at: float,
    ) -> Step[T]:
        raise GoclawError("no message joins the work of an agent")

    async def park(self, name: str, question: str, ask: Callable[[str], Awaitable[None]]) -> str:
        return await self.parent.park(f"{self.prefix}{name}", question, ask)

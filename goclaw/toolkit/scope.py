"""The scope and state of a call: its actor, and its outcome so far."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel

from goclaw.access import Access, ChosenMode
from goclaw.config.values import Mode
from goclaw.errors import ToolError
from goclaw.events import Actor, Address, Decision, Delivery, Question, Receipt, Todo, TurnEvent
from goclaw.messages import Image, Provenance, ToolCall, ToolResult
from goclaw.records import record
from goclaw.specs import ToolSpec
from goclaw.toolkit.base import NO_REMINDERS, NO_SETTINGS, NO_TEAMS, Tool, no_commands, no_modes
from goclaw.toolkit.consent import Approve
from goclaw.toolkit.reminders import Reminders
from goclaw.toolkit.sampling import Sampler, no_sampling
from goclaw.toolkit.scheduling import Slot
from goclaw.toolkit.settings import SettingsPort
from goclaw.toolkit.spawning import AgentReport, AgentTask, Forward, no_agents, no_forwarding
from goclaw.toolkit.teaming import TeamPort
from goclaw.workspace import Workspace

T = TypeVar("T")
ValueT = TypeVar("ValueT")

Ask = Callable[[Question, str], Awaitable[str | None]]
"""Ask a person a question under a step name, and return the answer. Raises ToolError where none can be asked."""


async def _as_it_is(spec: ToolSpec, call: ToolCall, step: str) -> ToolCall:
    """Return the call unchanged."""
    return call


async def _no_agents(task: AgentTask, step: str, call_id: str) -> AgentReport:
    """Refuse to start an agent: there is no turn. Raises ToolError."""
    return await no_agents(task)


async def _no_forwarding(wanted: Forward, step: str, call_id: str) -> ToolResult:
    """Refuse to forward the call: there is no turn. Raises ToolError."""
    return await no_forwarding(wanted)


async def _no_begin() -> None:
    """Do nothing before a call runs."""


def unseen(tool: Tool, value: object) -> None:
    """Ignore a result's value."""


def _no_choice() -> ChosenMode | None:
    """Return None: no mode can be chosen here."""
    return None


@record
class CallScope:
    """On whose behalf and from where calls are made."""

    actor: Actor
    session: str
    address: Address
    deliver: Callable[[Delivery], Awaitable[Receipt]]
    emit: Callable[[TurnEvent], None]
    approve: Approve
    ask: Ask
    keep_todos: Callable[[Sequence[Todo]], Awaitable[None]]
    begin: Callable[[], Awaitable[None]] = _no_begin
    """Called when everything is allowed and the call is about to run."""
    complete: Callable[[ToolSpec, ToolCall, str], Awaitable[ToolCall]] = _as_it_is
    """Gives a call, with its step's name, what it lacks of required arguments. Raises ToolError if it shall not run."""
    turn: str = ""
    step: str = ""
    """The call's name in the journal of the turn."""
    slot: Slot | None = None
    """Its place among the calls of the same answer; None: it is alone."""
    seconds: float | None = None
    """How long a tool may run that declares no time of its own; None: `tools.timeout`."""
    compress: bool = False
    """Whether what commands say is shortened for the model that asked (`compression.choice`)."""
    reminders: Reminders = NO_REMINDERS
    """Where reminders for the model go."""
    tools: Sequence[str] | None = None
    """The agent's selection of the actor's tools (see `goclaw.selection`); None: all of them."""
    narrowed: tuple[Sequence[str], ...] = ()
    """More selections, each of which must have the tool: those of the agents for which this one works."""
    chosen_mode: Callable[[], ChosenMode | None] = _no_choice
    """The permission mode that was chosen for the session, as of now; None: the configured one."""
    leave_plan: Callable[[Mode], Awaitable[None]] = no_modes
    """A person agreed to the plan: go on in this mode. Raises ToolError where the acting person may not choose it."""
    command: Callable[[str], Awaitable[str]] = no_commands
    """Answers a slash command for the acting person. Raises ToolError where it may not be used."""
    settings: SettingsPort = NO_SETTINGS
    """The settings of the conversation that a call may read and change."""
    spawn: Callable[[AgentTask, str, str], Awaitable[AgentReport]] = _no_agents
    """Has an agent do a task, for the call with this step's name and this id."""
    forward: Callable[[Forward, str, str], Awaitable[ToolResult]] = _no_forwarding
    """Makes a call of another tool, for the call with this step's name and this id."""
    sample: Sampler = no_sampling
    """Has a model answer something that is no part of the conversation, within what the turn may spend."""
    workspace: Workspace | None = None
    """Where files are read and written, and commands run; None: in the actor's workspace."""
    teams: TeamPort = NO_TEAMS
    """The team of the conversation, as the agent reaches it."""
    gave: Callable[[Tool, object], None] = unseen
    """Told what a call that succeeded gave back, for programs that take its fields. Nothing in it is masked yet."""


@dataclass(slots=True)
class Watch:
    """One call while it runs."""

    began: float
    """Monotonic."""
    call: ToolCall
    """As it runs: with the input that hooks made of it."""
    slot: Slot
    """Its place among other calls."""
    said: str
    """The tool's name, as the model said it."""
    started: bool = False
    """Whether the start was announced."""
    began_to_act: bool = False
    """It is allowed, and may have had an effect."""
    listed: ToolSpec | None = None
    """The tool's spec, regardless of rights."""
    decision: Decision | None = None
    """Whether it may be made, as it was looked at last."""
    refused: bool = False
    """It was not let run: by a rule, a mode, a hook or a person."""
    provenance: Provenance | None = None
    """Where what the tool says, its errors included, comes from; None: from GoClaw itself, or it has not begun."""
    over: bool = False
    """Whether the caller has stopped waiting."""
    tool: Tool | None = None
    arguments: BaseModel | None = None
    call_hint: str = ""
    """A description of the call, for people."""
    hint: str = ""
    """A description of the outcome, for people."""
    reminds: bool = False
    """The tool declares a reminder, and gave a result."""
    value: object = None
    """The value that the tool returned."""
    pictures: tuple[Image, ...] = ()
    """The pictures of the result, for the model."""
    attached: list[tuple[str, BaseModel]] = field(default_factory=list)
    """Artifacts, as the tool gave them."""
    consenter: Actor | None = None
    """The person who approved the call."""

    def agreed_by(self, access: Access, action: str, target: str) -> Actor | None:
        """Return the approver of the call if authorized for `action` on `target`, else None."""
        by = self.consenter
        return by if by and access.authorize(by, action, target).allowed else None

    def port(self, use: Callable[[ValueT], Awaitable[T]]) -> Callable[[ValueT], Awaitable[T]]:
        """Guard a port so that it raises ToolError once the call is over: an abandoned tool acts for no turn."""

        async def used(value: ValueT) -> T:
            if self.over:
                raise ToolError("the call was ended")
            return await use(value)

        return used

    def attach(self, kind: str, data: BaseModel) -> None:
        """Take an artifact of a kind that the tool declares."""
        if self.over:
            raise ToolError("the call was ended")
        model = self.tool.artifacts.get(kind) if self.tool else None
        if model is None or not isinstance(data, model):
            raise ValueError(f"{self.call.name} declares no artifact {kind} of type {type(data).__name__}")
        self.attached.append((kind, data))

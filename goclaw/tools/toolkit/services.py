"""The services of a turn for the tools it calls.

A new capability for tools is a method of `TurnServices`, which refuses it, one of `turns.agent_services`, which has it
in turns, and one of `ToolContext`, which tools call. Only GoClaw's own code and the operator's hooks write reminders; a
tool's text never becomes one. The model that answers a `Sample` gets no tools, and nothing but the tool's input.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel

from goclaw.common.auth.access import ChosenMode
from goclaw.common.config.values import Mode
from goclaw.common.core.events import Actor, Decision, Delivery, Question, Receipt, Todo, TurnEvent
from goclaw.common.core.messages import Artifact, AssistantMessage, SourceKind, ToolCall, ToolResult, UserMessage
from goclaw.common.core.records import record
from goclaw.common.specs import ToolSpec
from goclaw.errors import DeliveryError, ToolError
from goclaw.tools.approval.guard import WindowContent
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.toolkit.agent_tasks import AgentReport, AgentTask, Forward, TeamPort
from goclaw.tools.toolkit.results import ResultType
from goclaw.tools.toolkit.schedule_orders import ScheduleOrder


@record
class Sample:
    """A request to a model, outside the conversation."""

    asker: str
    """The requester, for people and the log: `the MCP server tickets`."""
    system: str
    messages: Sequence[UserMessage | AssistantMessage]
    """User and assistant alternate; the first and the last are the user's."""
    max_tokens: int
    """Of the answer."""
    models: tuple[str, ...] = ()
    """Which models answer, and no other, the first that can; empty: those that answer in the conversation."""
    instructions: str = ""
    """The part of `system` that is in the asker's own words."""


@record
class Sampled:
    """The model's answer to a `Sample`."""

    text: str
    model: str
    """`provider:name`"""
    tokens: int
    """Of prompt and answer, as the provider counted them."""
    stop: Literal["end", "length"] = "end"


class SettingsPort:
    """The settings of one conversation. This class stands for a place without a conversation, and has none."""

    file: Path | None = None
    """The configuration file, which need not exist yet; None: unknown."""

    async def of_session(self) -> Mapping[str, str]:
        """Return the settings in force in the conversation, by name."""
        return {}

    async def choose(self, name: str, value: str) -> None:
        """Choose one of them for the conversation.

        Raises:
            ToolError: there is no such setting or value.
        """
        raise ToolError(f"there is no conversation here for which {name} could be chosen")


class ReminderTier(IntEnum):
    """Which reminders come first (Goa-AI, reminder tiers)."""

    SAFETY = 0
    GUIDANCE = 1


@record
class Reminder:
    """One reminder; a later one with the same id takes its place."""

    id: str
    text: str
    tier: ReminderTier = ReminderTier.GUIDANCE
    min_turns_between: int = 0
    """Requests to the model that it pauses for after it was told."""
    max_per_run: int | None = 1
    """Maximum number of times it is shown in one turn; None: until it is removed."""


class Reminders:
    """Takes reminders for the turn. This class stands for a place where no model is reminded, and drops them."""

    def add(self, reminder: Reminder) -> None:
        """Show a reminder from the next request on; it replaces one with the same id."""

    def remove(self, id: str) -> None:
        """Remove a reminder; an unknown id is ignored."""


class TurnServices:
    """The services of the place that calls are made from; `step` is a call's name in the journal.

    This class stands for a place outside of turns: its services raise ToolError or do nothing. Turns and other callers
    override those that they have.
    """

    place = "here"
    """The place, in words."""
    reminders: Reminders = Reminders()
    """The reminders for the model after the results of this answer."""
    settings: SettingsPort = SettingsPort()
    """The settings of the conversation that a call may read and change."""
    teams: TeamPort = TeamPort()
    """The team of the conversation."""

    def emit(self, event: TurnEvent) -> None:
        """Show an event of a call to clients."""

    def chosen_mode(self) -> ChosenMode | None:
        """Return the permission mode that was chosen for the session, as of now; None: the configured one."""
        return None

    def window(self) -> WindowContent | None:
        """Return what the model that makes the calls has before it; None: no model makes them."""
        return None

    async def complete(self, spec: ToolSpec, call: ToolCall, step: str) -> ToolCall:
        """Fill in missing required arguments. Raises ToolError if the call shall not run."""
        return call

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        """Ask a person for approval."""
        raise ToolError(f"approval required: {wanted.reason}")

    async def intend(self, step: str) -> None:
        """Record that a call is about to run that must not run twice."""

    def gave(self, spec: ToolSpec, result: ResultType, value: object) -> None:
        """Take the value that a successful call returned, for programs that use its fields. It is not masked yet."""

    def check_delivery(self, delivery: Delivery) -> None:
        """Check that a channel takes such a message, before anybody is asked about it. Raises DeliveryError."""
        raise DeliveryError(f"no channel named {delivery.address.channel} is connected here", permanent=True)

    async def deliver(self, delivery: Delivery) -> Receipt:
        """Hand a message over to a chat and wait for the channel's receipt."""
        self.check_delivery(delivery)
        return Receipt("")

    async def show(self, delivery: Delivery) -> str:
        """Return a message to the local conversation itself, which has no channel, as people may see it."""
        raise ToolError("nobody reads along here; name channel and chat_id")

    async def ask(self, question: Question, step: str) -> str | None:
        """Ask the person for whom the turn runs, and wait; None: no answer."""
        raise ToolError(f"nobody can be asked {self.place}")

    async def keep_todos(self, todos: Sequence[Todo]) -> None:
        """Replace the session's to-do list, and show it."""

    async def leave_plan(self, mode: Mode) -> None:
        """End plan mode: the session goes on in this mode."""
        raise ToolError("there is no session here whose mode could change")

    async def command(self, text: str) -> str:
        """Answer a slash command for the acting person."""
        raise ToolError("there is nobody here who answers commands")

    async def schedule(self, order: ScheduleOrder) -> str:
        """Carry out an order about the schedules of the acting person; return the outcome in words."""
        raise ToolError("nothing can be scheduled here: there is no conversation of a person to which it would belong")

    async def spawn(self, task: AgentTask, step: str, call_id: str) -> AgentReport:
        """Run an agent to its end, or start it in the background, for the call with this id."""
        raise ToolError("no agents can be started here: there is no conversation that they could work for")

    async def forward(self, wanted: Forward, step: str, call_id: str) -> ToolResult:
        """Make a call of another tool in place of the call with this id."""
        raise ToolError(f"{wanted.tool} cannot be called from here: there is no conversation")

    async def sample(self, wanted: Sample) -> Sampled:
        """Have a model answer a prompt outside the conversation, within the turn's budget."""
        raise ToolError("the model cannot be asked here: there is no conversation on whose account that would be")


class CallPort(Protocol):
    """One call as its context reaches it (the dispatcher's `Watch`): see the methods of `ToolContext`."""

    @property
    def services(self) -> TurnServices:
        """The services of its turn. Raises ToolError once the call is over: an abandoned tool acts for no turn."""
        ...

    @property
    def step(self) -> str: ...

    def question(self) -> str:
        """Return the step name of the call's next question."""
        ...

    def authorize(self, action: str, target: str) -> Decision: ...

    def agreed_by(self, action: str, target: str) -> Actor | None: ...

    def attach(self, kind: str, data: BaseModel) -> None: ...

    async def send(self, delivery: Delivery, file: Artifact | None) -> Receipt: ...

    def mode(self) -> Mode: ...

    def usable(self) -> Sequence[ToolSpec]: ...

    def set_source(self, kind: SourceKind) -> None: ...

    def progress(self, text: str) -> None: ...

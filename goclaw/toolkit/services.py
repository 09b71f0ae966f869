"""The services of a turn for the tools it calls, and their absence outside of turns.

A new capability for tools is a method of `TurnServices`, its refusal in `Detached`, its implementation for turns
(`sessions.agent_services`), and the method of `ToolContext` that tools call.
"""

from collections.abc import Sequence
from typing import Protocol

from pydantic import BaseModel

from goclaw.access import ChosenMode
from goclaw.config.values import Mode
from goclaw.errors import DeliveryError, ToolError
from goclaw.events import Actor, Decision, Delivery, Question, Receipt, Todo, TurnEvent
from goclaw.messages import ToolCall, ToolResult
from goclaw.specs import ToolSpec
from goclaw.toolkit.consent import ApprovalRequest, Consent
from goclaw.toolkit.reminders import NoReminders, Reminders
from goclaw.toolkit.results import ResultType
from goclaw.toolkit.sampling import Sample, Sampled
from goclaw.toolkit.settings import NoSettings, SettingsPort
from goclaw.toolkit.spawning import AgentPort, AgentReport, AgentTask, Forward
from goclaw.toolkit.teaming import NoTeams, TeamPort


class TurnServices(AgentPort, Protocol):
    """The services of the turn, or other place, that calls are made from. `step` is a call's name in the journal."""

    @property
    def reminders(self) -> Reminders:
        """The reminders for the model after the results of this answer."""
        ...

    @property
    def settings(self) -> SettingsPort:
        """The settings of the conversation that a call may read and change."""
        ...

    @property
    def teams(self) -> TeamPort:
        """The team of the conversation."""
        ...

    def emit(self, event: TurnEvent) -> None:
        """Show an event of a call to clients."""
        ...

    def chosen_mode(self) -> ChosenMode | None:
        """Return the permission mode that was chosen for the session, as of now; None: the configured one."""
        ...

    async def complete(self, spec: ToolSpec, call: ToolCall, step: str) -> ToolCall:
        """Fill in missing required arguments. Raises ToolError if the call shall not run."""
        ...

    async def approve(self, wanted: ApprovalRequest) -> Consent:
        """Ask a person for approval. Raises ToolError where none can be asked."""
        ...

    async def intend(self, step: str) -> None:
        """Record that a call is about to run that must not run twice."""
        ...

    def gave(self, spec: ToolSpec, result: ResultType, value: object) -> None:
        """Take the value that a successful call returned, for programs that use its fields. It is not masked yet."""
        ...

    async def deliver(self, delivery: Delivery) -> Receipt:
        """Hand a message over to a chat and wait for the channel's receipt."""
        ...

    async def ask(self, question: Question, step: str) -> str | None:
        """Ask the person for whom the turn runs, and wait; None: no answer. Raises ToolError if none can be asked."""
        ...

    async def keep_todos(self, todos: Sequence[Todo]) -> None:
        """Replace the session's to-do list, and show it."""
        ...

    async def leave_plan(self, mode: Mode) -> None:
        """End plan mode: the session goes on in this mode. Raises ToolError where the actor may not choose it."""
        ...

    async def command(self, text: str) -> str:
        """Answer a slash command for the acting person. Raises ToolError where it may not be used."""
        ...

    async def sample(self, wanted: Sample) -> Sampled:
        """Have a model answer a prompt outside the conversation, within what the turn may spend.

        Raises:
            ToolError: it does not answer; the message says why, and nothing that only the person should know.
        """
        ...


class Detached:
    """Implements `TurnServices` outside of turns; a caller overrides what it has."""

    place = "here"
    """The place of the calls, in words."""
    reminders: Reminders = NoReminders()
    settings: SettingsPort = NoSettings()
    teams: TeamPort = NoTeams()

    def emit(self, event: TurnEvent) -> None:
        """Discard the event."""

    def chosen_mode(self) -> ChosenMode | None:
        """Return None: no mode can be chosen."""
        return None

    async def complete(self, spec: ToolSpec, call: ToolCall, step: str) -> ToolCall:
        """Return the call unchanged."""
        return call

    async def approve(self, wanted: ApprovalRequest) -> Consent:
        raise ToolError(f"approval required: {wanted.reason}")

    async def intend(self, step: str) -> None:
        """Record nothing: there is no journal."""

    def gave(self, spec: ToolSpec, result: ResultType, value: object) -> None:
        """Ignore the value."""

    async def deliver(self, delivery: Delivery) -> Receipt:
        raise DeliveryError(f"no channel named {delivery.address.channel} is connected here", permanent=True)

    async def ask(self, question: Question, step: str) -> str | None:
        raise ToolError(f"nobody can be asked {self.place}")

    async def keep_todos(self, todos: Sequence[Todo]) -> None:
        """Discard the list: a single call has no session."""

    async def leave_plan(self, mode: Mode) -> None:
        raise ToolError("there is no session here whose mode could change")

    async def command(self, text: str) -> str:
        raise ToolError("there is nobody here who answers commands")

    async def spawn(self, task: AgentTask, step: str, call_id: str) -> AgentReport:
        raise ToolError("no agents can be started here: there is no conversation that they could work for")

    async def forward(self, wanted: Forward, step: str, call_id: str) -> ToolResult:
        raise ToolError(f"{wanted.tool} cannot be called from here: there is no conversation")

    async def sample(self, wanted: Sample) -> Sampled:
        raise ToolError("the model cannot be asked here: there is no conversation on whose account that would be")


class CallPort(Protocol):
    """One call as its `ToolContext` reaches it; the dispatcher's `Watch` implements it."""

    @property
    def services(self) -> TurnServices:
        """The services of its turn. Raises ToolError once the call is over: an abandoned tool acts for no turn."""
        ...

    def question(self) -> str:
        """Return the step name of the call's next question."""
        ...

    def authorize(self, action: str, target: str) -> Decision:
        """Return whether the actor may do `action` to `target`."""
        ...

    def agreed_by(self, action: str, target: str) -> Actor | None:
        """Return the approver of the call if authorized for `action` on `target`, else None."""
        ...

    def attach(self, kind: str, data: BaseModel) -> None:
        """Take an artifact of a kind that the tool declares."""
        ...

    def mode(self) -> Mode:
        """Return the permission mode in force."""
        ...

    def usable(self) -> Sequence[ToolSpec]:
        """Return the tools that the actor may use and that can work."""
        ...

    def progress(self, text: str) -> None:
        """Announce the progress of the call, in one line."""
        ...

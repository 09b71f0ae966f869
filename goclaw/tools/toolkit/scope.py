"""The scope and state of a call: its actor, and its outcome so far."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from pydantic import BaseModel

from goclaw.common.auth.access import Access
from goclaw.common.config.values import Mode
from goclaw.common.core.events import Actor, Address, AgentProgress, Decision, TurnEvent
from goclaw.common.core.messages import Image, Provenance, ToolCall
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask, printable, storable
from goclaw.common.specs import ToolSpec
from goclaw.common.workspace import Workspace
from goclaw.errors import ToolError
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.scheduling import Slot
from goclaw.tools.toolkit.services import TurnServices

MAX_PROGRESS = 200
"""Characters of a line that says how far a call is."""


@record
class CallScope:
    """The person that calls are made for, and their origin."""

    actor: Actor
    session: str
    address: Address
    services: TurnServices
    turn: str = ""
    seconds: float | None = None
    """How long a tool may run that declares no time of its own; None: `tools.timeout`."""
    selections: tuple[Sequence[str] | None, ...] = ()
    """Selections of the actor's tools (see `core.selection`), each of which must have the tool; None: all of
    them.

    That of the agent, and those of the agents for which it works.
    """
    workspace: Workspace | None = None
    """Where files are read and written, and commands run; None: in the actor's workspace."""


@record
class CallOptions:
    """The circumstances of one call."""

    step: str = ""
    """Its name in the journal of the turn."""
    slot: Slot = field(default_factory=Slot)
    """Its place among the calls of the same answer."""
    compress: bool = False
    """Whether what commands say is shortened for the model that asked (`execution.compression.shortening`)."""
    hidden: bool = False
    """It stands in for another call, which clients see already."""
    explains: bool = False
    """Whether its result has the schema, too, if it is malformed (`limits.failed_calls`)."""


@dataclass(slots=True)
class Watch:
    """One call while it runs. Implements `toolkit.services.CallPort`."""

    scope: CallScope
    options: CallOptions
    access: Access
    registry: Registry
    began: float
    """Monotonic."""
    call: ToolCall
    """As it runs: with the input that hooks made of it."""
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
    denied: bool = False
    """It needed approval, and did not get it."""
    lacking: tuple[str, ...] = ()
    """The required arguments that it lacked."""
    missed: Sequence[ToolSpec] = ()
    """The tools that it may have meant, if it did not run for its form alone."""
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
    approver: Actor | None = None
    """The person who approved the call."""
    questions: Iterator[int] = field(default_factory=lambda: count(1))
    """Numbers of its questions."""

    @property
    def services(self) -> TurnServices:
        """The services of its turn. Raises ToolError once the call is over: an abandoned tool acts for no turn."""
        if self.over:
            raise ToolError("the call was ended")
        return self.scope.services

    @property
    def step(self) -> str:
        """The call's name in the journal."""
        return self.options.step or f"tool:{self.call.id}"

    def question(self) -> str:
        """Return the step name of the call's next question."""
        return f"{self.step}:{next(self.questions)}"

    def authorize(self, action: str, target: str) -> Decision:
        """Return whether the actor may do `action` to `target`."""
        return self.access.authorize(self.scope.actor, action, target)

    def agreed_by(self, action: str, target: str) -> Actor | None:
        """Return the approver of the call if authorized for `action` on `target`, else None."""
        by = self.approver
        return by if by and self.access.authorize(by, action, target).allowed else None

    def attach(self, kind: str, data: BaseModel) -> None:
        """Take an artifact of a kind that the tool declares."""
        if self.over:
            raise ToolError("the call was ended")
        model = self.tool.artifacts.get(kind) if self.tool else None
        if model is None or not isinstance(data, model):
            raise ValueError(f"{self.call.name} declares no artifact {kind} of type {type(data).__name__}")
        self.attached.append((kind, data))

    def mode(self) -> Mode:
        """Return the permission mode in force."""
        return self.access.mode(self.scope.actor, self.scope.services.chosen_mode())

    def usable(self) -> Sequence[ToolSpec]:
        """Return the tools that calls of this scope may be made of."""
        return self.registry.offered_to(self.scope.actor, *self.scope.selections, planning=self.mode() == "plan")

    def progress(self, text: str) -> None:
        """Announce the progress of the call, in one line."""
        if not self.over and (line := mask(printable(storable(" ".join(text.split()))))[:MAX_PROGRESS]):
            self.emit(AgentProgress(self.scope.turn, self.scope.session, self.call.id, self.call.name, line))

    def emit(self, event: TurnEvent) -> None:
        """Show an event of the call to clients."""
        if not self.options.hidden:
            self.scope.services.emit(event)

    def give(self) -> None:
        """Hand the value of the result over to programs."""
        if self.tool and not self.options.hidden:
            self.scope.services.gave(self.tool.spec, self.tool.result, self.value)

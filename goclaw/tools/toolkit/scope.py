"""The scope and state of a call: its actor, and its outcome so far."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count

from pydantic import BaseModel

from goclaw.common.config.values import Mode
from goclaw.common.core.events import (
    LOCAL,
    Actor,
    Address,
    AgentProgress,
    Decision,
    Delivery,
    Receipt,
    TurnEvent,
)
from goclaw.common.core.messages import SAID, SAID_NAME, Artifact, Image, Provenance, SourceKind, ToolCall
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask, printable, storable
from goclaw.common.specs import ToolSpec
from goclaw.common.workspace import Workspace
from goclaw.errors import ToolError
from goclaw.tools.approval.guard import Finding
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.registry import Registry
from goclaw.tools.toolkit.scheduling import Slot
from goclaw.tools.toolkit.services import TurnServices

MAX_PROGRESS = 200
"""Characters of a line that says how far a call is."""
MARKDOWN = "text/markdown"
"""The media type of a message's text."""


@record
class CallScope:
    """The person that calls are made for, and their origin."""

    actor: Actor
    session: str
    address: Address
    services: TurnServices
    turn: str = ""
    seconds: float | None = None
    """How long a tool may run, whatever it declares; None: as it declares, else `tools.timeout`."""
    limit: Callable[[float | None], AbstractAsyncContextManager[object]] = asyncio.timeout
    """Bounds a tool that has a time of its own; it may wait for people, which does not count."""
    selections: tuple[Sequence[str] | None, ...] = ()
    """Selections of the actor's tools (see `core.selection`), each of which must have the tool; None: all of
    them.

    That of the agent, and those of the agents for which it works.
    """
    workspace: Workspace | None = None
    """Where files are read and written, and commands run; None: in the actor's workspace."""
    agent: str = ""
    """The agent that makes them, with its own tools; empty: there is none."""


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


@record
class Invocation:
    """A tool with validated arguments."""

    tool: Tool
    arguments: BaseModel


@dataclass(slots=True)
class Judgement:
    """How the registry, the rules and people judge a call."""

    said: str
    """The tool's name, as the model said it."""
    listed: ToolSpec | None = None
    """The tool's spec, regardless of rights."""
    decision: Decision | None = None
    """Whether it may be made, as it was looked at last."""
    approver: Actor | None = None
    """The person who approved the call."""
    finding: Finding | None = None
    """Why the guard asks about it; None: it does not."""


class Refusal(Enum):
    """Who did not let a call run."""

    RULE = auto()
    """A rule, a mode or a hook."""
    PERSON = auto()
    """It needed approval, and did not get it."""


@dataclass(slots=True)
class CallOutcome:
    """The outcome of a call so far, apart from its text."""

    refusal: Refusal | None = None
    lacking: tuple[str, ...] = ()
    """The required arguments that the call lacked."""
    missed: Sequence[ToolSpec] = ()
    """The tools that it may have meant, if it did not run for its form alone."""
    provenance: Provenance | None = None
    """Where what the tool says, its errors included, comes from; None: from GoClaw itself, or it has not begun."""
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
    notes: list[str] = field(default_factory=list)
    """Lines of ours below the result, for the model and for people."""
    attached: list[tuple[str, BaseModel]] = field(default_factory=list)
    """Artifacts, as the tool gave them."""
    sent: list[Artifact] = field(default_factory=list)
    """The text and the file that it sent to its own conversation."""


class Stage(Enum):
    """How far a call is."""

    WAITING = auto()
    RUNNING = auto()
    """It is allowed and announced, and may have had an effect."""
    OVER = auto()
    """The caller has stopped waiting."""


@dataclass(slots=True)
class Watch:
    """One call while it runs. Implements `toolkit.services.CallPort`."""

    scope: CallScope
    options: CallOptions
    registry: Registry
    judgement: Judgement
    call: ToolCall
    """As it runs: with the input that hooks made of it."""
    began: float
    """Monotonic."""
    stage: Stage = Stage.WAITING
    invocation: Invocation | None = None
    outcome: CallOutcome = field(default_factory=CallOutcome)
    questions: Iterator[int] = field(default_factory=lambda: count(1))
    """Numbers of its questions."""

    @property
    def tool(self) -> Tool | None:
        return self.invocation.tool if self.invocation else None

    @property
    def tool_id(self) -> str:
        """The tool's id for rights and the audit log; of an unknown one the name in the call."""
        return self.judgement.listed.id if self.judgement.listed else self.call.name

    @property
    def has_begun(self) -> bool:
        """Whether it may have had an effect."""
        return self.stage is not Stage.WAITING

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be made again, as far as it has come."""
        return not self.has_begun or self.tool is None or self.tool.spec.idempotent

    @property
    def runs_steps(self) -> bool:
        """Whether what fails in it is a step of the turn."""
        return self.tool is not None and self.tool.runs_steps

    @property
    def services(self) -> TurnServices:
        """The services of its turn. Raises ToolError once the call is over: an abandoned tool acts for no turn."""
        if self.stage is Stage.OVER:
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
        return self.registry.access.authorize(self.scope.actor, action, target)

    def agreed_by(self, action: str, target: str) -> Actor | None:
        """Return the approver of the call if authorized for `action` on `target`, else None."""
        by = self.judgement.approver
        return by if by and self.registry.access.authorize(by, action, target).allowed else None

    def attach(self, kind: str, data: BaseModel) -> None:
        """Take an artifact of a kind that the tool declares."""
        if self.stage is Stage.OVER:
            raise ToolError("the call was ended")
        model = self.tool.artifacts.get(kind) if self.tool else None
        if model is None or not isinstance(data, model):
            raise ValueError(f"{self.call.name} declares no artifact {kind} of type {type(data).__name__}")
        self.outcome.attached.append((kind, data))

    async def send(self, delivery: Delivery, file: Artifact | None) -> Receipt:
        """Hand a message over; what the call's own conversation gets is kept with the result, too."""
        if delivery.address.channel == LOCAL:
            receipt, text = Receipt(""), mask(storable(await self.services.show(delivery)))
            if text.strip():
                self.outcome.sent.append(Artifact(SAID, "", MARKDOWN, SAID_NAME, len(text.encode()), text))
        else:
            receipt = await self.services.deliver(delivery)
        if file and delivery.address == self.scope.address:
            self.outcome.sent.append(file)
        return receipt

    def mode(self) -> Mode:
        """Return the permission mode in force."""
        return self.registry.access.mode(self.scope.actor, self.scope.services.chosen_mode())

    def usable(self) -> Sequence[ToolSpec]:
        """Return the tools that calls of this scope may be made of."""
        return self.registry.offered_to(self.scope.actor, *self.scope.selections, planning=self.mode() == "plan")

    def set_source(self, kind: SourceKind) -> None:
        """Set the source of the result, where it is not the one that the tool's tags imply."""
        self.outcome.provenance = Provenance(kind)

    def progress(self, text: str) -> None:
        """Announce the progress of the call, in one line."""
        if self.stage is not Stage.OVER and (line := mask(printable(storable(" ".join(text.split()))))[:MAX_PROGRESS]):
            self.emit(AgentProgress(self.scope.turn, self.scope.session, self.call.id, self.call.name, line))

    def emit(self, event: TurnEvent) -> None:
        """Show an event of the call to clients."""
        if not self.options.hidden:
            self.scope.services.emit(event)

    def publish(self) -> None:
        """Hand the value of the result over to programs."""
        if self.tool and not self.options.hidden:
            self.scope.services.gave(self.tool.spec, self.tool.result, self.outcome.value)

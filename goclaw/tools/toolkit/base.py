"""Tools: typed async functions with a docstring. `@tool` derives the rest from the signature.

    @tool(side_effect=SideEffect.READ_ONLY)
    async def greet(ctx: ToolContext, name: Annotated[str, Field(description="Whom to greet")]) -> str:
        '''Say hello to a person.'''
        return f"Hello, {name}!"

The function returns text, a plain value, or a `toolkit.results.Result`; it raises `ToolError` for failures. A command
that exits non-zero or a search without hits is a result, not an error.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Concatenate, Protocol, get_type_hints, runtime_checkable

from pydantic import BaseModel

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.config.schema import Config
from goclaw.common.config.values import Mode
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor, Address, Decision, Delivery, Question, Receipt, Todo
from goclaw.common.core.messages import Artifact, Piece, SourceKind, ToolResult
from goclaw.common.core.records import record
from goclaw.common.net.pages.base import Web
from goclaw.common.specs import RISK_OF, TELLS_FOREIGN, Annotations, Confirmation, Example, Risk, SideEffect, ToolSpec
from goclaw.common.workspace import ApprovedFiles, Workspace
from goclaw.durable.store.blobs import Blobs
from goclaw.errors import DeliveryError, InvalidInput, ToolError
from goclaw.memory.base import MemoryPort
from goclaw.tools.approval.guard import Sink
from goclaw.tools.approval.requests import DENIED, Grounds
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.execution.tasks.base import Tasks
from goclaw.tools.templates import check
from goclaw.tools.toolkit.agent_tasks import AgentReport, AgentTask, Forward, TeamPort
from goclaw.tools.toolkit.arguments import validate
from goclaw.tools.toolkit.json_schema import Takes, arguments_of, refuse_faults, schema_of, without_titles
from goclaw.tools.toolkit.results import BOUNDS, ResultType
from goclaw.tools.toolkit.schedule_orders import ScheduleOrder
from goclaw.tools.toolkit.scheduling import ResourceUse
from goclaw.tools.toolkit.services import CallPort, Reminders, Sample, Sampled, SettingsPort

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The tool names that every provider accepts."""
_MAX_TEXT = 2_000
"""Maximum characters of a template for a question or a denial."""
_IN_THE_CATALOGUE = ("goclaw.tools.builtin.", "goclaw.extensions.")
"""Packages of the tools that the catalogue names."""


@record
class LivePrompt:
    """A prompt of an MCP server, as a command."""

    name: str
    """Of the command: `mcp__<server>__<prompt>`, in small letters, digits and `_`."""
    summary: str
    """One line for menus and /help."""
    say: Callable[[str], Awaitable[tuple[Piece, ...]]]
    """Return the message for the text behind the command, as pieces with their origins (empty: the person's own words).

    Raises ToolError; where something is missing the error says how the command is used.
    """


class ToolEnvironment(Protocol):
    """The parts that tools stand on; `app` fills them in, the same for every call."""

    @property
    def config(self) -> Config: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def sandbox(self) -> Sandbox: ...

    @property
    def blobs(self) -> Blobs: ...

    @property
    def memory(self) -> MemoryPort: ...

    @property
    def tasks(self) -> Tasks: ...

    @property
    def web(self) -> Web: ...

    @property
    def approved_files(self) -> ApprovedFiles:
        """The approved prompt files of all workspaces."""
        ...

    @property
    def audit(self) -> Callable[[AuditEntry], None]:
        """Record a decision and its outcome in the audit log."""
        ...

    async def workspace(self, actor: Actor, session: str = "") -> Workspace:
        """Return the workspace that `actor` works in, in that session: a group's may be another one."""
        ...


@record
class ToolContext:
    """The context of one tool call. It holds ports only: no tool depends on a channel."""

    actor: Actor
    session: str
    call_id: str
    address: Address
    """Where the conversation takes place."""
    environment: ToolEnvironment
    workspace: Workspace
    port: CallPort
    """The call and its services; tools use the methods below, which raise ToolError once the call is over."""
    compress: bool = False
    """Shorten the output of commands where possible, because the model has little room."""
    own_workspace: Workspace | None = None
    """The person's, where `workspace` is another one: that of an agent with a worktree of its own."""
    turn: str = ""

    @property
    def step(self) -> str:
        """The call's name in the journal: unique within the turn (models repeat call ids), the same after a crash."""
        return self.port.step

    def check_delivery(self, delivery: Delivery) -> None:
        """Check that a channel takes such a message, before anybody is asked about it. Raises ToolError."""
        try:
            self.port.services.check_delivery(delivery)
        except DeliveryError as error:
            raise ToolError(f"not delivered: {error}") from error

    async def deliver(self, delivery: Delivery, file: Artifact | None = None) -> Receipt:
        """Hand a message and its file over to a chat and wait for the receipt; a local conversation shows them."""
        return await self.port.send(delivery, file)

    async def ask(self, question: Question) -> str | None:
        """Ask the person for whom the turn runs, and wait, over restarts if need be; None: no answer.

        A tool that asks is run again after a restart and gets the answers that were given: it must be idempotent up
        to its last question.
        """
        return await self.port.services.ask(question, self.port.question())

    async def keep_todos(self, todos: Sequence[Todo]) -> None:
        """Replace the session's to-do list, and show it."""
        await self.port.services.keep_todos(todos)

    def authorize(self, action: str, target: str) -> Decision:
        """Return whether the acting person may do `action` to `target`: for what arguments reach beyond the tool."""
        return self.port.authorize(action, target)

    def agreed_by(self, action: str, target: str) -> Actor | None:
        """Return the approver of this call if authorized for `action` on `target`, else None."""
        return self.port.agreed_by(action, target)

    def attach(self, kind: str, data: BaseModel) -> None:
        """Keep data for people, never for the model: a kind that the tool declares in `artifacts`, and its model."""
        self.port.attach(kind, data)

    async def leave_plan(self, mode: Mode) -> None:
        """End plan mode: the session goes on in this mode. Only to be called when a person just agreed to the plan.

        Raises ToolError where the acting person may not choose that mode.
        """
        await self.port.services.leave_plan(mode)

    def mode(self) -> Mode:
        """Return the permission mode in force, as of now."""
        return self.port.mode()

    async def command(self, text: str) -> str:
        """Have a slash command answered as if the acting person had sent it; raises ToolError where that may not be."""
        return await self.port.services.command(text)

    async def schedule(self, order: ScheduleOrder) -> str:
        """Carry out an order about the schedules of the acting person; return the outcome in words.

        Raises:
            ToolError: it cannot be, or the person may not; the message says why.
        """
        return await self.port.services.schedule(order)

    async def spawn(self, task: AgentTask) -> AgentReport:
        """Have an agent do a task for the caller, within the caller's rights.

        Raises:
            ToolError: it could not be started, or did not finish; the message says why.
        """
        return await self.port.services.spawn(task, self.step, self.call_id)

    async def forward(self, wanted: Forward) -> ToolResult:
        """Make a call of another tool in place of this one, as if the model had made it."""
        return await self.port.services.forward(wanted, self.step, self.call_id)

    async def sample(self, wanted: Sample) -> Sampled:
        """Have a model answer a prompt outside the conversation, on the caller's behalf.

        Raises:
            ToolError: it does not answer; the message says why, and nothing that only the person should know.
        """
        return await self.port.services.sample(wanted)

    def usable(self) -> Sequence[ToolSpec]:
        """Return the tools that the acting person may use and that can work, as of now."""
        return self.port.usable()

    def set_source(self, kind: SourceKind) -> None:
        """Set the source of the result, where it is not the one that the tool's tags imply."""
        self.port.set_source(kind)

    def progress(self, text: str) -> None:
        """Report the progress of the call in a line, for people only; the model never reads it."""
        self.port.progress(text)

    @property
    def reminders(self) -> Reminders:
        """The reminders for the model after the results of this answer."""
        return self.port.services.reminders

    @property
    def settings(self) -> SettingsPort:
        """The settings of the conversation."""
        return self.port.services.settings

    @property
    def teams(self) -> TeamPort:
        """The team of the conversation."""
        return self.port.services.teams

    @property
    def home(self) -> Workspace:
        """The person's workspace: memories lie there, and no command reaches beyond it."""
        return self.own_workspace or self.workspace

    @property
    def config(self) -> Config:
        return self.environment.config

    @property
    def sandbox(self) -> Sandbox:
        return self.environment.sandbox

    @property
    def blobs(self) -> Blobs:
        return self.environment.blobs

    @property
    def memory(self) -> MemoryPort:
        return self.environment.memory

    @property
    def tasks(self) -> Tasks:
        return self.environment.tasks

    @property
    def clock(self) -> Clock:
        return self.environment.clock


@record
class Tool:
    """A declared tool."""

    spec: ToolSpec
    arguments: type[BaseModel]
    run: Callable[..., Awaitable[Any]]
    """From the context and the arguments to the result."""
    own_timeout: bool = False
    """The tool bounds its own time (`exec` has a `timeout` argument); the dispatcher's only limit is `timing.tools`."""
    risk: "RiskOf | None" = None
    """The risk of one call, from its validated arguments, where it differs from the spec's."""
    grounds: "GroundsOf | None" = None
    """Finds what a call depends on besides its arguments, for the approval request and again before the run."""
    denied: str = DENIED
    """The template of the model's result for a denied call (see `tools.approval.requests.DENIED`)."""
    access: "AccessOf | None" = None
    """Finds what a call reads and writes, for the scheduler; None: see `scheduling.access_of`."""
    result: ResultType = field(default_factory=lambda: ResultType(str))
    takes: Takes = Takes.FIELDS
    artifacts: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    """The models of the kinds in `spec.artifacts`."""
    runs_steps: bool = False
    """It runs steps of a turn, which must not go on behind it: a /stop waits for its end, however long that takes."""
    needs: "NeedsOf | None" = None
    """Why no call of it can work with a configuration, for people; empty: it can. None: it always can."""
    only_in: Mode | None = None
    """The permission mode in which alone it is of use."""
    sink: "SinkOf | None" = None
    """What one call does as far as the guard is concerned; None: as its tags and side effect imply."""

    def availability(self, config: Config) -> str:
        """When models are offered it with this configuration, in words for people; empty: always."""
        if self.needs and (lack := self.needs(config)):
            return f"not offered to the agent: {lack}"
        return f"offered to the agent in the mode {self.only_in} only" if self.only_in else ""

    def usual_risk(self, config: Config) -> Risk | None:
        """Return the risk of every call with this configuration; None: it depends on the call."""
        if self.risk is None:
            return self.spec.risk
        known = isinstance(self.risk, CallRisk) and self.risk.configured
        return self.spec.at_least(known(config)) if known else None

    @property
    def highest_risk(self) -> Risk:
        """The highest risk of a call, as far as it is declared."""
        return self.spec.at_least(self.risk.most) if isinstance(self.risk, CallRisk) else self.spec.risk

    async def call(self, context: ToolContext, arguments: BaseModel) -> Any:
        """Run the function with validated arguments."""
        match self.takes:
            case Takes.FIELDS:
                return await self.run(context, **dict(arguments))
            case Takes.MODEL:
                return await self.run(context, arguments)
            case Takes.VALUE:
                return await self.run(context, arguments.value)  # type: ignore[attr-defined]  # made in `json_schema`


class ToolSource(Protocol):
    """A live list of tools: built in, from the configuration, plugins, MCP, agents, registries."""

    def tools(self) -> Sequence[Tool]: ...


@runtime_checkable
class LateSource(ToolSource, Protocol):
    """A source with tools that take long to load."""

    async def ready(self) -> None:
        """Load the tools; without this `tools` loads them itself, and holds up the event loop meanwhile."""
        ...


@runtime_checkable
class ConnectingSource(ToolSource, Protocol):
    """A source that connects in the background once it is open."""

    async def settled(self, seconds: float) -> None:
        """Wait until every connection was tried once, at most so long."""
        ...


@runtime_checkable
class PromptSource(ToolSource, Protocol):
    """A source that also has prompts."""

    def prompts(self) -> Sequence[LivePrompt]: ...


@record
class CallRisk:
    """A `RiskOf` with more known before a call."""

    most: Risk
    """The highest that a call can have."""
    judge: "RiskOf"
    """Returns the risk of one call."""
    configured: Callable[[Config], Risk] | None = None
    """Returns the risk of every call, where the configuration alone decides it; None: the arguments do."""

    def __call__(self, arguments: Any, context: ToolContext) -> Risk:
        return self.judge(arguments, context)


ToolFunction = Callable[Concatenate[ToolContext, ...], Awaitable[Any]]
GroundsOf = Callable[[Any, ToolContext], Awaitable[Grounds]]
RiskOf = Callable[[Any, ToolContext], Risk]
"""The risk of one call; `CallRisk` says more of it beforehand."""
AccessOf = Callable[[Any, ToolContext], ResourceUse]
NeedsOf = Callable[[Config], str]
SinkOf = Callable[[Any, ToolContext], Sink | None]


def tool(
    *,
    side_effect: SideEffect,
    risk: Risk | RiskOf | None = None,
    idempotent: bool = True,
    tags: Sequence[str] = (),
    name: str | None = None,
    title: str = "",
    own_timeout: bool = False,
    timeout: float | None = None,
    foreign: bool | None = None,
    grounds: GroundsOf | None = None,
    denied: str = DENIED,
    annotations: Annotations | None = None,
    examples: Sequence[Example] = (),
    call_hint: str = "",
    asks: str = "",
    does: str = "",
    result_hint: str = "",
    reminder: str = "",
    confirm: Confirmation | None = None,
    access: AccessOf | None = None,
    bounded: bool = False,
    artifacts: Mapping[str, type[BaseModel]] | None = None,
    runs_steps: bool = False,
) -> Callable[[ToolFunction], Tool]:
    """Turn `async def name(ctx, …) -> Result` into a `Tool`.

    Each argument is described at the field of `ToolSpec` or `Tool` with its name; omitted ones follow from the side
    effect and the function. Raises ValueError when the declaration contradicts itself.
    """

    def declare(function: ToolFunction) -> Tool:
        arguments, takes, injected = arguments_of(function)
        result, kinds = ResultType(get_type_hints(function).get("return", str)), artifacts or {}
        hints, risk_of = annotations or _annotations(side_effect, idempotent), None if isinstance(risk, Risk) else risk
        spec = ToolSpec(
            name=name or function.__name__,
            description=inspect.getdoc(function) or "",
            schema=schema_of(arguments, injected),
            side_effect=side_effect,
            risk=risk if isinstance(risk, Risk) else RISK_OF[side_effect],
            idempotent=idempotent,
            tags=frozenset(tags),
            foreign=side_effect in TELLS_FOREIGN if foreign is None else foreign,
            annotations=replace(hints, title=title) if title else hints,
            examples=tuple(examples),
            call_hint=call_hint, asks=asks, does=does, result_hint=result_hint, reminder=reminder,
            confirm=confirm,
            timeout=timeout,
            result_schema=without_titles(result.schema),
            bounded=bounded,
            injected=injected,
            artifacts={kind: without_titles(model.model_json_schema()) for kind, model in kinds.items()},
        )  # fmt: skip
        _check_spec(spec, function, arguments, result, denied)
        own = (own_timeout, risk_of, grounds, denied, access, result, takes, kinds, runs_steps)
        return Tool(spec, arguments, function, *own)

    return declare


def offered(*, needs: NeedsOf | None = None, only_in: Mode | None = None) -> Callable[[Tool], Tool]:
    """Stand above `@tool` of one that models are not offered always; see the fields of `Tool` with these names."""
    return lambda declared: replace(declared, needs=needs, only_in=only_in)


def guarded(sink: SinkOf) -> Callable[[Tool], Tool]:
    """Stand above `@tool` of one whose calls the guard looks at; see `Tool.sink`."""
    return lambda declared: replace(declared, sink=sink)


def check_templates(spec: ToolSpec, arguments: type[BaseModel], result: ResultType, denied: str) -> None:
    """Check that the templates of a declaration are valid, and use only what there is.

    Raises:
        ValueError: one is not; the message names the tool and the fault.
    """
    names = set(arguments.model_fields)
    check(spec.call_hint, names, f"the call hint of {spec.name}")
    check(spec.asks, names, f"the question of {spec.name}")
    check(spec.result_hint, result.names | {"args"}, f"the result hint of {spec.name}")
    if spec.confirm:
        check(spec.confirm.prompt, names, f"the confirmation of {spec.name}", _MAX_TEXT)
    check(denied, (names | {"tool"}) - spec.injected, f"the template for denials of {spec.name}", _MAX_TEXT)


def _check_spec(
    spec: ToolSpec, function: ToolFunction, arguments: type[BaseModel], result: ResultType, denied: str
) -> None:
    """Check that a declaration is consistent. Raises ValueError that names the tool and the fault."""
    check_name(spec.name)
    # The tests check the templates and defaults of the catalogue's tools, so that no start loads their engine.
    if not function.__module__.startswith(_IN_THE_CATALOGUE) or "." in function.__qualname__:
        check_templates(spec, arguments, result, denied)
        refuse_faults(arguments, spec.name, spec.schema)
    if spec.bounded and not result.is_bounded:
        raise ValueError(f"{spec.name} is bounded, so its result needs the fields {', '.join(BOUNDS)}")
    for example in () if spec.injected else spec.examples:  # the values that hooks would fill in are unknown
        try:
            validate(arguments, dict(example.input))
        except InvalidInput as error:
            raise ValueError(f"the example {example.about!r} of {spec.name}: {error}") from None


def check_name(name: str) -> None:
    """Raise ValueError unless a name is valid for a tool."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r}: a tool's name has up to 64 letters, digits, _ and -")


def _annotations(side_effect: SideEffect, idempotent: bool) -> Annotations:
    return Annotations(
        read_only=side_effect in (SideEffect.NONE, SideEffect.READ_ONLY),
        idempotent=idempotent,
        open_world=side_effect in (SideEffect.NETWORK, SideEffect.SPAWNS),
    )

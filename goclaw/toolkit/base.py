"""What a tool is: a typed async function with a docstring. `@tool` derives the rest from the signature.

    @tool(side_effect=SideEffect.READ_ONLY)
    async def greet(ctx: ToolContext, name: Annotated[str, Field(description="Whom to greet")]) -> str:
        '''Say hello to somebody.'''
        return f"Hello, {name}!"

The function returns the text that the model reads; it raises `ToolError` for what went wrong. A command that exits
non-zero or a search without hits is a result, not an error.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Protocol, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from goclaw.audit import Entry
from goclaw.blobs import Blobs
from goclaw.clock import Clock
from goclaw.config.schema import Config
from goclaw.events import Actor, Address, Decision, Delivery, Question, Receipt, Todo
from goclaw.memory.base import MemoryPort
from goclaw.sandbox.base import Sandbox
from goclaw.specs import RISK_OF, TELLS_FOREIGN, Risk, SideEffect, ToolSpec
from goclaw.toolkit.consent import DENIED, Grounds, names_in
from goclaw.workspace import Workspace


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
    def audit(self) -> Callable[[Entry], None]:
        """Takes what was decided and done down into the audit log."""
        ...

    async def workspace(self, actor: Actor) -> Workspace:
        """The workspace that `actor` works in."""
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know and use of the call that it serves. Ports only: no tool knows a channel."""

    actor: Actor
    session: str
    call_id: str
    address: Address
    """Where the conversation takes place."""
    environment: ToolEnvironment
    workspace: Workspace
    deliver: Callable[[Delivery], Awaitable[Receipt]]
    """Hand a message over to a chat and wait for the channel's receipt."""
    ask: Callable[[Question], Awaitable[str | None]]
    """Ask the person for whom the turn runs, and wait, over restarts if need be; None: no answer.

    A tool that asks is run again after a restart and gets the answers that were given: it must be idempotent up to
    its last question.
    """
    keep_todos: Callable[[Sequence[Todo]], Awaitable[None]]
    """Replace the session's list of what is to be done, and show it."""
    authorize: Callable[[str, str], Decision]
    """May the acting person do `action` to `object`? Asked for what a call's arguments reach beyond the tool itself."""
    turn: str = ""
    step: str = ""
    """The call's name in the journal: unique within the turn (models repeat call ids), the same after a crash."""

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
    def clock(self) -> Clock:
        return self.environment.clock


@dataclass(frozen=True, slots=True)
class Tool:
    """A declared tool."""

    spec: ToolSpec
    arguments: type[BaseModel]
    run: Callable[..., Awaitable[str]]
    own_timeout: bool = False
    """The tool bounds its own time (`exec` has a `timeout` argument); the dispatcher's limit does not apply."""
    risk: Callable[[Any, ToolContext], Risk] | None = None
    """The risk of one call, from its validated arguments, where it differs from the spec's."""
    grounds: "GroundsOf | None" = None
    """What a call rests on besides its arguments, looked at when it is asked for and again before it runs."""
    denied: str = DENIED
    """What the model reads of a denied call (see `consent.DENIED`)."""

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The values of arguments that a call may leave out."""
        fields = self.arguments.model_fields.items()
        return {name: field.get_default() for name, field in fields if not field.is_required()}


class ToolSource(Protocol):
    """A live list of tools: built in, or later from config, MCP, agents, registries, plugins."""

    def tools(self) -> Sequence[Tool]: ...


ToolFunction = Callable[Concatenate[ToolContext, ...], Awaitable[str]]
GroundsOf = Callable[[Any, ToolContext], Awaitable[Grounds]]


def tool(
    *,
    side_effect: SideEffect,
    risk: Risk | Callable[[Any, ToolContext], Risk] | None = None,
    idempotent: bool = True,
    tags: Sequence[str] = (),
    name: str | None = None,
    own_timeout: bool = False,
    foreign: bool | None = None,
    grounds: GroundsOf | None = None,
    denied: str = DENIED,
) -> Callable[[ToolFunction], Tool]:
    """Turn `async def name(ctx, …) -> str` into a `Tool`.

    Args:
        side_effect: what the tool does to the world; sets the risk unless `risk` says otherwise.
        risk: a fixed risk, or a function of the validated arguments and the context.
        idempotent: False writes an intent before the call, and a call cut by a crash is not repeated.
        tags: labels that rules and audits select by.
        name: the tool's name where it cannot be the function's own (`exec` is a builtin of Python).
        own_timeout: the tool bounds its own time.
        foreign: whether it returns text from outside; None: as its side effect says (`TELLS_FOREIGN`).
        grounds: what a call rests on besides its arguments (`Tool.grounds`).
        denied: what the model reads of a denied call (`consent.DENIED`).
    """

    def declare(function: ToolFunction) -> Tool:
        arguments = _arguments_model(function)
        fixed = risk if isinstance(risk, Risk) else RISK_OF[side_effect]
        spec = ToolSpec(
            name=name or function.__name__,
            description=inspect.getdoc(function) or "",
            schema=_schema(arguments),
            side_effect=side_effect,
            risk=fixed,
            idempotent=idempotent,
            tags=frozenset(tags),
            foreign=side_effect in TELLS_FOREIGN if foreign is None else foreign,
        )
        if unknown := set(names_in(denied)) - {"tool", *arguments.model_fields}:
            raise ValueError(f"the template for denials of {spec.name} names {', '.join(sorted(unknown))}")
        own_risk = None if isinstance(risk, Risk) else risk
        return Tool(spec, arguments, function, own_timeout, own_risk, grounds, denied)

    return declare


def _arguments_model(function: ToolFunction) -> type[BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    fields: dict[str, Any] = {
        parameter.name: (hints[parameter.name], ... if parameter.default is parameter.empty else parameter.default)
        for parameter in parameters
    }
    # Strict: "5" is not 5. A model that confuses them gets a sentence to learn from instead of a guess.
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid", strict=True), **fields)


def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema without pydantic's titles: they cost tokens and tell the model nothing."""
    schema: dict[str, Any] = _without_titles(arguments.model_json_schema())
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return schema


def _without_titles(node: Any, *, names: bool = False) -> Any:
    """`names`: the keys of this mapping are field names, of which `title` may be one."""
    match node:
        case dict():
            return {
                key: _without_titles(value, names=key in ("properties", "$defs"))
                for key, value in node.items()
                if names or not (key == "title" and isinstance(value, str))
            }
        case list():
            return [_without_titles(item) for item in node]
        case _:
            return node

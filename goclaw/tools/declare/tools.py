"""Tools and toolsets in code. A tool with a binding (`bind_to`) is a `toolkit.base.Tool` like every other.

A tool of an `export` without one is done by its agent: it compiles to the equivalent configuration.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from goclaw.common.config.exports import ConfirmSettings, ExportedToolSettings, PassthroughSettings, PublishSettings
from goclaw.common.config.mcp import PinnedSetSettings, PinnedTool, ServerName
from goclaw.common.core.records import record
from goclaw.common.core.selection import BUILT_IN
from goclaw.common.specs import Confirmation, Risk, SideEffect
from goclaw.errors import ToolError
from goclaw.tools.approval.requests import DENIED
from goclaw.tools.declare.options import ToolOption, ToolsetOption, collect, refuse_leftovers
from goclaw.tools.declare.registries import FromRegistry, registry_parts
from goclaw.tools.declare.shapes import Part, model_from, result_from, schema_from, with_injected, written
from goclaw.tools.toolkit.base import Tool, ToolContext
from goclaw.tools.toolkit.base import tool as declared_tool
from goclaw.tools.toolkit.binding import Errors, Method, Service, bind, find_mismatch, misfit
from goclaw.tools.toolkit.binding import passthrough as forwarded
from goclaw.tools.toolkit.parts import ToolsetPart
from goclaw.tools.toolkit.results import in_words

log = logging.getLogger(__name__)

PUBLISHED = PublishSettings.model_fields.keys()
_PINNED = frozenset({"args", "returns"})
"""The options for a tool that an MCP server implements."""
_OWN_SHAPES = ("returns", "inject", "artifact", "bounded_result")
"""The options that change the result shape given by the bound method."""
_SERVER: TypeAdapter[str] = TypeAdapter(ServerName)


@record
class Binding:
    """The implementation of a tool."""

    method: Method
    side_effect: SideEffect
    risk: Risk | None
    idempotent: bool
    service: Service | None
    to_call: Callable[[Any], Mapping[str, Any]] | None
    to_result: Callable[[Any], Any] | None
    errors: Errors
    as_it_is: bool = False


@record
class ToolDeclaration:
    """A tool, before it is known who does it."""

    word: ClassVar[str] = "tool"
    forms: ClassVar[tuple[str, ...]] = ("toolset", "export", "use")
    name: str
    description: str
    said: Mapping[str, Any]

    @property
    def does(self) -> Binding | None:
        """The implementation; None: an agent, or another tool."""
        found = self.said.get("passthrough", self.said.get("bind_to"))
        return found if isinstance(found, Binding) else None

    def built(self, tags: tuple[str, ...] = ()) -> Tool:
        """Build the tool, with these tags besides. Raises ValueError: it has no binding, or is inconsistent."""
        does = self.does
        if does is None:
            raise ValueError(f"{self.name}: nothing does it; say bind_to(...), or export it from an agent")
        said, confirm = self.said, self._confirm()
        function = self._function(does)
        build = declared_tool(
            side_effect=does.side_effect,
            risk=does.risk,
            idempotent=does.idempotent,
            tags=(*tags, *said.get("tags", ())),
            name=self.name,
            title=said.get("title", ""),
            call_hint=said.get("call_hint_template", ""),
            result_hint=said.get("result_hint_template", ""),
            reminder=said.get("result_reminder", ""),
            confirm=Confirmation(confirm.title or f"May {self.name} run?", confirm.prompt) if confirm else None,
            denied=(confirm.denied if confirm else None) or DENIED,
            bounded=bool(said.get("bounded_result")),
            artifacts={each.kind: each.model for each in said.get("artifact", ())},
        )
        made = build(function)
        hints = replace(made.spec.annotations, **said.get("annotations", {}))
        return replace(made, spec=replace(made.spec, annotations=hints))

    def exported(self) -> ExportedToolSettings:
        """Return the settings of a tool that an agent offers. Raises ValueError."""
        said = self.said
        if unfit := sorted({"annotations", "artifact", "inject"} & said.keys()):
            raise ValueError(f"{self.name}: {unfit[0]} is for a tool that code does, and no agent; say bind_to(...)")
        result = result_from(said.get("returns", ()), f"{self.name}_result", bounded=bool(said.get("bounded_result")))
        if result is not str and not (isinstance(result, type) and issubclass(result, BaseModel)):
            result = model_from((result,), f"{self.name}_result")
        through = said.get("passthrough")
        return ExportedToolSettings(
            description=self.description,
            title=said.get("title", ""),
            arguments=schema_from(model_from(said.get("args", ()), self.name)),
            prompt=said.get("prompt"),
            result=None if result is str else schema_from(result),
            passthrough=PassthroughSettings(tool=through) if isinstance(through, str) else None,
            tags=said.get("tags", ()),
            call_hint=said.get("call_hint_template", ""),
            result_hint=said.get("result_hint_template", ""),
            reminder=said.get("result_reminder", ""),
            confirm=self._confirm(),
            bounded=bool(said.get("bounded_result")),
        )

    def pinned(self) -> PinnedTool:
        """Return the tool as the MCP server has to describe it, to the letter; unset parts may be anything.

        Raises:
            ValueError: it says what only a tool that is done here could keep to.
        """
        if unfit := [word for word in self.said if word not in _PINNED]:
            raise ValueError(
                f"{self.name}: {unfit[0]} does not go with from_mcp, whose server does the tool; only args and returns "
                "do, and the operator says the rest (mcp.servers, policy)"
            )
        return PinnedTool(input_schema=self._schema("args"), output_schema=self._schema("returns"))

    def _schema(self, word: str) -> dict[str, Any] | None:
        if word not in self.said:
            return None
        schema = written(self.said[word])
        return dict(schema) if schema is not None else schema_from(model_from(self.said[word], self.name))

    def _confirm(self) -> ConfirmSettings | None:
        found = self.said.get("confirmation")
        return found if isinstance(found, ConfirmSettings) else None

    def _function(self, does: Binding) -> Any:
        said, artifacts = self.said, self.said.get("artifact", ())
        if does.as_it_is and "args" not in said:
            if unfit := [word for word in _OWN_SHAPES if word in said]:
                raise ValueError(
                    f"{self.name}: {unfit[0]} does not go with passthrough(method), whose arguments and "
                    "result are taken as they are; say bind_to(...), or args(...) besides"
                )
            return forwarded(
                does.method, name=self.name, description=self.description, service=does.service, errors=does.errors
            )
        takes = with_injected(model_from(said.get("args", ()), self.name), said.get("inject", ()), self.name)
        kinds = {name: each.annotation for name, each in takes.model_fields.items()}
        fault = misfit(does.method, kinds, of_service=does.service is not None) or find_mismatch(does.method, kinds)
        if fault and does.to_call is None:
            raise ValueError(
                f"{self.name}: args does not fit the method: {fault}; change one of them, or say to_call=…"
            )
        gives = result_from(said.get("returns", ()), f"{self.name}_result", bounded=bool(said.get("bounded_result")))
        return bind(
            _keeping(does, artifacts),
            takes=takes,
            gives=gives,
            to_call=does.to_call or dict,
            to_result=does.to_result or _as(gives),
            name=self.name,
            description=self.description,
            service=lambda ctx: ctx,
            errors=does.errors,
        )


@record
class _Artifact:
    kind: str
    model: type[BaseModel]
    taken: Callable[[Any], Any]


def tool(name: str, description: str, *options: ToolOption) -> ToolDeclaration:
    """Declare a tool: its name, the description for the model, and its options.

    Raises:
        ValueError: an option is duplicate or misplaced, or two exclude each other.
    """
    refuse_leftovers(options, ToolOption, name, "tool")
    said = collect(options, name)
    if "bind_to" in said and "passthrough" in said:
        raise ValueError(f"{name}: bind_to and passthrough exclude each other")
    if "prompt" in said and ("bind_to" in said or "passthrough" in said):
        raise ValueError(f"{name}: prompt is the task of an agent, and something else does this tool")
    return ToolDeclaration(name, description, said)


def toolset(
    first: "str | FromRegistry", *parts: "ToolDeclaration | Tool | ToolsetOption | FromRegistry"
) -> ToolsetPart:
    """Declare a named group of tools: declared ones, tools made by `@tool`, or those of an MCP server or a registry.

    Raises:
        ValueError: a tool of it does not hold together, or something stands elsewhere.
    """
    refuse_leftovers([first], (str, FromRegistry), "toolset", "toolset")
    name = first if isinstance(first, str) else first.toolset
    refuse_leftovers(parts, (ToolDeclaration, Tool, ToolsetOption, FromRegistry), name, "toolset")
    if name in {each.name for each in BUILT_IN}:
        raise ValueError(f"{name}: is the name of a built-in set, whose tools an agent would get; choose another one")
    origin = next((part for part in (first, *parts) if isinstance(part, FromRegistry)), None)
    said = collect([part for part in parts if isinstance(part, ToolsetOption)], name)
    if origin is not None:
        return _of_registry(name, origin, parts, said)
    labels: tuple[str, ...] = said.get("tags", ())
    told = registry_parts(said, name)
    declared = [part for part in parts if isinstance(part, ToolDeclaration)]
    given = tuple(part for part in parts if isinstance(part, Tool))
    server: str = said.get("from_mcp", "")
    if server and labels:
        raise ValueError(f"{name}: tags does not go with from_mcp; the operator says it (mcp.servers.{server}.tags)")
    pinned = None
    if server and declared:
        if given:
            raise ValueError(f"{name}: a set of pinned tools holds nothing else; put {given[0].spec.name} into another")
        pins = {each.name: each.pinned() for each in declared}
        pinned = PinnedSetSettings(server=server, tools=pins)
    selected: tuple[str, ...] = (f"tag:mcp-{server}",) if server else ()
    return ToolsetPart(
        name,
        said.get("description", ""),
        tools=(*(_label(each, labels) for each in given), *(each.built(labels) for each in declared if not server)),
        also=pinned.members(name) if pinned else selected,
        tags=labels,
        pinned=pinned,
        publish=PublishSettings(**{word: said[word] for word in PUBLISHED & said.keys()}) if told else None,
        registries=told,
    )


def _label(tool: Tool, labels: tuple[str, ...]) -> Tool:
    """Return the tool with the tags of its toolset, which policies choose by."""
    return replace(tool, spec=replace(tool.spec, tags=tool.spec.tags | {*labels})) if labels else tool


def _of_registry(name: str, origin: FromRegistry, parts: tuple[Any, ...], said: dict[str, Any]) -> ToolsetPart:
    """Return a toolset of a registry, used as an MCP server of its name. Raises ValueError."""
    try:
        _SERVER.validate_python(name)
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ValueError(
            f"{name!r}: what is from a registry is here an MCP server, whose name {why}; say "
            'toolset("name", from_registry(...))'
        ) from None
    if foreign := [word for word in ("from_mcp", "publish_to", "publish_as") if word in said]:
        raise ValueError(f"{name}: {foreign[0]} does not go with from_registry")
    if any(isinstance(part, ToolDeclaration | Tool) for part in parts):
        raise ValueError(f"{name}: which tools there are says the registry, so none are declared here")
    labels: tuple[str, ...] = said.get("tags", ())
    return ToolsetPart(
        name,
        said.get("description", ""),
        also=(f"tag:mcp-{name}",),
        tags=labels,
        origin=origin.at(said.get("version", ""), labels),
        registries=(origin.registry,),
    )


def from_mcp(server: str) -> ToolsetOption:
    """Use the tools of a server of `mcp.servers`; tools declared with it pin the server's definitions."""
    return ToolsetOption("from_mcp", server)


def mcp_toolset(server: str, name: str, *tools: ToolDeclaration) -> ToolsetPart:
    """Declare a toolset of an MCP server; with tools, exactly these, and each as it is declared here.

    A server's schema is rarely what Python would write: give `args` and `returns` its own, or leave them out.
    """
    return toolset(name, from_mcp(server), *tools)


def title(text: str) -> ToolOption:
    """Set the tool's name for people."""
    return ToolOption("title", text)


def annotations(
    *,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
) -> ToolOption:
    """Set hints for MCP clients. What is not set follows from the side effect; risk and approval stay as they are."""
    hints = {"read_only": read_only, "destructive": destructive, "idempotent": idempotent, "open_world": open_world}
    return ToolOption("annotations", {name: hint for name, hint in hints.items() if hint is not None})


def prompt(template: str) -> ToolOption:
    """Set the task of the agent that does an exported tool: a template over the arguments."""
    return ToolOption("prompt", template)


def artifact(kind: str, *parts: Part, taken: Callable[[Any], Any]) -> ToolOption:
    """Data for people in addition to the result; `taken`: from the method's return value to the data, or None."""
    return ToolOption("artifact", (_Artifact(kind, model_from(parts, kind), taken),))


def bounded_result() -> ToolOption:
    """Mark the result as a part: it has `returned`, `total`, `truncated` and `refinement_hint`."""
    return ToolOption("bounded_result", True)


def bind_to(
    method: Method,
    *,
    side_effect: SideEffect,
    risk: Risk | None = None,
    idempotent: bool = True,
    service: Service | None = None,
    to_call: Callable[[Any], Mapping[str, Any]] | None = None,
    to_result: Callable[[Any], Any] | None = None,
    errors: Errors = (),
) -> ToolOption:
    """Set the bound method; see `toolkit.binding.bind`. Without `to_call` it gets the arguments by name."""
    return ToolOption("bind_to", Binding(method, side_effect, risk, idempotent, service, to_call, to_result, errors))


def passthrough(
    target: "str | Method",
    *,
    side_effect: SideEffect = SideEffect.MUTATING,
    service: Service | None = None,
    errors: Errors = (),
) -> ToolOption:
    """Pass the call on unchanged: to another tool by its name, or to a method, with its arguments and result."""
    if isinstance(target, str):
        return ToolOption("passthrough", target)
    return ToolOption(
        "passthrough", Binding(target, side_effect, None, True, service, None, None, errors, as_it_is=True)
    )


def inject(*names: str) -> ToolOption:
    """Set arguments that the model neither sees nor may give: hooks fill them in."""
    return ToolOption("inject", names)


def call_hint_template(template: str) -> ToolOption:
    """Set the text that people see while it runs: a template over the arguments."""
    return ToolOption("call_hint_template", template)


def result_hint_template(template: str) -> ToolOption:
    """Set the text that people see afterwards: a template over the result's fields."""
    return ToolOption("result_hint_template", template)


def result_reminder(text: str) -> ToolOption:
    """Set the reminder for the model after each result."""
    return ToolOption("result_reminder", text)


def confirmation(*, prompt_template: str, title: str = "", denied_result_template: str | None = None) -> ToolOption:
    """Require a person's approval of every call."""
    return ToolOption(
        "confirmation", ConfirmSettings(title=title, prompt=prompt_template, denied=denied_result_template)
    )


def _keeping(does: Binding, artifacts: tuple[_Artifact, ...]) -> Method:
    """Return the method, with artifacts kept from its result."""

    async def method(ctx: ToolContext, /, **given: Any) -> Any:
        if fault := misfit(does.method, given, of_service=does.service is not None):
            raise ToolError(f"not run: to_call does not fit: {fault}")
        on = (does.service(ctx),) if does.service else ()
        in_thread = not inspect.iscoroutinefunction(does.method)
        found = await (asyncio.to_thread(does.method, *on, **given) if in_thread else does.method(*on, **given))
        for each in artifacts:
            if (data := each.taken(found)) is not None and (made := _artifact_of(each, data)):
                ctx.attach(each.kind, made)
        return found

    return method


def _artifact_of(declared: _Artifact, data: Any) -> BaseModel | None:
    """Return the artifact; None, and a line in the log, if the data are not as declared: the result stays whole."""
    try:
        return declared.model.model_validate(data, from_attributes=True)
    except ValidationError as error:
        log.error("artifact %s is left out, it is not what the tool declares: %s", declared.kind, in_words(error))
        return None


def _as(gives: Any) -> Callable[[Any], Any]:
    """Return a function that turns a method's return value into the declared result."""
    if isinstance(gives, type) and issubclass(gives, BaseModel):
        return lambda found: found if isinstance(found, gives) else gives.model_validate(found, from_attributes=True)
    return lambda found: found

"""Tools in code. One that a function or a binding (`bind_to`) does is a `toolkit.base.Tool` like every other.

A tool of an `export` without one is done by its agent: it compiles to the equivalent configuration.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import NoneType
from typing import Any, ClassVar, TypedDict, Unpack, get_type_hints, overload

from pydantic import BaseModel, ValidationError

from goclaw.common.config.exports import ConfirmSettings, ExportedToolSettings, PassthroughSettings
from goclaw.common.config.mcp import PinnedTool
from goclaw.common.core.records import record
from goclaw.common.specs import Confirmation, Risk, SideEffect, ToolSpec
from goclaw.errors import ToolError
from goclaw.tools.approval.requests import DENIED
from goclaw.tools.declare.options import ToolOption, collect, refuse_leftovers, tags
from goclaw.tools.declare.shapes import (
    Part,
    args,
    model_from,
    result_from,
    returns,
    schema_from,
    with_injected,
    written,
)
from goclaw.tools.templates import check
from goclaw.tools.toolkit.base import Tool, ToolContext, ToolFunction
from goclaw.tools.toolkit.base import tool as declared_tool
from goclaw.tools.toolkit.binding import Errors, Injects, Method, Service, bind, find_mismatch, misfit
from goclaw.tools.toolkit.binding import passthrough as forwarded
from goclaw.tools.toolkit.json_schema import arguments_of, refuse_faults
from goclaw.tools.toolkit.results import in_words

log = logging.getLogger(__name__)

_PINNED = frozenset({"args", "returns"})
"""The options for a tool that an MCP server implements."""
_OWN_SHAPES = ("returns", "artifact")
"""The options that change the result shape given by the bound method."""


@record
class Binding:
    """The implementation of a tool."""

    method: Method
    side_effect: SideEffect = SideEffect.MUTATING
    risk: Risk | None = None
    idempotent: bool = True
    service: Service | None = None
    to_call: Callable[[Any], Mapping[str, Any]] | None = None
    to_result: Callable[[Any], Any] | None = None
    errors: Errors = ()
    as_it_is: bool = False


@record
class ToolDeclaration:
    """A tool: done by code, by an agent or by another tool."""

    word: ClassVar[str] = "tool"
    forms: ClassVar[tuple[str, ...]] = ("toolset", "export", "use", "agent", "mcp_server")
    name: str
    description: str
    said: Mapping[str, Any]
    tool: Tool | None
    """What code does; None: an agent, another tool, or an MCP server does it."""

    def built(self, tags: tuple[str, ...] = ()) -> Tool:
        """Return the tool, with these tags besides. Raises ValueError: nothing does it."""
        if self.tool is None:
            raise ValueError(f"{self.name}: nothing does it; say bind_to(...), or export it from an agent")
        return label(self.tool, tags)

    @property
    def target(self) -> str:
        """The name of the tool that does it in its place; empty: none does."""
        match self.said.get("passthrough"):
            case str(name) | Tool(spec=ToolSpec(name=name)) | ToolDeclaration(name=name):
                return name
        return ""

    def exported(self) -> ExportedToolSettings:
        """Return the settings of a tool that an agent offers. Raises ValueError."""
        said = self.said
        refuse_silence(self.name, self.description)
        if unfit := sorted({"annotations", "artifact", "inject"} & said.keys()):
            raise ValueError(f"{self.name}: {unfit[0]} is for a tool that code does, and no agent; say bind_to(...)")
        result = result_from(said.get("returns", ()), f"{self.name}_result", bounded=bool(said.get("bounded_result")))
        if result is not str and not (isinstance(result, type) and issubclass(result, BaseModel)):
            result = model_from((result,), f"{self.name}_result")
        takes = model_from(said.get("args", ()), self.name)
        refuse_faults(takes, self.name)
        asked: ConfirmSettings | None = said.get("confirmation")
        texts = {"task": said.get("prompt"), "call hint": said.get("call_hint_template")}
        for what, text in {**texts, "confirmation": asked and asked.prompt}.items():
            check(text or "", set(takes.model_fields), f"the {what} of {self.name}", len(text or ""))
        return ExportedToolSettings(
            description=self.description,
            title=said.get("title", ""),
            arguments=schema_from(takes),
            prompt=said.get("prompt"),
            result=None if result is str else schema_from(result),
            passthrough=PassthroughSettings(tool=self.target) if self.target else None,
            tags=said.get("tags", ()),
            call_hint=said.get("call_hint_template", ""),
            result_hint=said.get("result_hint_template", ""),
            reminder=said.get("result_reminder", ""),
            confirm=asked,
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


def refuse_silence(name: str, description: str) -> None:
    """Raise ValueError unless a tool has a description."""
    if not description.strip():
        raise ValueError(f"{name}: has no description, which models choose it by: write a docstring, or description=…")


def _build(name: str, description: str, said: Mapping[str, Any], does: Binding) -> Tool:
    """Return the tool that a binding does. Raises ValueError: it is inconsistent."""
    refuse_silence(name, description)
    confirm: ConfirmSettings | None = said.get("confirmation")
    build = declared_tool(
        side_effect=does.side_effect,
        risk=does.risk,
        idempotent=does.idempotent,
        tags=said.get("tags", ()),
        name=name,
        title=said.get("title", ""),
        call_hint=said.get("call_hint_template", ""),
        result_hint=said.get("result_hint_template", ""),
        reminder=said.get("result_reminder", ""),
        confirm=Confirmation(confirm.title or f"May {name} run?", confirm.prompt) if confirm else None,
        denied=(confirm.denied if confirm else None) or DENIED,
        bounded=bool(said.get("bounded_result")),
        artifacts={each.kind: each.model for each in said.get("artifact", ())},
    )
    made = build(_function(name, description, said, does))
    hints = replace(made.spec.annotations, **said.get("annotations", {}))
    return replace(made, spec=replace(made.spec, annotations=hints))


def _function(name: str, description: str, said: Mapping[str, Any], does: Binding) -> ToolFunction:
    injects: Injects = said.get("inject", {})
    if does.as_it_is and "args" not in said:
        if unfit := [word for word in _OWN_SHAPES if word in said]:
            raise ValueError(
                f"{name}: {unfit[0]} does not go with passthrough(method), whose arguments and "
                "result are taken as they are; say bind_to(...), or args(...) besides"
            )
        named = partial(forwarded, does.method, name=name, description=description)
        return named(service=does.service, errors=does.errors, inject=injects)
    takes = with_injected(model_from(said.get("args", ()), name), injects, name)
    kinds = {name: each.annotation for name, each in takes.model_fields.items()}
    all_kinds = {**dict.fromkeys(injects), **kinds}
    fault = misfit(does.method, all_kinds, of_service=does.service is not None) or find_mismatch(does.method, kinds)
    if fault and does.to_call is None:
        raise ValueError(f"{name}: args does not fit the method: {fault}; change one of them, or say to_call=…")
    gives = result_from(said.get("returns", ()), f"{name}_result", bounded=bool(said.get("bounded_result")))
    return bind(
        _keeping(does, said.get("artifact", ()), injects),
        takes=takes,
        gives=gives,
        to_call=does.to_call or dict,
        to_result=does.to_result or _as(gives),
        name=name,
        description=description,
        service=lambda ctx: ctx,
        errors=does.errors,
    )


@record
class _Artifact:
    kind: str
    model: type[BaseModel]
    taken: Callable[[Any], Any]


class ToolKeywords(TypedDict, total=False):
    """What `tool` may say by keyword. Those that `_WORDS` does not name are said of a function alone."""

    side_effect: SideEffect
    risk: Risk
    idempotent: bool
    errors: Errors
    name: str
    """The tool's name; the function's unless given."""
    description: str
    """For the model; the function's docstring unless given."""
    confirm: str | ToolOption
    """The question that a person answers before each call: a template over the arguments, or `confirmation(…)`."""
    hint: str
    result_hint: str
    reminder: str
    title: str
    tags: Sequence[str]
    inject: Sequence[str] | Injects
    """Arguments that the model never sees: filled in by functions of the `ToolContext`, or (names alone) by hooks."""
    args: Part | Sequence[Part]
    """Arguments other than the function's."""
    returns: Part | Sequence[Part]
    prompt: str
    """The task for an agent that does it. A function then only says arguments and result; it is never called."""
    bounded: bool
    annotations: Mapping[str, bool]
    """Hints for MCP clients, as `annotations` takes them."""


@overload
def tool(name: str, description: str, /, *options: ToolOption, **said: Unpack[ToolKeywords]) -> ToolDeclaration: ...
@overload
def tool(function: Callable[..., Any], /, *options: ToolOption, **said: Unpack[ToolKeywords]) -> ToolDeclaration: ...
@overload
def tool(**said: Unpack[ToolKeywords]) -> Callable[[Callable[..., Any]], ToolDeclaration]: ...


def tool(what: Any = None, /, *given: Any, **said: Unpack[ToolKeywords]) -> Any:
    """Declare a tool: a function with types and a docstring (also `@tool(…)`), or a name and a description.

    Name, description, arguments and result are the function's. It may take a `ToolContext` first; a plain function
    runs in a thread. Unless `side_effect` says otherwise it counts as one that changes something.

    Raises:
        ValueError: something of it is missing, duplicate, misplaced, or does not hold together.
    """
    keywords: dict[str, Any] = dict(said)
    if what is None and not given:
        return lambda function: tool(function, **said)
    if callable(what):
        options = [*given, *_shape_of(what, keywords)]
        name = keywords.pop("name", getattr(what, "__name__", ""))
        description = keywords.pop("description", None) or inspect.getdoc(what) or ""
    elif isinstance(what, str) and given and isinstance(given[0], str):
        name, description, *options = what, *given
    else:
        part = "description" if isinstance(what, str) else "name"
        raise ValueError(f"tool: {part} must be str, not {repr(given[0] if given else what)[:80]}")
    refuse_leftovers(options, ToolOption, name, "tool")
    if unfit := sorted(keywords.keys() - _WORDS.keys()):
        raise ValueError(f"{name}: {unfit[0]} is said of a function, tool(function, …), or in bind_to(…)")
    return _declare(name, description, [*options, *(_WORDS[word](value) for word, value in keywords.items())])


def _shape_of(function: Callable[..., Any], said: dict[str, Any]) -> Iterator[ToolOption]:
    """Yield what a function says of its tool: that it does it or, with `prompt`, only arguments and result."""
    binding = {key: said.pop(key) for key in ("side_effect", "risk", "idempotent", "errors") if key in said}
    if "prompt" not in said:
        first = next(iter(inspect.signature(function).parameters.values()), None)
        service = (lambda ctx: ctx) if first and first.annotation in (ToolContext, "ToolContext") else None
        yield ToolOption("passthrough", Binding(function, service=service, as_it_is=True, **binding))
        return
    shape = forwarded(function)
    yield args(arguments_of(shape)[0])
    if (result := get_type_hints(function).get("return", str)) not in (str, NoneType):
        yield returns(result)


def _declare(name: str, description: str, options: Sequence[ToolOption]) -> ToolDeclaration:
    said = collect(options, name)
    if "bind_to" in said and "passthrough" in said:
        raise ValueError(f"{name}: bind_to and passthrough exclude each other")
    if "prompt" in said and ("bind_to" in said or "passthrough" in said):
        raise ValueError(f"{name}: prompt is the task of an agent, and something else does this tool")
    does = said.get("passthrough", said.get("bind_to"))
    made = _build(name, description, said, does) if isinstance(does, Binding) else None
    return ToolDeclaration(name, description, said, made)


def label(tool: Tool, labels: tuple[str, ...]) -> Tool:
    """Return the tool with the tags of its toolset, which policies choose by."""
    return replace(tool, spec=replace(tool.spec, tags=tool.spec.tags | {*labels})) if labels else tool


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
    method: "Method | str",
    *,
    side_effect: SideEffect,
    risk: Risk | None = None,
    idempotent: bool = True,
    service: Any = None,
    to_call: Callable[[Any], Mapping[str, Any]] | None = None,
    to_result: Callable[[Any], Any] | None = None,
    errors: Errors = (),
) -> ToolOption:
    """Set the bound method; see `toolkit.binding.bind`. Without `to_call` it gets the arguments by name.

    `bind_to("search", service=TRACKER)` names it; a service that is found later is a function with a return type.

    Raises:
        ValueError: the service has no such method, or its type is not known.
    """
    if isinstance(method, str):
        method, service = _method_of(method, service)
    made = Binding(method, side_effect, risk, idempotent, service, to_call, to_result, errors)
    return ToolOption("bind_to", made)


def _method_of(name: str, service: Any) -> tuple[Method, Service | None]:
    """Return the method of that name, and the function that finds its service; None: `service` is the object."""
    owner = get_type_hints(service).get("return") if inspect.isroutine(service) else service
    if owner is None:
        remedy = "an object, or a function of the ToolContext with the type that it returns"
        raise ValueError(f"bind_to: {name!r} is a method's name, so say service=…: {remedy}")
    found = getattr(owner, name, None)
    if not callable(found):
        known = [each for each in dir(owner) if not each.startswith("_") and callable(getattr(owner, each))]
        raise ValueError(f"bind_to: the service has no method {name!r}; there are {', '.join(known) or 'none'}")
    return found, service if owner is not service else None


def passthrough(
    target: "str | Method | Tool | ToolDeclaration",
    *,
    side_effect: SideEffect = SideEffect.MUTATING,
    service: Service | None = None,
    errors: Errors = (),
) -> ToolOption:
    """Pass the call on unchanged: to another tool, or to a method, with its arguments and result.

    The exporting agent has the other tool, too; what the person may not use it may not use either.
    """
    if isinstance(target, str | Tool | ToolDeclaration):
        return ToolOption("passthrough", target)
    return ToolOption("passthrough", Binding(target, side_effect, service=service, errors=errors, as_it_is=True))


def inject(*names: str, **fills: Callable[[ToolContext], Any]) -> ToolOption:
    """Set arguments that the model neither sees nor may give: hooks fill in `names`, functions of the context `fills`.

    inject("tenant", session_id=lambda ctx: ctx.session)
    """
    return ToolOption("inject", {**dict.fromkeys(names), **fills})


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


def _keeping(does: Binding, artifacts: tuple[_Artifact, ...], injects: Injects) -> Method:
    """Return the method, with artifacts kept from its result."""
    fills = {name: fill for name, fill in injects.items() if fill}

    async def method(ctx: ToolContext, /, **given: Any) -> Any:
        given |= {name: fill(ctx) for name, fill in fills.items()}
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


def _question(option: ToolOption) -> ToolOption:
    """Return a confirmation. Raises ValueError: it is another word, and nothing would be asked."""
    if option.word != "confirmation":
        raise ValueError(f"confirm takes a text or confirmation(…), not {option.word}(…)")
    return option


_WORDS: Mapping[str, Callable[[Any], ToolOption]] = {
    "confirm": lambda given: _question(given) if isinstance(given, ToolOption) else confirmation(prompt_template=given),
    "hint": call_hint_template,
    "result_hint": result_hint_template,
    "reminder": result_reminder,
    "title": title,
    "annotations": lambda given: annotations(**given),
    "tags": lambda given: tags(*given),
    "inject": lambda given: inject(**given) if isinstance(given, Mapping) else inject(*given),
    "args": lambda given: args(*given) if isinstance(given, Sequence) else args(given),
    "returns": lambda given: returns(*given) if isinstance(given, Sequence) else returns(given),
    "prompt": prompt,
    "bounded": lambda given: ToolOption("bounded_result", given),
}
"""The word for each keyword of `tool` that is not the binding of a function."""

"""Tools that agents offer to other agents (`agents.….exports`): a task in the words of a template, or another tool.

A call of the first kind is a run of the offering agent, with a conversation and limits of its own, in the turn of the
caller: see `turns.agents`. Nothing here has rights: whatever the agent does is authorized and asked for by itself.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
from pydantic import BaseModel

from goclaw.common.config.exports import ExportedToolSettings, Exports, ExportSettings, PassthroughSettings
from goclaw.common.core.records import record
from goclaw.common.specs import Annotations, Confirmation, Risk, SideEffect
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.approval.requests import DENIED
from goclaw.tools.templates import check, rendered
from goclaw.tools.toolkit.agent_tasks import AgentTask, Forward
from goclaw.tools.toolkit.arguments import validate
from goclaw.tools.toolkit.base import Tool, ToolContext, ToolSource, tool
from goclaw.tools.toolkit.json_schema import model_of, result_of, without_titles
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse
from goclaw.tools.toolkit.sources import Fixed, SourcePart, SourcePorts

MAX_PROMPT = 50_000
"""Characters of a template for a task, as of a task that the tool `agent` takes."""


@record
class ExportedTool:
    """One exported tool, and its owner."""

    agent: str
    toolset: str
    export: ExportSettings
    name: str
    settings: ExportedToolSettings

    @property
    def place(self) -> str:
        """Where it stands in the configuration."""
        agent = "agents.main" if self.agent == "main" else f"agents.kinds.{self.agent}"
        return f"{agent}.exports.{self.toolset}.tools.{self.name}"


def offers(exports: Mapping[str, Exports]) -> Iterator[ExportedTool]:
    """Yield every exported tool, from the exports of each agent."""
    for agent, sets in exports.items():
        for toolset, export in sets.items():
            for name, settings in export.tools.items():
                yield ExportedTool(agent, toolset, export, name, settings)


def exported_tool(offer: ExportedTool) -> Tool:
    """Make the tool of an export.

    Raises:
        ValueError: a template or a schema of it cannot be used; the message names it.
    """
    settings = offer.settings
    takes = model_of(settings.arguments, offer.name, f"{offer.place}.arguments")
    gives: type[Result] | None = None
    if settings.result is not None:
        name, where = f"{offer.name}_result", f"{offer.place}.result"
        gives = result_of(settings.result, name, where, bounded=settings.bounded)
    through = settings.passthrough
    run = _forwarding(offer, through, takes, gives) if through else _asking(offer, takes, gives)
    run.__annotations__ = {"ctx": ToolContext, "arguments": takes, "return": gives or str}
    run.__name__, run.__doc__ = offer.name, settings.description
    confirm = settings.confirm
    return tool(
        side_effect=SideEffect.SPAWNS,
        # What is done for it is authorized and asked for call by call: to ask for it changes nothing yet.
        risk=Risk.LOW,
        idempotent=True,  # its steps are steps of the turn: called again after a crash, it goes on where it was
        own_timeout=True,
        runs_steps=True,
        foreign=True,
        tags=("agents", *offer.export.tags, *settings.tags),
        annotations=Annotations(settings.title, read_only=False, idempotent=True, open_world=True),
        access=lambda arguments, ctx: ResourceUse(),
        does=f"use tools of {offer.toolset}",
        call_hint=settings.call_hint,
        result_hint=settings.result_hint,
        reminder=settings.reminder,
        confirm=Confirmation(confirm.title or f"May {offer.name} run?", confirm.prompt) if confirm else None,
        denied=(confirm.denied if confirm else None) or DENIED,
        bounded=settings.bounded,
    )(run)


def _asking(offer: ExportedTool, takes: type[BaseModel], gives: type[Result] | None) -> Any:
    """Return a function that has the agent do the task."""
    template = offer.settings.prompt
    if template is not None:
        check(template, set(takes.model_fields), f"{offer.place}.prompt", MAX_PROMPT)

    async def run(ctx: ToolContext, arguments: BaseModel, /) -> Any:
        values = arguments.model_dump()
        try:
            text = rendered(template, values) if template is not None else _usual(offer, values)
        except ValueError as error:
            raise ToolError(f"the task could not be worded: {error}") from None
        if gives is not None:
            schema = json.dumps(without_titles(gives.model_json_schema()), ensure_ascii=False)
            form = "Answer with one JSON object and nothing else, without a fence around it."
            text = f"{text}\n\n{form} Its JSON Schema: {schema}"
        report = await ctx.spawn(
            AgentTask(
                text,
                offer.agent,
                offer.settings.title or offer.name,
                exported=True,
                own_tools=offer.export.own_tools,
                check=None if gives is None else lambda answer: _fault(gives, answer),
            )
        )
        return report.answer if gives is None else _parse_result(gives, report.answer, f"the agent {offer.agent}")

    return run


def _forwarding(
    offer: ExportedTool, through: PassthroughSettings, takes: type[BaseModel], gives: type[Result] | None
) -> Any:
    """Another tool does it, whatever a model would think of it."""
    target, given = through.tool, through.input
    for text in _texts(given):
        check(text, set(takes.model_fields), f"{offer.place}.passthrough.input", MAX_PROMPT)

    async def run(ctx: ToolContext, arguments: BaseModel, /) -> Any:
        try:
            values = arguments.model_dump()
            # Without a template the given and default values go on; missing ones are left for the other tool.
            handed = (
                {name: value for name, value in values.items() if value is not None}
                if given is None
                else _fill(given, values)
            )
        except ValueError as error:
            raise ToolError(f"the call of {target} could not be worded: {error}") from None
        done = await ctx.forward(Forward(target, handed, offer.agent, offer.export.own_tools))
        if done.is_error:
            raise ToolError(str(orjson.loads(done.content)["error"]))
        if done.denied:
            raise ToolError(f"{done.name} was denied by a person: do not try the same in another way")
        return done.content if gives is None else _parse_result(gives, done.content, target)

    return run


def _fill(node: Any, values: Mapping[str, Any]) -> Any:
    """Return the same with every text rendered as a template. Raises ValueError."""
    match node:
        case str():
            return rendered(node, values)
        case dict():
            return {key: _fill(inner, values) for key, inner in node.items()}
        case list():
            return [_fill(inner, values) for inner in node]
    return node


def _texts(node: Any) -> Iterator[str]:
    match node:
        case str():
            yield node
        case dict():
            yield from (text for inner in node.values() for text in _texts(inner))
        case list():
            yield from (text for inner in node for text in _texts(inner))


def _usual(offer: ExportedTool, values: Mapping[str, Any]) -> str:
    """Return the default task: the tool's description and the arguments."""
    given = json.dumps({name: value for name, value in values.items() if value is not None}, ensure_ascii=False)
    return f"{offer.settings.description.strip()}\n\nWhat was given: {given}"


def _fault(gives: type[Result], answer: str) -> str:
    """Return the fault of an answer that should be an object; empty: it passes."""
    try:
        validate(gives, _object(answer))
    except InvalidInput as error:
        return str(error)
    return ""


def _parse_result(gives: type[Result], text: str, who: str) -> BaseModel:
    try:
        return validate(gives, _object(text))
    except InvalidInput as error:
        raise ToolError(f"{who} answered with something else than what {gives.__name__} is to be: {error}") from None


def _object(text: str) -> Any:
    """Return the object in an answer, also inside a code fence."""
    bare = text.strip()
    if bare.startswith("```") and bare.endswith("```"):
        bare = bare[3:-3].removeprefix("json").strip()
    try:
        return orjson.loads(bare)
    except orjson.JSONDecodeError:
        raise InvalidInput("input: expected a JSON object, got other text") from None


@asynccontextmanager
async def _open(ports: SourcePorts) -> AsyncIterator[ToolSource]:
    found = list(offers(ports.config.agents.exports))
    forwarded = {offer.name for offer in found if offer.settings.passthrough}
    tools, places = [], dict[str, str]()
    for offer in found:
        try:
            if (first := places.setdefault(offer.name, offer.place)) != offer.place:
                raise ValueError(f"there is a tool of that name already: {first}; give one of the two another name")
            through = offer.settings.passthrough
            if through and through.tool in forwarded:
                raise ValueError(f"{offer.place}.passthrough: {through.tool} is handed on itself; name the last tool")
            tools.append(exported_tool(offer))
        except ValueError as error:
            ports.report(offer.place, str(error))
    yield Fixed(tuple(tools))


SOURCE = SourcePart("agents", _open, "config agents")

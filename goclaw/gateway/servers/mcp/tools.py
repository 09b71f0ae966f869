"""Tools: their listing, their calls, and the progress of a call for clients that request it."""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import anyio
import mcp_types as types
import orjson
from mcp.server.context import ServerRequestContext

from goclaw.common.core.clock import Clock
from goclaw.common.core.events import LOCAL, Actor, Address, AgentProgress, Delivery, ToolStarted, TurnEvent
from goclaw.common.core.messages import Image, ToolCall, ToolResult
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask
from goclaw.common.core.supervise import background, set_within
from goclaw.common.specs import ToolSpec
from goclaw.errors import DeliveryError, StateError, ToolError
from goclaw.gateway.servers.mcp.approving import Approvals, ClientQuestion
from goclaw.gateway.servers.mcp.backend import McpBackend
from goclaw.gateway.servers.mcp.resources_and_prompts import page
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.toolkit.agent_tasks import AgentPort, AgentReport, AgentTask, Forward
from goclaw.tools.toolkit.results import ResultType
from goclaw.tools.toolkit.scope import CallScope
from goclaw.tools.toolkit.services import TurnServices

log = logging.getLogger(__name__)

BEAT_SECONDS = 5.0
"""Seconds between two signs of life: some clients give up after thirty seconds without one."""

MAX_DATA = 1 << 20
"""Characters of a result's fields: larger data are read in parts."""
TURN = "mcp"
"""The turn of a call in the audit log."""


class Progress:
    """The unsent progress of one call."""

    def __init__(self) -> None:
        self._line = ""
        self._news = asyncio.Event()

    def add_event(self, event: TurnEvent) -> None:
        """Add an event of the call."""
        match event:
            case ToolStarted(name=name, hint=hint):
                self._line = hint or name
            case AgentProgress(agent=agent, doing=doing):
                self._line = f"{agent}: {doing}"
            case _:
                return
        self._news.set()

    async def report(self, ctx: ServerRequestContext[Any, Any], clock: Clock) -> None:
        """Send progress to the client, until cancelled. The number counts signs of life: the total is unknown."""
        told = 0
        while True:
            await set_within(self._news, clock, BEAT_SECONDS)
            self._news.clear()
            told += 1
            await ctx.session.report_progress(told, None, mask(self._line) or None)


@asynccontextmanager
async def open_progress(ctx: ServerRequestContext[Any, Any], clock: Clock) -> AsyncIterator[Progress]:
    """Report the progress of the call that is made in the block."""
    progress = Progress()
    if not (ctx.meta and ctx.meta.get("progress_token") is not None):
        yield progress
        return
    async with background(progress.report(ctx, clock), "progress of a call over MCP"):
        yield progress


@record
class GivenValue:
    """The value that a call returned, not masked yet."""

    spec: ToolSpec
    result: ResultType
    value: object


class ClientServices(TurnServices):
    """The services of a call made for a client."""

    place = "over MCP"
    given: GivenValue | None = None

    def gave(self, spec: ToolSpec, result: ResultType, value: object) -> None:
        """Keep the value for the client."""
        self.given = GivenValue(spec, result, value)

    def check_delivery(self, delivery: Delivery) -> None:
        raise DeliveryError("an MCP client cannot send messages to a chat", permanent=True)


class CallServices(ClientServices):
    """The services of a client's own call. Implements `turns.agent_run.ExternalCaller`, too."""

    agents: AgentPort
    """Runs agents for the call; set before it is made."""

    def __init__(self, question: ClientQuestion, progress: Progress) -> None:
        self._question = question
        self._progress = progress

    def emit(self, event: TurnEvent) -> None:
        self._progress.add_event(event)

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        return await self._question.decide(wanted)

    async def approve_for_agent(self, wanted: ApprovalRequest, agent: str) -> Approval:
        return await self._question.decide_for_agent(wanted, agent)

    async def spawn(self, task: AgentTask, step: str, call_id: str) -> AgentReport:
        return await self.agents.spawn(task, step, call_id)

    async def forward(self, wanted: Forward, step: str, call_id: str) -> ToolResult:
        return await self.agents.forward(wanted, step, call_id)


class ToolOffer:
    """The tools of a user."""

    def __init__(self, backend: McpBackend) -> None:
        self._backend = backend
        self._approvals = Approvals(backend)
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def idle(self) -> None:
        """Wait until no call runs."""
        await self._idle.wait()

    async def list_items(self, actor: Actor, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Return those that the actor may use, and that are offered."""
        registry = self._backend.dispatcher.registry
        await registry.ready()
        specs, cursor = page(self._backend.list_tools(actor), lambda spec: spec.name, params)
        return types.ListToolsResult(tools=[_describe(spec) for spec in specs], next_cursor=cursor)

    async def run_call(
        self,
        actor: Actor,
        ctx: ServerRequestContext[Any, Any],
        params: types.CallToolRequestParams,
        gone: asyncio.Event | None = None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Run a call under the same rules as any other. Errors become part of the result.

        It ends when the client is `gone`, which the library does not report for every transport.
        """
        await self._backend.dispatcher.registry.ready()
        question = ClientQuestion(self._approvals, self._backend, actor, ctx, params)
        call = ToolCall(f"{TURN}-{uuid4().hex[:12]}", params.name, dict(params.arguments or {}))
        async with self._count_call(), open_progress(ctx, self._backend.environment.clock) as progress:
            services = CallServices(question, progress)
            work = self._run(call, actor, services)
            try:
                result = await _apart(work, f"tool {params.name[:64]} over MCP", gone)
            except ToolError as error:
                return _failure_of(str(error))
            except StateError as error:
                log.warning("a call over MCP was cut off: %s", error)
                return _failure_of(
                    f"the result of {params.name[:64]} was cut because it could not be stored on disk: {error}"
                )
        if question.asks is not None:
            return question.asks
        return await self._answer(result, services.given)

    async def _run(self, call: ToolCall, actor: Actor, services: CallServices) -> ToolResult:
        backend, registry = self._backend, self._backend.dispatcher.registry
        scope, tools = self._scope(actor, services), backend.settings.tools
        by = backend.selection(registry.spec(registry.meant(call).name))
        async with backend.external_runs.open_port(scope, call.id, services, tools) as services.agents:
            selections = scope.selections if by is None else (by, *backend.without)
            return await self._backend.dispatcher.call(call, replace(scope, selections=selections))

    async def reads(self, actor: Actor, path: str) -> str:
        """Return the file that `read` opens for the actor under this path, as rights, fixed arguments and hooks decide.

        Raises:
            ToolError: none.
        """
        services = ClientServices()
        call = ToolCall(f"{TURN}-{uuid4().hex[:12]}", "read", {"path": path, "limit": 1})
        work = self._backend.dispatcher.call(call, self._scope(actor, services))
        result = await _apart(work, "a resource over MCP")
        if result.is_error or not services.given:
            raise ToolError(_words(result))
        return str(getattr(services.given.value, "path", ""))

    def _scope(self, actor: Actor, services: ClientServices) -> CallScope:
        return CallScope(
            actor=actor,
            session=self._backend.session(actor),
            address=Address(LOCAL, actor.key),
            services=services,
            turn=TURN,
            selections=(self._backend.settings.tools, *self._backend.without),
        )

    @asynccontextmanager
    async def _count_call(self) -> AsyncIterator[None]:
        self._running += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _answer(self, result: ToolResult, given: GivenValue | None) -> types.CallToolResult:
        content: list[types.ContentBlock] = [types.TextContent(text=_words(result))]
        if result.is_error or not given:
            # Denied by a person, or withheld by a hook: it does not match the tool's output schema.
            return types.CallToolResult(content=content, is_error=True)
        content += [picture for image in result.images if (picture := await self._picture(image))]
        if not given.spec.result_schema:
            return types.CallToolResult(content=content)
        data = _mask(given.result.data(given.value))
        if len(orjson.dumps(data)) > MAX_DATA:
            what = f"the result has more than {MAX_DATA:,} bytes; ask for a part of it"
            return types.CallToolResult(content=[*content, types.TextContent(text=what)], is_error=True)
        return types.CallToolResult(content=content, structured_content=data)

    async def _picture(self, image: Image) -> types.ImageContent | None:
        try:
            data = await self._backend.environment.blobs.get(image.blob)
        except ToolError as error:
            log.warning("a picture of a result is missing: %s", error)
            return None
        return types.ImageContent(data=base64.b64encode(data).decode(), mime_type=image.mime)


def _describe(spec: ToolSpec) -> types.Tool:
    known = spec.annotations
    return types.Tool(
        name=spec.name,
        title=spec.title,
        description=spec.description,
        input_schema=spec.schema,
        output_schema=dict(spec.result_schema) or None,
        annotations=types.ToolAnnotations(
            title=spec.title,
            read_only_hint=known.read_only,
            destructive_hint=known.may_destroy,
            idempotent_hint=known.idempotent,
            open_world_hint=known.open_world,
        ),
    )


def _failure_of(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=mask(words))], is_error=True)


async def _apart(work: Coroutine[Any, Any, ToolResult], name: str, gone: asyncio.Event | None = None) -> ToolResult:
    """Run a call in a task of its own, while the client is connected.

    The library cancels a request again and again until it has ended (anyio's cancel scopes); a tool is cancelled once,
    and cleans up then.

    Raises:
        ToolError: the client has disconnected.
    """
    task = asyncio.create_task(work, name=name)
    left = asyncio.create_task((gone or asyncio.Event()).wait(), name=f"client of {name}")
    try:
        await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        left.cancel()
        if not task.done():
            with anyio.CancelScope(shield=True):
                task.cancel()
                await asyncio.wait({task})
            if not task.cancelled() and (error := task.exception()):
                log.warning("%s failed after the client had disconnected: %s", name, error)
    if task.cancelled():
        raise ToolError("the client has gone")
    return task.result()


def _words(result: ToolResult) -> str:
    """Return the text; of an error the sentence alone."""
    if not result.is_error:
        return result.content
    try:
        said = orjson.loads(result.content)
    except orjson.JSONDecodeError:
        return result.content
    return str(said["error"]) if isinstance(said, dict) and "error" in said else result.content


def _mask(value: Any) -> Any:
    """Return the same data with the secrets in each text masked."""
    match value:
        case str():
            return mask(value)
        case Mapping():
            return {str(name): _mask(each) for name, each in value.items()}
        case list() | tuple():
            return [_mask(each) for each in value]
    return value

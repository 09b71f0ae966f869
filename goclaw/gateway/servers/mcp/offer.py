"""GoClaw's MCP server on the library's, the same over HTTP (`http`) and on standard input and output."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from goclaw import __version__
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.gateway.servers.mcp.backend import McpBackend
from goclaw.gateway.servers.mcp.resources_and_prompts import NOT_FOUND, PromptOffer, ResourceOffer
from goclaw.gateway.servers.mcp.tools import ToolOffer
from goclaw.gateway.servers.mcp.watching import Hub, open_hub

Context = ServerRequestContext[Any, Any]
MAX_COMPLETED = 100
"""Values of one completion (specification, Completion)."""
OPTIONS = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)


@record
class ClientCall:
    """The caller of a request, and its connection."""

    actor: Actor
    connection: str
    gone: asyncio.Event | None = None
    """Set when the caller has gone; None: the library cancels the call itself."""


Who = Callable[[Context], ClientCall]
"""Finds the caller of a request. Raises MCPError without one."""


class McpExport:
    """The library's server with our handlers. Made by `open_offer`."""

    def __init__(self, backend: McpBackend, who: Who, tools: ToolOffer, resources: ResourceOffer, hub: Hub) -> None:
        self._backend = backend
        self._who = who
        self._tools = tools
        self._resources = resources
        self._prompts = PromptOffer(backend)
        self.hub = hub
        self.server = self._server()

    def _server(self) -> Server[Any]:
        settings = self._backend.settings
        server: Server[Any] = _Server(
            settings.name,
            version=settings.version or __version__,
            title="GoClaw",
            instructions=settings.instructions or None,
            # Called for the headers that repeat arguments, before the caller is known; our schemas declare none.
            get_tool_input_schema=lambda name: None,
            on_list_tools=lambda ctx, params: self._tools.list_items(self._actor(ctx), params),
            on_call_tool=self._call_tool,
            on_list_resources=lambda ctx, params: self._resources.list_items(self._actor(ctx), params),
            on_list_resource_templates=lambda _, params: self._resources.templates(params),
            on_read_resource=lambda ctx, params: self._resources.read(self._actor(ctx), params.uri),
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=lambda ctx, params: self.hub.listen(self._actor(ctx), ctx, params),
            on_list_prompts=lambda ctx, params: self._prompts.list_items(self._actor(ctx), params),
            on_get_prompt=lambda ctx, params: self._prompts.get(self._actor(ctx), params),
            on_completion=self._complete,
        )
        key = self._backend.state_key or os.urandom(32)
        security = RequestStateSecurity(keys=[key], bind_principal=lambda ctx: self._who(ctx).actor.key)
        if self._backend.declared.notifications:
            # Not in the constructor, which warns of features removed from the newer revision.
            server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        server.middleware = [self._admit, RequestStateBoundary(security, default_audience=settings.name)]
        return server

    async def idle(self) -> None:
        """Wait until no call runs."""
        await self._tools.idle()

    def _actor(self, ctx: Context) -> Actor:
        return self._who(ctx).actor

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        caller = self._who(ctx)
        return await self._tools.run_call(caller.actor, ctx, params, caller.gone)

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        caller = self._who(ctx)
        if not await self._resources.there(caller.actor, params.uri):
            raise MCPError(NOT_FOUND, f"there is no resource {params.uri[:200]}")
        await self.hub.subscribe(caller.connection, params.uri)
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        await self.hub.unsubscribe(self._who(ctx).connection, params.uri)
        return types.EmptyResult()

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self.hub.set_log_level(self._who(ctx).connection, params.level)
        return types.EmptyResult()

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        actor, argument = self._who(ctx).actor, params.argument
        if isinstance(params.ref, types.PromptReference):
            found = self._prompts.complete(actor, params.ref.name, argument.name, argument.value)
        else:
            found = await self._resources.complete(actor, argument.name, argument.value)
        more = len(found) > MAX_COMPLETED
        return types.CompleteResult(
            completion=types.Completion(values=list(found[:MAX_COMPLETED]), total=len(found), has_more=more)
        )

    async def _admit(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Check every message: its sender, and the version of the protocol."""
        caller = self._who(ctx)
        if wanted := self._backend.settings.protocol_version:
            _require_version(wanted, ctx)
        if ctx.method != "initialize":  # over HTTP the connection has no name before that is answered
            self.hub.remember(caller.connection, caller.actor, ctx)
        return await call_next(ctx)


class _Server(Server[Any]):
    """The library's server with our notification options, as its HTTP transport passes none."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        return super().create_initialization_options(
            notification_options or OPTIONS, experimental_capabilities, extensions
        )


def _require_version(wanted: str, ctx: Context) -> None:
    """Raise MCPError for a client that speaks another version of the protocol, one of those that are not negotiated."""
    is_modern, is_handshake = wanted in MODERN_PROTOCOL_VERSIONS, ctx.method == "initialize"
    if is_handshake and not is_modern:
        # Any requested version is answered with ours (specification, Lifecycle, Version Negotiation). In place: the
        # library takes its version from these parameters after the handshake.
        if isinstance(ctx.params, dict):
            ctx.params["protocolVersion"] = wanted
        return
    fits = not is_handshake and (ctx.protocol_version in MODERN_PROTOCOL_VERSIONS) is is_modern
    if not fits and ctx.request_id is not None:
        data = {"supported": [wanted], "requested": ctx.protocol_version}
        raise MCPError(types.UNSUPPORTED_PROTOCOL_VERSION, f"this server supports only version {wanted}", data)


@asynccontextmanager
async def open_offer(backend: McpBackend, who: Who) -> AsyncIterator[McpExport]:
    """Yield the server for the users that `who` finds, while the block runs."""
    tools = ToolOffer(backend)
    resources = ResourceOffer(backend, tools.reads)
    async with open_hub(backend, resources.may, resources.there) as hub:
        yield McpExport(backend, who, tools, resources, hub)


async def serve_stdio(backend: McpBackend, actor: Actor) -> None:
    """Serve the client as `actor` until it closes our input.

    Meanwhile nothing else may read standard input, and prints of other code go to standard error: the library handles
    both.
    """
    caller = ClientCall(actor, "stdio")
    async with open_offer(backend, lambda ctx: caller) as offer, stdio_server() as (incoming, outgoing):
        await offer.server.run(incoming, outgoing, offer.server.create_initialization_options())

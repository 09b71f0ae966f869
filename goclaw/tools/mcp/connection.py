"""One connection to one server, through the library; its types are used only here and below: see `base`.

Calls run in their caller's task, so that cancelling it also cancels them at the server; the connection itself is opened
and closed by the task that owns it.

A server's requests to the model are converted to plain data, and the answers back. The protocol calls this sampling: a
request of the server until 2025-11-25, an input that a result requires since 2026-07-28. `builtin.mcp_calling`
decides about the request.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import httpx2
import mcp_types as types
from mcp import Client, InputRequiredRoundsExceededError, MCPError
from mcp.client._transport import Transport
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import FileUrl, ValidationError

from goclaw import __version__
from goclaw.common.config.mcp import McpClientSettings
from goclaw.common.core.supervise import background
from goclaw.common.specs import Annotations
from goclaw.errors import ToolError
from goclaw.tools.mcp.base import (
    CallOrigin,
    CallResult,
    Definition,
    Elicitation,
    LinkEnvironment,
    Listing,
    McpClient,
    McpLink,
    Piece,
    PromptArgument,
    PromptDefinition,
    Prompted,
    ResourceLine,
    SamplingResult,
)
from goclaw.tools.mcp.salvage import OUTPUT_SCHEMA, UNREADABLE, Salvage, brief
from goclaw.tools.mcp.transports import ServerProcess, open_address, open_program
from goclaw.tools.mcp.untrusted import shorten

MAX_PAGES = 100
"""Pages of one list."""
MAX_TOOLS = 200
"""Entries of one list: models know no more tools than that, and requests grow with each."""
CONNECT_SECONDS = 60.0
"""Seconds until a server must answer: a server that is installed at its first start needs time."""
LIST_SECONDS = 30.0
_LIBRARYS = (MCPError, ValidationError, InputRequiredRoundsExceededError, RuntimeError, httpx2.HTTPError)
"""The library's exceptions for faults of a server."""
_TERMINATED = "Session terminated"
"""The library's message when a server no longer knows our session."""

T = TypeVar("T")
Page = TypeVar("Page", bound=types.PaginatedResult)
_caller: ContextVar[CallOrigin | None] = ContextVar("mcp caller", default=None)

USER_REJECTED = -1
"""The protocol's code for "User rejected sampling request" (2025-11-25, Sampling, Error Handling)."""
NOT_AGREED = "User rejected sampling request"
MAX_SAMPLING_PARTS = 500
"""Texts and pictures of one request: as many as fit a message would hold up the event loop for a second."""
MAX_STOPS = 20
"""Stop sequences of an answer: no provider takes more than half as many."""
OUR_REFUSAL = {"refused": "goclaw"}
"""Marks an error as ours: where it ends the call, the text must not blame the server."""
_STOP_REASONS = {"end": "endTurn", "length": "maxTokens", "sequence": "stopSequence"}


class LibraryLink:
    """A connection through the library. Implements `McpLink`."""

    def __init__(self, name: str, settings: McpClientSettings, environment: LinkEnvironment) -> None:
        self.about = ""
        self.broken = asyncio.Event()
        self.changed = asyncio.Event()
        self.last_words: Callable[[], str] = str
        self.client: Client | None = None
        self.salvage = Salvage(lambda: self.client.protocol_version if self.client else LATEST_HANDSHAKE_VERSION)
        self._name = name
        self._settings = settings
        self._root = environment.workspace
        self._callers: list[CallOrigin] = []
        """The origins of the running calls."""

    def client_of(self, transport: Transport) -> Client:
        """Return the library's client on this transport."""
        return Client(
            transport,
            client_info=types.Implementation(name="goclaw", version=__version__),
            elicitation_callback=self._elicit if self._settings.elicitation else None,
            sampling_callback=self._sample if self._settings.may_sample else None,
            list_roots_callback=self._roots,
            message_handler=self._on_message,
            cache=None,
        )

    async def listing(self) -> Listing:
        """Return the server's current lists."""
        async with asyncio.timeout(LIST_SECONDS):
            with self.in_words("its list of tools"):
                can = self._open.server_capabilities
                tools, cut = await self._pages(self._list_tools, lambda page: page.tools) if can.tools else ([], "")
                prompts, more = (
                    await self._pages(lambda cursor: self._open.list_prompts(cursor=cursor), lambda page: page.prompts)
                    if can.prompts
                    else ([], "")
                )
        left_out = {name: why for entries in self.salvage.left_out.values() for name, why in entries.items()}
        return Listing(tuple(map(_definition, tools)), tuple(map(_prompt, prompts)), cut or more, left_out)

    async def call_tool(self, name: str, arguments: Mapping[str, Any], caller: CallOrigin) -> CallResult:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            part = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            caller.progress(f"{part}: {message}" if message else part)

        with self.in_words(name), self._for(caller):
            found = await self._open.call_tool(name, dict(arguments), progress_callback=on_progress)
        return CallResult(tuple(map(_piece, found.content)), found.structured_content, bool(found.is_error))

    async def resources(self) -> list[ResourceLine]:
        with self.in_words("its list of resources"):
            if not self._open.server_capabilities.resources:
                return []
            found, _ = await self._pages(
                lambda cursor: self._open.list_resources(cursor=cursor), lambda page: page.resources
            )
            try:
                templates, _ = await self._pages(
                    lambda cursor: self._open.list_resource_templates(cursor=cursor),
                    lambda page: page.resource_templates,
                )
            except MCPError:  # a server may have resources and know of no templates
                templates = []
        return [*map(_resource, found), *map(_resource, templates)]

    async def read(self, uri: str, caller: CallOrigin) -> CallResult:
        with self.in_words(uri), self._for(caller):
            found = await self._open.read_resource(uri)
        return CallResult(tuple(_contents(each) for each in found.contents))

    async def prompt(self, name: str, arguments: Mapping[str, str], caller: CallOrigin) -> CallResult:
        with self.in_words(name), self._for(caller):
            found = await self._open.get_prompt(name, dict(arguments))
        return CallResult(tuple(_piece(each.content, each.role) for each in found.messages))

    async def watch(self) -> None:
        """Subscribe to changes, for servers that report them to subscribers only."""
        can = self._open.server_capabilities
        if self._open.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (can.tools or can.prompts):
            return
        try:
            async with self._open.listen(tools_list_changed=True, prompts_list_changed=True) as events:
                async for _ in events:
                    self.changed.set()
        except (MCPError, SubscriptionLost, TimeoutError):
            pass  # it reports nothing; changes show when reconnecting

    @property
    def _open(self) -> Client:
        if self.client is None or self.broken.is_set():
            raise ToolError(f"the MCP server {self._name} is not connected")
        return self.client

    @contextmanager
    def in_words(self, what: str) -> Iterator[None]:
        """Convert the library's exceptions for faults of the server to ToolErrors."""
        try:
            yield
        except (*_LIBRARYS, ExceptionGroup) as error:
            raise self._translate(error, shorten(what, 100)) from None

    def _translate(self, error: Exception, what: str) -> Exception:
        who = f"the MCP server {self._name}"
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, MCPError):
            if error.data == UNREADABLE:
                return ToolError(f"{who} gave something that is no answer to {what}: {shorten(error.message)}")
            if error.data == OUR_REFUSAL:
                return ToolError(f"{who} was refused what it asked for while it was at {what}: {error.message}")
            if error.code != types.CONNECTION_CLOSED and error.message != _TERMINATED:
                return ToolError(f"{who} refuses {what}: {shorten(error.message)}")
            self.broken.set()
            words = self.last_words()
            return ToolError(f"{who} ended while it was at {what}{f': {words}' if words else ''}")
        if isinstance(error, httpx2.TransportError):
            return ToolError(f"{who} cannot be reached: {shorten(str(error)) or type(error).__name__}")
        if isinstance(error, _LIBRARYS):
            said = brief(error) if isinstance(error, ValidationError) else shorten(str(error))
            return ToolError(f"{who} gave something that is no answer to {what}: {said}")
        return error

    @contextmanager
    def _for(self, caller: CallOrigin) -> Iterator[None]:
        token = _caller.set(caller)
        self._callers.append(caller)
        try:
            yield
        finally:
            self._callers.remove(caller)
            _caller.reset(token)

    async def _pages(
        self, page: "Callable[[str | None], Awaitable[Page]]", entries: "Callable[[Page], list[T]]"
    ) -> tuple[list[T], str]:
        found: list[T] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            more = await page(cursor)
            found += entries(more)
            if len(found) > MAX_TOOLS:
                cut = f"its lists are longer than {MAX_TOOLS} entries; what is behind them is left out"
                return found[:MAX_TOOLS], cut
            if (cursor := more.next_cursor) is None:
                return found, ""
        return found, f"its lists have more than {MAX_PAGES} pages; what is behind them is left out"

    async def _list_tools(self, cursor: str | None) -> types.ListToolsResult:
        return await self._open.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification | types.PromptListChangedNotification):
            self.changed.set()

    async def _roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(self._root.as_uri()), name="workspace")])

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        caller = self._whose()
        if caller is None:
            return refusal("nobody can be asked: it is not known for whose call this is")
        if isinstance(params, types.ElicitRequestURLParams):
            asked = Elicitation(params.message, url=params.url)
        else:
            asked = Elicitation(params.message, params.requested_schema)
        try:
            answer = await caller.ask(asked)
        except ToolError as error:
            return refusal(str(error))
        if answer is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content=dict(answer) if not asked.url else None)

    async def _sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        caller = self._whose()
        if caller is None:
            return refusal("the model is not asked: it is not known for whose call this is")
        try:
            answer = await caller.complete(prompted_of(params))
        except ToolError as error:
            return refusal(str(error))
        return sampling_result(answer) if answer else refusal(NOT_AGREED, USER_REJECTED)

    def _whose(self) -> CallOrigin | None:
        """Return the caller that a server's request is for; None if unknown. Before 2026 a request names no call: then
        only one may be running."""
        return _caller.get() or (self._callers[0] if len(self._callers) == 1 else None)


@asynccontextmanager
async def connect(name: str, settings: McpClientSettings, environment: LinkEnvironment) -> AsyncIterator[McpLink]:
    """Connect to a server until the block ends, in one task.

    Raises:
        ToolError: it cannot be reached, or is no MCP server; also the library's errors for a transport that breaks.
    """
    link = LibraryLink(name, settings, environment)
    if settings.command is None:
        async with _enter(link, open_address(settings, environment)):
            yield link
        return
    program = ServerProcess()
    link.last_words = program.last_words
    async with _enter(link, open_program(settings, environment, program)):
        async with background(_follow(program, link), f"the end of the MCP server {name}"):
            yield link


@asynccontextmanager
async def _enter(link: LibraryLink, transport: Any) -> AsyncIterator[None]:
    client = link.client_of(cast("Transport", link.salvage.over(transport)))
    async with AsyncExitStack() as stack:
        with link.in_words("the handshake"):
            async with asyncio.timeout(CONNECT_SECONDS):
                await stack.enter_async_context(client)
        link.client = client
        info = client.server_info
        who = f"{shorten(info.name, 60)} {shorten(info.version, 30)}" if info else "it does not say its name"
        link.about = f"{who}, protocol {client.protocol_version}"
        async with background(link.watch(), "changes at an MCP server"):
            try:
                yield
            finally:
                link.broken.set()


async def _follow(program: ServerProcess, link: LibraryLink) -> None:
    await program.ended.wait()
    link.broken.set()


def _definition(tool: types.Tool) -> Definition:
    said = tool.annotations or types.ToolAnnotations()
    title = shorten(tool.title or said.title or "", 80)
    hints = Annotations(title, said.read_only_hint, said.destructive_hint, said.idempotent_hint, said.open_world_hint)
    return Definition(tool.name, tool.description or "", tool.input_schema, (tool.meta or {}).get(OUTPUT_SCHEMA), hints)


def _prompt(prompt: types.Prompt) -> PromptDefinition:
    arguments = [
        PromptArgument(each.name, each.description or "", bool(each.required)) for each in prompt.arguments or ()
    ]
    return PromptDefinition(prompt.name, prompt.description or prompt.title or "", tuple(arguments))


def _resource(found: types.Resource | types.ResourceTemplate) -> ResourceLine:
    said, mime = found.description or found.title or "", found.mime_type or ""
    if isinstance(found, types.ResourceTemplate):
        return ResourceLine(found.uri_template, found.name, said, mime, is_template=True)
    return ResourceLine(found.uri, found.name, said, mime, found.size)


def _piece(block: types.ContentBlock, role: str = "") -> Piece:
    match block:
        case types.TextContent():
            return Piece(block.text, role=role)
        case types.ImageContent():
            return Piece(data=_bytes(block.data), mime=block.mime_type, kind="image", role=role)
        case types.AudioContent():
            return Piece(data=_bytes(block.data), mime=block.mime_type, kind="audio", role=role)
        case types.ResourceLink():
            return Piece(block.description or block.title or block.name, uri=block.uri, kind="link", role=role)
        case types.EmbeddedResource():
            return _contents(block.resource, role)


def _contents(found: types.TextResourceContents | types.BlobResourceContents, role: str = "") -> Piece:
    mime = found.mime_type or ""
    if isinstance(found, types.TextResourceContents):
        return Piece(found.text, mime=mime, uri=found.uri, kind="resource", role=role)
    return Piece(data=_bytes(found.blob), mime=mime, uri=found.uri, kind="resource", role=role)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


CLIENT = McpClient(connect)


def refusal(message: str, code: int = types.INVALID_REQUEST) -> types.ErrorData:
    """Return our refusal of a server's request."""
    return types.ErrorData(code=code, message=message, data=OUR_REFUSAL)


def prompted_of(params: types.CreateMessageRequestParams) -> Prompted:
    """Return the request as plain data.

    Raises:
        ToolError: it uses features that no server gets.
    """
    if params.tools or params.tool_choice:
        raise ToolError("the model gets no tools when a server asks it: leave `tools` and `toolChoice` out")
    if params.include_context not in (None, "none"):
        raise ToolError('the model gets no context of others when a server asks it: `includeContext` has to be "none"')
    if params.task is not None:
        raise ToolError("the model answers at once, and not as a task: leave `task` out")
    parts = sum(max(1, len(message.content_as_list)) for message in params.messages)
    if parts > MAX_SAMPLING_PARTS or len(params.stop_sequences or ()) > MAX_STOPS:
        raise ToolError(f"a request to the model has at most {MAX_SAMPLING_PARTS} texts and {MAX_STOPS} stop sequences")
    preferences = params.model_preferences
    return Prompted(
        pieces=tuple(piece for message in params.messages for piece in _sampling_pieces(message)),
        system=params.system_prompt or "",
        max_tokens=params.max_tokens,
        hints=tuple(hint.name for hint in (preferences.hints if preferences else None) or () if hint.name),
        stops=tuple(stop for stop in params.stop_sequences or () if stop),
    )


def _sampling_pieces(message: types.SamplingMessage) -> Iterator[Piece]:
    for block in message.content_as_list:
        match block:
            case types.TextContent():
                yield Piece(block.text, role=message.role)
            case types.ImageContent():
                yield Piece(data=_decode(block.data), mime=block.mime_type, kind="image", role=message.role)
            case _:
                raise ToolError(f"the model is given texts and pictures by a server, and no {block.type}")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ToolError("the data of a picture are no base64") from None


def sampling_result(answer: SamplingResult) -> types.CreateMessageResult:
    """Return the model's answer in the server's form."""
    content = types.TextContent(type="text", text=answer.text)
    return types.CreateMessageResult(
        role="assistant", content=content, model=answer.model, stop_reason=_STOP_REASONS[answer.stop]
    )

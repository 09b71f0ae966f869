"""MCP servers as the rest of GoClaw sees them: plain data, and one open connection as a Protocol.

No type of the library appears here: its import takes more than a second, which setups without a server should not pay.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Literal, Protocol

import orjson

from goclaw.common.config.mcp import McpClientSettings
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import Clock
from goclaw.common.core.files import Writer, lock_folder
from goclaw.common.core.records import record
from goclaw.common.net import UrlGuard
from goclaw.common.specs import Annotations
from goclaw.errors import ToolError


@record
class Definition:
    """A tool as its server describes it. All of it is untrusted."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None
    annotations: Annotations = field(default_factory=Annotations)

    @property
    def fingerprint(self) -> str:
        """Return a digest of exactly this definition."""
        return hashlib.sha256(orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)).hexdigest()


@record
class PromptArgument:
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


@record
class PromptDefinition:
    """A prompt as its server describes it."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()


@record
class Listing:
    """The lists of a server."""

    tools: tuple[Definition, ...] = ()
    prompts: tuple[PromptDefinition, ...] = ()
    cut: str = ""
    """A description of entries left out because a list exceeded its bound."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By name, the entries that cannot be read, and why."""


@record
class ResourceLine:
    """A resource, or a template of resource addresses, as its server lists it."""

    uri: str
    name: str
    description: str = ""
    mime: str = ""
    size: int | None = None
    is_template: bool = False


@record
class Piece:
    """A part of a server's answer: text, or bytes of some kind."""

    text: str = ""
    data: bytes = b""
    mime: str = ""
    uri: str = ""
    """The address of the resource."""
    kind: Literal["text", "image", "audio", "resource", "link"] = "text"
    role: str = ""
    """The speaker, in a prompt."""


@record
class CallResult:
    """The result of a call."""

    pieces: tuple[Piece, ...] = ()
    structured: Any = None
    is_error: bool = False


@record
class Elicitation:
    """A server's request for input from a person while a call runs: by a form, or at an address."""

    message: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    """The form: an object of plain values."""
    url: str = ""


Answered = Mapping[str, Any]
"""A filled-in form; empty where the person agreed without a form."""


@record
class Prompted:
    """A server's request to the model while a call runs (sampling)."""

    pieces: tuple[Piece, ...]
    """Texts and pictures, each with its role, in order."""
    system: str
    max_tokens: int
    hints: tuple[str, ...] = ()
    """Names of models that it prefers, or parts of them, the best first."""
    stops: tuple[str, ...] = ()
    """The stop sequences of the answer."""


@record
class SamplingResult:
    """The model's answer to such a request."""

    text: str
    model: str
    stop: Literal["end", "length", "sequence"] = "end"


async def no_completion(prompted: Prompted) -> SamplingResult | None:
    """Return None: outside of calls no model answers."""
    raise ToolError("the model is asked only while a call runs that somebody has made")


@record
class CallOrigin:
    """The caller of a tool, as its server may reach the person and the model."""

    ask: Callable[[Elicitation], Awaitable[Answered | None]]
    """Asks the person; None: the person declines. Raises ToolError where no person can be asked."""
    progress: Callable[[str], None]
    complete: Callable[[Prompted], Awaitable[SamplingResult | None]] = no_completion
    """Has the model answer; None: the person declines. Raises ToolError with the reason if it cannot."""


class McpLink(Protocol):
    """One open connection. A fault of the server is a ToolError; its text names the culprit."""

    about: str
    """The server's name, its version and the protocol that is spoken."""
    broken: asyncio.Event
    """Set when the connection is of no use any more."""
    changed: asyncio.Event
    """Set when the server reports that its lists have changed."""
    last_words: Callable[[], str]
    """Returns the last lines that a program wrote to standard error."""

    async def listing(self) -> Listing: ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any], caller: CallOrigin) -> CallResult: ...

    async def resources(self) -> list[ResourceLine]: ...

    async def read(self, uri: str, caller: CallOrigin) -> CallResult: ...

    async def prompt(self, name: str, arguments: Mapping[str, str], caller: CallOrigin) -> CallResult: ...


@record
class LinkEnvironment:
    """The environment of a connection."""

    clock: Clock
    state: Path
    """The folder in which programs without a folder of their own are started."""
    workspace: Path
    """The folder that servers get as their root."""
    guard: UrlGuard | None = None
    """Decides which addresses may be reached; None: the operator has chosen the address."""
    writer: Writer = lock_folder
    """Changes files of the state folder."""


@record
class ServerLocation:
    """The location of a server without an address in the configuration."""

    settings: McpClientSettings
    guard: UrlGuard | None
    pinned_by: str
    """The source of its tools' pinned definitions, in words."""


class Finder(Protocol):
    """A finder of a server's location. Its errors are GoclawErrors with the reason."""

    place: str
    """The configuration key that names the server."""
    settings: McpClientSettings
    """The settings known before it was found: those of the operator, without an address."""

    async def find(self) -> ServerLocation: ...

    async def news(self) -> None:
        """Return when `find` may have another result than the last time."""
        ...


Connect = Callable[[str, McpClientSettings, LinkEnvironment], AbstractAsyncContextManager[McpLink]]


@record
class McpClient:
    """The line of the catalogue: opens connections."""

    connect: Connect


@record
class FinderPart:
    """The line of the catalogue: the finders of the servers of `tools.from_registry`, by their names."""

    of: Callable[[Config, Clock], Mapping[str, Finder]]

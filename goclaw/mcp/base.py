"""What an MCP server is to the rest of GoClaw: plain data, and one open connection as a Protocol.

No type of the library appears here: it costs more than a second to import, and nobody without a server should wait.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Literal, Protocol

import orjson

from goclaw.clock import Clock
from goclaw.config.mcp_servers import McpClientSettings
from goclaw.config.schema import Config
from goclaw.errors import ToolError
from goclaw.net import UrlGuard
from goclaw.records import record
from goclaw.specs import Annotations


@record
class Definition:
    """A tool as its server describes it. All of it is the server's word."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None
    annotations: Annotations = field(default_factory=Annotations)

    def as_json(self) -> dict[str, Any]:
        """For the file of known definitions."""
        return asdict(self)

    @property
    def fingerprint(self) -> str:
        """Names exactly this definition."""
        return hashlib.sha256(orjson.dumps(self.as_json(), option=orjson.OPT_SORT_KEYS)).hexdigest()


@record
class PromptArgument:
    """What a prompt takes."""

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
    """What a server offers now."""

    tools: tuple[Definition, ...] = ()
    prompts: tuple[PromptDefinition, ...] = ()
    cut: str = ""
    """What of it was left out, because it had no end."""


@record
class ResourceLine:
    """A resource, or a template of their addresses, as its server lists it."""

    uri: str
    name: str
    description: str = ""
    mime: str = ""
    size: int | None = None
    is_template: bool = False


@record
class Piece:
    """A part of what a server answers: text, or bytes of some kind."""

    text: str = ""
    data: bytes = b""
    mime: str = ""
    uri: str = ""
    """Of the resource that it is."""
    kind: Literal["text", "image", "audio", "resource", "link"] = "text"
    role: str = ""
    """Who says it, in a prompt."""


@record
class CallResult:
    """What a call came to."""

    pieces: tuple[Piece, ...] = ()
    structured: Any = None
    is_error: bool = False


@record
class Elicitation:
    """What a server wants to know from a person while a call runs: by a form, or at an address."""

    message: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    """The form: an object of plain values."""
    url: str = ""


Answered = Mapping[str, Any]
"""A form that was filled in; what was agreed to without one is an empty one."""


@record
class Prompted:
    """What a server wants the model to be asked while a call runs (sampling)."""

    pieces: tuple[Piece, ...]
    """Texts and pictures, each with its role, in order."""
    system: str
    most_tokens: int
    hints: tuple[str, ...] = ()
    """Names of models that it would like, or parts of them, the best first."""
    stops: tuple[str, ...] = ()
    """Where the answer is to end."""


@record
class SamplingResult:
    """What the model answered to that."""

    text: str
    model: str
    stop: Literal["end", "length", "sequence"] = "end"


async def no_completion(prompted: Prompted) -> SamplingResult | None:
    """Where no call runs for anybody."""
    raise ToolError("the model is asked only while a call runs that somebody has made")


@record
class CallOrigin:
    """For whom a call is made, as its server may reach that one."""

    ask: Callable[[Elicitation], Awaitable[Answered | None]]
    """None: the person does not want to say. Raises ToolError where nobody can be asked."""
    progress: Callable[[str], None]
    complete: Callable[[Prompted], Awaitable[SamplingResult | None]] = no_completion
    """Have the model answer; None: the person does not want that. Raises ToolError with why it does not."""


class McpLink(Protocol):
    """One open connection. What a server does wrong is a ToolError whose text says whose fault it is."""

    about: str
    """The server's name, its version and the protocol that is spoken."""
    broken: asyncio.Event
    """It is of no use any more."""
    changed: asyncio.Event
    """The server says that its lists are not what they were."""
    last_words: Callable[[], str]
    """What a program said on standard error in the end."""

    async def listing(self) -> Listing: ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any], caller: CallOrigin) -> CallResult: ...

    async def resources(self) -> list[ResourceLine]: ...

    async def read(self, uri: str, caller: CallOrigin) -> CallResult: ...

    async def prompt(self, name: str, arguments: Mapping[str, str], caller: CallOrigin) -> CallResult: ...


@record
class LinkPorts:
    """What a connection stands on."""

    clock: Clock
    state: Path
    """Where a program is started that has no folder of its own."""
    workspace: Path
    """What a server is told where files are (its root)."""
    guard: UrlGuard | None = None
    """Decides which addresses may be reached; none: the operator has chosen the address."""


@record
class ServerLocation:
    """Where a server is that stands in no configuration itself."""

    settings: McpClientSettings
    guard: UrlGuard | None
    pinned_by: str
    """Who says what its tools have to be, in words."""


class Finder(Protocol):
    """Knows where such a server is. What it raises is a GoclawError that says why nobody knows."""

    place: str
    """The key of the configuration that wants it."""
    settings: McpClientSettings
    """What is known before it was found: what the operator says of it, without an address."""

    async def find(self) -> ServerLocation: ...

    async def news(self) -> None:
        """Return when `find` may have something else to say than the last time."""
        ...


Connect = Callable[[str, McpClientSettings, LinkPorts], AbstractAsyncContextManager[McpLink]]


@record
class McpClient:
    """The line of the catalogue: how a connection is made."""

    connect: Connect


@record
class FinderPart:
    """The line of the catalogue: who finds the servers of `tools.from_registry`, by their names."""

    of: Callable[[Config, Clock], Mapping[str, Finder]]

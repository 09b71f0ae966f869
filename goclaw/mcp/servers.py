"""The servers of the configuration: each has one task that connects, looks what there is, and connects again.

Connecting takes place in the background and nothing waits for it. What one server does, dying included, fails its own
calls and nothing else.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from goclaw import catalog
from goclaw.config.mcp_servers import McpClientSettings
from goclaw.errors import GoclawError, ToolError
from goclaw.mcp.base import Definition, Link, LinkPorts, Listing, McpClient, PromptDefinition
from goclaw.mcp.bounds import Counts
from goclaw.mcp.known import KnownTools
from goclaw.mcp.words import shown
from goclaw.plugins import load_large
from goclaw.supervise import background, ends_within

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""Seconds before a server is connected again: doubled at each failure, up to the second."""
START_PAUSE = 0.05
"""Seconds between the first starts of two servers: ten at once would hold up the event loop."""
STEADY_SECONDS = 60.0
"""A connection that held so long begins anew with the first pause."""
LIST_PAUSE = 0.5
"""Seconds between two looks at the lists of one server, however often it says that they changed."""


@dataclass(slots=True)
class Server:
    """One server, as it is now."""

    name: str
    settings: McpClientSettings
    link: Link | None = None
    state: str = "not connected yet"
    """In words for people."""
    definitions: tuple[Definition, ...] = ()
    """What it listed when it was asked last: kept while it is away, so that the model is told why a call fails."""
    prompts: tuple[PromptDefinition, ...] = ()
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """It was looked at once, whatever came of it."""
    sampled: Counts = field(default_factory=Counts)
    """How often it asked the model."""

    def connected(self) -> Link:
        """The open connection.

        Raises:
            ToolError: there is none now; the message says why.
        """
        if self.link is None or self.link.broken.is_set():
            raise ToolError(f"the MCP server {self.name} is not connected: {self.state}")
        return self.link


Listed = Callable[[Server, Listing], Awaitable[None]]
"""Told what a server offers, whenever that is looked at."""
Report = Callable[[str, str], None]
"""What is wrong with what; empty: nothing any more."""


class McpServers:
    """All servers of the configuration, by name."""

    def __init__(self, settings: Mapping[str, McpClientSettings], ports: LinkPorts, report: Report) -> None:
        self.servers = {name: Server(name, each) for name, each in settings.items() if each.enabled}
        self.known = KnownTools(ports.state)
        self._ports = ports
        self._report = report

    async def settled(self, seconds: float) -> None:
        """Wait until every server was looked at once, or so long."""
        waiting = [asyncio.ensure_future(server.settled.wait()) for server in self.servers.values()]
        if waiting:
            await ends_within(asyncio.ensure_future(asyncio.wait(waiting)), self._ports.clock, seconds)
        for each in waiting:
            each.cancel()

    async def run(self, listed: Listed) -> None:
        """Keep all of them connected until the task ends; then all of them end at the same time."""
        client = await asyncio.to_thread(load_large, catalog.MCP["client"], McpClient)
        async with asyncio.TaskGroup() as group:
            for server in self.servers.values():
                group.create_task(self._keep(server, client, listed), name=f"MCP server {server.name}")
                await self._ports.clock.sleep(START_PAUSE)

    async def _keep(self, server: Server, client: McpClient, listed: Listed) -> None:
        clock, pause = self._ports.clock, FIRST_PAUSE
        while True:
            began = clock.monotonic()
            why = await self._connected(server, client, listed)
            server.link = None
            if clock.monotonic() - began > STEADY_SECONDS:
                pause = FIRST_PAUSE
            server.state = f"{why}; the next try in {pause:g} s"
            self._report(f"mcp.servers.{server.name}", why)
            server.settled.set()
            await clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _connected(self, server: Server, client: McpClient, listed: Listed) -> str:
        """Connect once and serve until the connection breaks: why it did, whatever it was."""
        server.state = "connecting"
        link: Link | None = None
        try:
            async with client.connect(server.name, server.settings, self._ports) as link:
                await self._serve(server, link, listed)
        except Exception as error:
            return (link.last_words() if link else "") or _words(error)
        except BaseExceptionGroup as errors:
            if errors.subgroup(asyncio.CancelledError):
                raise
            return (link.last_words() if link else "") or _words(errors)
        return link.last_words() or "it ended the connection"

    async def _serve(self, server: Server, link: Link, listed: Listed) -> None:
        """Look at the lists of a server, and again as often as it says that they changed."""
        while True:
            looked = self._ports.clock.monotonic()
            link.changed.clear()
            listing = await link.listing()
            server.definitions, server.prompts = listing.tools, listing.prompts
            await listed(server, listing)
            server.link, server.state = link, f"connected: {link.about}"
            self._report(f"mcp.servers.{server.name}", listing.cut)
            server.settled.set()
            if not await _first(link.changed, link.broken):
                return
            await self._ports.clock.sleep(max(looked + LIST_PAUSE - self._ports.clock.monotonic(), 0))


async def _first(wanted: asyncio.Event, other: asyncio.Event) -> bool:
    """Whether the first of two events comes before the second."""
    waiting = [asyncio.ensure_future(event.wait()) for event in (wanted, other)]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
    return not other.is_set()


def _words(error: BaseException) -> str:
    """What went wrong, in words: of a group, its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, EOFError | ConnectionError):
        return "it ended the connection"
    words = shown(str(error))
    if isinstance(error, GoclawError):
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


@asynccontextmanager
async def open_servers(servers: McpServers, listed: Listed) -> AsyncIterator[McpServers]:
    """Keep the servers connected while the block runs."""
    async with background(servers.run(listed), "MCP servers"):
        yield servers

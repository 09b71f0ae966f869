"""The configured servers: each has one task that connects, reads the lists, and connects again.

Connecting takes place in the background and nothing waits for it. A fault of one server, even its end, fails its own
calls and nothing else.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from goclaw.common.config.mcp import McpClientSettings
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.clock import Backoff, Clock
from goclaw.common.core.plugins import load, load_large
from goclaw.common.core.supervise import background, ends_within
from goclaw.errors import GoclawError, ToolError
from goclaw.tools.mcp.approved_tools import ApprovedTools
from goclaw.tools.mcp.base import (
    Finder,
    FinderPart,
    LinkEnvironment,
    Listing,
    McpClient,
    McpLink,
)
from goclaw.tools.mcp.untrusted import CONFIGURATION, SamplingCounts, shorten

log = logging.getLogger(__name__)

FIRST_PAUSE, MAX_PAUSE = 1.0, 300.0
"""Seconds before a server is connected again: doubled at each failure, up to the second."""
START_PAUSE = 0.05
"""Seconds between the first starts of two servers: ten at once would hold up the event loop."""
STEADY_SECONDS = 60.0
"""Seconds after which a connection counts as stable: the next pause is the first one again."""
LIST_PAUSE = 0.5
"""Seconds between two looks at the lists of one server, however often it reports changes."""
_MOVED = ""
"""The reason for closing a connection that had no fault."""


@dataclass(slots=True)
class ServerState:
    """The state of one server."""

    name: str
    settings: McpClientSettings
    link: McpLink | None = None
    state: str = "not connected yet"
    """In words for people."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set after the first look at it, whatever the result."""
    sampled: SamplingCounts = field(default_factory=SamplingCounts)
    """The number of its requests to the model."""
    finder: Finder | None = None
    """Finds its location, at each try; None: the configuration has it."""
    pinned_by: str = CONFIGURATION
    """The source of its tools' pinned definitions, in words."""

    @property
    def place(self) -> str:
        """Return the configuration key that names the server."""
        return self.finder.place if self.finder else f"mcp.servers.{self.name}"

    def connected(self) -> McpLink:
        """Return the open connection.

        Raises:
            ToolError: it is not connected now; the message says why.
        """
        if self.link is None or self.link.broken.is_set():
            raise ToolError(f"the MCP server {self.name} is not connected: {self.state}")
        return self.link


Listed = Callable[[ServerState, Listing], Awaitable[None]]
"""Called with a server's lists, after each look at them."""
Report = Callable[[str, str], None]
"""Called with the place and text of a fault; an empty text ends it."""


class McpServers:
    """All configured servers, by name."""

    def __init__(
        self,
        settings: Mapping[str, McpClientSettings],
        environment: LinkEnvironment,
        report: Report,
        finders: Mapping[str, Finder] | None = None,
    ) -> None:
        """`finders`: by name, the finders of servers without an address in the configuration."""
        self.servers = {name: ServerState(name, each) for name, each in settings.items() if each.enabled}
        self.servers |= {name: ServerState(name, each.settings, finder=each) for name, each in (finders or {}).items()}
        self.known = ApprovedTools(environment.state, environment.writer)
        self._environment = environment
        self._report = report

    async def settled(self, seconds: float) -> None:
        """Wait until the first look at each server is done, at most so long."""
        waiting = [asyncio.ensure_future(server.settled.wait()) for server in self.servers.values()]
        if waiting:
            await ends_within(asyncio.ensure_future(asyncio.wait(waiting)), self._environment.clock, seconds)
        for each in waiting:
            each.cancel()
        for server in self.servers.values():
            if not server.settled.is_set():
                self._report(server.place, f"{server.state}: no answer within {seconds:g} s")

    async def run(self, listed: Listed) -> None:
        """Keep all of them connected until the task ends; then close them all at the same time."""
        client = await asyncio.to_thread(load_large, catalog.MCP["client"], McpClient)
        async with asyncio.TaskGroup() as group:
            for server in self.servers.values():
                group.create_task(self._maintain(server, client, listed), name=f"MCP server {server.name}")
                await self._environment.clock.sleep(START_PAUSE)

    async def _maintain(self, server: ServerState, client: McpClient, listed: Listed) -> None:
        clock, backoff = self._environment.clock, Backoff(FIRST_PAUSE, MAX_PAUSE)
        while True:
            began = clock.monotonic()
            why = await self._connect(server, client, listed)
            server.link = None
            if why == _MOVED:
                continue
            if clock.monotonic() - began > STEADY_SECONDS:
                backoff.reset()
            pause = backoff.next()
            server.state = f"{why}; next try in {pause:g} s"
            self._report(server.place, why)
            server.settled.set()
            if server.finder is None:
                await clock.sleep(pause)
                continue
            async with background(server.finder.news(), f"news of the MCP server {server.name}") as news:
                await ends_within(news, clock, pause)

    async def _connect(self, server: ServerState, client: McpClient, listed: Listed) -> str:
        """Connect once and serve until the connection breaks; return the reason, whatever it was."""
        server.state = "connecting"
        link: McpLink | None = None
        try:
            environment = await self._find(server)
            async with client.connect(server.name, server.settings, environment) as link:
                if await self._serve_until_move(server, self._serve(server, link, listed)):
                    return _MOVED
        except Exception as error:
            return (link.last_words() if link else "") or _words(error)
        except BaseExceptionGroup as errors:
            if errors.subgroup(asyncio.CancelledError):
                raise
            return (link.last_words() if link else "") or _words(errors)
        return link.last_words() or "it closed the connection"

    async def _find(self, server: ServerState) -> LinkEnvironment:
        """Find the server, and return the dependencies of a connection to it."""
        if server.finder is None:
            return self._environment
        found = await server.finder.find()
        server.settings, server.pinned_by = found.settings, found.pinned_by
        return replace(self._environment, guard=found.guard)

    async def _serve_until_move(self, server: ServerState, serving: Coroutine[Any, Any, None]) -> bool:
        """Serve until the connection breaks, or the server has moved; return whether it has moved."""
        if server.finder is None:
            await serving
            return False
        async with (
            background(self._moves(server, server.finder), f"news of the MCP server {server.name}") as moving,
            background(serving, f"serving the MCP server {server.name}") as served,
        ):
            await asyncio.wait({moving, served}, return_when=asyncio.FIRST_COMPLETED)
            return not served.done()

    async def _moves(self, server: ServerState, finder: Finder) -> None:
        """Return when the server has moved. One that cannot be found any more counts as unmoved."""
        while True:
            await finder.news()
            try:
                found = await finder.find()
            except GoclawError as error:
                log.info("the MCP server %s stays where it is: %s", server.name, error)
                continue
            if found.settings != server.settings:
                return

    async def _serve(self, server: ServerState, link: McpLink, listed: Listed) -> None:
        """Read the lists of a server, and again whenever it reports changes."""
        while True:
            looked = self._environment.clock.monotonic()
            link.changed.clear()
            listing = await link.listing()
            await listed(server, listing)
            server.link, server.state = link, f"connected: {link.about}"
            self._report(server.place, listing.cut)
            server.settled.set()
            waiting = [asyncio.ensure_future(event.wait()) for event in (link.changed, link.broken)]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waiting:
                    each.cancel()
            if link.broken.is_set():
                return
            await self._environment.clock.sleep(max(looked + LIST_PAUSE - self._environment.clock.monotonic(), 0))


def _words(error: BaseException) -> str:
    """Return the text of an error; of a group, its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, EOFError | ConnectionError):
        return "it closed the connection"
    words = shorten(str(error))
    if isinstance(error, GoclawError):
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


async def finders(config: Config, clock: Clock) -> Mapping[str, Finder]:
    """Return the finders of the servers of `tools.from_registry`, by their names. Loaded only if there are any."""
    if not config.tools.from_registry:
        return {}
    part = await asyncio.to_thread(load, catalog.MCP["finders"], FinderPart)
    return part.of(config, clock)


@asynccontextmanager
async def open_servers(servers: McpServers, listed: Listed) -> AsyncIterator[McpServers]:
    """Keep the servers connected while the block runs."""
    async with background(servers.run(listed), "MCP servers"):
        yield servers

"""One task per server: it connects in the background, again after growing pauses, and ends with the others."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.mcp import McpClientSettings
from goclaw.common.core.clock import SteppedClock
from goclaw.errors import ToolError
from goclaw.tools.mcp import servers as room
from goclaw.tools.mcp.base import (
    CallResult,
    Definition,
    LinkEnvironment,
    Listing,
    McpClient,
    McpLink,
    ResourceLine,
    ServerLocation,
)
from goclaw.tools.mcp.servers import LIST_PAUSE, MAX_PAUSE, McpServers, ServerState, open_servers

SETTINGS = McpClientSettings(command="x")


class FakeLink:
    """Implements `McpLink`."""

    def __init__(self) -> None:
        self.about = "fake 1"
        self.broken = asyncio.Event()
        self.changed = asyncio.Event()
        self.last_words: Callable[[], str] = lambda: ""
        self.looked = 0

    async def listing(self) -> Listing:
        self.looked += 1
        return Listing((Definition(f"t{self.looked}", "", {}),))

    async def call_tool(self, *_: Any) -> CallResult:
        return CallResult()

    async def resources(self) -> list[ResourceLine]:
        return []

    read = prompt = call_tool


class World:
    """Servers that connect, refuse or break as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.clock = SteppedClock()
        self.links: dict[str, FakeLink] = {}
        self.fault: Exception | None = None
        self.tries = 0
        self.ended: list[str] = []
        self.faults: dict[str, str] = {}
        self.listed: list[tuple[str, str]] = []
        environment = LinkEnvironment(self.clock, Path("/nowhere"), Path("/nowhere"))
        self.servers = McpServers(dict.fromkeys(names, SETTINGS), environment, self.faults.__setitem__)
        monkeypatch.setattr(room, "load_large", lambda path, kind: McpClient(self.connect))

    @asynccontextmanager
    async def connect(
        self, name: str, settings: McpClientSettings, environment: LinkEnvironment
    ) -> AsyncIterator[McpLink]:
        self.tries += 1
        if self.fault:
            raise self.fault
        link = self.links[name] = FakeLink()
        try:
            yield link
        finally:
            self.ended.append(name)

    async def take(self, server: ServerState, listing: Listing) -> None:
        self.listed.append((server.name, listing.tools[0].name))

    async def until(self, fact: Any) -> None:
        async with asyncio.timeout(5):
            while not fact():  # noqa: ASYNC110  # the servers' tasks bring it about
                await asyncio.sleep(0)

    async def passes(self, seconds: float) -> None:
        await self.until(lambda: self.clock.sleepers)
        self.clock.advance(seconds)


def states(world: World) -> Mapping[str, str]:
    return {name: server.state for name, server in world.servers.servers.items()}


async def test_pauses_grow_while_a_server_is_away_and_begin_anew_when_it_was_steady(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, "one")
    world.fault = ToolError("it is away")
    async with open_servers(world.servers, world.take):
        for number, pause in enumerate((1.0, 2.0, 4.0), start=1):
            await world.until(lambda number=number: world.tries == number and world.clock.sleepers)
            assert states(world)["one"] == f"it is away; next try in {pause:g} s"
            world.clock.advance(pause - 0.01)
            await asyncio.sleep(0)
            assert world.tries == number
            world.clock.advance(0.01)
        await world.until(lambda: world.tries == 4 and world.clock.sleepers)
        assert world.faults["mcp.servers.one"] == "it is away"
        with pytest.raises(ToolError, match="the MCP server one is not connected"):
            world.servers.servers["one"].connected()
        world.fault = None
        await world.passes(MAX_PAUSE)
        await world.until(lambda: world.servers.servers["one"].link)
        assert world.faults["mcp.servers.one"] == "" and states(world)["one"] == "connected: fake 1"
        world.clock.advance(120)
        world.links["one"].broken.set()
        await world.until(lambda: "next try in 1 s" in states(world)["one"])


@pytest.mark.parametrize(
    "fault",
    [
        OSError("no such host"),
        ExceptionGroup("several", [ConnectionError("gone"), OSError()]),
        BaseExceptionGroup("odd", [KeyError("x")]),
        RuntimeError("cancel scope"),
        TimeoutError(),
    ],
    ids=lambda fault: type(fault).__name__,
)
async def test_whatever_a_connection_ends_with_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    world = World(monkeypatch, "one", "two")
    world.fault = fault
    async with open_servers(world.servers, world.take):
        await world.until(lambda: world.tries == 1)
        world.fault = None
        await world.passes(room.START_PAUSE)
        await world.until(lambda: world.servers.servers["two"].link)
        assert world.servers.servers["one"].link is None and world.faults["mcp.servers.one"]
    assert world.ended == ["two"]


async def test_lists_are_looked_at_again_at_once_but_not_more_often_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, "one")
    async with open_servers(world.servers, world.take):
        await world.until(lambda: world.listed == [("one", "t1")])
        world.clock.advance(5)
        world.links["one"].changed.set()
        await world.until(lambda: world.listed[-1] == ("one", "t2"))
        for _ in range(5):
            world.links["one"].changed.set()
            await asyncio.sleep(0)
        assert world.links["one"].looked == 2
        await world.passes(LIST_PAUSE)
        await world.until(lambda: world.listed[-1] == ("one", "t3"))


async def test_whoever_looks_once_waits_until_every_server_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, "one")
    async with open_servers(world.servers, world.take):
        async with asyncio.timeout(5):
            await world.servers.settled(60)
        assert world.servers.servers["one"].link


async def test_a_server_that_does_not_answer_in_that_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, "mute")
    never = asyncio.Event()

    @asynccontextmanager
    async def connect(*_: Any) -> AsyncIterator[McpLink]:
        world.tries += 1
        await never.wait()
        yield FakeLink()

    monkeypatch.setattr(room, "load_large", lambda path, kind: McpClient(connect))
    async with open_servers(world.servers, world.take):
        await world.until(lambda: world.tries and world.clock.sleepers)
        world.clock.advance(room.START_PAUSE)
        waiting = asyncio.create_task(world.servers.settled(15))
        await world.until(lambda: world.clock.sleepers)
        world.clock.advance(15)
        await world.until(waiting.done)
        assert world.faults == {"mcp.servers.mute": "connecting: no answer within 15 s"}
        never.set()
        await world.until(lambda: world.servers.servers["mute"].link)
        assert world.faults == {"mcp.servers.mute": ""}


class FakeFinder:
    """Implements `Finder`: a server that is where the test says."""

    def __init__(self) -> None:
        self.place = "tools.from_registry.one"
        self.settings = McpClientSettings.model_construct()
        self.found: McpClientSettings | None = None
        self.changed = asyncio.Event()

    async def find(self) -> ServerLocation:
        if self.found is None:
            raise ToolError("nobody knows where it is")
        return ServerLocation(self.found, None, "its entry")

    async def news(self) -> None:
        await self.changed.wait()
        self.changed.clear()


def found_by(finder: FakeFinder, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(monkeypatch)
    environment = LinkEnvironment(world.clock, Path("/nowhere"), Path("/nowhere"))
    world.servers = McpServers({}, environment, world.faults.__setitem__, {"one": finder})
    return world


async def test_a_server_that_nobody_finds_is_connected_as_soon_as_there_are_news_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finder = FakeFinder()
    world = found_by(finder, monkeypatch)
    async with open_servers(world.servers, world.take):
        server = world.servers.servers["one"]
        await world.passes(room.START_PAUSE)
        await world.until(lambda: world.faults.get(finder.place) == "nobody knows where it is" and world.clock.sleepers)
        assert server.settled.is_set() and world.tries == 0
        finder.found = SETTINGS
        finder.changed.set()
        await world.until(lambda: server.link)
        assert (server.settings, server.pinned_by, world.faults[finder.place]) == (SETTINGS, "its entry", "")


async def test_a_server_that_is_somewhere_else_now_is_connected_there_and_that_is_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finder = FakeFinder()
    finder.found = SETTINGS
    world = found_by(finder, monkeypatch)
    async with open_servers(world.servers, world.take):
        server = world.servers.servers["one"]
        await world.until(lambda: server.link)
        first = server.link
        for news in (SETTINGS, None):  # nothing new, and nobody knows any more
            finder.found = news
            finder.changed.set()
            await world.until(lambda: not finder.changed.is_set())
        await world.until(lambda: server.link is first)
        assert world.ended == []
        finder.found = elsewhere = McpClientSettings(command="y")
        finder.changed.set()
        await world.until(lambda: server.link and server.link is not first)
        assert (server.settings, world.tries, world.ended) == (elsewhere, 2, ["one"])
        assert world.faults == {finder.place: ""}


async def test_a_server_that_was_found_and_breaks_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = FakeFinder()
    finder.found = SETTINGS
    world = found_by(finder, monkeypatch)
    async with open_servers(world.servers, world.take):
        server = world.servers.servers["one"]
        await world.passes(room.START_PAUSE)
        await world.until(lambda: server.link)
        finder.found = None
        world.links["one"].broken.set()
        await world.until(lambda: world.faults[finder.place] == "it closed the connection" and world.clock.sleepers)
        world.clock.advance(room.FIRST_PAUSE)
        await world.until(lambda: world.faults[finder.place] == "nobody knows where it is")

"""Who hears that something changed: only of what they may read, in each era of the protocol."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceListChangedNotification, ResourceUpdatedNotification, ToolListChangedNotification

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor
from goclaw.errors import ToolError
from goclaw.tools.mcp.declared import Declared, Notification, Resource
from tests.gateway.servers.mcp.house import ANN, BOB, House, house
from tests.gateway.servers.mcp.test_tools import add
from tests.harness import PATIENCE, Answer

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

BOSS = "tui:boss"
PEOPLE = [User(ANN), User(BOB), User("memory:here"), User(BOSS, roles=frozenset({"admin"}))]
TALK = "transcript://memory%3Ahere"


class Heard:
    """What a client is told."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    async def take(self, message: Any) -> None:
        self.all.append(message)

    def uris(self) -> list[str]:
        return [each.params.uri for each in self.all if isinstance(each, ResourceUpdatedNotification)]


async def until(look: Callable[[], object], home: House | None = None) -> None:
    """Let everything go on, and time pass in the house, until `look` finds something."""
    async with asyncio.timeout(PATIENCE):
        while not look():
            if home:
                home.world.clock.advance(0.1)
            await asyncio.sleep(0)


async def test_who_subscribed_hears_of_a_conversation_and_nobody_else(tmp_path: Path) -> None:
    async with house(tmp_path, users=PEOPLE, answers=[Answer("Hello")]) as home:
        boss, ann = Heard(), Heard()
        async with (
            home.client(BOSS, mode="legacy", message_handler=boss.take) as first,
            home.client(ANN, mode="legacy", message_handler=ann.take) as second,
        ):
            assert first.server_capabilities.resources and first.server_capabilities.resources.subscribe
            assert first.server_capabilities.tools and first.server_capabilities.tools.list_changed
            await first.subscribe_resource(TALK)
            with pytest.raises(MCPError, match="there is no resource"):
                await second.subscribe_resource(TALK)
            await second.subscribe_resource("status://goclaw")
            await home.core.say("hi")
            await home.core.settled()
            await until(lambda: len(boss.uris()) >= 2 and ann.uris())
            assert set(boss.uris()) == {TALK} and set(ann.uris()) == {"status://goclaw"}
            assert any(isinstance(each, ResourceListChangedNotification) for each in boss.all)
            await first.unsubscribe_resource(TALK)
            count = len(boss.uris())
            await home.core.say("again")
            await home.core.settled()
            await until(lambda: len(ann.uris()) >= 4)
            assert len(boss.uris()) == count


async def test_a_stream_tells_of_what_the_actor_may_read_as_of_then(tmp_path: Path) -> None:
    async with house(tmp_path, users=PEOPLE, answers=[Answer("Hello")] * 3) as home:
        async with (
            home.client(BOSS, mode="2026-07-28") as client,
            client.listen(resource_subscriptions=[TALK]) as heard,
        ):
            await home.core.say("hi")
            await home.core.settled()
            event = await anext(aiter(heard))
            assert getattr(event, "uri", "") == TALK
        async with home.client(ANN, mode="2026-07-28") as client:
            async with client.listen(resource_subscriptions=[TALK, "status://goclaw"]) as heard:
                assert heard.honored.resource_subscriptions == ["status://goclaw"]


async def test_a_fault_of_the_daemon_is_a_change_of_its_status(tmp_path: Path) -> None:
    heard = Heard()
    async with house(tmp_path) as home, home.client(mode="legacy", message_handler=heard.take) as client:
        await client.subscribe_resource("status://goclaw")
        home.world.clock.advance(20)
        await client.list_tools()
        assert heard.uris() == []
        home.standing.append("the disk is full")
        await until(heard.uris, home)
        assert heard.uris() == ["status://goclaw"]


@pytest.mark.promise("P-tools-per-user")
async def test_other_tools_and_other_rights_are_told(tmp_path: Path) -> None:
    heard = Heard()
    async with house(tmp_path, users=PEOPLE) as home, home.client(mode="legacy", message_handler=heard.take) as client:

        def changes() -> int:
            return sum(isinstance(each, ToolListChangedNotification) for each in heard.all)

        await client.list_tools()
        began = home.world.clock.monotonic()
        await until(lambda: home.world.clock.monotonic() > began + 5, home)
        assert changes() == 0
        home.tools.listed = (add,)
        await until(lambda: changes() == 1, home)
        home.put_users(User(ANN, allowed_tools=frozenset({"read"})))
        await until(lambda: changes() == 2, home)
        assert [each.name for each in (await client.list_tools(cache_mode="refresh")).tools] == ["read"]


class Source:
    """Of changes, as code declares them."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AsyncIterator[Any]]:
        async def each() -> AsyncIterator[Any]:
            while True:
                yield await self.queue.get()

        yield each()


async def test_what_code_declares_is_told_too(tmp_path: Path) -> None:
    changes, progress, heard, subscribed = Source(), Source(), Heard(), list[str]()
    logged: list[Any] = []

    async def read(actor: Actor) -> str:
        return "1"

    async def subscribe(actor: Actor, uri: str) -> None:
        if actor.key == BOB:
            raise ToolError("not for bob")
        subscribed.append(actor.key)

    async def log(params: Any) -> None:
        logged.append(params)

    async def send(given: Mapping[str, Any]) -> None:
        await progress.queue.put(given)

    resource = Resource("load", "load://now", "text/plain", read, changes=changes.open, subscribed=subscribe)
    notification = Notification("progress", "How far.", progress.open)
    declared = Declared(resources=(resource,), notifications=(notification,))
    async with house(tmp_path, declared=declared) as home:
        async with home.client(mode="legacy", message_handler=heard.take, logging_callback=log) as client:
            await client.subscribe_resource("load://now")
            await changes.queue.put(None)
            await send({"percent": 40})
            await until(lambda: heard.uris() and logged)
            assert (heard.uris(), subscribed) == (["load://now"], [ANN])
            assert (logged[0].logger, logged[0].data) == ("progress", {"percent": 40})
            assert client.server_capabilities.logging is not None
            await client.set_logging_level("error")
            await send({"percent": 50})
            await changes.queue.put(None)
            await until(lambda: len(heard.uris()) == 2)
            assert len(logged) == 1
        async with home.client(BOB, mode="legacy") as client:
            with pytest.raises(MCPError, match="not for bob"):
                await client.subscribe_resource("load://now")

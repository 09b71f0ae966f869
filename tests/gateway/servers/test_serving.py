"""What a client gets once it is in: it goes on where it was, whatever its version, and hears all before the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp
import orjson
import pytest

from goclaw.clients.tui import link as link_module
from goclaw.clients.tui.client import Client, attach
from goclaw.clients.tui.link import Link
from goclaw.common.auth.users import User
from goclaw.common.core.bus import Following
from goclaw.common.core.clock import Clock, SteppedClock
from goclaw.common.core.events import Acceptance, Inbound, Notice, TextStreamed, TurnFinished
from goclaw.common.core.messages import UserMessage
from goclaw.common.core.replay_buffer import Position
from goclaw.common.core.supervise import background
from goclaw.common.core.wire import PATH, PROTOCOL, Ack
from goclaw.gateway.servers import event_coalescing
from goclaw.gateway.servers.serving import ORDER_SECONDS
from goclaw.gateway.servers.socket_file import open_socket
from tests.clients.tui.bad_line import open_bad_line
from tests.clients.tui.fake_daemon import PATIENCE, SESSION, FakeGateway, Stage
from tests.clients.tui.test_link import Notes
from tests.harness import Answer, Core, World


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def notices(client: Client, count: int) -> list[tuple[int, str]]:
    """So many notices, with their numbers."""
    seen: list[tuple[int, str]] = []
    async for event in client.receive():
        if isinstance(event, Notice):
            seen.append((client.seen, event.text))
        if len(seen) == count:
            return seen
    raise AssertionError("the daemon closed the connection")


def tell(daemon: FakeGateway, *texts: str) -> None:
    for text in texts:
        daemon.bus.publish(Notice(SESSION, text))


async def test_a_client_that_comes_back_gets_what_it_lacks_and_no_history(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE), stage.daemon() as daemon:
        async with attach(stage.place.socket, SESSION, name="me") as client:
            first = client.attached
            daemon.tell("t1", UserMessage("hello"))
            tell(daemon, "one", "two")
            assert await notices(client, 2) == [(2, "one"), (3, "two")]
        daemon.tell("t1", UserMessage("and then"))
        tell(daemon, "three")
        position = Position(first.epoch, 2)
        async with attach(stage.place.socket, SESSION, after=1, name="me", position=position) as client:
            assert client.attached.goes_on and client.attached.history == []
            assert client.attached.protocol == PROTOCOL
            assert await notices(client, 2) == [(3, "two"), (5, "three")]


async def test_what_was_acknowledged_is_not_kept(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE), stage.daemon() as daemon:
        async with attach(stage.place.socket, SESSION, name="me") as client:
            epoch = client.attached.epoch
            tell(daemon, "one", "two", "three")
            await notices(client, 3)
            await client.ask(Ack(2))
            await client.status()
        async with attach(stage.place.socket, SESSION, name="me", position=Position(epoch, 1)) as client:
            assert not client.attached.goes_on and client.attached.epoch == epoch
        async with attach(stage.place.socket, SESSION, name="me", position=Position(epoch, 3)) as client:
            assert client.attached.goes_on


async def test_an_older_client_gets_rows_and_events_as_ever(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE), stage.daemon() as daemon:
        daemon.store("t1", UserMessage("hello"))
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(stage.place.socket))) as http:
            async with http.ws_connect(f"http://goclaw{PATH}") as connection:
                await connection.send_str('{"type": "attach", "session": "tui:me", "after": 0, "limit": 5}')
                attached = orjson.loads(await connection.receive_str())
                tell(daemon, "one")
                happened = orjson.loads(await connection.receive_str())
        assert len(attached["history"]) == 1 and not attached["goes_on"] and attached["epoch"] == ""
        assert happened["name"] == "Notice" and happened["number"] == 0
        assert not daemon.bus._pasts, "nothing is kept for a client that does not say who it is"


class OldGateway(FakeGateway):
    """One that counts nothing, as daemons before the protocol had a number."""

    def follow(self, session: str, client: str, position: Position) -> AbstractAsyncContextManager[Following]:
        return self.bus.follow(session)


async def test_an_older_daemon_is_gone_back_to_by_rows(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "RETRY_SECONDS", 0.01)
    stage.gateway, notes = OldGateway(stage.clock), Notes()
    async with asyncio.timeout(PATIENCE), stage.daemon() as daemon:
        async with open_bad_line(stage.place.state_dir / "line", stage.place.socket) as line:
            link = Link(stage.place.state_dir / "line", SESSION, limit=10)
            async with background(link.run(notes), "link"):
                daemon.store("t1", UserMessage("one"))
                await notes.until(resumed=1)
                daemon.tell("t1", UserMessage("two"))
                await notes.until(rows=1)
                line.hang_up()
                daemon.tell("t1", UserMessage("three"))
                line.up.set()
                await notes.until(rows=2, resumed=2)
    assert notes.rows[-1] == 3 and len(notes.rows) == len(set(notes.rows)) and not notes.gone_on


async def test_at_the_end_a_client_gets_what_waits_for_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_coalescing, "MOMENT_SECONDS", 600.0)
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            attaching = attach(stage.place.socket, SESSION, name="me")
            client = await attaching.__aenter__()
            daemon.stream("t1", "the ")
            received = client.receive()
            assert await anext(received) == TextStreamed("t1", SESSION, "the ")
            daemon.stream("t1", "last ", "words")
        words = [event.text async for event in received if isinstance(event, TextStreamed)]
        await attaching.__aexit__(None, None, None)
    assert words == ["last words"]


class SlowGateway(FakeGateway):
    """One whose `/queue` takes effect when a test says so."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.effect = asyncio.Event()

    async def accept(self, inbound: Inbound) -> Acceptance:
        if inbound.text.startswith("/queue"):
            await self.effect.wait()
        return await super().accept(inbound)

    @property
    def texts(self) -> list[str]:
        return [inbound.text for inbound in self.heard]


@pytest.mark.promise("P-order")
async def test_a_message_behind_a_command_is_taken_under_what_that_sets(tmp_path: Path, clock: SteppedClock) -> None:
    stage = Stage(tmp_path, clock)
    stage.gateway = gateway = SlowGateway(clock)
    async with asyncio.timeout(PATIENCE), stage.daemon(), attach(stage.place.socket, SESSION) as client:
        await client.submit("/queue interrupt")
        await client.submit("rather this")
        await client.submit("/stop")
        async for frame in client.frames():
            if isinstance(frame, Acceptance):
                break
        assert gateway.texts == ["/stop"], "a command waits for none"
        gateway.effect.set()
        await client.submit("and that")
        async for frame in client.frames():
            if isinstance(frame, Acceptance) and len(gateway.heard) == 4:
                break
    assert gateway.texts == ["/stop", "/queue interrupt", "rather this", "and that"]


async def test_a_slow_command_holds_no_message_up_for_long(tmp_path: Path, clock: SteppedClock) -> None:
    stage = Stage(tmp_path, clock)
    stage.gateway = gateway = SlowGateway(clock)
    async with asyncio.timeout(PATIENCE), stage.daemon(), attach(stage.place.socket, SESSION) as client:
        await client.submit("/queue interrupt")
        await client.submit("hello")
        await client.submit("/stop")  # is answered when the message has begun to wait
        async for frame in client.frames():
            if isinstance(frame, Acceptance):
                break
        clock.advance(ORDER_SECONDS)
        async for frame in client.frames():
            if isinstance(frame, Acceptance):
                break
        assert gateway.texts == ["/stop", "hello"]
        gateway.effect.set()


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[tuple[Core, Path]]:
    async with world.running() as core, asyncio.timeout(PATIENCE):
        async with open_socket(world.folder / "s", core.gateway, world.clock, lambda: ""):
            yield core, world.folder / "s"


async def test_a_turn_of_a_chat_is_followed_live_by_whom_users_json_gives_that_session(tmp_path: Path) -> None:
    users = [User("tui:me", session="memory:here")]
    world = World(tmp_path, [Answer("Hello Ada")], users=users)
    async with serving(world) as (core, path), attach(path, SESSION, name="me") as client:
        assert client.attached.session == "memory:here"
        saying = asyncio.create_task(world.room.say("hi"))
        seen = []
        async for event in client.receive():
            seen.append(type(event).__name__)
            if isinstance(event, TurnFinished):
                break
        await saying
        await core.settled()
    assert seen[0] == "TurnStarted" and "TextStreamed" in seen and seen.count("MessageStored") == 2
    assert world.texts() == ["Hello Ada"]

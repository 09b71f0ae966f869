"""Events of a session as a stream: what comes, where it goes on after a break, and when it ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import MessageStored, Notice, TextStreamed
from goclaw.common.core.messages import AssistantMessage, Native, UserMessage
from goclaw.common.core.replay_buffer import MAX_EVENTS
from goclaw.common.core.wire import Happened, event_of
from goclaw.gateway.servers.api.events import STALLED_SECONDS
from goclaw.gateway.servers.event_stream import QUIET_SECONDS
from tests.gateway.servers.api.calling import PREFIX, Service, at, moving, service, world_with
from tests.gateway.servers.calling import ANN, BOB
from tests.harness import Answer, Core, before_the_next_look

pytestmark = pytest.mark.promise("P-api-resume")


@dataclass(frozen=True)
class Event:
    id: str
    name: str
    data: Any


class Stream:
    """A reader of server-sent events, as the standard has it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.comments = 0

    async def read(self) -> Event | None:
        """Return the next event; None at the end."""
        found: dict[str, str] = {}
        async with asyncio.timeout(10):
            while line := (await self.response.content.readline()).decode():
                if line.startswith(":"):
                    self.comments += 1
                elif line != "\n":
                    name, _, value = line.rstrip("\n").partition(": ")
                    found[name] = value
                elif found:
                    return Event(found["id"], found["event"], json.loads(found["data"]))
        return None

    async def until(self, name: str) -> list[Event]:
        """Return the events up to the first of that name."""
        found: list[Event] = []
        while not found or found[-1].name != name:
            event = await self.read()
            assert event, [each.name for each in found]
            found.append(event)
        return found

    async def rest(self) -> list[Event]:
        """Return the events up to the end of the stream."""
        found: list[Event] = []
        while event := await self.read():
            found.append(event)
        return found


@asynccontextmanager
async def following(
    served: Service, last: str = "", *, user: str = ANN.key, session: str = ""
) -> AsyncIterator[Stream]:
    """Follow a session, the user's own by default."""
    headers = {"Authorization": f"Bearer {served.secret(user)}", **({"Last-Event-ID": last} if last else {})}
    url = f"{served.url}{PREFIX}{at(session or user)}/events"
    async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as response:
        assert response.status == 200 and response.content_type == "text/event-stream"
        yield Stream(response)


def texts(events: list[Event]) -> str:
    return "".join(each.data["event"]["text"] for each in events if each.name == "TextStreamed")


async def test_a_turn_is_followed_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Hello there."))
    async with world.running() as core, service(world, core) as served, following(served) as stream:
        first = await stream.read()
        assert first and first.name == "reset" and first.data["row"] == 0 and first.data["now"]["turn"] == ""
        turn = (await served.say("Hi")).said["turn"]
        seen = await stream.until("TurnFinished")
        assert texts(seen) == "Hello there." and {each.data["event"]["turn"] for each in seen} == {turn}
        stored = [each.data["event"]["row"] for each in seen if each.name == "MessageStored"]
        rows = (await served.get(f"{at(ANN.key)}/messages")).said["messages"]
        assert stored == [row["row"] for row in rows]
        for each in seen:
            frame = Happened(**each.data)
            assert event_of(frame) is not None and frame.name == each.name
            assert each.id == f"{first.id.partition(':')[0]}:{frame.number}"


async def test_a_reader_that_was_cut_off_misses_nothing_and_reads_nothing_twice(tmp_path: Path) -> None:
    world = world_with(tmp_path, *(Answer(f"Answer {number} in some words.", deltas=6) for number in range(3)))
    async with world.running() as core, service(world, core) as served:
        seen: list[Event] = []
        async with following(served) as whole, following(served) as stream:
            seen += await stream.until("reset")
            await served.say("One", "1")
            seen += await stream.until("TurnStarted")
            await core.settled()
            await served.say("Two", "2")
            await core.settled()
            for _ in range(3):
                async with following(served, seen[-1].id) as again:
                    seen += await again.until("MessageStored")
            async with following(served, seen[-1].id) as again:
                await served.say("Three", "3")
                while texts(seen).count("Answer") < 3 or seen[-1].name != "TurnFinished":
                    seen += await again.until("TurnFinished")
            expected = [event for _ in range(3) for event in await whole.until("TurnFinished")]
        numbers = [int(each.id.partition(":")[2]) for each in seen]
        assert numbers == sorted(set(numbers)) and "reset" not in [each.name for each in seen[1:]]
        assert texts(seen) == texts(expected)
        kinds = [each.id for each in seen if each.name not in ("TextStreamed", "reset")]
        assert kinds == [each.id for each in expected if each.name not in ("TextStreamed", "reset")]


async def test_a_reader_that_comes_too_late_or_with_a_wrong_id_is_told_to_read_the_messages(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Hello."))
    async with world.running() as core, service(world, core) as served:
        async with following(served) as stream:
            (first,) = await stream.until("reset")
            await served.say("Hi")
            await core.settled()
            for number in range(MAX_EVENTS + 1):
                core.bus.publish(TextStreamed("t", ANN.key, str(number)))
            epoch = first.id.partition(":")[0]
            for wrong in (first.id, "x", ":", f"{epoch}:", f"{epoch}:-1", f"{epoch}:999999999", "a:1", "1" * 200):
                async with following(served, wrong) as again:
                    (reset,) = await again.until("reset")
                    rows = (await served.get(f"{at(ANN.key)}/messages")).said["messages"]
                    assert reset.data["row"] == rows[-1]["row"] > 0, wrong


async def test_a_silent_stream_has_comments(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served, following(served) as stream:
        await stream.until("reset")
        async with moving(world, QUIET_SECONDS):
            async with asyncio.timeout(10):
                assert (await stream.response.content.readline()).startswith(b":")


async def test_a_fault_of_the_daemon_is_for_admins(tmp_path: Path) -> None:
    admin = User("memory:root", "Root", roles=frozenset({"admin"}))
    world = world_with(tmp_path, users=(ANN, admin))
    async with world.running() as core, service(world, core) as served:
        async with following(served) as own, following(served, user=admin.key, session=admin.key) as stream:
            await own.until("reset")
            await stream.until("reset")
            for session in (ANN.key, admin.key):
                core.bus.publish(Notice(session, "the disk is full", for_admins=True))
                core.bus.publish(Notice(session, "well"))
            (seen,) = await own.until("Notice")
            assert seen.data["event"]["text"] == "well"
            (seen,) = await stream.until("Notice")
            assert seen.data["event"]["text"] == "the disk is full"


async def test_what_a_hook_told_the_model_is_not_shown(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served, following(served) as stream:
        await stream.until("reset")
        native = Native("p", 1, "opaque")
        for message in (UserMessage("Hi", told="for the model"), AssistantMessage("Hello.", native=native)):
            core.bus.publish(MessageStored("t", ANN.key, 1, message, 0.0))
            (seen,) = await stream.until("MessageStored")
            assert "for the model" not in str(seen) and "opaque" not in str(seen)
            assert seen.data["event"]["message"]["text"] == message.text


async def test_a_stream_ends_with_its_token_before_the_next_event(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        async with following(served) as stream, following(served, user=BOB.key) as other:
            await stream.until("reset")
            await other.until("reset")
            await served.revoke()
            core.bus.publish(Notice(ANN.key, "secret"))
            assert await stream.rest() == []
            core.bus.publish(Notice(BOB.key, "well"))
            await other.until("Notice")


@pytest.mark.parametrize("reason", ["token", "right"])
async def test_a_silent_stream_ends_with_its_token_or_right(tmp_path: Path, reason: str) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served, following(served) as stream:
        await stream.until("reset")
        begun = world.clock.monotonic()
        if reason == "token":
            await served.revoke()
        else:
            world.users._users = {BOB.key: BOB}
        async with moving(world, 0.1):
            assert await stream.rest() == []
        assert world.clock.monotonic() - begun < 5


async def test_a_reader_that_goes_is_no_fault_of_the_daemon(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "goclaw.gateway.servers.http")
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        async with following(served) as stream:
            await stream.until("reset")
        async with moving(world, 0.1), asyncio.timeout(10):
            while "the caller disconnected" not in caplog.text:
                await before_the_next_look()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_another_user_s_events_are_not_found(tmp_path: Path) -> None:
    world = world_with(tmp_path, Answer("Hello."))
    async with world.running() as core, service(world, core) as served:
        await served.say("Hi", user=BOB.key)
        await core.settled()
        for session in (BOB.key, "memory:none"):
            assert (await served.get(f"{at(session)}/events")).status == 404


async def test_a_stream_ends_with_the_daemon(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, aiohttp.ClientSession() as http, moving(world, 0.1):
        async with service(world, core) as served:
            headers = {"Authorization": f"Bearer {served.secret()}"}
            response = await http.get(f"{served.url}{PREFIX}{at(ANN.key)}/events", headers=headers)
            stream = Stream(response)
            await stream.until("reset")
        assert await stream.rest() == []


async def test_a_reader_that_takes_nothing_is_cut_off(tmp_path: Path) -> None:
    world = world_with(tmp_path)
    async with world.running() as core, service(world, core) as served:
        own = f"Host: 127.0.0.1\r\nAuthorization: Bearer {served.secret()}\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1024)
        writer.write(f"GET {PREFIX}{at(ANN.key)}/events HTTP/1.1\r\n{own}\r\n".encode())
        await reader.readuntil(b"event: reset")
        for _ in range(200):
            core.bus.publish(Notice(ANN.key, "x" * 100_000))
        async with moving(world, STALLED_SECONDS / 4), asyncio.timeout(20):
            while is_followed(core):
                await before_the_next_look()
            taken = 0
            with suppress(ConnectionError):
                while piece := await reader.read(1 << 20):
                    taken += len(piece)
            assert taken < 200 * 100_000
        writer.close()


def is_followed(core: Core) -> bool:
    """Whether any session has a reader: only those get this notice."""
    heard: list[Notice] = []
    core.bus.watch(Notice, heard.append)
    core.bus.notice("Is anyone there?")
    return bool(heard)

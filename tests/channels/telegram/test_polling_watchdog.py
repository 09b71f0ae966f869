"""A poll that never ends is noticed and thrown away with its client, however it hangs; trouble is not hammered."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from goclaw.channels.telegram.connection import LOCKED, SILENT
from goclaw.channels.telegram.polling import MAX_POLL, SILENCE
from goclaw.common.core.clock import SteppedClock
from tests.channels.telegram.support import HastyClock, eventually, open_stage, passing
from tests.fake_telegram.methods import POLLER_CONFLICT, WEBHOOK_CONFLICT
from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import BOT, Json

Answering = Callable[["Wire", asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@dataclass
class Wire:
    """A server below HTTP: each poll is answered as the test says, everything else properly."""

    answer_poll: Answering
    port: int = 0
    polls: int = 0
    peers: list[int] = field(default_factory=list)
    """The client's port of each connection that polled."""
    updates: list[Json] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                length = 0
                while (header := await reader.readline()).strip():
                    name, _, value = header.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                await reader.readexactly(length)
                if b"/getUpdates" in line:
                    self.polls += 1
                    self.peers.append(writer.get_extra_info("peername")[1])
                    await self.answer_poll(self, writer)
                else:
                    await reply(writer, BOT if b"/getMe" in line else True)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def reply(writer: asyncio.StreamWriter, result: Any) -> None:
    """A proper answer."""
    body = json.dumps({"ok": True, "result": result}).encode()
    writer.write(HEAD % len(body) + body)
    await writer.drain()


async def silent(wire: Wire, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def after_the_head(wire: Wire, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD % 100)
    await asyncio.Event().wait()


async def dribbling(wire: Wire, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD % 10**9)
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0)


async def news(wire: Wire, writer: asyncio.StreamWriter) -> None:
    """What a healthy server does: what is new at once, else nothing for a long time."""
    if not wire.updates:
        await asyncio.Event().wait()
    waiting, wire.updates = wire.updates, []
    await reply(writer, waiting)


@asynccontextmanager
async def wire_of(answer_poll: Answering) -> AsyncIterator[Wire]:
    wire, tasks = Wire(answer_poll), set[asyncio.Task[None]]()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(wire.serve(reader, writer))
        tasks.add(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def message(number: int = 7) -> Json:
    chat = {"id": 5, "type": "private"}
    sender = {"id": 5, "is_bot": False, "first_name": "Ann"}
    return {"update_id": number, "message": {"message_id": 1, "date": 1, "chat": chat, "from": sender, "text": "hello"}}


async def polled(wire: Wire, times: int) -> None:
    """So many polls have arrived."""
    await eventually(lambda: wire.polls == times)


@pytest.mark.promise("P-telegram-stays")
@pytest.mark.parametrize("hanging", [silent, after_the_head, dribbling])
async def test_a_poll_that_hangs_is_thrown_away_with_its_client(
    hanging: Answering, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SteppedClock()
    async with wire_of(hanging) as wire, open_stage(base_url=f"http://127.0.0.1:{wire.port}", clock=clock) as stage:
        for polls in (1, 2, 3):
            await polled(wire, polls)
            clock.advance(SILENCE - 1)
            for _ in range(20):
                await asyncio.sleep(0)
            assert wire.polls == polls, "it still has time"
            clock.advance(1)
        await polled(wire, 4)
        assert stage.channel.health() == SILENT
        assert len(set(wire.peers)) == 4, "each on a connection of its own"
        assert [record.levelno for record in caplog.records if SILENT in record.message] == [logging.WARNING]
        wire.answer_poll = news
        wire.updates.append(message())
        clock.advance(SILENCE)
        await stage.gateway.wait_accepted(1)
        assert stage.channel.health().startswith("polling")


@pytest.mark.promise("P-telegram-stays")
async def test_a_healthy_poll_is_not_cut_because_the_ones_before_it_failed() -> None:
    clock = SteppedClock()
    async with FakeTelegram() as fake:
        fake.fail("getUpdates", cut="before")
        gate = asyncio.Event()
        fake.fail("getUpdates", gate=gate)
        async with open_stage(telegram=fake, clock=clock) as stage:
            await eventually(lambda: "no connection" in stage.channel.health())
            clock.advance(SILENCE - 10)  # it slept for long, and polls again
            await fake.wait_called("getUpdates", 2)
            clock.advance(MAX_POLL - 1)
            await fake.world.say("hello")
            gate.set()
            await stage.gateway.wait_accepted(1)


@pytest.mark.promise("P-telegram-stays")
async def test_names_that_cannot_be_looked_up_are_tried_again_with_a_new_client(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = HastyClock()

    async def nothing_found(*arguments: Any, **options: Any) -> Any:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    async with FakeTelegram() as fake:
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "getaddrinfo", nothing_found)
            async with open_stage(telegram=fake, base_url=f"http://localhost:{fake.port}", clock=clock) as stage:
                await eventually(lambda: SILENT in caplog.text and "no connection: ClientConnectorDNS" in caplog.text)
                patch.undo()
                await fake.world.say("hello")
                await stage.gateway.wait_accepted(1)


@pytest.mark.promise("P-telegram-stays")
async def test_that_other_calls_are_answered_says_nothing_of_polls() -> None:
    async with wire_of(silent) as wire, open_stage(base_url=f"http://127.0.0.1:{wire.port}") as stage:
        await eventually(lambda: wire.polls == 1)
        assert stage.channel.health() == "connecting"


TROUBLE: dict[str, dict[str, Any]] = {
    "cut": {"cut": "before"},
    "cut after the call": {"cut": "after"},
    "502": {"status": 502, "description": "Bad Gateway"},
    "500": {"status": 500, "description": "Internal Server Error"},
    "400": {"status": 400, "description": "Bad Request: what?"},
    "403": {"status": 403, "description": "Forbidden"},
    "409 poller": {"status": 409, "description": POLLER_CONFLICT},
    "409 webhook": {"status": 409, "description": WEBHOOK_CONFLICT},
    "429": {"status": 429, "description": "Too Many Requests", "retry_after": 1},
    "429 at once": {"status": 429, "description": "Too Many Requests", "retry_after": 0},
    "a web page": {"body": b"<html>"},
    "no JSON": {"body": b'{"ok": true, "result": ['},
    "no list": {"body": b'{"ok": true, "result": 7}'},
    "no updates": {"body": b'{"ok": true, "result": [{"no": "id"}]}'},
    "no result": {"body": b'{"ok": true}'},
    "not ok": {"body": b'{"ok": false}'},
    "nothing, at once": {"body": b'{"ok": true, "result": []}'},
    "the same for ever": {"body": b'{"ok": true, "result": [{"update_id": 1}]}'},
}


@pytest.mark.promise("P-telegram-stays")
@pytest.mark.parametrize("trouble", TROUBLE.values(), ids=TROUBLE)
async def test_in_trouble_there_are_at_most_two_polls_a_second(trouble: dict[str, Any]) -> None:
    clock = HastyClock()
    async with FakeTelegram() as fake:
        began = clock.monotonic()
        fake.fail("getUpdates", times=100_000, **trouble)
        async with open_stage(telegram=fake, clock=clock, poll_seconds=0) as stage:
            await eventually(lambda: clock.monotonic() - began > 30)
            polls, seconds = len(fake.called("getUpdates")), clock.monotonic() - began
            assert 2 <= polls <= 2 * seconds + 2
            fake.faults.waiting.clear()
            await fake.world.say("hello")
            assert (await stage.gateway.wait_accepted(1))[-1].text == "hello"


@pytest.mark.promise("P-telegram-stays")
async def test_a_wish_to_wait_is_honoured_and_bounded() -> None:
    clock = HastyClock()
    async with FakeTelegram() as fake:
        for seconds in (7, 10**9):
            fake.fail("getUpdates", status=429, retry_after=seconds)
        async with open_stage(telegram=fake, clock=clock) as stage:
            await eventually(lambda: stage.channel.health().endswith("asks us to wait 1e+09 s; next try in 3600 s"))
            assert 7.0 in clock.slept
            clock.advance(3600)
            await fake.wait_called("getUpdates", 3)


@pytest.mark.promise("P-telegram-stays")
async def test_two_state_folders_with_one_bot_do_not_throw_each_other_out() -> None:
    clock = SteppedClock()
    async with FakeTelegram() as fake, open_stage(telegram=fake, clock=clock) as first:
        await fake.wait_called("getUpdates")
        async with open_stage(telegram=fake, clock=clock) as second:
            await eventually(lambda: LOCKED in second.channel.health())
            assert "another GoClaw (pid " in second.channel.health()
            await fake.world.say("hello")
            await passing(clock, lambda: first.gateway.accepted)
            assert second.gateway.accepted == []


@pytest.mark.promise("P-telegram-stays")
async def test_when_the_other_ends_its_bot_is_taken_over() -> None:
    clock = SteppedClock()
    async with FakeTelegram() as fake, open_stage(telegram=fake, clock=clock, running=False) as first:
        running = asyncio.create_task(first.channel.run(first.gateway))
        await fake.wait_called("getUpdates")
        async with open_stage(telegram=fake, clock=clock) as second:
            await eventually(lambda: LOCKED in second.channel.health())
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await fake.world.say("hello")
            await passing(clock, lambda: second.gateway.accepted)

"""The in-memory channel carries messages both ways and breaks on order."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from goclaw.channels.base import Channel, ChannelPart, ChannelPorts, Unrecorded
from goclaw.channels.memory import Room
from goclaw.common.config.schema import Config
from goclaw.common.core.catalog import CHANNELS
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import AcceptKind, Address, Choice, Delivery, ToolStarted
from goclaw.common.core.plugins import load
from goclaw.common.core.supervise import background
from goclaw.errors import ConfigError, DeliveryError
from tests.channels.support import RecordingGateway, open_state

PART = load(CHANNELS["memory"], ChannelPart)


async def no_blob(key: str) -> bytes:
    raise AssertionError(key)


@pytest.fixture
async def ports() -> AsyncIterator[ChannelPorts]:
    async with aiohttp.ClientSession() as session, open_state() as state:
        yield ChannelPorts(session, SteppedClock(), no_blob, state)


@pytest.fixture
async def room() -> Room:
    return Room()


@pytest.fixture
async def channel(room: Room, ports: ChannelPorts) -> AsyncIterator[Channel]:
    async with PART.open(Config(channels={"memory": {"room": room}}), ports) as channel:
        yield channel


async def test_it_is_on_only_when_it_is_configured() -> None:
    assert not PART.enabled(Config())
    assert PART.enabled(Config(channels={"memory": {}}))


async def test_what_is_said_reaches_the_gateway(room: Room, channel: Channel) -> None:
    gateway = RecordingGateway()
    async with background(channel.run(gateway), "memory"):
        accepted = await room.say("hello", chat="kitchen", pictures={"image/png": b"png"})
        assert accepted.kind is AcceptKind.TURN
    (inbound,) = gateway.accepted
    assert (inbound.text, inbound.session, inbound.address) == ("hello", "memory:kitchen", Address("memory", "kitchen"))
    assert await channel.fetch(inbound.attachments[0]) == b"png"


async def test_the_same_message_id_is_the_same_message(room: Room, channel: Channel) -> None:
    async with background(channel.run(RecordingGateway()), "memory"):
        await room.say("hello", message_id="1")
        assert (await room.say("hello", message_id="1")).kind is AcceptKind.DUPLICATE


async def test_deliveries_are_heard_and_fail_on_order(room: Room, channel: Channel) -> None:
    delivery = Delivery("d1", Address("memory", "here"), "answer")
    room.failures.append(DeliveryError("no", retry_after=1))
    with pytest.raises(DeliveryError):
        await channel.deliver(delivery, Unrecorded())
    receipt = await channel.deliver(delivery, Unrecorded())
    async with asyncio.timeout(5):
        heard = await room.heard()
    assert (heard.message_id, heard.delivery) == (receipt.message_id, delivery)


async def test_a_room_sees_what_happens_in_turns_and_its_buttons_answer(room: Room, channel: Channel) -> None:
    gateway, started = RecordingGateway(), ToolStarted("t1", "memory:here", "c1", "read", {}, "Reading a.txt")
    async with background(channel.run(gateway), "memory"), asyncio.timeout(5):
        await gateway.publish(started)
        while not room.happened:  # noqa: ASYNC110 - a room is looked into
            await asyncio.sleep(0)
        assert list(room.happened) == [started]
        assert await room.press(Choice("Allow once", "q1", "allow")) == "tui:here answered q1: allow"


async def test_a_room_in_a_file_is_refused(ports: ChannelPorts) -> None:
    with pytest.raises(ConfigError):
        async with PART.open(Config(channels={"memory": {"room": "lobby"}}), ports):
            pass

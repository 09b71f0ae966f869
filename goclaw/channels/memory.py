"""A channel without a network: tests and programs that embed GoClaw talk through a `Room`.

    room = Room()
    config = Config(channels={"memory": {"room": room}})
    ...
    await room.say("hello")
    answer = await room.heard()

It is on only when the configuration has `channels.memory`.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from goclaw.channels.base import Capabilities, Channel, ChannelPart, ChannelPorts, Doubt, Handover
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.events import (
    Acceptance,
    Actor,
    Address,
    Attachment,
    Beside,
    Choice,
    Delivery,
    GatewayPort,
    Inbound,
    Receipt,
    TurnEvent,
)
from goclaw.common.core.messages import Foreign
from goclaw.common.core.records import record
from goclaw.errors import ConfigError, DeliveryError

NAME = "memory"
HERE = Actor("tui:here", NAME, owner=True, name="Here")
"""The default sender: this process, which the operating system authenticates as the owner."""
MAX_EVENTS = 10_000
"""Maximum events of turns that a room remembers, the latest ones."""


@record
class Heard:
    """Something that arrived, with the id that the channel gave it."""

    message_id: str
    delivery: Delivery
    doubt: Doubt = Doubt.NONE
    """Whether it may have arrived before."""


class Room:
    """A chat in memory; it may outlive several runs of the daemon."""

    def __init__(self) -> None:
        self.all: list[Heard] = []
        """Everything that arrived, oldest first."""
        self.failures: deque[DeliveryError] = deque()
        """Raised by the next deliveries, one each, before anything arrives."""
        self.happened: deque[TurnEvent] = deque(maxlen=MAX_EVENTS)
        """Events during turns, oldest first: hints of tools, to-do lists, questions."""
        self._files: dict[str, bytes] = {}
        self._fresh: asyncio.Queue[Heard] = asyncio.Queue()
        self._gateway: GatewayPort | None = None
        self._connected = asyncio.Event()
        self._clock: Clock = RealClock()

    async def say(
        self,
        text: str,
        *,
        actor: Actor = HERE,
        chat: str = "here",
        session: str = "",
        message_id: str = "",
        ref: str = "",
        edited: bool = False,
        foreign: tuple[Foreign, ...] = (),
        pictures: Mapping[str, bytes] | None = None,
        files: Sequence[tuple[Attachment, bytes]] = (),
        beside: Beside | None = None,
    ) -> Acceptance:
        """Write a message; returns when the gateway has it.

        `session` is `memory:<chat>` if not given. The same `message_id` again is the same message again. `pictures`
        are bytes by their media type; the handles of `files` are made here. `edited`: a new version of the message
        that was said with the same `ref`. `foreign`: the parts that the sender did not write. `beside`: it is not said
        to the agent.
        """
        gateway = await self._bound_gateway()
        shown = [(Attachment("image", "", mime, size=len(data)), data) for mime, data in (pictures or {}).items()]
        attachments = tuple(self._store(file, data) for file, data in (*shown, *files))
        return await gateway.accept(
            Inbound(
                id=f"{NAME}:{message_id or uuid.uuid4().hex}",
                actor=actor,
                session=session or f"{NAME}:{chat}",
                text=text,
                address=Address(NAME, chat),
                received_at=self._clock.now(),
                attachments=attachments,
                ref=ref,
                edited=edited,
                foreign=foreign,
                beside=beside,
            )
        )

    async def press(self, choice: Choice, actor: Actor = HERE) -> str:
        """Press a button of a message (`Delivery.choices`); return the text shown to the person who pressed it."""
        shown = next((heard.delivery for heard in reversed(self.all) if choice in heard.delivery.choices), None)
        chat = shown.address if shown else None
        return (await (await self._bound_gateway()).decide(actor, choice.question, choice.answer, chat)).text

    async def heard(self) -> Heard:
        """Return the next thing that arrives and was not asked for yet."""
        return await self._fresh.get()

    async def _bound_gateway(self) -> GatewayPort:
        while (gateway := self._gateway) is None:
            await self._connected.wait()
        return gateway

    def _store(self, file: Attachment, content: bytes) -> Attachment:
        reference = f"file-{len(self._files) + 1}"
        self._files[reference] = content
        return replace(file, ref=reference)

    def _connect(self, gateway: GatewayPort, clock: Clock) -> None:
        self._gateway, self._clock = gateway, clock
        self._connected.set()

    def _disconnect(self) -> None:
        self._gateway = None
        self._connected.clear()

    def _arrive(self, delivery: Delivery, doubt: Doubt) -> str:
        if self.failures:
            raise self.failures.popleft()
        heard = Heard(delivery.message_id or str(len(self.all) + 1), delivery, doubt)
        self.all.append(heard)
        self._fresh.put_nowait(heard)
        return heard.message_id

    def _fetch(self, reference: str) -> bytes:
        try:
            return self._files[reference]
        except KeyError:
            raise DeliveryError(f"there is no file {reference}", permanent=True) from None


class MemoryChannel:
    """The channel around one room."""

    name = NAME
    capabilities = Capabilities(
        frozenset({"send", "react", "edit", "delete"}), media=True, artifacts=True, sends_at_once=lambda _: True
    )

    def __init__(self, room: Room, clock: Clock) -> None:
        self._room = room
        self._clock = clock

    async def run(self, gateway: GatewayPort) -> None:
        self._room._connect(gateway, self._clock)
        try:
            while True:  # a stream ends when its reader lags behind
                async with gateway.subscribe(None) as events:
                    async for event in events:
                        self._room.happened.append(event)
        finally:
            self._room._disconnect()

    async def deliver(self, delivery: Delivery, handover: Handover) -> Receipt:
        if not handover.parts:
            await handover.sending()
            await handover.arrived(self._room._arrive(delivery, handover.doubt), last=True)
        return Receipt(handover.parts[0])

    async def fetch(self, attachment: Attachment) -> bytes:
        return self._room._fetch(attachment.ref)

    def health(self) -> str:
        return "in memory"


@asynccontextmanager
async def open_channel(config: Config, ports: ChannelPorts) -> AsyncIterator[Channel]:
    """Yield the channel around `channels.memory.room`, or around a room of its own.

    Raises:
        ConfigError: `room` is something else, as it must be in a file.
    """
    room = config.channels[NAME].get("room") or Room()
    if not isinstance(room, Room):
        raise ConfigError("channels.memory.room: only a program can set this, not a file")
    yield MemoryChannel(room, ports.clock)


CHANNEL = ChannelPart(NAME, lambda config: NAME in config.channels, open_channel)

"""A Telegram channel on a fake Telegram: what the tests of this folder share."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from goclaw.channels.base import Channel, ChannelPart, ChannelPorts, NobodyListed, People, Unrecorded
from goclaw.common.config.schema import Config
from goclaw.common.core.catalog import CHANNELS
from goclaw.common.core.clock import Clock, RealClock, SteppedClock
from goclaw.common.core.events import Address, Alerts, Delivery, Receipt
from goclaw.common.core.events.ports import NoAlerts
from goclaw.common.core.plugins import load
from goclaw.common.core.supervise import background
from goclaw.errors import ToolError
from tests.channels.support import RecordingGateway, open_state
from tests.fake_telegram.server import FakeTelegram

PART = load(CHANNELS["telegram"], ChannelPart)
POLLER = 1
"""Callers that sleep on the clock of a stage because it polls: the watchdog of the poll, or the pause before it."""
UNHURRIED = {"messages_per_second": 1e6, "chat_messages_per_second": 1e6, "group_messages_per_minute": 1e6}
"""Without our own limits, for tests that are not about them."""
GROUPS = [-100, -5]
"""Groups where the bot may answer."""


@dataclass
class Stage:
    """Everything a test touches."""

    telegram: FakeTelegram
    channel: Channel
    gateway: RecordingGateway
    blobs: dict[str, bytes] = field(default_factory=dict)
    handovers: defaultdict[str, Unrecorded] = field(default_factory=lambda: defaultdict(Unrecorded))
    """What is known of each delivery, by its id: the next try goes on from there."""

    async def deliver(self, text: str, *, chat: int = 5, number: str = "d1", **fields: Any) -> str:
        """Deliver `text`; returns the message id."""
        return (await self.hand_over(delivery(text, chat=chat, number=number, **fields))).message_id

    async def hand_over(self, delivery: Delivery) -> Receipt:
        """Deliver anything."""
        return await self.channel.deliver(delivery, self.handovers[delivery.id])

    def texts(self, chat: int = 5) -> list[str]:
        """What the bot's messages in a chat say."""
        return [sent.text for sent in self.telegram.sent(chat)]


class HastyClock(SteppedClock):
    """Time flies: whoever sleeps is awake at once, and the clock has moved on. Remembers who slept how long.

    Whoever sleeps for longer than any pause is a watchdog: it wakes when the others have passed its time.
    """

    LONGEST_PAUSE = 60.0

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        if seconds > self.LONGEST_PAUSE:
            await super().sleep(seconds)
            return
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)


async def eventually(look: Callable[[], object]) -> None:
    """Return when `look` finds something that changes without telling anybody; `TimeoutError` after ten seconds."""
    async with asyncio.timeout(10):
        while not look():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


async def passing(clock: SteppedClock, look: Callable[[], object]) -> None:
    """Let time pass until `look` finds something."""

    def found() -> object:
        clock.advance(0.01)
        return look()

    await eventually(found)


def delivery(
    text: str, *, chat: int = 5, number: str = "d1", thread: str | None = None, reply_to: str | None = None, **rest: Any
) -> Delivery:
    """A delivery to a chat of Telegram's."""
    return Delivery(number, Address("telegram", str(chat), thread, reply_to), text, **rest)


async def previews_in(folder: Path) -> Mapping[str, int]:
    """The messages that the store of a state folder knows, by turn."""
    async with open_state(folder) as state:
        return await state.previews("telegram", None)


async def preview_kept(folder: Path, turn: str, message: int) -> None:
    """Return when the store of a state folder knows the message of a turn; `TimeoutError` after ten seconds."""
    async with asyncio.timeout(10):
        while (await previews_in(folder)).get(turn) != message:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


@asynccontextmanager
async def _folder(given: Path | None) -> AsyncIterator[Path]:
    with nullcontext(given) if given else TemporaryDirectory() as folder:
        yield Path(folder)


@asynccontextmanager
async def open_stage(
    *,
    running: bool = True,
    clock: Clock | None = None,
    telegram: FakeTelegram | None = None,
    state_dir: Path | None = None,
    alerts: Alerts | None = None,
    people: People | None = None,
    **settings: Any,
) -> AsyncIterator[Stage]:
    """A channel connected to a fake, a new one or one that runs; with `running` it polls, else it only delivers.

    What it remembers over restarts is in `state_dir`; without one it remembers nothing.
    """
    async with (
        nullcontext(telegram) if telegram else FakeTelegram() as fake,
        aiohttp.ClientSession() as session,
        _folder(state_dir) as folder,
        open_state(folder) as state,
    ):
        blobs: dict[str, bytes] = {}

        async def load_blob(key: str) -> bytes:
            if key not in blobs:
                raise ToolError(f"{key} is gone")
            return blobs[key]

        here = {"groups": GROUPS, "token": fake.token, "base_url": fake.base_url, "poll_seconds": 5}
        values = UNHURRIED | here | settings
        config = Config.model_validate({"telegram": values, "state_dir": folder})
        ports = ChannelPorts(
            session, clock or RealClock(), load_blob, state, alerts or NoAlerts(), people=people or NobodyListed()
        )
        async with PART.open(config, ports) as channel:
            stage = Stage(fake, channel, RecordingGateway(), blobs)
            if not running:
                yield stage
                return
            async with background(channel.run(stage.gateway), "telegram"):
                yield stage

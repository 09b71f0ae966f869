"""Telegram as a channel: polling in, deliveries out, a live view beside; see the modules of those names."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from telegram import Bot, BotCommand
from telegram.error import BadRequest, InvalidToken, TelegramError

from goclaw.channels.base import Capabilities, Channel, ChannelPart, ChannelPorts, Handover
from goclaw.channels.telegram.files import limit_of
from goclaw.channels.telegram.grown import Grown
from goclaw.channels.telegram.health import Health
from goclaw.channels.telegram.inbound import CHANNEL, Me, inbound_of
from goclaw.channels.telegram.live import LiveViews
from goclaw.channels.telegram.moved import Moved
from goclaw.channels.telegram.outlet import Outlet
from goclaw.channels.telegram.polling import FIRST_PAUSE, LONGEST_PAUSE, Poller, Updates, in_chat_order
from goclaw.channels.telegram.reach import Reach
from goclaw.channels.telegram.request import AiohttpRequest, Flood, TooLarge
from goclaw.channels.telegram.sending import Sender
from goclaw.config.schema import Config, TelegramSettings
from goclaw.errors import ConfigError, DeliveryError
from goclaw.events import Attachment, Delivery, GatewayPort, Receipt
from goclaw.redact import remember

log = logging.getLogger(__name__)

MENU_NAME = re.compile(r"[a-z0-9_]{1,32}")
GROWN_FILE = "telegram-grown.json"
MOVED_FILE = "telegram-moved.json"
"""In the state folder; see `grown` and `moved`."""
MAX_SUMMARY = 256
"""Characters in the description of a command (Bot API, BotCommand)."""


class TelegramChannel:
    """One bot. Made by `open_channel`."""

    name = CHANNEL
    capabilities = Capabilities(frozenset({"send", "react", "edit", "delete"}), media=True)

    def __init__(self, settings: TelegramSettings, token: str, grown: Grown, moved: Moved, ports: ChannelPorts) -> None:
        self._settings = settings
        self._clock = ports.clock
        self._request = AiohttpRequest(ports.http, settings.proxy)
        server = settings.base_url.rstrip("/")
        self._bot = Bot(
            token,
            base_url=f"{server}/bot",
            base_file_url=f"{server}/file/bot",
            request=self._request,
            get_updates_request=self._request,
        )
        outlet = Outlet(settings, ports.clock)
        self._health = Health(ports.clock)
        self._live = LiveViews(self._bot, outlet, grown, ports.clock)
        reach = Reach(ports.alerts, ports.clock)
        self._sender = Sender(self._bot, outlet, self._live, moved, reach, ports.load_blob)

    async def run(self, gateway: GatewayPort) -> None:
        poller = Poller(self._bot, self._clock, self._health, self._settings.poll_seconds)
        async with asyncio.TaskGroup() as group:
            # Beside the first poll, so that a start costs no extra round trip.
            me = group.create_task(self._who_am_i())
            others = [me, group.create_task(self._announce(gateway)), group.create_task(self._live.run(gateway))]

            async def handle(updates: Updates) -> None:
                await self._take_in(updates, await me, gateway)

            try:
                await poller.run(handle)
            finally:
                for task in others:
                    task.cancel()

    async def deliver(self, delivery: Delivery, handover: Handover) -> Receipt:
        return await self._sender.deliver(delivery, handover)

    async def fetch(self, attachment: Attachment) -> bytes:
        limit = limit_of(attachment)
        if (attachment.size or 0) > limit:
            raise DeliveryError(f"the file is larger than {limit >> 20} MB", permanent=True)
        try:
            file = await self._bot.get_file(attachment.ref)
            return await self._request.download(file.file_path or "", limit)
        except Flood as error:
            raise DeliveryError(error.message, retry_after=error.seconds) from error
        except TelegramError as error:
            permanent = isinstance(error, TooLarge | BadRequest)
            raise DeliveryError(f"the file cannot be had: {error.message}", permanent=permanent) from error

    def health(self) -> str:
        return self._health.line()

    async def _take_in(self, updates: Updates, me: Me, gateway: GatewayPort) -> None:
        """Let the gateway make every message durable; updates that are not for us need nothing."""

        async def accept(update: dict[str, Any]) -> None:
            inbound = inbound_of(update, me, self._clock.now(), self._settings.groups)
            if inbound is not None:
                self._live.accepted(inbound, await gateway.accept(inbound))

        await in_chat_order(updates, accept)

    async def _who_am_i(self) -> Me:
        """The bot's own id and name, without which no group message can be judged; asked until Telegram says."""
        pause = FIRST_PAUSE
        while True:
            try:
                bot = await self._bot.get_me()
            except InvalidToken:
                pause = LONGEST_PAUSE  # the poll loop says so, and ends
            except TelegramError as error:
                log.debug("getMe failed: %s", error.message)
            else:
                self._health.answered()
                return Me(bot.id, bot.username or "")
            await self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _announce(self, gateway: GatewayPort) -> None:
        """Put the commands into Telegram's menu; a bot without a menu works, too."""
        commands = [
            BotCommand(info.name, info.summary[:MAX_SUMMARY])
            for info in gateway.commands(None)
            if MENU_NAME.fullmatch(info.name) and info.summary
        ]
        try:
            await self._bot.set_my_commands(commands)
        except TelegramError as error:
            log.info("telegram: the command menu could not be set: %s", error.message)


@asynccontextmanager
async def open_channel(config: Config, ports: ChannelPorts) -> AsyncIterator[Channel]:
    """The channel; the session in `ports` stays the daemon's.

    Raises:
        ConfigError: it is switched on without a token.
    """
    token = config.telegram.token.get_secret_value().strip() if config.telegram.token else ""
    if not token:
        raise ConfigError("telegram.enabled is true, but there is no telegram.token (or TELEGRAM_BOT_TOKEN)")
    remember(token)
    # At DEBUG the library logs the address of the server, which holds the token, and everything said.
    logging.getLogger("telegram").setLevel(logging.INFO)
    grown = await asyncio.to_thread(Grown, config.state_dir / GROWN_FILE)
    moved = await asyncio.to_thread(Moved, config.state_dir / MOVED_FILE)
    yield TelegramChannel(config.telegram, token, grown, moved, ports)


PART = ChannelPart("telegram", lambda config: True, open_channel)
"""What the package's `CHANNEL` opens."""

"""Telegram as a channel: polling in, deliveries out, a live view beside; see the modules of those names."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telegram import Bot, BotCommand
from telegram.error import BadRequest, TelegramError

from goclaw.channels.base import Capabilities, Channel, ChannelPart, ChannelPorts, Handover
from goclaw.channels.telegram.chat_access import BlockedChats, UnlistedGroups
from goclaw.channels.telegram.connection import PollHealth
from goclaw.channels.telegram.first_poll import FirstPoll
from goclaw.channels.telegram.live import LiveViews
from goclaw.channels.telegram.media_groups import MediaGroups
from goclaw.channels.telegram.message_content import limit_of
from goclaw.channels.telegram.poll_lock import BotInUse, only_poller
from goclaw.channels.telegram.polling import Poller
from goclaw.channels.telegram.rate_limits import RateLimiter
from goclaw.channels.telegram.request import AiohttpRequest, Flood, PollingRequest, TooLarge
from goclaw.channels.telegram.sender import Sender
from goclaw.channels.telegram.state_files import MOVED_FROM, ChatMigrations, LiveMessageIds
from goclaw.channels.telegram.update_handler import Identity, UpdateHandler
from goclaw.channels.telegram.updates import CHANNEL
from goclaw.channels.telegram.webhook import Webhook, agreed_secret, is_kept, kept_secret
from goclaw.config.listening import webhook_path
from goclaw.config.schema import Config, TelegramSettings
from goclaw.core.events import Attachment, Delivery, GatewayPort, Receipt
from goclaw.core.plugins import load
from goclaw.core.records import record
from goclaw.core.redact import remember
from goclaw.errors import ConfigError, DeliveryError, StateError

if TYPE_CHECKING:
    from goclaw.channels.telegram.shared_channel import SharedListening

log = logging.getLogger(__name__)

MENU_NAME = re.compile(r"[a-z0-9_]{1,32}")
MESSAGE_IDS_FILE = "telegram-grown.json"
MIGRATIONS_FILE = "telegram-moved.json"
MEDIA_GROUPS_FILE = "telegram-albums.json"
"""File names in the state folder; see `state_files` and `media_groups`."""
SHARED = "goclaw.channels.telegram.shared_channel:SharedListening"
"""Loaded where several processes share the store."""
LOCK_SECONDS = 5.0
"""Seconds between two checks whether another GoClaw has released the bot."""
MAX_SUMMARY = 256
"""Maximum characters in the description of a command (Bot API, BotCommand)."""


@record
class ChannelState:
    """The channel's stored state of earlier runs."""

    folder: Path
    """The state folder."""
    message_ids: LiveMessageIds
    migrations: ChatMigrations
    albums: MediaGroups
    secret: str = ""
    """The secret in Telegram's webhook calls; empty: polling."""
    shared: "SharedListening | None" = None
    """Where several processes share the store: what this one does beside the others."""


class TelegramChannel:
    """One bot. Made by `open_channel`."""

    name = CHANNEL

    def __init__(self, settings: TelegramSettings, token: str, memory: ChannelState, ports: ChannelPorts) -> None:
        actions = frozenset({"send", "react", "edit", "delete"})
        chosen, interim = settings.artifacts, settings.interim == "separate"
        files, diffs = chosen != "none", chosen == "files"
        self._settings = settings
        self._token = token
        self._memory = memory
        self._clock = ports.clock
        self._request = AiohttpRequest(ports.http, settings.proxy)
        self._first = ports.begun if isinstance(ports.begun, FirstPoll) else None
        self._line = PollingRequest(ports.http, settings.proxy, self._first)
        server = settings.base_url.rstrip("/")
        self._bot = Bot(
            token,
            base_url=f"{server}/bot",
            base_file_url=f"{server}/file/bot",
            request=self._request,
            get_updates_request=self._line,
        )
        sharing = ports.sharing
        limiter = RateLimiter(settings, ports.clock, sharing.share if sharing else None)
        self._health = PollHealth(ports.clock, ports.alerts)
        self._unlisted = UnlistedGroups(ports.is_admin, ports.alerts, ports.clock)
        self._live = LiveViews(self._bot, limiter, memory.message_ids, ports.clock, sharing.holds if sharing else None)
        if memory.shared:
            memory.shared.connect(limiter, self._live)
        self._blocked = BlockedChats(ports.alerts, ports.clock)
        self._webhook: Webhook | None = None
        if memory.secret:
            self._webhook = Webhook(self._bot, settings.webhook.url or "", memory.secret, self._health, ports)
            ports.routes.add("POST", webhook_path(settings), self._webhook.receive)
        self._sender = Sender(self._bot, limiter, self._live, memory.migrations, self._blocked, ports.load_blob)
        self.capabilities = Capabilities(
            actions,
            media=True,
            artifacts=files,
            bursts=True,
            diffs=diffs,
            interim=interim,
            sends_at_once=self._sender.sends_at_once,
        )

    async def run(self, gateway: GatewayPort) -> None:
        identity = Identity(self._bot, self._clock)
        async with asyncio.TaskGroup() as group:
            intake = self._update_handler(gateway, identity, group)
            intake.resume()
            # Beside the first poll, so that a start costs no extra round trip.
            others = [
                group.create_task(identity.learn(), name="telegram identity"),
                group.create_task(self._announce(gateway), name="telegram menu"),
                group.create_task(self._live.run(gateway), name="telegram live views"),
            ]
            try:
                await self._listen(intake)
            finally:
                intake.end()
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
        return (self._webhook and self._webhook.line()) or self._health.line()

    async def _listen(self, intake: UpdateHandler) -> None:
        """Poll or be called, once no other process of this machine does; returns when the token is refused."""
        if shared := self._memory.shared:
            return await shared.run(self._webhook, self._poller, self._health)
        source, take = self._webhook or self._poller(), intake.take
        while True:
            try:
                with self._lock():
                    return await source.run(take)
            except BotInUse as error:
                self._health.locked(str(error), LOCK_SECONDS)
            await self._clock.sleep(LOCK_SECONDS)

    def _poller(self) -> Poller:
        return Poller(self._bot, self._line, self._clock, self._health, self._settings.poll_seconds)

    def _lock(self) -> AbstractContextManager[object]:
        """Hold the bot: the first time with the lock that the first poll took."""
        first, self._first = self._first, None
        if first:
            return first.lock.pop_all()
        return only_poller(self._token, self._settings.base_url, self._memory.folder)

    def _update_handler(self, gateway: GatewayPort, identity: Identity, group: asyncio.TaskGroup) -> UpdateHandler:
        make = self._memory.shared.handler if self._memory.shared else UpdateHandler
        return make(
            self._settings,
            gateway=gateway,
            bot=self._bot,
            clock=self._clock,
            identity=identity,
            albums=self._memory.albums,
            migrations=self._memory.migrations,
            blocked=self._blocked,
            unlisted=self._unlisted,
            live=self._live,
            group=group,
        )

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
    """Yield the channel; the session in `ports` stays the daemon's.

    Raises:
        ConfigError: it is switched on without a token.
    """
    token = config.telegram.token.get_secret_value().strip() if config.telegram.token else ""
    if not token:
        raise ConfigError("telegram.enabled is true, but there is no telegram.token (or TELEGRAM_BOT_TOKEN)")
    remember(token)
    # At DEBUG the library logs the address of the server, which holds the token, and everything said.
    logging.getLogger("telegram").setLevel(logging.INFO)
    folder = config.state_dir

    secret = await _secret(config, ports) if config.telegram.mode == "webhook" else ""

    def remembered() -> ChannelState:
        albums = MediaGroups(folder / MEDIA_GROUPS_FILE, ports.clock)
        ids, moved = folder / MESSAGE_IDS_FILE, folder / MIGRATIONS_FILE
        if ports.sharing:
            shared: SharedListening = load(SHARED, type)(ports.sharing, ids, moved, ports.clock)
            return ChannelState(folder, shared.ids, shared.moved, albums, secret, shared)
        return ChannelState(folder, LiveMessageIds(ids), ChatMigrations(moved), albums, secret)

    memory = await asyncio.to_thread(remembered)
    if ports.facts and not ports.sharing:
        await _recall(memory.migrations, ports.facts)
    yield TelegramChannel(config.telegram, token, memory, ports)


async def _recall(migrations: ChatMigrations, facts: Callable[[str], Awaitable[Mapping[str, Any]]]) -> None:
    """Take in the migrations of when several processes shared the database: a copy of it, or a backup, brings them."""
    try:
        await migrations.learn(await facts(MOVED_FROM))
    except StateError as error:
        log.warning("telegram: groups that moved while Postgres had the database are not known: %s", error)


async def _secret(config: Config, ports: ChannelPorts) -> str:
    """Return the secret of the webhook: the configured one, or one that is made once for all processes."""
    given, folder = config.telegram.webhook.secret, config.state_dir
    secret = given.get_secret_value() if given else ""
    if ports.sharing and ports.agree and (not secret or await asyncio.to_thread(is_kept, secret, folder)):
        secret = await agreed_secret(folder, ports.agree)
    secret = secret or await asyncio.to_thread(kept_secret, folder)
    remember(secret)
    return secret


PART = ChannelPart("telegram", lambda config: True, open_channel)
"""The channel that the package's `CHANNEL` opens."""

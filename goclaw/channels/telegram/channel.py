"""Telegram as a channel: polling in, deliveries out, a live view as well; see the modules of those names."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path

from telegram import Bot
from telegram.error import BadRequest, TelegramError

from goclaw.channels.base import Capabilities, Channel, ChannelPart, ChannelPorts, Handover
from goclaw.channels.telegram.chat_access import BlockedChats, ChatAccess, UnlistedGroups
from goclaw.channels.telegram.chat_migrations import ChatMigrations
from goclaw.channels.telegram.connection import PollHealth
from goclaw.channels.telegram.courtesies import Courtesies
from goclaw.channels.telegram.first_poll import FirstPoll
from goclaw.channels.telegram.former_files import import_files
from goclaw.channels.telegram.listening import Listening, ListeningAlone, ListeningAmongOthers
from goclaw.channels.telegram.live import LiveViews
from goclaw.channels.telegram.live_message_ids import LiveMessageIds
from goclaw.channels.telegram.media_groups import MediaGroups
from goclaw.channels.telegram.menus import Menus
from goclaw.channels.telegram.message_content import limit_of
from goclaw.channels.telegram.poll_lock import only_poller
from goclaw.channels.telegram.polling import Poller
from goclaw.channels.telegram.rate_limits import RateLimiter
from goclaw.channels.telegram.request import AiohttpRequest, Flood, PollingRequest, TooLarge, call
from goclaw.channels.telegram.sender import Sender
from goclaw.channels.telegram.update_handler import Identity, UpdateHandler
from goclaw.channels.telegram.updates import CHANNEL
from goclaw.channels.telegram.webhook import Webhook, is_generated_secret, load_secret
from goclaw.common.config.listening import webhook_path
from goclaw.common.config.schema import Config, TelegramSettings
from goclaw.common.config.values import contexts_of
from goclaw.common.core.events import Attachment, Delivery, GatewayPort, Receipt
from goclaw.common.core.records import record
from goclaw.common.core.redact import remember
from goclaw.errors import ConfigError, DeliveryError, StateError

log = logging.getLogger(__name__)


@record
class Memory:
    """The channel's knowledge of earlier runs, and other processes' of each other."""

    folder: Path
    """The state folder."""
    message_ids: LiveMessageIds
    migrations: ChatMigrations
    albums: MediaGroups
    secret: str = ""
    """The secret in Telegram's webhook calls; empty: polling."""


class TelegramChannel:
    """One bot. Made by `open_channel`."""

    name = CHANNEL

    def __init__(self, settings: TelegramSettings, token: str, memory: Memory, ports: ChannelPorts) -> None:
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
        processes = ports.processes
        limiter = RateLimiter(settings, ports.clock, processes.share)
        self._health = PollHealth(ports.clock, ports.alerts)
        self._live = LiveViews(self._bot, limiter, memory.message_ids, ports.clock, processes.holds)
        self._listening: Listening = ListeningAlone(self._lock, self._health, ports.clock)
        if not processes.is_alone:
            self._listening = ListeningAmongOthers(processes, ports.state, limiter, self._health, ports.clock)
        self._access = ChatAccess(
            BlockedChats(ports.alerts, ports.clock),
            UnlistedGroups(ports.is_admin, ports.alerts, ports.clock),
            memory.migrations,
            contexts_of(settings.groups),
        )
        self._menus = Menus(self._bot, ports.state, ports.people, ports.clock)
        self._webhook: Webhook | None = None
        if memory.secret:
            self._webhook = Webhook(self._bot, settings.webhook.url or "", memory.secret, self._health, ports)
            ports.routes.add("POST", webhook_path(settings), self._webhook.receive)
        self._sender = Sender(self._bot, limiter, self._live, memory.migrations, self._access.blocked, ports.load_blob)
        self.capabilities = Capabilities(
            actions,
            media=True,
            artifacts=files,
            bursts=True,
            diffs=diffs,
            interim=interim,
            sends_at_once=self._sender.sends_at_once,
            admins_of=self._admins_of,
        )

    async def run(self, gateway: GatewayPort) -> None:
        identity = Identity(self._bot, self._clock)
        async with asyncio.TaskGroup() as group:
            intake = self._update_handler(gateway, identity, group)
            intake.resume()
            # Beside the first poll, so that a start costs no extra round trip.
            others = [
                group.create_task(identity.learn(), name="telegram identity"),
                group.create_task(self._live.run(gateway), name="telegram live views"),
            ]
            try:
                await self._listening.run(intake, self._webhook, self._poller)
            finally:
                intake.end()
                for task in others:
                    task.cancel()

    async def deliver(self, delivery: Delivery, handover: Handover) -> Receipt:
        return await self._sender.deliver(delivery, handover)

    async def _admins_of(self, chat: str) -> Collection[str]:
        try:
            target = self._memory.migrations.current(int(chat))
            members = await call(self._bot, "getChatAdministrators", {"chat_id": target})
        except TelegramError as error:
            log.warning("telegram: the admins of %s are unknown: %s", chat, error.message)
            return ()
        return [f"{CHANNEL}:{member['user']['id']}" for member in members]

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
            raise DeliveryError(f"the file cannot be downloaded: {error.message}", permanent=permanent) from error

    def health(self) -> str:
        return (self._webhook and self._webhook.line()) or self._health.line()

    def _poller(self) -> Poller:
        return Poller(self._bot, self._line, self._clock, self._health, self._settings.poll_seconds)

    def _lock(self) -> AbstractContextManager[object]:
        """Hold the bot: the first time with the lock that the first poll took."""
        first, self._first = self._first, None
        if first:
            return first.lock.pop_all()
        return only_poller(self._token, self._settings.base_url, self._memory.folder)

    def _update_handler(self, gateway: GatewayPort, identity: Identity, group: asyncio.TaskGroup) -> UpdateHandler:
        courtesies = Courtesies(self._bot, self._settings.ack_reaction, group)
        albums = self._memory.albums
        return UpdateHandler(
            gateway, self._clock, identity, albums, self._access, courtesies, self._live, self._menus, group
        )


@asynccontextmanager
async def open_channel(config: Config, ports: ChannelPorts) -> AsyncIterator[Channel]:
    """Yield the channel; the session in `ports` stays the daemon's.

    Raises:
        ConfigError: it is switched on without a token.
    """
    token = config.telegram.token.get_secret_value().strip() if config.telegram.token else ""
    if not token:
        raise ConfigError("telegram.enabled is true, but no token is set: set telegram.token or TELEGRAM_BOT_TOKEN")
    remember(token)
    # At DEBUG the library logs the address of the server, which holds the token, and everything said.
    logging.getLogger("telegram").setLevel(logging.INFO)
    folder = config.state_dir

    secret = await _secret(config, ports) if config.telegram.mode == "webhook" else ""

    yield TelegramChannel(config.telegram, token, await _remember(folder, secret, ports), ports)


async def _remember(folder: Path, secret: str, ports: ChannelPorts) -> Memory:
    """Read the stored data of earlier runs. Where it cannot be read, nothing is known, and the log says so."""
    state, is_alone = ports.state, ports.processes.is_alone
    ids, migrations = LiveMessageIds(state), ChatMigrations(state, is_alone=is_alone)
    albums = MediaGroups(state, ports.clock, is_alone=is_alone)
    await import_files(folder, state)
    try:
        await ids.load(None if is_alone else "")
        await migrations.load()
        if is_alone:
            await albums.load()
    except StateError as error:
        log.warning("telegram: the state from before this start is unknown: %s", error)
    ports.processes.takes.append(ids.read_notes)
    return Memory(folder, ids, migrations, albums, secret)


async def _secret(config: Config, ports: ChannelPorts) -> str:
    """Return the secret of the webhook: the configured one, or one that is made once for all processes."""
    given, folder = config.telegram.webhook.secret, config.state_dir
    secret = given.get_secret_value() if given else ""
    if not secret or await asyncio.to_thread(is_generated_secret, secret, folder):
        secret = await asyncio.to_thread(load_secret, folder, ports.writer)
    remember(secret)
    return secret


PART = ChannelPart("telegram", lambda config: True, open_channel)
"""The channel that the package's `CHANNEL` opens."""

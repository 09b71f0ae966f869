"""The bot while no daemon runs: its name, and its owner. For `goclaw setup`.

No poll loop: no message of others is acknowledged here, so that the daemon still gets all of them. Therefore no poll
has an offset; where 100 messages wait already, later ones cannot be seen.
"""

import logging
from collections.abc import Mapping
from typing import Any

import aiohttp
from telegram import Bot
from telegram.error import Conflict, InvalidToken, TelegramError

from goclaw.channels.base import AccountPart
from goclaw.channels.telegram.exchange import ALLOWED_UPDATES, ANSWER_MARGIN, BATCH, poll_parameters
from goclaw.channels.telegram.polling import Updates, parse_updates
from goclaw.channels.telegram.request import AiohttpRequest, call
from goclaw.channels.telegram.updates import CHANNEL, Me, inbound_of
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import Clock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.events import Actor
from goclaw.common.core.redact import remember
from goclaw.errors import ChannelError, ConfigError

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two polls: unacknowledged updates come again at once."""
RECEIVED = "The code is correct. Continue in the terminal."

REFUSED = "Telegram refuses this token (401 or 404): copy it again from @BotFather"
CONFLICT = (
    "another program reads this bot's messages, or the bot has a webhook (409); if GoClaw is that program, stop it "
    f"with {daemon_command('stop')}, then try again"
)
FULL = (
    f"{BATCH} messages are already waiting for the bot, so the code would arrive too late; start GoClaw, write to the "
    "bot, and find your id with `goclaw logs`"
)


class TelegramAccount:
    """An `Account` at Telegram."""

    def __init__(self, bot: Bot, clock: Clock, poll_seconds: int) -> None:
        self._bot = bot
        self._clock = clock
        self._poll_seconds = poll_seconds

    async def name(self) -> str:
        return f"@{(await self._me()).username}"

    async def meet(self, code: str) -> Actor:
        me = await self._me()
        while True:
            updates = await self._waiting()
            for update in updates:
                if actor := self._sender(update, code, me):
                    await self._confirm(actor, update, alone=update is updates[0])
                    return actor
            if len(updates) >= BATCH:
                raise ChannelError(FULL)
            await self._clock.sleep(LOOK_SECONDS)

    async def _me(self) -> Me:
        try:
            bot = await self._bot.get_me()
        except InvalidToken:
            raise ChannelError(REFUSED) from None
        except TelegramError as error:
            raise ChannelError(
                f"Telegram cannot be reached ({error.message}); check the network, telegram.base_url and telegram.proxy"
            ) from None
        return Me(bot.id, bot.username or "")

    async def _waiting(self) -> Updates:
        """Return the bot's waiting updates without acknowledging any; empty while Telegram is in trouble."""
        parameters = poll_parameters(self._poll_seconds)
        try:
            return parse_updates(await call(self._bot, "getUpdates", parameters, self._poll_seconds + ANSWER_MARGIN))
        except Conflict:
            raise ChannelError(CONFLICT) from None
        except InvalidToken:
            raise ChannelError(REFUSED) from None
        except TelegramError as error:
            log.debug("getUpdates failed: %s", error.message)
            return ()

    def _sender(self, update: Mapping[str, Any], code: str, me: Me) -> Actor | None:
        """Return the sender of the code, by the daemon's rules; None for other messages, and in groups."""
        inbound = inbound_of(update, me, self._clock.now())
        if inbound is None or inbound.text != code or inbound.attachments:
            return None
        in_private = inbound.actor.key == f"{CHANNEL}:{inbound.address.chat}"
        return inbound.actor if in_private else None

    async def _confirm(self, actor: Actor, update: Mapping[str, Any], *, alone: bool) -> None:
        """Confirm the code to its sender. Acknowledge the update only if that acknowledges no other message."""
        try:
            await self._bot.send_message(int(actor.key.partition(":")[2]), RECEIVED)
            if alone:
                after = {"offset": update["update_id"] + 1, "limit": 1, "timeout": 0}
                await call(self._bot, "getUpdates", after | {"allowed_updates": list(ALLOWED_UPDATES)})
        except TelegramError as error:
            log.debug("the code could not be acknowledged, so the daemon will read it as a message: %s", error.message)


def open_account(config: Config, http: aiohttp.ClientSession, clock: Clock) -> TelegramAccount:
    """Open the account of `telegram.token`.

    Raises:
        ConfigError: it is not set.
    """
    settings = config.telegram
    if settings.token is None:
        raise ConfigError("no token is set: set telegram.token or TELEGRAM_BOT_TOKEN")
    token = settings.token.get_secret_value()
    remember(token)
    # At DEBUG the library logs the address of the server, which holds the token.
    logging.getLogger("telegram").setLevel(logging.INFO)
    request = AiohttpRequest(http, settings.proxy)
    bot = Bot(token, base_url=f"{settings.base_url.rstrip('/')}/bot", request=request, get_updates_request=request)
    return TelegramAccount(bot, clock, settings.poll_seconds)


ACCOUNT = AccountPart(CHANNEL, open_account)

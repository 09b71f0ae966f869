"""The bot's own id and name, needed to judge messages of groups. Its owner may change the name."""

import asyncio
import logging
from collections.abc import Sequence

from telegram import Bot
from telegram.error import InvalidToken, TelegramError

from goclaw.channels.telegram.inbound import UNREADABLE, Json, Me
from goclaw.channels.telegram.texts import body_of, covered
from goclaw.clock import Backoff, Clock

log = logging.getLogger(__name__)

DOUBT_SECONDS = 60.0
"""Seconds between two checks of our name because another bot is mentioned."""


class Identity:
    """Asks getMe: until it is known, and again when there is reason to doubt the name."""

    def __init__(self, bot: Bot, clock: Clock) -> None:
        self._bot = bot
        self._clock = clock
        self._me = Me(0, "")
        self._known = asyncio.Event()
        self._asked_at = 0.0

    async def learn(self) -> None:
        """Ask until Telegram says."""
        backoff = Backoff(first=0.5, longest=30.0)
        while not await self._ask():
            await self._clock.sleep(backoff.next())

    async def me(self, messages: Sequence[Json]) -> Me:
        """Return the bot's identity once known.

        It is asked for again when an unknown bot is mentioned, since our name may have changed.
        """
        await self._known.wait()
        in_doubt = self._clock.monotonic() - self._asked_at >= DOUBT_SECONDS
        if in_doubt and any(mentions_a_stranger(message, self._me) for message in messages):
            await self._ask()
        return self._me

    async def _ask(self) -> bool:
        self._asked_at = self._clock.monotonic()
        try:
            bot = await self._bot.get_me()
        except InvalidToken:
            return False  # the poll loop reports it, and ends
        except TelegramError as error:
            log.debug("getMe failed: %s", error.message)
            return False
        if self._known.is_set() and self._me.username != (bot.username or ""):
            log.info("telegram: the bot is called @%s now", bot.username)
        self._me = Me(bot.id, bot.username or "")
        self._known.set()
        return True


def mentions_a_stranger(message: Json, me: Me) -> bool:
    """Whether a message names a bot that is not us; names of bots end in `bot` (@BotFather's rule)."""
    try:
        text, entities = body_of(message)
        names = [covered(text, entity).lower() for entity in entities if entity["type"] in ("mention", "bot_command")]
    except UNREADABLE:
        return False
    called = [name.rpartition("@")[2] for name in names if "@" in name]
    return any(name.endswith("bot") and name != me.username.lower() for name in called)

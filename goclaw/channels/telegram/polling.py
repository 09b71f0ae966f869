"""The poll loop: an update is acknowledged to Telegram only after the gateway has made it durable.

The library's own Updater raises the offset first and handles later; a crash in between loses what people wrote.
"""

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from telegram import Bot
from telegram.error import Conflict, InvalidToken, NetworkError, TelegramError
from telegram.warnings import PTBUserWarning

from goclaw.channels.telegram.health import Health
from goclaw.channels.telegram.request import Flood
from goclaw.clock import Clock

# The typed method would drop what the library does not know yet, so the raw one is meant.
warnings.filterwarnings("ignore", message=r".*do_api_request\(\"getUpdates\"", category=PTBUserWarning)

ALLOWED_UPDATES = ["message"]
"""Kinds of updates that are asked for; each one listed here must be handled."""
BATCH = 100
ANSWER_MARGIN = 10.0
"""Seconds beyond the long poll's own time until its connection counts as dead."""
FIRST_PAUSE = 0.5
"""Seconds before the next try after trouble: at most two polls a second."""
LONGEST_PAUSE = 30.0
LONGEST_CONFLICT_PAUSE = 60.0
EMPTY_PAUSE = 0.2
"""Seconds to wait after an empty answer that came at once, from a server that does not hold polls open."""
IDLE_SECONDS = 6 * 24 * 3600.0
"""After a week without updates Telegram may continue with smaller ids (Bot API, Update): before that the offset is
forgotten, which only makes it send the unconfirmed again."""

Updates = Sequence[dict[str, Any]]


class Poller:
    """Takes updates in until it is cancelled or the token turns out to be wrong."""

    def __init__(self, bot: Bot, clock: Clock, health: Health, poll_seconds: int) -> None:
        self._bot = bot
        self._clock = clock
        self._health = health
        self._poll_seconds = poll_seconds
        self._pause = 0.0
        self._offset: int | None = None
        self._last_news = clock.monotonic()

    async def run(self, handle: Callable[[Updates], Awaitable[None]]) -> None:
        """Give every batch to `handle`; acknowledge it when that has returned. Returns when the token is refused."""
        while True:
            try:
                updates = await self._poll()
            except InvalidToken:
                self._health.token_refused()
                return
            except TelegramError as error:
                await self._wait_after(error)
                continue
            if updates:
                await handle(updates)
                self._offset = max(update["update_id"] for update in updates) + 1
                self._last_news = self._clock.monotonic()

    async def _poll(self) -> Updates:
        began = self._clock.monotonic()
        if began - self._last_news > IDLE_SECONDS:
            self._offset, self._last_news = None, began
        parameters = {"timeout": self._poll_seconds, "limit": BATCH, "allowed_updates": ALLOWED_UPDATES}
        # The first poll has no offset: what was not acknowledged before a crash comes again.
        if self._offset is not None:
            parameters["offset"] = self._offset
        found: Any = await self._bot.do_api_request(
            "getUpdates", api_kwargs=parameters, read_timeout=self._poll_seconds + ANSWER_MARGIN
        )
        updates = checked(found)
        self._pause = 0.0
        self._health.polled()
        if not updates and self._clock.monotonic() - began < EMPTY_PAUSE:
            await self._clock.sleep(EMPTY_PAUSE)
        return updates

    async def _wait_after(self, error: TelegramError) -> None:
        """Pause, longer each time, for what waiting may mend."""
        longest = LONGEST_CONFLICT_PAUSE if isinstance(error, Conflict) else LONGEST_PAUSE
        self._pause = min(max(2 * self._pause, FIRST_PAUSE), longest)
        pause = max(error.seconds, FIRST_PAUSE) if isinstance(error, Flood) else self._pause
        self._health.trouble(error, pause)
        await self._clock.sleep(pause)


def checked(found: Any) -> Updates:
    """The updates in an answer, in order; what is none among them is passed over, so that the rest is not held up.

    Raises:
        NetworkError: the answer is no list of updates.
    """
    items = found if isinstance(found, list) else [found]
    updates = [item for item in items if isinstance(item, dict) and type(item.get("update_id")) is int]
    if not isinstance(found, list) or (items and not updates):
        raise NetworkError("getUpdates answered something that is no list of updates")
    return updates


async def in_chat_order(updates: Updates, accept: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    """Give each update to `accept`: those of one chat one after the other, chats side by side."""
    chats: dict[str, list[dict[str, Any]]] = {}
    for update in updates:
        message = update.get("message")
        chat = message.get("chat") if isinstance(message, dict) else None
        chats.setdefault(str(chat.get("id")) if isinstance(chat, dict) else "", []).append(update)

    async def one_chat(own: Updates) -> None:
        for update in own:
            await accept(update)

    async with asyncio.TaskGroup() as group:
        for own in chats.values():
            group.create_task(one_chat(own))

"""Requests that nothing waits for: the answer to a pressed button, and the reaction to an accepted message."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from telegram import Bot
from telegram.error import TelegramError

from goclaw.channels.telegram.updates import MAX_TOAST

log = logging.getLogger(__name__)

MAX_COURTESIES = 50
"""Maximum concurrent ones: beyond that a button just goes on blinking."""


class Courtesies:
    """Makes such requests in the background. A failure is only logged."""

    def __init__(self, bot: Bot, reaction: str | None, group: asyncio.TaskGroup) -> None:
        """`reaction`: an emoji (`telegram.ack_reaction`); None: there are no reactions."""
        self._bot = bot
        self._reaction = reaction
        self._group = group
        self._tasks: set[asyncio.Task[None]] = set()

    def answer_press(self, query: str, text: str) -> None:
        """Answer the press of a button, so that it rests; `text`: what its person reads."""
        self._begin(self._bot.answer_callback_query(query, text[:MAX_TOAST] or None))

    def react(self, chat: int, ref: str) -> None:
        """React to an accepted message; `ref`: as in `Inbound`."""
        if self._reaction:
            self._begin(self._bot.set_message_reaction(chat, int(ref.rpartition(":")[2]), self._reaction))

    def _begin(self, request: Coroutine[Any, Any, bool]) -> None:
        if len(self._tasks) >= MAX_COURTESIES:
            request.close()
            return
        task = self._group.create_task(self._try(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _try(self, request: Coroutine[Any, Any, bool]) -> None:
        try:
            await request
        except TelegramError as error:
            log.debug("a press or a message could not be acknowledged: %s", error.message)

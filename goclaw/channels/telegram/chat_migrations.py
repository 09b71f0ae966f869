"""Chats that migrated: a group that becomes a supergroup gets another id, but stays the same conversation.

It is in the store because Telegram reports a migration once. Senders use `current`, names of sessions use `origin`.
"""

import logging
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

from goclaw.channels.state import ChannelState
from goclaw.channels.telegram.chat_order import ChatOrder
from goclaw.channels.telegram.updates import CHANNEL
from goclaw.common.core.records import BoundedDict
from goclaw.errors import StateError

log = logging.getLogger(__name__)

MOVED_FROM = f"{CHANNEL} moved from"
"""Fact: the id that a chat had before; the one that it has follows a colon."""
MANY_CHATS = 10_000
"""Chats that are known not to have migrated, at most; others are asked for again."""


class ChatMigrations:
    """A map of migrated chat ids."""

    def __init__(self, state: ChannelState, *, is_alone: bool) -> None:
        """`is_alone`: no other process uses the store, so `load` reads all there is."""
        self._state = state
        self._is_alone = is_alone
        self._after: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._unmoved: BoundedDict[int, None] = BoundedDict(MANY_CHATS)
        self._looks: WeakValueDictionary[int, ChatOrder] = WeakValueDictionary()
        """Held while the store is asked for a chat; acquired in order."""

    async def load(self) -> None:
        """Read the known migrations.

        Raises:
            DiskError: the store cannot be read.
        """
        for new, old in moves_of(await self._state.facts(MOVED_FROM)).items():
            self._after[old], self._before[new] = new, old

    def current(self, chat: int) -> int:
        """Return the id under which a chat is reached now."""
        while chat in self._after:
            chat = self._after[chat]
        return chat

    def origin(self, chat: int) -> int:
        """Return the first id of a chat: its session is named by it forever."""
        while chat in self._before:
            chat = self._before[chat]
        return chat

    async def refresh(self, chat: int, *, is_message: bool = True) -> None:
        """Ask the store whether a chat is one that migrated, where another process may have heard of that.

        One look at a message is enough: Telegram sends messages of the new chat only after its message about the
        migration has been acknowledged, and that is kept before. Of the bot's membership there it may tell earlier.

        Raises:
            DiskError: the store cannot be reached.
        """
        if self._is_alone:
            return
        # One after the other: the answers of the store keep no order.
        async with self._looks.setdefault(chat, ChatOrder()):
            await self._ask(chat, is_message=is_message)

    async def remember(self, old: int, new: int) -> None:
        """Chat `old` is `new` from now on; on disk when this returns. Hearing of the same move again does nothing.

        Raises:
            DiskError: the store cannot be reached; nothing is remembered.
        """
        known = old in self._after or new in self._before
        if known or self.current(new) == old or old == new:  # nothing goes in circles
            return
        self._after[old], self._before[new] = new, old
        log.info("telegram: group %d is now the supergroup %d; the conversation continues", old, new)
        try:
            await self._state.learn({f"{MOVED_FROM}:{new}": old})
        except StateError:
            del self._after[old], self._before[new]  # Telegram says so again
            raise

    async def _ask(self, chat: int, *, is_message: bool) -> None:
        while chat not in self._unmoved and chat not in self._before:
            before = await self._state.fact(f"{MOVED_FROM}:{chat}")
            if not isinstance(before, int):
                if is_message:
                    self._unmoved[chat] = None
                return
            self._after[before], self._before[chat] = chat, before
            chat = before


def moves_of(found: Mapping[Any, Any]) -> dict[int, int]:
    """Return the valid entries of what may have been edited, new ids to old ones: no cycles, one new id for each."""
    moves: dict[int, int] = {}
    for key, value in found.items():
        try:
            new, old = int(key), int(value)
        except (TypeError, ValueError):
            continue
        if old not in moves.values() and _end(moves, old) != new:
            moves[new] = old
    return moves


def _end(moves: Mapping[int, int], chat: int) -> int:
    while chat in moves:
        chat = moves[chat]
    return chat

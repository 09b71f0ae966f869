"""Chat migrations: a group that becomes a supergroup gets another id, but stays the same conversation.

On disk, because Telegram reports a migration once. Senders use `current`, names of sessions use `origin`.
"""

import logging
from pathlib import Path

from pydantic import TypeAdapter

from goclaw.channels.telegram import json_file
from goclaw.errors import DiskError

log = logging.getLogger(__name__)

_MOVES: TypeAdapter[dict[int, int]] = TypeAdapter(dict[int, int])


class ChatMigrations:
    """A map of migrated chat ids, in one small file of the state folder."""

    def __init__(self, path: Path) -> None:
        """Reads the file: call this in a thread."""
        self._after = _sound(json_file.read(path, _MOVES, {}))
        self._before = {new: old for old, new in self._after.items()}
        self._file = json_file.JsonFile(path, flush=True)

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

    async def remember(self, old: int, new: int) -> None:
        """Chat `old` is `new` from now on; on disk when this returns. Hearing of the same move again does nothing.

        Where it cannot be written, it holds until the daemon ends, and the log says so.
        """
        known = old in self._after or new in self._before
        if known or self.current(new) == old or old == new:  # nothing goes in circles
            return
        self._after[old], self._before[new] = new, old
        log.info("telegram: group %d is the supergroup %d now; the conversation goes on", old, new)
        try:
            await self._file.write(self._after)
        except DiskError as error:
            log.warning("a restart forgets that group %d moved: %s", old, error)


def _sound(found: dict[int, int]) -> dict[int, int]:
    """Return the valid entries of a file that may have been edited: no cycles, no two chats migrated to one."""
    moves: dict[int, int] = {}
    for old, new in found.items():
        if new not in moves.values() and _end(moves, new) != old:
            moves[old] = new
    return moves


def _end(moves: dict[int, int], chat: int) -> int:
    while chat in moves:
        chat = moves[chat]
    return chat

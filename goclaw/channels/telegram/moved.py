"""Groups that became supergroups: Telegram gives such a group another id, and for us it stays the same conversation.

On disk, because Telegram tells of a move once. Who sends asks `current`, who names a session asks `origin`.
"""

import asyncio
import logging
import os
from pathlib import Path

import orjson
from pydantic import TypeAdapter, ValidationError

log = logging.getLogger(__name__)

_MOVES: TypeAdapter[dict[int, int]] = TypeAdapter(dict[int, int])


class Moved:
    """Which chat became which. Lives in one small file of the state folder."""

    def __init__(self, path: Path) -> None:
        """Reads the file: call this in a thread."""
        self._path = path
        self._after = _read(path)
        self._before = {new: old for old, new in self._after.items()}
        self._writing = asyncio.Lock()

    def current(self, chat: int) -> int:
        """The id under which a chat is reached now."""
        while chat in self._after:
            chat = self._after[chat]
        return chat

    def origin(self, chat: int) -> int:
        """The id that a chat had first: its session is named by it for ever."""
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
            async with self._writing:
                content = orjson.dumps(self._after, option=orjson.OPT_NON_STR_KEYS)
                await asyncio.to_thread(_write, self._path, content)
        except OSError as error:
            log.warning("%s cannot be written, a restart forgets that the group moved: %s", self._path, error.strerror)


def _read(path: Path) -> dict[int, int]:
    try:
        found = _MOVES.validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError) as error:
        log.warning("%s is not used: %s", path, type(error).__name__)
        return {}
    moves: dict[int, int] = {}
    for old, new in found.items():
        # A file that somebody edited must not send us in circles, nor make two chats one.
        if new not in moves.values() and _end(moves, new) != old:
            moves[old] = new
    return moves


def _end(moves: dict[int, int], chat: int) -> int:
    while chat in moves:
        chat = moves[chat]
    return chat


def _write(path: Path, content: bytes) -> None:
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)

"""Small JSON files in the state folder: ids of live messages by turn, and chats that migrated.

After a crash the answer is edited into its live message, not sent beside it. A preview that Telegram took, but whose id
was not recorded, cannot be found again: the Bot API lists no messages. What can be known is that there may be one
(`is_lost`), so that no second one is sent, and whether it shows the answer's text (`may_say`), so that the answer is
marked as a possible repetition.

A group that becomes a supergroup gets another id, but stays the same conversation. It is on disk because Telegram
reports a migration once. Senders use `current`, names of sessions use `origin`. `media_groups` has its own file.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import orjson
from pydantic import TypeAdapter, ValidationError

from goclaw.channels.telegram.updates import CHANNEL
from goclaw.core import files
from goclaw.core.records import BoundedDict
from goclaw.core.supervise import see_through
from goclaw.errors import DiskError
from goclaw.health.resources import disk_error

log = logging.getLogger(__name__)


T = TypeVar("T")


def read_file(path: Path, shape: TypeAdapter[T], empty: T) -> T:
    """Return the stored value; `empty` where the file is missing or invalid."""
    try:
        return shape.validate_json(path.read_bytes())
    except FileNotFoundError:
        return empty
    except (OSError, ValidationError) as error:
        log.warning("%s is not used: %s", path, type(error).__name__)
        return empty


class JsonFile:
    """Writes one file, whole each time."""

    def __init__(self, path: Path, *, flush: bool) -> None:
        """Without `flush` it survives kill -9, but not a power cut."""
        self._path = path
        self._flush = flush
        self._writing = asyncio.Lock()
        self._latest: Any = None
        self._given = self._written = 0
        """Numbers of values given, and of those on disk or replaced by later ones that are."""

    async def write(self, value: Any, *, flush: bool = False) -> None:
        """Write a value to disk, or the latest of those given while it waited for the disk.

        Args:
            value: the whole content; each one includes those before it.
            flush: make it survive a power cut, regardless of the file's default.

        Raises:
            DiskError: it cannot be written.
        """
        self._latest = value
        mine = self._given = self._given + 1
        try:
            async with self._writing:
                if self._written < mine or (flush and not self._flush):
                    await self._write_latest(flush)
        except OSError as error:
            raise disk_error(error, self._path, "written") from error

    async def _write_latest(self, flush: bool) -> None:
        written, content = self._given, orjson.dumps(self._latest, option=orjson.OPT_NON_STR_KEYS)
        # To its end also when the caller is cancelled: two threads must not write the same file.
        work = asyncio.to_thread(self._replace, content, self._flush or flush)
        await see_through(work, f"writing {self._path.name}")
        self._written = written

    def _replace(self, content: bytes, flush: bool) -> None:  # to_thread takes positions
        files.replace_file(self._path, content, fsync=flush, reuse=True)
        if flush:
            files.flush(self._path.parent)


MOVED_FROM = f"{CHANNEL} moved from"
"""Fact, where several processes share a store: the id that a chat had before; the one that it has follows a colon."""
MAX_TURNS = 200
"""Maximum turns remembered: far more than run at once, so that each is kept until its answer is delivered."""

LOST = 0
"""In place of an id: a message was about to be sent; below it, a number derived from its text (`_lost`)."""

_MESSAGES: TypeAdapter[dict[str, int]] = TypeAdapter(dict[str, int])


class LiveMessageIds:
    """The latest turns and their messages. Lives in one file, which is small and rarely flushed: kill -9 spares it."""

    def __init__(self, path: Path) -> None:
        """Reads the file: call this in a thread."""
        self._messages = BoundedDict(MAX_TURNS, read_file(path, _MESSAGES, {}))
        self._file = JsonFile(path, flush=False)
        self._unkept: BoundedDict[str, None] = BoundedDict(MAX_TURNS)
        """Turns whose message's id could not be kept yet."""

    def message_of(self, turn: str) -> int | None:
        """Return the id of the message that began to grow for this turn."""
        known = self._messages.get(turn, LOST)
        return known if known > LOST else None

    def is_lost(self, turn: str) -> bool:
        """Whether a message with an unknown id may stand in the chat."""
        return self._messages.get(turn, LOST + 1) <= LOST

    def may_say(self, turn: str, text: str) -> bool:
        """Whether that message has this very text, if it is there."""
        return self._messages.get(turn) == _lost(text)

    async def intend(self, turn: str, text: str = "") -> bool:
        """Note that a message with this text is about to be sent, or that the sent one cannot be relied on.

        False: that cannot be kept, so a crash would leave a message of which the next run of the daemon knows nothing.
        """
        if not text and self.is_lost(turn):
            return True
        before = self._messages.get(turn)
        if await self._note(turn, _lost(text) if text else LOST):
            return True
        if text and before is not None:
            self._messages[turn] = before
        elif text:
            self._messages.pop(turn, None)
        return False

    async def remember(self, turn: str, message_id: int) -> None:
        """Keep the id of a message that was sent. Where that fails, a crash leaves it behind: see `keep`."""
        self._unkept.pop(turn, None)
        if not await self._note(turn, message_id):
            self._unkept[turn] = None

    async def keep(self, turn: str) -> bool:
        """Have the id of a turn's message on disk. False: that failed again, so the message may say no more."""
        known = self.message_of(turn)
        if turn in self._unkept and (known is None or await self._note(turn, known)):
            self._unkept.pop(turn, None)
        return turn not in self._unkept

    async def hand_over(self, turn: str, delivery: str) -> int | None:
        """Make the message that grew for a turn that of one of its deliveries; the turn goes on with another one.

        Returns the message's id, the same one for a delivery that is tried again; None where no message grew.

        Raises:
            StateError: this cannot be kept; the message stays what it is, beside its text.
        """
        if known := self._messages.get(delivery):
            return known
        if not (grew := self.message_of(turn)):
            return None
        del self._messages[turn]
        self._messages[delivery] = grew
        try:
            await self._file.write(self._messages, flush=True)
        except DiskError:
            del self._messages[delivery]
            raise
        return grew

    async def _note(self, turn: str, message_id: int) -> bool:
        self._messages[turn] = message_id
        try:
            await self._file.write(self._messages)
        except DiskError as error:
            log.warning("a preview is not remembered over a restart: %s", error)
            return False
        return True


def _lost(text: str) -> int:
    return LOST - 1 - crc32(text.encode())


_MOVES: TypeAdapter[dict[int, int]] = TypeAdapter(dict[int, int])


class ChatMigrations:
    """A map of migrated chat ids, in one small file of the state folder."""

    def __init__(self, path: Path) -> None:
        """Reads the file: call this in a thread."""
        self._after = _without_cycles(read_file(path, _MOVES, {}))
        self._before = {new: old for old, new in self._after.items()}
        self._file = JsonFile(path, flush=True)

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

    async def learn(self, facts: Mapping[str, Any]) -> None:
        """Remember what processes that shared the store have noted: former ids by those that the chats have."""
        for new, old in facts.items():
            try:
                await self.remember(int(old), int(new))
            except (TypeError, ValueError):
                continue  # the database was edited


def _without_cycles(found: dict[int, int]) -> dict[int, int]:
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

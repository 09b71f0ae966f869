"""Media groups and split texts: several messages of Telegram that people mean as one.

Telegram sends each picture of an album as a message of its own, and clients cut a long text into several. A part is on
disk before it is acknowledged, and acknowledged before the next one comes: Telegram calls a webhook with
one message of a chat at a time, so waiting for the whole album would never end. The members of an album are
decided once, and on disk before it is handed over: a later part is a message of its own, also after a kill.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from goclaw.channels.telegram import state_files
from goclaw.channels.telegram.render import units
from goclaw.channels.telegram.updates import CHANNEL, UNREADABLE, Json, number
from goclaw.core.clock import Clock
from goclaw.core.records import BoundedDict
from goclaw.core.supervise import set_within
from goclaw.errors import DiskError

log = logging.getLogger(__name__)


QUIET_SECONDS = 0.8
"""Seconds without a new part after which an album is whole. Its parts arrive within a few hundred milliseconds."""
TEXT_SECONDS = 1.0
"""Seconds without a new part after which a long text is whole; it also is when a part follows that is not long."""
LONG_TEXT = 4_000
"""UTF-16 units from which a text may be the first part of a longer one: clients cut below the limit of 4,096."""
MAX_PARTS = 10
"""Maximum parts of an album (Bot API, sendMediaGroup)."""
TEXTS = f"{CHANNEL}:text:"
"""Prefix of the names of long texts."""
MAX_NAME = 64
"""Maximum characters of a `media_group_id`; Telegram's own have about twenty."""
KEPT = 200
"""Maximum albums whose parts are remembered over restarts: Telegram can repeat far fewer."""
KEPT_WHOLE = 20
"""Maximum albums remembered with their content, so that an edited caption finds its pictures."""


@dataclass(slots=True)
class _OnDisk:
    """The file. Of strangers' albums, too, as who may write is decided later; only until they are handed over."""

    open: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    """The messages of those that were not handed over yet, by name."""
    ended: dict[str, list[int]] = field(default_factory=dict)
    """The ids of the messages of those that have ended."""


_ON_DISK = TypeAdapter(_OnDisk)


@dataclass(eq=False)
class MediaGroup:
    """One that is being gathered."""

    name: str
    chat: int
    sender: int
    last_at: float
    parts: dict[int, Json] = field(default_factory=dict)
    """Messages by their ids, in the order in which they came."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when no more parts are waited for."""

    async def whole(self, clock: Clock) -> None:
        """Return when it has ended."""
        quiet = TEXT_SECONDS if self.name.startswith(TEXTS) else QUIET_SECONDS
        while not self.closed.is_set() and (left := self.last_at + quiet - clock.monotonic()) > 0:
            await set_within(self.closed, clock, left)
        self.closed.set()


class MediaGroups:
    """Those that are open, and what is remembered of those that ended."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Reads the file: call this in a thread."""
        self._clock = clock
        found = state_files.read_file(path, _ON_DISK, _OnDisk())
        self._ended = BoundedDict(KEPT, found.ended)
        self._file = state_files.JsonFile(path, flush=True)
        self._open: dict[str, MediaGroup] = {}
        self._recent: BoundedDict[str, list[Json]] = BoundedDict(KEPT_WHOLE)
        for name, messages in found.open.items():
            for message in messages:
                try:
                    self.gather(name, message)
                except UNREADABLE:
                    continue  # the file was edited

    def gather(self, name: str, message: Json) -> MediaGroup | None:
        """Put a part where it belongs; None when its album has ended without it."""
        part = number(message["message_id"])
        if part not in self._ended.get(name, [part]):
            return None
        album = self._open.get(name)
        if album is None:
            chat, sender = number(message["chat"]["id"]), number(message["from"]["id"])
            album = self._open[name] = MediaGroup(name, chat, sender, self._clock.monotonic())
        if part not in album.parts:
            album.last_at = self._clock.monotonic()
        album.parts[part] = message
        if len(album.parts) >= MAX_PARTS or (name.startswith(TEXTS) and not is_long(message)):
            album.closed.set()
        return album

    def text_of(self, message: Json) -> str | None:
        """Return the long text that a message begins, continues or belongs to; None: it stands for itself."""
        chat, part = number(message["chat"]["id"]), number(message["message_id"])
        mine = f"{TEXTS}{chat}:"
        known = (name for name, parts in self._ended.items() if name.startswith(mine) and part in parts)
        if found := next(known, None):
            return found
        if not is_plain(message):
            return None
        for album in self.open_of(chat, number(message["from"]["id"])):
            first = next(iter(album.parts.values()))
            same_topic = first.get("message_thread_id") == message.get("message_thread_id")
            if album.name.startswith(mine) and (part in album.parts or (same_topic and not album.closed.is_set())):
                return album.name
        return f"{mine}{part}" if is_long(message) else None

    async def keep(self) -> None:
        """Write the gathered parts to disk.

        Raises:
            DiskError: it cannot be written; the part must come again.
        """
        opened = {album.name: list(album.parts.values()) for album in self._open.values()}
        await self._file.write(_OnDisk(opened, self._ended))

    def open(self) -> Sequence[MediaGroup]:
        """Return those that were not handed over yet, also by an earlier run of the daemon."""
        return list(self._open.values())

    def open_of(self, chat: int, sender: int) -> Sequence[MediaGroup]:
        """Return the open groups of a person in a chat: their next message ends them."""
        return [album for album in self._open.values() if (album.chat, album.sender) == (chat, sender)]

    def text_with(self, message: Json) -> str | None:
        """Return the long text that an edited message is a part of; None: it is a message of its own."""
        mine, part = f"{TEXTS}{number(message['chat']['id'])}:", number(message["message_id"])
        gathered = {name: [*album.parts] for name, album in self._open.items()}
        texts = (name for name, parts in {**self._ended, **gathered}.items() if part in parts and name.startswith(mine))
        return next(texts, None)

    def is_open(self, album: MediaGroup) -> bool:
        """Whether an album was not handed over yet."""
        return self._open.get(album.name) is album

    async def decide(self, album: MediaGroup) -> list[Json]:
        """End an album: its messages, in the order of their ids. The same again when it is asked again.

        Raises:
            DiskError: that cannot be written down.
        """
        album.closed.set()
        if album.name not in self._ended:
            self._ended[album.name] = sorted(album.parts)
            try:
                await self.keep()
            except DiskError:
                self._ended.pop(album.name, None)
                raise
        messages = [album.parts[part] for part in sorted(album.parts)]
        # One that is repeated may come in pieces.
        self._recent.setdefault(album.name, messages)
        return messages

    async def handed_over(self, album: MediaGroup) -> None:
        """Its content is on disk elsewhere."""
        self._open.pop(album.name, None)
        try:
            await self.keep()
        except DiskError as error:
            log.warning("the next start hands an album over once more, which changes nothing: %s", error)

    def replace(self, name: str, message: Json) -> MediaGroup | None:
        """Put the new version of a part into the album that is being gathered; None when it is not (any more)."""
        album = self._open.get(name)
        if album is None or name in self._ended or number(message["message_id"]) not in album.parts:
            return None
        album.parts[number(message["message_id"])] = message
        return album

    def edit(self, name: str, message: Json) -> list[Json] | None:
        """Return the whole album with a new version of one of its messages; None when it is not known (any more)."""
        known = self._recent.get(name)
        if known is None:
            return None
        self._recent[name] = [message if part["message_id"] == message["message_id"] else part for part in known]
        return self._recent[name]


def is_plain(message: Json) -> bool:
    """Whether a message is a text that its sender wrote, and no command."""
    text = message.get("text")
    return isinstance(text, str) and not text.startswith("/") and "forward_origin" not in message


def is_long(message: Json) -> bool:
    """Whether a text may go on in the next message."""
    return units(message.get("text", "")) >= LONG_TEXT


def album_name(message: Json) -> str | None:
    """Return the id that the message of an album gets; None for a message that is no part of one."""
    group = message.get("media_group_id")
    if not isinstance(group, str) or not 0 < len(group) <= MAX_NAME or not group.isascii():
        return None
    return f"{CHANNEL}:album:{number(message['chat']['id'])}:{group}"

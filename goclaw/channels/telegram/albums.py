"""Albums: Telegram sends each picture of one as a message of its own; people mean one message.

What belongs to an album is decided once, and on disk before it is handed over: a kill in between finds the same parts
again when Telegram repeats them, and whatever comes later is a message of its own.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from goclaw.channels.telegram import kept
from goclaw.channels.telegram.inbound import CHANNEL, Json, number
from goclaw.channels.telegram.waiting import set_within
from goclaw.clock import Clock

QUIET_SECONDS = 0.8
"""An album is whole when no part came for so long. Its parts arrive within a few hundred milliseconds."""
MOST_PARTS = 10
"""Of an album (Bot API, sendMediaGroup)."""
LONGEST_NAME = 64
"""Characters of a `media_group_id`; Telegram's own have about twenty."""
KEPT = 200
"""Albums whose parts are remembered over restarts: what Telegram can repeat is far less."""
KEPT_WHOLE = 20
"""Albums that are remembered with their content, so that an edited caption finds its pictures."""

_PARTS: TypeAdapter[dict[str, list[int]]] = TypeAdapter(dict[str, list[int]])


@dataclass(eq=False)
class Album:
    """One that is being gathered."""

    name: str
    chat: int
    sender: int
    last_at: float
    parts: dict[int, Json] = field(default_factory=dict)
    """Messages by their ids, in the order in which they came."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when no more parts are waited for."""
    settled: bool = False

    async def whole(self, clock: Clock) -> None:
        """Return when it has ended."""
        while not self.closed.is_set() and (left := self.last_at + QUIET_SECONDS - clock.monotonic()) > 0:
            await set_within(clock, left, self.closed)
        self.closed.set()


class Albums:
    """Those that are open, and what is remembered of those that ended."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Reads the file: call this in a thread."""
        self._clock = clock
        self._decided = kept.read(path, _PARTS, {})
        self._keeper = kept.Keeper(path, flush=False)
        self._open: dict[str, Album] = {}
        self._recent: OrderedDict[str, list[Json]] = OrderedDict()

    def gather(self, name: str, message: Json) -> Album | None:
        """Put a part where it belongs; None when its album has ended without it."""
        part = number(message["message_id"])
        if part not in self._decided.get(name, [part]):
            return None
        album = self._open.get(name)
        if album is None:
            chat, sender = number(message["chat"]["id"]), number(message["from"]["id"])
            album = self._open[name] = Album(name, chat, sender, self._clock.monotonic())
        if part not in album.parts:
            album.last_at = self._clock.monotonic()
        album.parts[part] = message
        if len(album.parts) >= MOST_PARTS:
            album.closed.set()
        return album

    def open_of(self, chat: int, sender: int) -> Sequence[Album]:
        """What a person is sending in a chat: their next message ends it."""
        return [album for album in self._open.values() if (album.chat, album.sender) == (chat, sender)]

    async def decide(self, album: Album) -> list[Json]:
        """End an album: its messages, in the order of their ids."""
        album.closed.set()
        self._open.pop(album.name, None)
        messages = [album.parts[part] for part in sorted(album.parts)]
        self._recent[album.name] = messages
        while len(self._recent) > KEPT_WHOLE:
            self._recent.popitem(last=False)
        if album.name not in self._decided:
            await self._remember(album.name, sorted(album.parts))
        return messages

    def replace(self, name: str, message: Json) -> Album | None:
        """Put the new version of a part into the album that is being gathered; None when it is not."""
        album = self._open.get(name)
        if album is None or number(message["message_id"]) not in album.parts:
            return None
        album.parts[number(message["message_id"])] = message
        return album

    def edit(self, name: str, message: Json) -> list[Json] | None:
        """The whole album with a new version of one of its messages; None when it is not known (any more)."""
        known = self._recent.get(name)
        if known is None:
            return None
        self._recent[name] = [message if part["message_id"] == message["message_id"] else part for part in known]
        return self._recent[name]

    async def _remember(self, name: str, parts: list[int]) -> None:
        """Where it cannot be written, only a kill in the next moments would matter."""
        self._decided[name] = parts
        while len(self._decided) > KEPT:
            del self._decided[next(iter(self._decided))]
        await self._keeper.write(self._decided)


def album_name(message: Json) -> str | None:
    """The id that the message of an album gets; None for a message that is no part of one."""
    group = message.get("media_group_id")
    if not isinstance(group, str) or not 0 < len(group) <= LONGEST_NAME or not group.isascii():
        return None
    return f"{CHANNEL}:album:{number(message['chat']['id'])}:{group}"

"""Media groups and split texts: several messages of Telegram that people mean as one.

Telegram sends each picture of an album as a message of its own, and clients cut a long text into several. A part is on
disk before it is acknowledged, and acknowledged before the next one comes: Telegram calls a webhook with
one message of a chat at a time, so waiting for the whole album would never end. The members of an album are
decided once, and on disk before it is handed over: a later part is a message of its own, also after a kill.

The parts are in the store, as the next one may come to another process: nothing binds a chat to a process. Where this
one is alone, its memory says whether the store has to be asked, and when a group is whole.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from goclaw.channels.state import ChannelState, Gathered
from goclaw.channels.telegram.render import units
from goclaw.channels.telegram.updates import CHANNEL, Json, number
from goclaw.common.core.clock import Clock
from goclaw.common.core.records import BoundedDict
from goclaw.common.core.supervise import set_within
from goclaw.errors import StateError

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
ALBUMS = f"{CHANNEL}:album:"
"""Prefix of the names of albums."""
MAX_NAME = 64
"""Maximum characters of a `media_group_id`; Telegram's own have about twenty."""
MANY_PARTS = 5_000
"""Messages that are known to be parts of a group, at most: Telegram can repeat far fewer, and few are edited."""

Group = Mapping[str, Any]
"""A group as `ChannelState.around` returns it."""


@dataclass(eq=False, slots=True)
class _OpenGroup:
    """A group that this process hands over."""

    chat: int
    last_at: float
    """When it got its latest part here."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when no more parts are waited for."""


class MediaGroups:
    """The groups of all chats."""

    def __init__(self, state: ChannelState, clock: Clock, *, is_alone: bool) -> None:
        """`is_alone`: no other process uses the store; `load` comes first then."""
        self._state = state
        self._clock = clock
        self._is_alone = is_alone
        self._open: dict[str, _OpenGroup] = {}
        self._parts: BoundedDict[tuple[int, int], None] = BoundedDict(MANY_PARTS)
        """Chats and ids of messages that are parts, where this process is alone."""

    async def load(self) -> None:
        """Read the parts that a former run has gathered.

        Raises:
            DiskError: the store cannot be read.
        """
        for name, chat, is_handed_over, parts in reversed(await self._state.recent()):
            self._parts |= {(chat, part): None for part in parts}
            if not is_handed_over:
                self._open[name] = _OpenGroup(chat, self._clock.monotonic())

    def open(self) -> Sequence[tuple[str, int]]:
        """Return the names and chats of those that this process is to hand over."""
        return [(name, group.chat) for name, group in self._open.items()]

    async def gather(self, name: str, chat: int, sender: int, message: Json) -> Gathered:
        """Keep a part; on disk when this returns.

        Returns what became of it.

        Raises:
            DiskError: it cannot be written; the part must come again.
        """
        part, is_new = number(message["message_id"]), name not in self._open
        group = self._expect(name, chat)
        self._parts[chat, part] = None
        outcome, count = await self._state.gather(name, chat, sender, part, orjson.dumps(message))
        if outcome is not Gathered.KEPT:
            if is_new:
                self._open.pop(name, None)
            return outcome
        group.last_at = self._clock.monotonic()
        if count >= MAX_PARTS or (name.startswith(TEXTS) and not is_long(message)):
            await self._state.end_group(name, 0.0, 0)  # whichever process gets the next message
            group.closed.set()
        return outcome

    async def around(self, chat: int, part: int) -> Sequence[Group]:
        """Return what `ChannelState.around` does; a process that is alone asks only where something can be found.

        Raises:
            DiskError: the store cannot be read.
        """
        is_known = (chat, part) in self._parts or any(group.chat == chat for group in self._open.values())
        return await self._state.around(chat, part) if is_known or not self._is_alone else ()

    async def wait_until_whole(self, name: str, chat: int) -> None:
        """Return when no more parts of a group are waited for.

        Raises:
            DiskError: the store cannot be reached.
        """
        group = self._expect(name, chat)
        while not group.closed.is_set() and (left := await self._remaining(name, group)) > 0:
            await set_within(group.closed, self._clock, left)

    async def end(self, name: str) -> Sequence[Json]:
        """End a group: its messages, in the order of their ids; none where it was handed over.

        Raises:
            DiskError: that cannot be written down, or not be read.
        """
        await self._state.end_group(name, 0.0, 0)
        messages = await self._state.messages(name)
        if not messages:
            self._open.pop(name, None)
        return messages

    async def note_handed_over(self, name: str, *, is_taken: bool) -> None:
        """Note that the content of a group is on disk elsewhere, or unwanted."""
        self._open.pop(name, None)
        try:
            await self._state.hand_over(name, keep=is_taken)
        except StateError as error:
            log.warning("an album is handed over again, which changes nothing: %s", error)

    async def edit(self, name: str, message: Json) -> Sequence[Json] | None:
        """Put the new version of a part into its group.

        Returns all messages of a group that was handed over; none of one that was not; None where the part is not kept
        (any more).

        Raises:
            DiskError: it cannot be written; the edit must come again.
        """
        if not await self._state.replace(name, number(message["message_id"]), orjson.dumps(message)):
            return None
        return await self._state.messages(name, handed_over=True)

    async def list_idle(self, idle: float) -> Sequence[tuple[str, int]]:
        """Return the names and chats of those that no process has handed over, `idle` seconds after their last part.

        Raises:
            DiskError: the store cannot be read.
        """
        return await self._state.list_idle(idle)

    def _expect(self, name: str, chat: int) -> _OpenGroup:
        return self._open.setdefault(name, _OpenGroup(chat, self._clock.monotonic()))

    async def _remaining(self, name: str, group: _OpenGroup) -> float:
        """Return the seconds until a group is whole if nothing more comes; the store knows what others got."""
        quiet = TEXT_SECONDS if name.startswith(TEXTS) else QUIET_SECONDS
        left = group.last_at + quiet - self._clock.monotonic()
        return left if left > 0 or self._is_alone else await self._state.end_group(name, quiet, MAX_PARTS)


def text_of(message: Json, groups: Sequence[Group], sender: int) -> str | None:
    """Return the long text that a message begins, continues or belongs to; None: it stands for itself.

    `groups`: those around the message.
    """
    texts = [each for each in groups if str(each["name"]).startswith(TEXTS)]
    if known := next((str(each["name"]) for each in texts if each["has_part"]), None):
        return known
    if not is_plain(message):
        return None
    for each in texts:
        first = orjson.loads(each["first"]) if each["first"] else {}
        same_topic = first.get("message_thread_id") == message.get("message_thread_id")
        if each["sender"] == sender and not each["has_ended"] and same_topic:
            return str(each["name"])
    return f"{TEXTS}{number(message['chat']['id'])}:{number(message['message_id'])}" if is_long(message) else None


def is_ended_by(group: Group, sender: int, message: Json) -> bool:
    """Whether a message ends a group: its sender's next one does. Parts of a later group may have arrived already."""
    if group["is_handed_over"] or group["sender"] != sender:
        return False
    return group["first"] is None or orjson.loads(group["first"])["message_id"] < number(message["message_id"])


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
    return f"{ALBUMS}{number(message['chat']['id'])}:{group}"


def is_of(group: Group, album: str | None) -> bool:
    """Whether a group, found around a message, has it: as a part of this album, or of a long text (None)."""
    return bool(group["has_part"] and (group["name"] == album if album else str(group["name"]).startswith(TEXTS)))

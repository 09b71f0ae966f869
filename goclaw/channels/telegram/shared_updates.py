"""The handler of updates where several processes share a store: any of them may get any update.

Parts of an album or a long text are gathered in the store, as the next one may come to another process: Telegram calls
a webhook with one message of a chat at a time, and nothing binds a chat to a process. Each process that took a part
hands its group over when that is whole; the members are decided once, and the inbox takes an album once. What a process
leaves behind that dies in between is handed over by the one that has the duty to look for it.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import orjson

from goclaw.channels.sharing import ChannelSharing
from goclaw.channels.telegram.media_groups import (
    MAX_PARTS,
    QUIET_SECONDS,
    TEXT_SECONDS,
    TEXTS,
    album_name,
    is_long,
    is_plain,
)
from goclaw.channels.telegram.previews import draft_id
from goclaw.channels.telegram.shared_state import SharedChatMigrations
from goclaw.channels.telegram.update_handler import UpdateHandler, reading
from goclaw.channels.telegram.updates import (
    CHANNEL,
    UNREADABLE,
    Json,
    album_of,
    is_group,
    is_open,
    move_of,
    number,
    person_of,
    single_of,
)
from goclaw.core.events import AcceptKind
from goclaw.core.supervise import keep_running
from goclaw.errors import StateError

log = logging.getLogger(__name__)

MEMBERSHIP = "my_chat_member"
"""Kind of an update about the bot's own membership."""
LOOK_SECONDS = 1.0
"""Seconds between two looks for groups that no process hands over."""
LEFT_SECONDS = 2.5
"""Seconds without a new part after which a group counts as left: longer than a live process waits with it."""
FORGET_SECONDS = 60.0
"""Seconds between two deletions of what is too old."""


@dataclass(slots=True, eq=False, kw_only=True)
class SharedUpdateHandler(UpdateHandler):
    """The way in of one process among several."""

    sharing: ChannelSharing
    moved: SharedChatMigrations
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """By group: it is handed over when it is whole."""
    _looks: WeakValueDictionary[int, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """Held while it is looked whether a chat is one that migrated; acquired in order."""

    def resume(self) -> None:
        """Do nothing: the one that has the duty finds what is left of an earlier run, whichever process that was."""

    def end(self) -> None:
        """Leave what is being gathered to other processes, or the next start."""
        for task in self._tasks.values():
            task.cancel()

    async def take(self, update: Json) -> None:
        """Do as where there is one process.

        Raises:
            DiskError: the store cannot be reached; the update was not taken.
        """
        if (chat := _chat_that_may_have_moved(update)) is not None:
            # One after the other: the first looks at a group ask the store, and its answers keep no order.
            async with self._looks.setdefault(chat, asyncio.Lock()):
                await self.moved.look(chat, is_message=MEMBERSHIP not in update)
        await UpdateHandler.take(self, update)

    async def look_after(self) -> None:
        """Hand over what other processes have left, and delete what is too old, until cancelled: one process's duty."""
        forgot_at = self.clock.monotonic()
        while True:
            for name, chat in await self.sharing.left(LEFT_SECONDS):
                if name not in self._tasks:
                    log.info("telegram: messages are handed over that another process had gathered")
                    await self._hand_over_group(name, chat)
            if self.clock.monotonic() - forgot_at >= FORGET_SECONDS:
                await self.sharing.forget_old()
                forgot_at = self.clock.monotonic()
            await self.clock.sleep(LOOK_SECONDS)

    async def put_into_store(self) -> None:
        """Gather once more what the file of before has, from when one process had the store.

        Raises:
            DiskError: the store cannot be reached.
        """
        for album in self.albums.open():
            for part, message in album.parts.items():
                await self.sharing.gather(album.name, album.chat, album.sender, part, orjson.dumps(message))
            await self.albums.handed_over(album)

    async def _message(self, update: Json) -> None:
        with reading():
            message = update["message"]
            move, name = move_of(message), album_name(message)
            chat, person, part = number(message["chat"]["id"]), person_of(message), number(message["message_id"])
            sender = number(person["id"]) if person else 0
            is_heard = is_open(message["chat"], self._terms_without_name())
        if move:
            # Before anything is awaited, as where there is one process.
            await self.migrations.remember(move.old, move.new)
        elif is_group(message["chat"]) and not is_heard:
            self.unlisted.heard(chat)
        elif person:
            async with self._order_of(chat):
                around = await self._around(chat, part, name)
                with reading():
                    name = name or _text_of(message, around, sender)
                if name is None or not is_heard or not await self._gathered(name, chat, sender, message):
                    for group in around:
                        if group["sender"] == sender and not group["is_handed_over"]:
                            await self._settle_group(str(group["name"]))
                    await self._accept(single_of(update, await self._terms(message)))

    async def _around(self, chat: int, part: int, album: str | None) -> Sequence[Mapping[str, Any]]:
        try:
            return await self.sharing.around(chat, part)
        except StateError:
            if album:
                raise
            return ()  # the gateway refuses the message, and tells its person why

    async def _gathered(self, name: str, chat: int, sender: int, message: Json) -> bool:
        """Keep a part. False: its group has ended without it, so it is a message of its own."""
        part = number(message["message_id"])
        outcome = await self.sharing.gather(name, chat, sender, part, orjson.dumps(message))
        if outcome == "gathered":
            if name.startswith(TEXTS) and not is_long(message):
                await self._settle_group(name)
            else:
                self._wait_for(name, chat)
        return outcome != "apart"

    def _wait_for(self, name: str, chat: int) -> None:
        """Have a group handed over when it is whole, which is not waited for."""
        if name not in self._tasks:
            work = keep_running(name, partial(self._hand_over_group, name, chat), self.clock)
            task = self._tasks[name] = self.group.create_task(work)
            task.add_done_callback(lambda _: self._tasks.pop(name))

    async def _hand_over_group(self, name: str, chat: int) -> None:
        quiet = TEXT_SECONDS if name.startswith(TEXTS) else QUIET_SECONDS
        while (left := await self.sharing.end_group(name, quiet, MAX_PARTS)) > 0:
            await self.clock.sleep(left)
        async with self._order_of(chat):
            await self._settle_group(name)

    async def _settle_group(self, name: str) -> None:
        """End a group and hand it over, unless that is done; its chat's order is ours.

        Another process may do so at the same time: the inbox takes it once.
        """
        await self.sharing.end_group(name, 0.0, 0)
        if messages := await self.sharing.messages(name):
            acceptance = await self._accept(album_of(name, messages, await self._terms(*messages)))
            is_taken = acceptance is not None and acceptance.kind is not AcceptKind.IGNORED
            await self.sharing.handed_over(name, keep=is_taken)

    async def _is_shown(self, draft: int, session: str) -> bool:
        """Also by the process that works on the session."""
        if self.live.turn_of_draft(draft):
            return True
        turn = (await self.gateway.now(session)).turn
        return bool(turn) and draft_id(turn) == draft

    async def _edit(self, update: Json) -> None:
        with reading():
            message = update["edited_message"]
            chat, part, name = number(message["chat"]["id"]), number(message["message_id"]), album_name(message)
            identity = f"{CHANNEL}:{number(update['update_id'])}"
        async with self._order_of(chat):
            around = await self.sharing.around(chat, part)
            known = next((each for each in around if each["has_part"] and _may_be(each, name)), None)
            if known is None and name is None:
                await self._accept(single_of(update, await self._terms(message)))
            elif known is not None:
                await self._edit_part(str(known["name"]), chat, part, message, identity, known)

    async def _edit_part(
        self, name: str, chat: int, part: int, message: Json, identity: str, group: Mapping[str, Any]
    ) -> None:
        if group["has_ended"] and not group["is_handed_over"]:
            await self._settle_group(name)
        if not await self.sharing.replace(name, part, orjson.dumps(message)):
            return
        if not group["has_ended"]:
            self._wait_for(name, chat)
        elif messages := await self.sharing.messages(name, handed_over=True):
            await self._accept(album_of(identity, messages, await self._terms(*messages), edited=True))


def _may_be(group: Mapping[str, Any], name: str | None) -> bool:
    """Whether a group is the album of this name; without a name, whether it is a long text."""
    return bool(group["name"] == name if name else str(group["name"]).startswith(TEXTS))


def _text_of(message: Json, around: Sequence[Mapping[str, Any]], sender: int) -> str | None:
    """Return the long text that a message begins, continues or belongs to; None: it stands for itself."""
    texts = [each for each in around if str(each["name"]).startswith(TEXTS)]
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


def _chat_that_may_have_moved(update: Json) -> int | None:
    """Return the group that an update comes from; None for persons, and for the message about a migration itself."""
    content: Json = next((each for each in update.values() if isinstance(each, dict)), {})
    message = content.get("message", content)
    try:
        if "migrate_to_chat_id" in message or "migrate_from_chat_id" in message:
            return None
        chat = number(message["chat"]["id"])
    except UNREADABLE:
        return None  # whatever reads it says so
    return chat if chat < 0 else None

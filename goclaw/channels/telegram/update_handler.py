"""The handler of all Telegram updates, one at a time: when `handle` returns, the update may be acknowledged.

Polling and the webhook both end here. Messages of one chat are taken in the order they came; only the parts of
an album or a long text wait for each other, on disk (see `media_groups`). Messages of groups are judged by the bot's
own id and name, which its owner may change: `Identity` asks for them.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from weakref import WeakValueDictionary

from telegram import Bot
from telegram.error import InvalidToken, TelegramError

from goclaw.channels.state import Gathered
from goclaw.channels.telegram.chat_access import ChatAccess
from goclaw.channels.telegram.chat_order import ChatOrder
from goclaw.channels.telegram.courtesies import Courtesies
from goclaw.channels.telegram.live import LiveViews
from goclaw.channels.telegram.media_groups import Group, MediaGroups, album_name, is_ended_by, is_of, text_of
from goclaw.channels.telegram.menus import Menus
from goclaw.channels.telegram.message_content import body_of, text_under
from goclaw.channels.telegram.previews import draft_id
from goclaw.channels.telegram.updates import (
    CHANNEL,
    UNREADABLE,
    Json,
    Me,
    Terms,
    album_of,
    chat_of,
    is_group,
    is_open,
    membership_of,
    message_in,
    move_of,
    number,
    person_of,
    press_of,
    query_of,
    reaction_of,
    single_of,
    stop_of,
    unread,
)
from goclaw.common.core.clock import Backoff, Clock
from goclaw.common.core.events import Acceptance, AcceptKind, GatewayPort, Inbound
from goclaw.common.core.supervise import run_with_restarts
from goclaw.errors import StateError

log = logging.getLogger(__name__)


DOUBT_SECONDS = 60.0
"""Seconds between two checks of our name because another bot is mentioned."""


class Identity:
    """Asks getMe: until it is known, and again when there is reason to doubt the name."""

    def __init__(self, bot: Bot, clock: Clock) -> None:
        self._bot = bot
        self._clock = clock
        self._me = Me(0, "")
        self._known = asyncio.Event()
        self._asked_at = 0.0

    async def learn(self) -> None:
        """Ask until Telegram says."""
        backoff = Backoff(first=0.5, longest=30.0)
        while not await self._ask():
            await self._clock.sleep(backoff.next())

    async def me(self, messages: Sequence[Json]) -> Me:
        """Return the bot's identity once known.

        It is asked for again when an unknown bot is mentioned, since our name may have changed.
        """
        await self._known.wait()
        in_doubt = self._clock.monotonic() - self._asked_at >= DOUBT_SECONDS
        if in_doubt and any(mentions_a_stranger(message, self._me) for message in messages):
            await self._ask()
        return self._me

    async def _ask(self) -> bool:
        self._asked_at = self._clock.monotonic()
        try:
            bot = await self._bot.get_me()
        except InvalidToken:
            return False  # the poll loop reports it, and ends
        except TelegramError as error:
            log.debug("getMe failed: %s", error.message)
            return False
        if self._known.is_set() and self._me.username != (bot.username or ""):
            log.info("telegram: the bot is now called @%s", bot.username)
        self._me = Me(bot.id, bot.username or "")
        self._known.set()
        return True


def mentions_a_stranger(message: Json, me: Me) -> bool:
    """Whether a message names a bot that is not us; names of bots end in `bot` (@BotFather's rule)."""
    try:
        text, entities = body_of(message)
        names = [
            text_under(text, entity).lower() for entity in entities if entity["type"] in ("mention", "bot_command")
        ]
    except UNREADABLE:
        return False
    called = [name.rpartition("@")[2] for name in names if "@" in name]
    return any(name.endswith("bot") and name != me.username.lower() for name in called)


NAMELESS = Me(0, "")
MEMBERSHIP = "my_chat_member"
"""Kind of an update about the bot's own membership."""
LOOK_SECONDS = 1.0
"""Seconds between two looks for groups that no process hands over."""
LEFT_SECONDS = 2.5
"""Seconds without a new part after which a group counts as left: longer than a live process waits with it."""


class UnreadableUpdate(Exception):
    """An update has not the shape that the Bot API describes: nothing can be taken from it, now or later."""


@contextmanager
def reading() -> Iterator[None]:
    """Around what only reads an update, so that errors of anything else are not mistaken for its fault."""
    try:
        yield
    except UNREADABLE as error:
        raise UnreadableUpdate from error


@dataclass(slots=True, eq=False)
class UpdateHandler:
    """The way in."""

    gateway: GatewayPort
    clock: Clock
    identity: Identity
    albums: MediaGroups
    access: ChatAccess
    courtesies: Courtesies
    live: LiveViews
    menus: Menus
    group: asyncio.TaskGroup
    """Has the tasks that live as long as the channel runs."""
    _chats: WeakValueDictionary[int, ChatOrder] = field(default_factory=WeakValueDictionary)
    _gathering: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """By group: it is handed over when it is whole."""

    def resume(self) -> None:
        """Take up the albums that were being gathered when the last run ended, as far as this process knows of them."""
        for name, chat in self.albums.open():
            self._hand_over_soon(name, chat)

    def end(self) -> None:
        """Leave unfinished groups to the next start, or to other processes."""
        for task in self._gathering.values():
            task.cancel()

    async def handle(self, update: Json) -> None:
        """Make one raw update durable; skip one that is not for the bot.

        Whatever the update holds, this only raises errors of the gateway and the store: then it was not taken and must
        come again. The same update may come repeatedly, also while it is being taken.
        """
        if (chat := _group_of(update)) is not None:
            await self.access.migrations.refresh(chat, is_message=MEMBERSHIP not in update)
        for kind, handle in self._KINDS.items():
            if kind in update:
                try:
                    await handle(self, update)
                except UnreadableUpdate as error:
                    unread(error, update.get("update_id"))
                return

    async def adopt_groups(self) -> None:
        """Hand over what other processes have left, until cancelled: one process's duty."""
        while True:
            for name, chat in await self.albums.list_idle(LEFT_SECONDS):
                if name not in self._gathering:
                    log.info("telegram: handing over messages that another process had gathered")
                    self._hand_over_soon(name, chat)
            await self.clock.sleep(LOOK_SECONDS)

    async def _message(self, update: Json) -> None:
        with reading():
            message = update["message"]
            move, album = move_of(message), album_name(message)
            chat, person, part = number(message["chat"]["id"]), person_of(message), number(message["message_id"])
            sender = number(person["id"]) if person else 0
            is_heard = is_open(message["chat"], self._terms_without_name())
        if move:
            # Before anything is awaited: what follows in the new chat belongs to the old session.
            await self.access.migrations.remember(move.old, move.new)
        elif is_group(message["chat"]) and not is_heard:
            self.access.unlisted.log_message(chat)
        elif person and album and is_heard:
            # Begun before it is this message's turn: the parts of an album wait for the disk together.
            gathering = asyncio.ensure_future(self._gather(album, chat, sender, message))
            try:
                async with self._order_of(chat):
                    if not await gathering:
                        await self._handle_single(update, sender, await self._around(chat, part))
            finally:
                gathering.cancel()
        elif person:
            async with self._order_of(chat):
                around = await self._around(chat, part)
                with reading():
                    text = text_of(message, around, sender) if is_heard else None
                if text is None or not await self._gather(text, chat, sender, message):
                    await self._handle_single(update, sender, around)

    async def _handle_single(self, update: Json, sender: int, around: Sequence[Group]) -> None:
        """Handle a message that belongs to no group; it ends the groups of its sender, which come first."""
        message = update["message"]
        for group in around:
            if is_ended_by(group, sender, message):
                await self._finish_group(str(group["name"]))
        await self._accept(single_of(update, await self._terms(message)))

    async def _around(self, chat: int, part: int) -> Sequence[Group]:
        try:
            return await self.albums.around(chat, part)
        except StateError:
            return ()  # the gateway refuses the message, and tells its person why

    async def _gather(self, name: str, chat: int, sender: int, message: Json) -> bool:
        """Keep a part, and have its group handed over. False: the part is a message of its own."""
        outcome = await self.albums.gather(name, chat, sender, message)
        if outcome is Gathered.KEPT:
            self._hand_over_soon(name, chat)
        return outcome is not Gathered.APART

    def _hand_over_soon(self, name: str, chat: int) -> None:
        """Have a group handed over when it is whole, which is not waited for."""
        if name not in self._gathering:
            work = run_with_restarts(name, partial(self._hand_over, name, chat), self.clock)
            task = self._gathering[name] = self.group.create_task(work)
            task.add_done_callback(lambda _: self._gathering.pop(name))

    async def _hand_over(self, name: str, chat: int) -> None:
        await self.albums.wait_until_whole(name, chat)
        async with self._order_of(chat):
            await self._finish_group(name)

    async def _finish_group(self, name: str) -> None:
        """End a group and hand it over, unless that is done; its chat's order is ours.

        Another process may do so at the same time: the inbox takes it once.
        """
        if messages := await self.albums.end(name):
            acceptance = await self._accept(album_of(name, messages, await self._terms(*messages)))
            is_taken = acceptance is not None and acceptance.kind is not AcceptKind.IGNORED
            await self.albums.note_handed_over(name, is_taken=is_taken)
        task = self._gathering.get(name)
        if task and task is not asyncio.current_task():
            task.cancel()

    async def _edit(self, update: Json) -> None:
        with reading():
            message = update["edited_message"]
            chat, part, album = number(message["chat"]["id"]), number(message["message_id"]), album_name(message)
            identity = f"{CHANNEL}:{number(update['update_id'])}"
        async with self._order_of(chat):
            known = next((each for each in await self.albums.around(chat, part) if is_of(each, album)), None)
            if known is not None:
                await self._edit_part(str(known["name"]), chat, message, identity, known)
            elif album is None:
                await self._accept(single_of(update, await self._terms(message)))

    async def _edit_part(self, name: str, chat: int, message: Json, identity: str, group: Group) -> None:
        if group["has_ended"] and not group["is_handed_over"]:
            await self._finish_group(name)
        messages = await self.albums.edit(name, message)
        if messages:
            await self._accept(album_of(identity, messages, await self._terms(*messages), edited=True))
        elif messages is not None:
            self._hand_over_soon(name, chat)

    async def _reaction(self, update: Json) -> None:
        with reading():
            inbound = reaction_of(update, self._terms_without_name())
            chat = number(update["message_reaction"]["chat"]["id"])
        async with self._order_of(chat):
            await self._accept(inbound)

    async def _stop(self, update: Json) -> None:
        with reading():
            inbound = stop_of(update, self._terms_without_name())
            draft = number(update["stopped_message_generation"]["draft_id"])
        # Not the next turn, when the displayed one has just ended.
        if inbound and await self._is_shown(draft, inbound.session):
            await self._accept(inbound)

    async def _is_shown(self, draft: int, session: str) -> bool:
        """Whether a draft shows a turn that has not ended, here or by the process that works on the session."""
        if self.live.turn_of_draft(draft):
            return True
        turn = (await self.gateway.now(session)).turn
        return bool(turn) and draft_id(turn) == draft

    async def _press(self, update: Json) -> None:
        """Let a button answer its question; any other press is answered, too, so that the button rests."""
        query, press = query_of(update), None
        with suppress(*UNREADABLE):
            press = press_of(update, self._terms_without_name())
        said = ""
        if press:
            said = (await self.gateway.choose(press.actor, press.question, press.index, press.chat)).text
        if query:
            self.courtesies.answer_press(query, said)

    async def _membership(self, update: Json) -> None:
        with reading():
            change = membership_of(update)
        if change is not None:
            self.access.note(change)

    async def _accept(self, inbound: Inbound | None) -> Acceptance | None:
        if inbound is None:
            return None
        # Who writes there can be answered there.
        chat = self.access.migrations.current(int(inbound.address.chat))
        self.access.blocked.open(chat)
        acceptance = await self.gateway.accept(inbound)
        self.live.show_acceptance(inbound, acceptance)
        if acceptance.kind is AcceptKind.TURN:
            self.courtesies.react(chat, inbound.ref)
        if inbound.actor.key not in self.menus.settled:
            self.menus.offer(inbound, self.gateway, self.group)
        return acceptance

    async def _terms(self, *messages: Json) -> Terms:
        """By what messages are judged; in a group that needs the bot's name."""
        return self._terms_of(await self.identity.me(messages))

    def _terms_without_name(self) -> Terms:
        """For what needs no name."""
        return self._terms_of(NAMELESS)

    def _terms_of(self, me: Me) -> Terms:
        return Terms(me, self.clock.now(), self.access.groups, self.access.migrations.origin)

    def _order_of(self, chat: int) -> ChatOrder:
        """Held while a message of a chat is being taken; acquired in order."""
        return self._chats.setdefault(chat, ChatOrder())

    _KINDS = MappingProxyType(
        {
            "message": _message,
            "edited_message": _edit,
            "message_reaction": _reaction,
            "callback_query": _press,
            MEMBERSHIP: _membership,
            "stopped_message_generation": _stop,
        }
    )


def _group_of(update: Json) -> int | None:
    """Return the group that an update comes from; None for persons, and for the message about a migration itself."""
    message, chat = message_in(update), chat_of(update)
    is_migration = chat is not None and ("migrate_to_chat_id" in message or "migrate_from_chat_id" in message)
    return None if chat is None or chat > 0 or is_migration else chat

"""The handler of all Telegram updates, one at a time: when `take` returns, the update may be acknowledged.

Polling and the webhook both end here. Messages of one chat are taken in the order in which they came; only the parts of
an album or a long text wait for each other, on disk (see `media_groups`). Messages of groups are judged by the bot's
own id and name, which its owner may change: `Identity` asks for them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from telegram import Bot
from telegram.error import InvalidToken, TelegramError

from goclaw.channels.telegram.chat_access import BlockedChats, UnlistedGroups
from goclaw.channels.telegram.live import LiveViews
from goclaw.channels.telegram.media_groups import MediaGroup, MediaGroups, album_name
from goclaw.channels.telegram.message_content import body_of, covered
from goclaw.channels.telegram.state_files import ChatMigrations
from goclaw.channels.telegram.updates import (
    CHANNEL,
    MAX_TOAST,
    UNREADABLE,
    Json,
    Me,
    Membership,
    Terms,
    album_of,
    is_group,
    is_open,
    membership_of,
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
from goclaw.config.schema import TelegramSettings
from goclaw.config.values import contexts_of
from goclaw.core.clock import Backoff, Clock
from goclaw.core.events import Acceptance, AcceptKind, GatewayPort, Inbound
from goclaw.core.supervise import keep_running

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
            log.info("telegram: the bot is called @%s now", bot.username)
        self._me = Me(bot.id, bot.username or "")
        self._known.set()
        return True


def mentions_a_stranger(message: Json, me: Me) -> bool:
    """Whether a message names a bot that is not us; names of bots end in `bot` (@BotFather's rule)."""
    try:
        text, entities = body_of(message)
        names = [covered(text, entity).lower() for entity in entities if entity["type"] in ("mention", "bot_command")]
    except UNREADABLE:
        return False
    called = [name.rpartition("@")[2] for name in names if "@" in name]
    return any(name.endswith("bot") and name != me.username.lower() for name in called)


NAMELESS = Me(0, "")
MAX_COURTESIES = 50
"""Maximum concurrent answers to presses, and reactions: beyond that a button just goes on blinking."""


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

    settings: TelegramSettings
    gateway: GatewayPort
    bot: Bot
    clock: Clock
    identity: Identity
    albums: MediaGroups
    migrations: ChatMigrations
    blocked: BlockedChats
    unlisted: UnlistedGroups
    live: LiveViews
    group: asyncio.TaskGroup
    """Has the tasks that live as long as the channel runs."""
    _groups: Mapping[int, int] = field(init=False)
    _chats: WeakValueDictionary[int, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _courtesies: set[asyncio.Task[None]] = field(default_factory=set)
    _gathering: dict[MediaGroup, asyncio.Task[None]] = field(default_factory=dict)
    _kinds: Mapping[str, Callable[[Json], Awaitable[None]]] = field(init=False)

    def __post_init__(self) -> None:
        self._groups = contexts_of(self.settings.groups)
        self._kinds = {
            "message": self._message,
            "edited_message": self._edit,
            "message_reaction": self._reaction,
            "callback_query": self._press,
            "my_chat_member": self._membership,
            "stopped_message_generation": self._stop,
        }

    def resume(self) -> None:
        """Take up the albums that were being gathered when the last run ended."""
        for album in self.albums.open():
            self._see_off(album)

    def end(self) -> None:
        """Leave what is being gathered to the next start."""
        for task in self._gathering.values():
            task.cancel()

    async def take(self, update: Json) -> None:
        """Make one raw update durable; skip one that is not for the bot.

        Whatever the update holds, this only raises what the gateway raises: then it was not taken and must come again.
        The same update may come repeatedly, also while it is being taken.
        """
        for kind, handle in self._kinds.items():
            if kind in update:
                try:
                    await handle(update)
                except UnreadableUpdate as error:
                    unread(error, update.get("update_id"))
                return

    async def _message(self, update: Json) -> None:
        with reading():
            message = update["message"]
            move, name = move_of(message), album_name(message)
            chat, person = number(message["chat"]["id"]), person_of(message)
            sender = number(person["id"]) if person else 0
            shut = is_group(message["chat"]) and not is_open(message["chat"], self._terms_without_name())
        if move:
            # Before anything is awaited: what follows in the new chat belongs to the old session.
            await self.migrations.remember(move.old, move.new)
        elif shut:
            self.unlisted.heard(chat)
        elif person and (name := name or self._text_of(message)) and (album := self._gather(name, message)):
            await self._part(album)
        elif person:
            async with self._order_of(chat):
                for open_album in self.albums.open_of(chat, sender):
                    await self._settle(open_album)
                await self._accept(single_of(update, await self._terms(message)))

    def _text_of(self, message: Json) -> str | None:
        with reading():
            return self.albums.text_of(message)

    def _gather(self, name: str, message: Json) -> MediaGroup | None:
        with reading():
            if not is_open(message["chat"], self._terms_without_name()):
                return None
            return self.albums.gather(name, message)

    async def _part(self, album: MediaGroup) -> None:
        """Have a part on disk, and its album handed over when it is whole, which is not waited for."""
        await self.albums.keep()
        self._see_off(album)

    def _see_off(self, album: MediaGroup) -> None:
        if album not in self._gathering:
            work = keep_running(album.name, partial(self._hand_over, album), self.clock)
            task = self._gathering[album] = self.group.create_task(work)
            task.add_done_callback(lambda _: self._gathering.pop(album))

    async def _hand_over(self, album: MediaGroup) -> None:
        await album.whole(self.clock)
        async with self._order_of(album.chat):
            await self._settle(album)

    async def _settle(self, album: MediaGroup) -> None:
        """Hand an album over, unless its sender's next message has; its chat's order is ours."""
        if self.albums.is_open(album):
            messages = await self.albums.decide(album)
            await self._accept(album_of(album.name, messages, await self._terms(*messages)))
            await self.albums.handed_over(album)

    async def _edit(self, update: Json) -> None:
        with reading():
            message = update["edited_message"]
            chat, name = number(message["chat"]["id"]), album_name(message) or self.albums.text_with(message)
            identity = f"{CHANNEL}:{number(update['update_id'])}"
        if name and (album := self.albums.replace(name, message)):
            await self._part(album)
            return
        async with self._order_of(chat):
            terms = await self._terms(message)
            if name is None:
                await self._accept(single_of(update, terms))
            elif messages := self.albums.edit(name, message):
                await self._accept(album_of(identity, messages, terms, edited=True))

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
        """Whether a draft shows a turn that has not ended."""
        return bool(self.live.turn_of_draft(draft))

    async def _press(self, update: Json) -> None:
        """Let a button answer its question; what is no such press is answered, too, so that the button rests."""
        query, press = query_of(update), None
        with suppress(*UNREADABLE):
            press = press_of(update, self._terms_without_name())
        said = (await self.gateway.choose(press.actor, press.question, press.index)).text if press else ""
        if query:
            self._best_effort(self.bot.answer_callback_query(query, said[:MAX_TOAST] or None))

    def _best_effort(self, request: Coroutine[Any, Any, bool]) -> None:
        """Make a request in the background; a failure is only logged."""

        async def tried() -> None:
            try:
                await request
            except TelegramError as error:
                log.debug("a press or a message could not be acknowledged: %s", error.message)

        if len(self._courtesies) >= MAX_COURTESIES:
            request.close()
            return
        task = self.group.create_task(tried())
        self._courtesies.add(task)
        task.add_done_callback(self._courtesies.discard)

    async def _membership(self, update: Json) -> None:
        with reading():
            change = membership_of(update)
        if change is None:
            return
        if change.reachable:
            self.blocked.open(change.chat)
        else:
            self.blocked.blocked(change.chat)
        if not change.private:
            self._of_group(change)

    def _of_group(self, change: Membership) -> None:
        what = "is in" if change.reachable else "was taken out of"
        log.info("telegram: the bot %s group %d now, by %d", what, change.chat, change.by)
        listed = {change.chat, self.migrations.origin(change.chat)} & set(self._groups)
        if not change.reachable:
            self.unlisted.left(change.chat)
        elif not listed:
            self.unlisted.joined(change.chat, change.by)

    async def _accept(self, inbound: Inbound | None) -> Acceptance | None:
        if inbound is None:
            return None
        # Who writes there can be answered there.
        chat = self.migrations.current(int(inbound.address.chat))
        self.blocked.open(chat)
        acceptance = await self.gateway.accept(inbound)
        self.live.accepted(inbound, acceptance)
        if self.settings.ack_reaction and acceptance.kind is AcceptKind.TURN:
            message = int(inbound.ref.rpartition(":")[2])
            self._best_effort(self.bot.set_message_reaction(chat, message, self.settings.ack_reaction))
        return acceptance

    async def _terms(self, *messages: Json) -> Terms:
        """By what messages are judged; in a group that needs the bot's name."""
        return self._terms_of(await self.identity.me(messages))

    def _terms_without_name(self) -> Terms:
        """For what needs no name."""
        return self._terms_of(NAMELESS)

    def _terms_of(self, me: Me) -> Terms:
        return Terms(me, self.clock.now(), self._groups, self.migrations.origin)

    def _order_of(self, chat: int) -> asyncio.Lock:
        """Held while a message of a chat is being taken; acquired in order."""
        return self._chats.setdefault(chat, asyncio.Lock())

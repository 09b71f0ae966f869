"""What Telegram remembers, and what people do in it: chats, messages, files, updates that wait for the bot."""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from goclaw.common.core.clock import Clock, RealClock
from tests.fake_telegram.rules import bad_request, found_entities, scope_of

BOT = {
    "id": 42,
    "is_bot": True,
    "first_name": "Claw",
    "username": "claw_bot",
    "can_join_groups": True,
    "can_read_all_group_messages": False,
    "supports_inline_queries": False,
}
BOT_NAME = "@claw_bot"
TOKEN = "42:AAfake-token-of-the-fake-telegram-001"

Json = dict[str, Any]


APART_SECONDS = 2
"""Between the dates of messages that are thoughts of their own."""


@dataclass(frozen=True)
class Sent:
    """A message of the bot as people see it now, after all edits."""

    chat: int
    message_id: int
    text: str
    """The text, or the caption of a file."""
    entities: tuple[Json, ...] = ()
    reply_to: int | None = None
    thread: int | None = None
    file_name: str = ""
    file: bytes | None = None
    reactions: tuple[str, ...] = ()
    edits: int = 0
    first_text: str = ""
    """The text as it was sent."""
    keyboard: tuple[tuple[Json, ...], ...] = ()
    """Rows of inline buttons."""


@dataclass
class World:
    """The state behind the fake; its methods are what people do in their clients."""

    clock: Clock = field(default_factory=RealClock)
    messages: dict[tuple[int, int], Json] = field(default_factory=dict)
    reactions: dict[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)
    signs: dict[tuple[int, int, int], tuple[str, ...]] = field(default_factory=dict)
    """Reactions of people."""
    edits: dict[tuple[int, int], int] = field(default_factory=dict)
    first_texts: dict[tuple[int, int], str] = field(default_factory=dict)
    """Of messages that were edited."""
    files: dict[str, bytes] = field(default_factory=dict)
    file_names: dict[str, str] = field(default_factory=dict)
    updates: list[Json] = field(default_factory=list)
    confirmed: list[int] = field(default_factory=list)
    """Ids of the updates that the bot acknowledged with a higher offset."""
    dated: dict[int, int] = field(default_factory=dict)
    """When each person wrote last, in epoch seconds."""
    known_chats: set[int] = field(default_factory=set)
    blocked_by: set[int] = field(default_factory=set)
    """Chats whose person blocked the bot."""
    closed_topics: set[tuple[int, int | None]] = field(default_factory=set)
    """Topics of groups where only their admins can write, which the bot is not; None: General."""
    callbacks: set[str] = field(default_factory=set)
    commands: dict[str, list[Json]] = field(default_factory=dict)
    admins: dict[int, list[int]] = field(default_factory=dict)
    """The people who administer groups, by chat."""
    drafts: dict[int, Json] = field(default_factory=dict)
    """The draft that a private chat shows now; any message takes its place."""
    webhook: str = ""
    webhook_settings: Json = field(default_factory=dict)
    """What else the bot said when it set the webhook."""
    webhook_error: str = ""
    webhook_error_at: int = 0
    """Why the latest call failed, and when in epoch seconds."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    """Notified after every update and every answered call."""
    update_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1000))
    message_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    file_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    album_ids: Iterator[int] = field(default_factory=lambda: itertools.count(13_000))

    async def say(
        self,
        text: str = "",
        *,
        user: int = 5,
        chat: int | None = None,
        name: str = "Ann",
        topic: int | None = None,
        reply_to: int | None = None,
        photo: bytes | None = None,
        document: bytes | None = None,
        mime: str = "application/octet-stream",
        file_name: str = "file.bin",
        right_behind: bool = False,
        **raw: Any,
    ) -> Json:
        """A person writes: in private (`chat` not given), or in the group `chat` (a negative id).

        Messages of a person are dated two seconds apart at least, whenever they come, but for one that goes
        `right_behind` the one before, as the second half of a thought (`sessions.queueing.burst`).

        `raw` replaces or adds fields of the message (`sender_chat={…}`; a field set to None is left out). Returns the
        update, as the bot will get it.
        """
        place = user if chat is None else chat
        message = self.new_message(place, person(user, name), topic=topic)
        if not right_behind:
            message["date"] = max(message["date"], self.dated.get(user, 0) + APART_SECONDS)
        self.dated[user] = message["date"]
        body = "caption" if photo is not None or document is not None else "text"
        if text:
            message[body] = text
            message["caption_entities" if body == "caption" else "entities"] = found_entities(text)
        if photo is not None:
            message["photo"] = self.photo_sizes(photo)
        if document is not None:
            message["document"] = self.keep_file(document, file_name) | {"mime_type": mime, "file_name": file_name}
        if reply_to is not None:
            message["reply_to_message"] = self.find(place, reply_to)
        message = {key: value for key, value in (message | raw).items() if value is not None}
        self.messages[place, message["message_id"]] = message
        return await self.update("message", message)

    async def album(
        self, *photos: bytes, text: str = "", user: int = 5, chat: int | None = None, **raw: Any
    ) -> list[Json]:
        """A person sends several pictures as one album; the caption belongs to the first. Returns the updates."""
        group = str(next(self.album_ids))
        return [
            await self.say("" if number else text, user=user, chat=chat, photo=photo, media_group_id=group, **raw)
            for number, photo in enumerate(photos)
        ]

    async def edit(self, chat: int, message_id: int, text: str) -> Json:
        """A person changes what they wrote."""
        message = self.find(chat, message_id, "to edit")
        body = "caption" if "photo" in message or "document" in message else "text"
        marks = "caption_entities" if body == "caption" else "entities"
        # The update that brought the first version stays as it was.
        message = message | {body: text, marks: found_entities(text), "edit_date": int(self.clock.now())}
        self.messages[chat, message_id] = message
        return await self.update("edited_message", message)

    async def share_live_location(
        self, latitude: float, longitude: float, *, user: int = 5, live_period: int = 900
    ) -> Json:
        """A person begins to share where they are, in private."""
        place = {"latitude": latitude, "longitude": longitude, "live_period": live_period}
        return await self.say(user=user, location=place)

    async def move(self, chat: int, message_id: int, latitude: float, longitude: float, *, last: bool = False) -> Json:
        """The person is elsewhere; `last`: and shares it no longer (`live_period` is there while it is shared)."""
        message = self.find(chat, message_id, "to edit")
        place = message["location"] | {"latitude": latitude, "longitude": longitude}
        if last:
            del place["live_period"]
        message = message | {"location": place, "edit_date": int(self.clock.now())}
        self.messages[chat, message_id] = message
        return await self.update("edited_message", message)

    async def close_topic(self, chat: int, topic: int | None, *, user: int = 5) -> Json:
        """An admin of a group closes a topic, or General."""
        self.closed_topics.add((chat, topic))
        message = self.new_message(chat, person(user, "Ann"), topic=topic) | {"forum_topic_closed": {}}
        return await self.update("message", message)

    async def react(self, chat: int, message_id: int, *emoji: str, user: int = 5, name: str = "Ann") -> Json:
        """A person's reactions to a message are these from now on; the bot hears of it where it may."""
        message = self.find(chat, message_id)
        before, now = self.signs.get((chat, message_id, user), ()), emoji
        self.signs[chat, message_id, user] = now
        changed = {"chat": message["chat"], "message_id": message_id, "user": person(user, name)}
        lists = {
            field: [{"type": "emoji", "emoji": each} for each in signs]
            for field, signs in (("old_reaction", before), ("new_reaction", now))
        }
        return await self.update("message_reaction", changed | {"date": int(self.clock.now())} | lists)

    async def stop_draft(self, user: int) -> Json:
        """A person presses the Stop button below the draft that they see."""
        stopped = {"chat": chat_of(user), "draft_id": self.drafts.get(user, {}).get("draft_id", 1)}
        return await self.update("stopped_message_generation", stopped)

    async def place(self, status: str, *, user: int = 5, chat: int | None = None, **more: Any) -> Json:
        """A person blocks the bot or lets it back in (private), takes it out of a group or adds it."""
        where = chat_of(user if chat is None else chat)
        self.meet(where["id"])
        (self.blocked_by.add if status in ("kicked", "left") else self.blocked_by.discard)(where["id"])
        changed = {"chat": where, "from": person(user, "Ann"), "date": int(self.clock.now())}
        before, after = {"status": "member", "user": BOT}, {"status": status, "user": BOT, **more}
        if status == "kicked":
            after["until_date"] = 0
        return await self.update("my_chat_member", changed | {"old_chat_member": before, "new_chat_member": after})

    async def migrate(self, old: int, new: int, *, user: int = 5) -> list[Json]:
        """A group becomes a supergroup with another id; both get a service message."""
        self.known_chats.discard(old)
        there = self.new_message(new, person(user, "Ann")) | {"migrate_from_chat_id": old}
        here = self.new_message(old, person(user, "Ann")) | {"migrate_to_chat_id": new}
        here["chat"] = {"id": old, "type": "group", "title": f"Group {old}"}
        self.known_chats.discard(old)
        return [await self.update("message", here), await self.update("message", there)]

    async def press(self, chat: int, message_id: int, data: str, *, user: int = 5) -> Json:
        """A person presses an inline button."""
        query = f"query-{next(self.file_ids)}"
        self.callbacks.add(query)
        pressed = {"id": query, "from": person(user, "Ann"), "chat_instance": "1", "data": data}
        return await self.update("callback_query", pressed | {"message": self.find(chat, message_id)})

    async def update(self, kind: str, content: Json) -> Json:
        """Anything happens: `update("edited_message", {...})`."""
        update = {"update_id": next(self.update_ids), kind: content}
        self.updates.append(update)
        await self.notify()
        return update

    def menu(self, person: int) -> list[str]:
        """The commands in the menu that a person sees in the private chat with the bot."""
        own = self.commands.get(scope_of({"type": "chat", "chat_id": person}))
        return [each["command"] for each in own or self.commands.get(scope_of({"type": "default"}), [])]

    def meet(self, chat: int) -> None:
        """Make a chat known without a message: the bot may write there."""
        self.known_chats.add(chat)

    async def notify(self) -> None:
        """Wake everyone who waits for a change."""
        async with self.changed:
            self.changed.notify_all()

    def confirm(self, offset: int) -> None:
        """Forget the updates below `offset`: the bot has them."""
        self.confirmed += [update["update_id"] for update in self.updates if update["update_id"] < offset]
        self.updates = [update for update in self.updates if update["update_id"] >= offset]

    def confirm_one(self, update_id: int) -> None:
        """Forget one update: the webhook took it."""
        self.confirmed.append(update_id)
        self.updates = [update for update in self.updates if update["update_id"] != update_id]

    def new_message(self, chat: int, author: Json, *, topic: int | None = None) -> Json:
        """An empty message; it is not in the chat until it is put into `messages`."""
        self.known_chats.add(chat)
        stamp = int(self.clock.now())
        message = {"message_id": next(self.message_ids), "date": stamp, "chat": chat_of(chat), "from": author}
        if topic is not None:
            message |= {"message_thread_id": topic, "is_topic_message": True}
        return message

    def find(self, chat: int, message_id: int, purpose: str = "to be replied") -> Json:
        """A message of a chat.

        Raises:
            ApiError: `message <purpose> not found`, in the real server's words.
        """
        try:
            return self.messages[chat, message_id]
        except KeyError:
            raise bad_request(f"message {purpose} not found") from None

    def keep_file(self, content: bytes, name: str) -> Json:
        """Put a file into Telegram; returns its identity and size."""
        number = f"file-{next(self.file_ids)}"
        self.files[number] = content
        self.file_names[number] = name
        return {"file_id": number, "file_unique_id": number, "file_size": len(content)}

    def photo_sizes(self, content: bytes) -> list[Json]:
        """A picture in two sizes, the small one first, as Telegram does."""
        small = self.keep_file(content[: len(content) // 4], "small.jpg") | {"width": 90, "height": 90}
        return [small, self.keep_file(content, "photo.jpg") | {"width": 1280, "height": 1280}]

    def sent(self, chat: int | None = None) -> list[Sent]:
        """What the bot's messages say now, oldest first; deleted ones are gone. All chats without `chat`."""
        return [
            self.as_seen(place, number, message)
            for (place, number), message in sorted(self.messages.items(), key=lambda item: item[0][1])
            if message["from"] == BOT and chat in (None, place)
        ]

    def as_seen(self, chat: int, number: int, message: Json) -> Sent:
        """One message of the bot."""
        kind = next((kind for kind in ("document", "voice", "audio", "video") if kind in message), "")
        media: Sequence[Json] = [message[kind]] if kind else message.get("photo", [])
        file_id = media[-1]["file_id"] if media else ""
        return Sent(
            chat=chat,
            message_id=number,
            text=message.get("text") or message.get("caption") or "",
            entities=tuple(message.get("entities") or message.get("caption_entities") or ()),
            reply_to=message.get("reply_to_message", {}).get("message_id"),
            thread=message.get("message_thread_id"),
            file_name=self.file_names.get(file_id, ""),
            file=self.files.get(file_id),
            reactions=self.reactions.get((chat, number), ()),
            edits=self.edits.get((chat, number), 0),
            first_text=self.first_texts.get((chat, number)) or message.get("text") or "",
            keyboard=tuple(tuple(row) for row in message.get("reply_markup", {}).get("inline_keyboard", ())),
        )


def person(user: int, name: str) -> Json:
    """A human account."""
    return {"id": user, "is_bot": False, "first_name": name, "username": f"{name.lower()}_{user}"}


def chat_of(chat: int) -> Json:
    """A private chat for positive ids, a forum group for negative ones."""
    if chat > 0:
        return {"id": chat, "type": "private", "first_name": "Ann"}
    return {"id": chat, "type": "supergroup", "title": f"Group {chat}", "is_forum": True}

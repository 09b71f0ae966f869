"""Conversion of a raw Telegram update to an inbound message; None for updates that are not for the bot.

The sender is the numeric id in `from` and nothing else: names can be changed and taken over. A message in the name of
a chat (an anonymous admin, a channel, an automatic forward) has no sender: each admin could have written it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from goclaw.channels.telegram.files import files_of
from goclaw.channels.telegram.replies import files_answered, forwarded_from, quotes_in
from goclaw.channels.telegram.texts import backwards, body_of, covered, cut_out, name_of, shortened, with_target
from goclaw.events import Actor, Address, Attachment, Beside, Inbound
from goclaw.messages import Piece, Provenance, SourceKind, joined
from goclaw.records import record

log = logging.getLogger(__name__)

CHANNEL = "telegram"
FORWARDED = Provenance(SourceKind.FORWARDED)
GENERAL_TOPIC = 1
"""Thread id of the topic that every forum has (Telegram's forums API): its messages are the group's own."""
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError)
"""The errors raised by reading an update of another shape than the Bot API describes."""

Json = Mapping[str, Any]


@record
class Me:
    """The bot itself, as getMe says."""

    id: int
    username: str


def itself(chat: int) -> int:
    """Return the chat's own id, where no chat was migrated."""
    return chat


@record
class Terms:
    """By what a message is judged."""

    me: Me
    now: float
    groups: Mapping[int, int] = field(default_factory=dict)
    """Groups where the bot may answer, each with the number of earlier messages it reads before one to it."""
    origin: Callable[[int], int] = itself
    """The first id of a chat: a group that became a supergroup goes on with its session."""

    def context_of(self, chat: int) -> int | None:
        """Return the number of earlier messages the bot reads in a group; None: it may not answer there."""
        return self.groups.get(chat, self.groups.get(self.origin(chat)))


def inbound_of(update: Json, me: Me, now: float, groups: Sequence[int] = ()) -> Inbound | None:
    """Return the message in `update`, or the new version of one; None where there is nothing for us. Never raises."""
    return single_of(update, Terms(me, now, dict.fromkeys(groups, 0)))


def single_of(update: Json, terms: Terms) -> Inbound | None:
    """Return the message in `update`, as `inbound_of` does, by all terms."""
    try:
        identity = f"{CHANNEL}:{number(update['update_id'])}"
        if (message := update.get("edited_message")) is not None:
            return read_messages(identity, [message], terms, edited=True)
        message = update.get("message")
        return None if message is None else read_messages(identity, [message], terms)
    except UNREADABLE as error:
        unread(error, update.get("update_id"))
        return None


def album_of(identity: str, messages: Sequence[Json], terms: Terms, *, edited: bool = False) -> Inbound | None:
    """Return the messages of one album as one. Never raises."""
    try:
        return read_messages(identity, messages, terms, edited=edited)
    except UNREADABLE as error:
        unread(error, identity)
        return None


def unread(error: Exception, name: object) -> None:
    """Log an update of unknown shape."""
    log.warning("update %s has a shape that is not known; it is skipped", name)
    log.debug("what was odd: %s", type(error).__name__)


def read_messages(identity: str, messages: Sequence[Json], terms: Terms, *, edited: bool = False) -> Inbound | None:
    """See `inbound_of`; raises where a message has an unknown shape. Several messages are one album of one person."""
    first = messages[0]
    if not (sender := person_of(first)) or not is_open(first["chat"], terms):
        return None
    in_group, beside = is_group(first["chat"]), None
    if in_group and not any(is_addressed(message, terms.me) for message in messages):
        keep = terms.context_of(number(first["chat"]["id"]))
        if not keep:
            return None
        beside = Beside("said", keep)
    chat_id, sender_id, message_id = number(first["chat"]["id"]), number(sender["id"]), number(first["message_id"])
    thread = topic_of(first)
    session = f"{CHANNEL}:{terms.origin(chat_id) if in_group else sender_id}"
    files = [files_of(message) for message in messages]
    answered, lines = files_answered(messages, terms.me.id)
    attachments = (*(attachment for found, _ in files for attachment in found), *answered)
    origins = [forwarded_from(message) for message in messages]
    notes: list[Piece] = [
        (note, origin, FORWARDED) if origin else (note, "")
        for origin, (_, found) in zip(origins, files, strict=True)
        for note in found
    ]
    text, foreign = joined(words_of(messages, terms.me, notes, lines))
    if beside:
        text, attachments = "\n".join(filter(None, [text, *map(_in_words, attachments)])), ()
    if not text and not attachments:
        return None
    return Inbound(
        id=identity,
        actor=actor_of(sender),
        session=f"{session}:{thread}" if thread else session,
        text=text,
        address=Address(CHANNEL, str(chat_id), thread, str(message_id) if in_group else None),
        received_at=terms.now,
        attachments=attachments,
        ref=f"{CHANNEL}:{chat_id}:{message_id}",
        edited=edited,
        foreign=foreign,
        sent_at=float(number(messages[-1].get("date", 0))),
        forwarded=any(origins),
        beside=beside,
    )


def _in_words(attachment: Attachment) -> str:
    """Describe a file that is not opened."""
    return f"[{' '.join([attachment.kind, shortened(attachment.name, 100)]).strip()}]"


def is_group(chat: Json) -> bool:
    """Whether several people may write in a chat."""
    return chat["type"] in ("group", "supergroup")


def is_open(chat: Json, terms: Terms) -> bool:
    """Whether the bot may answer in a chat: in private, and in the groups that are listed; never in channels."""
    chat_id = number(chat["id"])
    if is_group(chat):
        return terms.context_of(chat_id) is not None
    return bool(chat["type"] == "private")


def topic_of(message: Json) -> str | None:
    """Return the forum topic of a message; none for the General topic, which is the group itself."""
    thread = number(message["message_thread_id"]) if message.get("is_topic_message") else GENERAL_TOPIC
    return None if thread == GENERAL_TOPIC else str(thread)


def actor_of(person: Json) -> Actor:
    """Return the actor for a person: the numeric id."""
    return Actor(key=f"{CHANNEL}:{number(person['id'])}", entry=CHANNEL, name=name_of(person))


def number(value: Any) -> int:
    """Return an id as Telegram writes it; TypeError for anything else: a key made of it could be another person's."""
    if type(value) is not int:
        raise TypeError(f"expected an id, got {type(value).__name__}")
    return value


def person_of(message: Json) -> Json | None:
    """Return the human who wrote; None for bots and for messages in the name of a chat."""
    sender: Json | None = message.get("from")
    if sender is None or message.get("sender_chat") or message.get("is_automatic_forward"):
        return None
    return None if sender.get("is_bot") else sender


def is_addressed(message: Json, me: Me) -> bool:
    """Whether a message in a group is meant for the bot: a mention, a reply to it, or a command that may be its own."""
    if message.get("reply_to_message", {}).get("from", {}).get("id") == me.id:
        return True
    text, entities = body_of(message)
    return any(mentions(text, entity, me) or is_my_command(text, entity, me) for entity in entities)


def mentions(text: str, entity: Json, me: Me) -> bool:
    """Whether an entity names the bot."""
    if entity["type"] == "text_mention":
        return bool(entity["user"]["id"] == me.id)
    return entity["type"] == "mention" and covered(text, entity).lower() == f"@{me.username}".lower()


def is_my_command(text: str, entity: Json, me: Me) -> bool:
    """Whether the message begins with `/name` or `/name@bot`; as in privacy mode, a bare command is for every bot."""
    if entity["type"] != "bot_command" or entity["offset"] != 0:
        return False
    _, _, addressed = covered(text, entity).partition("@")
    return addressed.lower() in ("", me.username.lower())


def words_of(messages: Sequence[Json], me: Me, notes: Sequence[Piece], answered: Sequence[Piece] = ()) -> list[Piece]:
    """Return the text without the bot's name, and the texts it refers to, each with its origin (empty: the sender).

    An album may have several captions. `answered`: descriptions of files of the replied-to message.
    """
    texts: list[Piece] = [
        (text, forwarded_from(message), FORWARDED) for message in messages if (text := said_in(message, me))
    ]
    lead = next((message for message in messages if body_of(message)[0]), messages[0])
    # What was forwarded are another's words: a command in it is not the sender's.
    if texts and texts[0][0].startswith("/") and not forwarded_from(lead):
        return texts[:1]
    origin = forwarded_from(lead)
    forwarded = [(f"[{origin[0].upper()}{origin[1:]}]", origin, FORWARDED)] if origin else []
    return [*quotes_in(lead, me.id), *answered, *forwarded, *texts, *dict.fromkeys(notes)]


def said_in(message: Json, me: Me) -> str:
    """Return the text of one message without the bot's name, with what lies behind links and mentions."""
    text, entities = body_of(message)
    for entity in backwards(entities):
        if mentions(text, entity, me):
            text = cut_out(text, entity)
        elif is_my_command(text, entity, me):
            text = covered(text, entity).partition("@")[0] + text[len(covered(text, entity)) :]
        else:
            text = with_target(text, entity)
    return text.strip()

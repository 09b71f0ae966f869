"""Raw Telegram updates as typed values: messages and edits, reactions, button presses, migrations, memberships.

The sender of a message is the numeric id in `from` and nothing else: names can be changed and taken over. A message in
the name of a chat (an anonymous admin, a channel, an automatic forward) has no sender: each admin could have written
it. Reading a message never raises: one of unknown shape is logged and skipped. The readers of all other kinds return
nothing where an update is not of their kind, and raise one of `UNREADABLE` where it is, but has an unknown shape.

A button's data is `q:<question id>:<index of the option>` (see `sender`). Clients may send any data for any message, so
it holds no answer: the gateway looks the option up among those of the question, which must be open and for this person
to answer.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from goclaw.channels.telegram.message_content import (
    backwards,
    body_of,
    cut_out,
    files_of,
    name_of,
    shorten,
    text_under,
    with_target,
)
from goclaw.channels.telegram.replies import files_of_replies, forwarded_from, quotes_in
from goclaw.common.core.events import Actor, Address, Attachment, Beside, Inbound
from goclaw.common.core.messages import Piece, Provenance, SourceKind, join
from goclaw.common.core.records import record

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
    """The terms that a message is judged by."""

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
    log.warning("skipped update %s: its shape is unknown", name)
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
    answered, lines = files_of_replies(messages, terms.me.id)
    attachments = (*(attachment for found, _ in files for attachment in found), *answered)
    origins = [forwarded_from(message) for message in messages]
    notes: list[Piece] = [
        (note, origin, FORWARDED) if origin else (note, "")
        for origin, (_, found) in zip(origins, files, strict=True)
        for note in found
    ]
    text, foreign = join(words_of(messages, terms.me, notes, lines))
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
    return f"[{' '.join([attachment.kind, shorten(attachment.name, 100)]).strip()}]"


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


def message_in(update: Json) -> Json:
    """Return the message that an update is about, or the part of it that names its chat."""
    content: Json = next((each for each in update.values() if isinstance(each, dict)), {})
    message: Json = content.get("message", content)
    return message


def chat_of(update: Json) -> int | None:
    """Return the chat that an update comes from; None: it names none."""
    try:
        return number(message_in(update)["chat"]["id"])
    except UNREADABLE:
        return None  # whatever reads it says so


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
    return entity["type"] == "mention" and text_under(text, entity).lower() == f"@{me.username}".lower()


def is_my_command(text: str, entity: Json, me: Me) -> bool:
    """Whether the message begins with `/name` or `/name@bot`; as in privacy mode, a bare command is for every bot."""
    if entity["type"] != "bot_command" or entity["offset"] != 0:
        return False
    _, _, addressed = text_under(text, entity).partition("@")
    return addressed.lower() in ("", me.username.lower())


def words_of(messages: Sequence[Json], me: Me, notes: Sequence[Piece], answered: Sequence[Piece] = ()) -> list[Piece]:
    """Return the text without the bot's name, and the texts it refers to, each with its origin (empty: the sender).

    An album may have several captions. `answered`: descriptions of files of the replied-to message.
    """
    texts: list[Piece] = [
        (text, forwarded_from(message), FORWARDED) for message in messages if (text := text_of(message, me))
    ]
    lead = next((message for message in messages if body_of(message)[0]), messages[0])
    # What was forwarded are another's words: a command in it is not the sender's.
    if texts and texts[0][0].startswith("/") and not forwarded_from(lead):
        return texts[:1]
    origin = forwarded_from(lead)
    forwarded = [(f"[{origin[0].upper()}{origin[1:]}]", origin, FORWARDED)] if origin else []
    return [*quotes_in(lead, me.id), *answered, *forwarded, *texts, *dict.fromkeys(notes)]


def text_of(message: Json, me: Me) -> str:
    """Return the text of one message without the bot's name, with the targets of links and mentions."""
    text, entities = body_of(message)
    for entity in backwards(entities):
        if mentions(text, entity, me):
            text = cut_out(text, entity)
        elif is_my_command(text, entity, me):
            text = text_under(text, entity).partition("@")[0] + text[len(text_under(text, entity)) :]
        else:
            text = with_target(text, entity)
    return text.strip()


STOP = "/stop"
MAX_SIGN = 16
"""Maximum characters of an emoji; families of people have about ten."""
GONE_STATUSES = frozenset({"left", "kicked"})
"""Statuses of a chat member that is not in the chat (Bot API, ChatMember).

In a private chat `kicked` is how a person blocks the bot.
"""


@record
class ChatMigration:
    """A group became a supergroup."""

    old: int
    new: int


@record
class Membership:
    """A change of the bot's own place in a chat."""

    chat: int
    reachable: bool
    private: bool
    by: int


def move_of(message: Json) -> ChatMigration | None:
    """Return the migration in a service message; both chats get one."""
    here = number(message["chat"]["id"]) if "migrate_to_chat_id" in message or "migrate_from_chat_id" in message else 0
    if "migrate_to_chat_id" in message:
        move = ChatMigration(here, number(message["migrate_to_chat_id"]))
    elif "migrate_from_chat_id" in message:
        move = ChatMigration(number(message["migrate_from_chat_id"]), here)
    else:
        return None
    # Ids of groups are negative: a person's chat never becomes another.
    return move if move.old < 0 and move.new < 0 else None


def membership_of(update: Json) -> Membership | None:
    """Whether the bot can (still, again) write in a chat."""
    changed = update.get("my_chat_member")
    if changed is None:
        return None
    chat, member = changed["chat"], changed["new_chat_member"]
    inside = member["status"] not in GONE_STATUSES and member.get("is_member", True) is not False
    private = not is_group(chat) and chat["type"] == "private"
    return Membership(number(chat["id"]), inside, private, number(changed["from"]["id"]))


def reaction_of(update: Json, terms: Terms) -> Inbound | None:
    """Return a person's change of their reactions to a message; the update does not name the message's author."""
    changed = update["message_reaction"]
    chat, person = changed["chat"], changed.get("user")
    # Without a user the reaction was made in the name of a chat.
    if person is None or person.get("is_bot") or not is_open(chat, terms):
        return None
    before, now = _signs(changed["old_reaction"]), _signs(changed["new_reaction"])
    added, gone = [sign for sign in now if sign not in before], [sign for sign in before if sign not in now]
    if not added and not gone:
        return None
    chat_id, actor = number(chat["id"]), actor_of(person)
    where = terms.origin(chat_id) if is_group(chat) else number(person["id"])
    return Inbound(
        id=f"{CHANNEL}:{number(update['update_id'])}",
        actor=actor,
        session=f"{CHANNEL}:{where}",
        text=f"reacted with {' '.join(added)} to" if added else f"removed {' '.join(gone)} from",
        address=Address(CHANNEL, str(chat_id)),
        received_at=terms.now,
        beside=Beside("reaction", on=str(number(changed["message_id"]))),
    )


def _signs(reactions: Sequence[Json]) -> list[str]:
    """Reactions as people see them; what bears no sign is named."""
    named = {"custom_emoji": "a custom emoji", "paid": "a paid star"}
    return [
        shorten(str(each["emoji"]), MAX_SIGN) if each["type"] == "emoji" else named.get(each["type"], "a reaction")
        for each in reactions
    ]


def stop_of(update: Json, terms: Terms) -> Inbound | None:
    """Return the press of the Stop button below an unfinished answer: the same as `/stop` of the person there.

    Only private chats have drafts, and a private chat has the number of its person; the update names no other.
    """
    stopped = update.get("stopped_message_generation")
    if stopped is None or stopped["chat"]["type"] != "private" or not is_open(stopped["chat"], terms):
        return None
    person = number(stopped["chat"]["id"])
    thread = topic_of({"is_topic_message": "message_thread_id" in stopped, **stopped})
    return Inbound(
        id=f"{CHANNEL}:{number(update['update_id'])}",
        actor=Actor(key=f"{CHANNEL}:{person}", entry=CHANNEL),
        session=f"{CHANNEL}:{person}:{thread}" if thread else f"{CHANNEL}:{person}",
        text=STOP,
        address=Address(CHANNEL, str(person), thread),
        received_at=terms.now,
    )


BUTTON_DATA = re.compile(r"q:([A-Za-z0-9]{1,32}):([0-9]{1,2})", re.ASCII)
MAX_QUERY_ID = 256
"""Maximum characters of a query's id; Telegram's own have about twenty."""
MAX_TOAST = 200
"""Maximum characters of the answer to a press (Bot API, answerCallbackQuery)."""


@record
class CallbackQuery:
    """A person pressed a button of ours."""

    actor: Actor
    question: str
    index: int
    """Among the options of the question, from 0."""
    chat: Address
    """Where the button stands."""


def query_of(update: Json) -> str | None:
    """Return the id with which to answer a press; None without a valid one."""
    query = update.get("callback_query")
    found = query.get("id") if isinstance(query, dict) else None
    return found if isinstance(found, str) and 0 < len(found) <= MAX_QUERY_ID else None


def press_of(update: Json, terms: Terms) -> CallbackQuery | None:
    """Return the press of one of our buttons where we may answer.

    Raises:
        KeyError, TypeError …: see `UNREADABLE`.
    """
    query = update["callback_query"]
    found = BUTTON_DATA.fullmatch(query["data"]) if isinstance(query.get("data"), str) else None
    person, message = query["from"], query.get("message")
    # Without a message its chat is unknown: that is how inline results of others look.
    if found is None or message is None or person.get("is_bot") is not False:
        return None
    chat = message["chat"]
    if not is_open(chat, terms) or not (is_group(chat) or number(chat["id"]) == number(person["id"])):
        return None
    return CallbackQuery(actor_of(person), found[1], int(found[2]), Address(CHANNEL, str(number(chat["id"]))))

"""Telegram's service updates: migrated groups, chats that block or unblock the bot, the Stop button, reactions.

Readers of raw updates: each returns nothing where an update is not of its kind, and raises one of
`inbound.UNREADABLE` where it is, but has an unknown shape.
"""

from collections.abc import Sequence

from goclaw.channels.telegram.inbound import CHANNEL, Json, Terms, actor_of, is_group, is_open, number, topic_of
from goclaw.channels.telegram.texts import shortened
from goclaw.events import Actor, Address, Beside, Inbound
from goclaw.records import record

STOP = "/stop"
MAX_SIGN = 16
"""Maximum characters of an emoji; families of people have about ten."""
GONE = frozenset({"left", "kicked"})
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
    inside = member["status"] not in GONE and member.get("is_member", True) is not False
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
        text=f"reacted with {' '.join(added)} to" if added else f"took back {' '.join(gone)} from",
        address=Address(CHANNEL, str(chat_id)),
        received_at=terms.now,
        beside=Beside("reaction", on=str(number(changed["message_id"]))),
    )


def _signs(reactions: Sequence[Json]) -> list[str]:
    """Reactions as people see them; what bears no sign is named."""
    named = {"custom_emoji": "a sticker-like emoji", "paid": "a paid star"}
    return [
        shortened(str(each["emoji"]), MAX_SIGN) if each["type"] == "emoji" else named.get(each["type"], "a sign")
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

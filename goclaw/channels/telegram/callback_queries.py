"""Callback queries: presses of buttons below a question. Only the person's id is taken from the client.

A button's data is `q:<question id>:<index of the option>` (see `buttons`). Clients may send any data for any message,
so it holds no answer: the gateway looks the option up among those of the question, which must be open and for this
person to answer.
"""

import re

from goclaw.channels.telegram.inbound import Json, Terms, actor_of, is_group, is_open, number
from goclaw.events import Actor
from goclaw.records import record

DATA = re.compile(r"q:([A-Za-z0-9]{1,32}):([0-9]{1,2})", re.ASCII)
MAX_QUERY = 256
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


def query_of(update: Json) -> str | None:
    """Return the id with which to answer a press; None without a valid one."""
    query = update.get("callback_query")
    found = query.get("id") if isinstance(query, dict) else None
    return found if isinstance(found, str) and 0 < len(found) <= MAX_QUERY else None


def press_of(update: Json, terms: Terms) -> CallbackQuery | None:
    """Return the press of one of our buttons where we may answer.

    Raises:
        KeyError, TypeError …: see `inbound.UNREADABLE`.
    """
    query = update["callback_query"]
    found = DATA.fullmatch(query["data"]) if isinstance(query.get("data"), str) else None
    person, message = query["from"], query.get("message")
    # Without a message its chat is unknown: that is how inline results of others look.
    if found is None or message is None or person.get("is_bot") is not False:
        return None
    chat = message["chat"]
    if not is_open(chat, terms) or not (is_group(chat) or number(chat["id"]) == number(person["id"])):
        return None
    return CallbackQuery(actor_of(person), found[1], int(found[2]))

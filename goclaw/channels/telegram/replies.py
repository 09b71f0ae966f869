"""References of a message: the origin of a forward, and the replied-to message with its files.

Words of the bot and of the sender are labelled as such; those of others are untrusted material. The words that a
message quotes in a `blockquote` are never its author's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from goclaw.channels.telegram.message_content import (
    MAX_QUOTE,
    QUOTATIONS,
    Json,
    body_of,
    files_of,
    name_of,
    place,
    quoted_and_not,
    shorten,
    with_targets,
)
from goclaw.common.core.events import Attachment
from goclaw.common.core.messages import Piece, Provenance, SourceKind
from goclaw.common.core.records import record

YOURS, THEIRS = "your message", "the sender's own message"
"""Labels for the model of a replied-to message by the model itself or by the sender."""


@record
class RepliedMessage:
    """A message that is answered."""

    content: Json
    author: str
    """In words."""
    provenance: Provenance

    @property
    def words(self) -> str:
        """The origin of its text, for the model."""
        if self.provenance.is_own:
            return self.author
        by = "" if self.provenance.kind is SourceKind.FORWARDED else "a message by "
        return f"{by}{self.author} that this answers"


def answered_by(message: Json, me: int) -> RepliedMessage | None:
    """Return the message that `message` replies to; None if it is no reply.

    Args:
        message: as Telegram sends it.
        me: the bot's own id.
    """
    sender = message.get("from", {}).get("id")
    if external := message.get("external_reply"):
        return _build_message(
            external, external["origin"].get("sender_user"), origin_name(external["origin"]), sender, me
        )
    answered = message.get("reply_to_message")
    # Every message of a topic "answers" the service message that opened it.
    if answered is None or "forum_topic_created" in answered:
        # A quote without its message is of unknown origin.
        return RepliedMessage({}, "somebody", Provenance()) if "quote" in message else None
    if origin := forwarded_from(answered):
        return RepliedMessage(answered, f"a message {origin}", Provenance(SourceKind.FORWARDED))
    chat = answered.get("sender_chat")
    author = None if chat else answered.get("from")
    return _build_message(answered, author, _title(chat) if chat else name_of(author or {}), sender, me)


def _build_message(content: Json, author: Json | None, name: str, sender: object, me: int) -> RepliedMessage:
    number = author.get("id") if author else None
    if type(number) is not int:
        return RepliedMessage(content, shorten(name) or "somebody", Provenance(SourceKind.OTHER))
    key = f"telegram:{number}"
    if number == me:
        return RepliedMessage(content, YOURS, Provenance(SourceKind.AGENT))
    if number == sender:
        return RepliedMessage(content, THEIRS, Provenance(SourceKind.PERSON, key))
    return RepliedMessage(content, shorten(name) or "somebody", Provenance(SourceKind.OTHER, key))


def quotes_in(message: Json, me: int) -> list[Piece]:
    """Return the replied-to text in a line: the quoted part, else the beginning."""
    answered = answered_by(message, me)
    if answered is None:
        return []
    pieces = list(_parts(message, answered))
    head = f"In reply to {answered.author}"
    match pieces:
        case []:
            return []
        case [(text, False)]:
            return [(f"[{head}: {text}]", answered.words, answered.provenance)]
    whole: list[Piece] = [(f"[{head}:", answered.words, answered.provenance)]
    for text, is_quoted in pieces:
        said_by = (f"quoted in {answered.author}", Provenance()) if is_quoted else (answered.words, answered.provenance)
        whole.append((text, *said_by))
    return [*whole, ("]", answered.words, answered.provenance)]


def _parts(message: Json, answered: RepliedMessage) -> Iterator[tuple[str, bool]]:
    """Yield the words that are passed on, in pieces; True: their author marked them as a quotation."""
    text, entities = body_of(answered.content)
    if quote := message.get("quote"):
        start, length = int(quote.get("position", 0)), len(str(quote["text"]).encode("utf-16-le", "surrogatepass")) // 2
        marked = (place(entity) for entity in entities if entity["type"] in QUOTATIONS)
        # Of a message in another chat only the chosen part comes, without what its author marked in it.
        is_quoted = not text or any(first < start + length and start < last for first, last in marked)
        chosen = shorten(with_targets(str(quote["text"]), quote.get("entities", ())))
        yield from [(chosen, is_quoted and answered.provenance.is_own)] if chosen else []
        return
    if not answered.provenance.is_own:
        whole = shorten(with_targets(text, entities))
        yield from [(whole, False)] if whole else []
        return
    left = MAX_QUOTE
    for piece, is_quoted in quoted_and_not(text, entities):
        if left > 0:
            yield shorten(piece, left), is_quoted
        left -= len(piece)


def files_of_replies(messages: Sequence[Json], me: int) -> tuple[tuple[Attachment, ...], list[Piece]]:
    """Return the files of replied-to messages, and a line for each that cannot be opened."""
    for message in messages:
        answered = answered_by(message, me)
        if answered and answered.content:
            found, notes = files_of(answered.content)
            lines: list[Piece] = [(note, answered.words, answered.provenance) for note in notes]
            return tuple(replace(each, origin=answered.provenance) for each in found), lines
    return (), []


def forwarded_from(message: Json) -> str:
    """Return the origin of a forwarded message, in words; empty: its sender wrote it.

    A result picked from another bot (`@bot …`) is that bot's text.
    """
    origin = message.get("forward_origin")
    if origin is None and (bot := message.get("via_bot")):
        return f"by the bot {shorten(str(bot.get('username') or bot['id']))}"
    return "" if origin is None else f"forwarded from {shorten(origin_name(origin))}"


def origin_name(origin: Json) -> str:
    """Return the name of a forwarded message's author."""
    if chat := origin.get("sender_chat") or origin.get("chat"):
        return _title(chat)
    return name_of(origin.get("sender_user", {})) or str(origin.get("sender_user_name") or "somebody")


def _title(chat: Json) -> str:
    return str(chat.get("title") or chat.get("username") or chat["id"])

"""What a message refers to: where it was forwarded from, and what it answers, with its files.

The bot's own words and the sender's are said to be that; those of others are material. The words that a message quotes
in a `blockquote` are never its author's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from goclaw.channels.telegram.files import files_of
from goclaw.channels.telegram.texts import (
    MAX_QUOTE,
    QUOTATIONS,
    Json,
    body_of,
    name_of,
    place,
    quoted_and_not,
    shortened,
    with_targets,
)
from goclaw.events import Attachment
from goclaw.messages import Piece, Provenance, SourceKind
from goclaw.records import record

YOURS, THEIRS = "your message", "the sender's own message"
"""How the model is told whose words are answered, where that is itself or the person who writes."""


@record
class RepliedMessage:
    """A message that is answered."""

    content: Json
    author: str
    """In words."""
    provenance: Provenance

    @property
    def words(self) -> str:
        """Where what it says comes from, for the model."""
        if self.provenance.is_own:
            return self.author
        by = "" if self.provenance.kind is SourceKind.FORWARDED else "a message by "
        return f"{by}{self.author} that this answers"


def answered_by(message: Json, me: int) -> RepliedMessage | None:
    """What a message answers; None: nothing.

    Args:
        message: as Telegram has it.
        me: the bot's own id.
    """
    sender = message.get("from", {}).get("id")
    if external := message.get("external_reply"):
        return _written(external, external["origin"].get("sender_user"), origin_name(external["origin"]), sender, me)
    answered = message.get("reply_to_message")
    # Every message of a topic "answers" the service message that opened it.
    if answered is None or "forum_topic_created" in answered:
        # A quote without its message is somebody's.
        return RepliedMessage({}, "somebody", Provenance()) if "quote" in message else None
    if origin := forwarded_from(answered):
        return RepliedMessage(answered, f"a message {origin}", Provenance(SourceKind.FORWARDED))
    chat = answered.get("sender_chat")
    author = None if chat else answered.get("from")
    return _written(answered, author, _title(chat) if chat else name_of(author or {}), sender, me)


def _written(content: Json, author: Json | None, name: str, sender: object, me: int) -> RepliedMessage:
    number = author.get("id") if author else None
    if type(number) is not int:
        return RepliedMessage(content, shortened(name) or "somebody", Provenance(SourceKind.OTHER))
    key = f"telegram:{number}"
    if number == me:
        return RepliedMessage(content, YOURS, Provenance(SourceKind.AGENT))
    if number == sender:
        return RepliedMessage(content, THEIRS, Provenance(SourceKind.PERSON, key))
    return RepliedMessage(content, shortened(name) or "somebody", Provenance(SourceKind.OTHER, key))


def quotes_in(message: Json, me: int) -> list[Piece]:
    """What a message answers, in a line: the part that it quotes, else the beginning."""
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
    """The words that are passed on, in pieces; True: their author marked them as a quotation."""
    text, entities = body_of(answered.content)
    if quote := message.get("quote"):
        start, length = int(quote.get("position", 0)), len(str(quote["text"]).encode("utf-16-le", "surrogatepass")) // 2
        marked = (place(entity) for entity in entities if entity["type"] in QUOTATIONS)
        # Of a message in another chat only the chosen part comes, without what its author marked in it.
        is_quoted = not text or any(first < start + length and start < last for first, last in marked)
        chosen = shortened(with_targets(str(quote["text"]), quote.get("entities", ())))
        yield from [(chosen, is_quoted and answered.provenance.is_own)] if chosen else []
        return
    if not answered.provenance.is_own:
        whole = shortened(with_targets(text, entities))
        yield from [(whole, False)] if whole else []
        return
    left = MAX_QUOTE
    for piece, is_quoted in quoted_and_not(text, entities):
        if left > 0:
            yield shortened(piece, left), is_quoted
        left -= len(piece)


def files_answered(messages: Sequence[Json], me: int) -> tuple[tuple[Attachment, ...], list[Piece]]:
    """The files of what is answered, and a line for what of it cannot be opened."""
    for message in messages:
        answered = answered_by(message, me)
        if answered and answered.content:
            found, notes = files_of(answered.content)
            lines: list[Piece] = [(note, answered.words, answered.provenance) for note in notes]
            return tuple(replace(each, origin=answered.provenance) for each in found), lines
    return (), []


def forwarded_from(message: Json) -> str:
    """Where a message was forwarded from, in words; empty: its sender wrote it.

    What was picked from another bot's answers (`@bot …`) is that bot's text.
    """
    origin = message.get("forward_origin")
    if origin is None and (bot := message.get("via_bot")):
        return f"by the bot {shortened(str(bot.get('username') or bot['id']))}"
    return "" if origin is None else f"forwarded from {shortened(origin_name(origin))}"


def origin_name(origin: Json) -> str:
    """Who first wrote a forwarded message."""
    if chat := origin.get("sender_chat") or origin.get("chat"):
        return _title(chat)
    return name_of(origin.get("sender_user", {})) or str(origin.get("sender_user_name") or "somebody")


def _title(chat: Json) -> str:
    return str(chat.get("title") or chat.get("username") or chat["id"])

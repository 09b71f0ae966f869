"""Outgoing messages: the parts of a delivery, and the Bot API calls that send, edit and delete them.

Texts and files are sent in the order of the parts. A file goes as media that people can look at or listen to in the
chat, where Telegram takes it for that; all others go as documents. `sender` decides when, and the meaning of a failure.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import PurePath
from typing import Any

from telegram import Bot, InlineKeyboardMarkup, InputFile
from telegram.error import BadRequest, Forbidden, TelegramError

from goclaw.channels.telegram.render import (
    MAX_CAPTION_UNITS,
    MAX_UNITS,
    EntitySpan,
    RenderedMessage,
    printable,
    render,
    split,
    units,
)
from goclaw.channels.telegram.request import Unanswered, call
from goclaw.channels.telegram.updates import GENERAL_TOPIC
from goclaw.common.core.events import Address, Delivery
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask_known
from goclaw.errors import DeliveryError, ToolError

log = logging.getLogger(__name__)


NO_PREVIEW = {"is_disabled": True}
NOT_MODIFIED = "not modified"
"""Part of Telegram's error for an edit that changes nothing: the message says what it should."""
NO_TEXT = "there is no text in the message to edit"
"""Part of Telegram's error for an edit of the text of a file: that is its caption."""
LOST_TOPIC = "message thread not found"
CLOSED_TOPIC = "topic_closed"
"""Telegram's error for a topic in which only people who may manage topics can write (Bot API, ForumTopicClosed)."""
NOT_THERE = "message to delete not found"
CLOSED = (
    "chat not found",
    "group chat was deactivated",
    "peer_id_invalid",
    "chat_write_forbidden",
    "not enough rights",
)
"""Parts of Telegram's errors (all 400) for a chat that refuses messages of the bot; 403 always means that."""
FIRST_SUPERGROUP = -1_000_000_000_000
"""Ids of supergroups are this less the id that links have (Bot API dialog ids; t.me/c/<id>/<topic>)."""
LONG_TEXT = 2_000
"""Characters from which rendering leaves the event loop for a thread: that many of prose take 1 ms, of headings 20."""


@record
class ChatTarget:
    """A place in Telegram."""

    chat: int
    thread: int | None = None
    reply_to: int | None = None

    @property
    def is_private(self) -> bool:
        """Ids of groups are negative."""
        return self.chat > 0

    @property
    def reply(self) -> dict[str, Any] | None:
        """The message to reply to (Bot API, ReplyParameters); the reply is sent even if that one was deleted."""
        if self.reply_to is None:
            return None
        return {"message_id": self.reply_to, "allow_sending_without_reply": True}


def target_of(address: Address) -> ChatTarget:
    """Return the place of an address.

    Raises:
        DeliveryError: its ids are not Telegram's.
    """
    try:
        thread = None if address.thread in (None, str(GENERAL_TOPIC)) else int(address.thread)
        return ChatTarget(int(address.chat), thread, None if address.reply_to is None else int(address.reply_to))
    except ValueError:
        raise DeliveryError(f"{address.chat} is not a numeric Telegram chat id", permanent=True) from None


async def render_off_loop(markdown: str, limit: int = MAX_UNITS) -> list[RenderedMessage]:
    """`render`, off the event loop where a text is long."""
    if len(markdown) < LONG_TEXT:
        return render(markdown, limit)
    return await asyncio.to_thread(render, markdown, limit)


def entities_of(chunk: RenderedMessage) -> list[dict[str, Any]] | None:
    """Return the marks of a chunk as the Bot API has them (MessageEntity); None for no marks."""
    return [_entity(span) for span in chunk.spans] or None


def _entity(span: EntitySpan) -> dict[str, Any]:
    entity: dict[str, Any] = {"type": span.mark.type, "offset": span.start, "length": span.end - span.start}
    if span.mark.url is not None:
        entity["url"] = span.mark.url
    if span.mark.language is not None:
        entity["language"] = span.mark.language
    return entity


async def send_text(
    bot: Bot, target: ChatTarget, chunk: RenderedMessage, keyboard: InlineKeyboardMarkup | None = None
) -> int:
    """Send one message; returns its id."""
    parameters = {
        "chat_id": target.chat,
        "text": chunk.text,
        "entities": entities_of(chunk),
        "message_thread_id": target.thread,
        "reply_parameters": target.reply,
        "link_preview_options": NO_PREVIEW,
        "reply_markup": keyboard,
    }
    return sent_id(await call(bot, "sendMessage", parameters))


def sent_id(message: Any) -> int:
    """Return the id of a message that was sent.

    Raises:
        Unanswered: the answer is no message.
    """
    try:
        return int(message["message_id"])
    except (KeyError, TypeError, ValueError):
        raise Unanswered("an answer that is not a message") from None


async def edit_text(
    bot: Bot, chat: int, message_id: int, chunk: RenderedMessage, keyboard: InlineKeyboardMarkup | None = None
) -> None:
    """Let a message of ours say `chunk` and have that keyboard or none; one that does so already is fine."""
    parameters = {
        "chat_id": chat,
        "message_id": message_id,
        "text": chunk.text,
        "entities": entities_of(chunk),
        "link_preview_options": NO_PREVIEW,
        "reply_markup": keyboard,
    }
    await _edit(bot, "editMessageText", parameters)


async def edit_caption(
    bot: Bot, chat: int, message_id: int, chunk: RenderedMessage, keyboard: InlineKeyboardMarkup | None = None
) -> None:
    """`edit_text` for the caption below a file."""
    parameters = {
        "chat_id": chat,
        "message_id": message_id,
        "caption": chunk.text,
        "caption_entities": entities_of(chunk),
        "reply_markup": keyboard,
    }
    await _edit(bot, "editMessageCaption", parameters)


async def edit_keyboard(bot: Bot, chat: int, message_id: int, keyboard: InlineKeyboardMarkup | None) -> None:
    """Put another keyboard below a message of ours, or none."""
    parameters = {"chat_id": chat, "message_id": message_id, "reply_markup": keyboard}
    await _edit(bot, "editMessageReplyMarkup", parameters)


async def _edit(bot: Bot, method: str, parameters: dict[str, Any]) -> None:
    try:
        await call(bot, method, parameters)
    except BadRequest as error:
        if NOT_MODIFIED not in error.message.lower():
            raise


async def delete(bot: Bot, chat: int, message_id: int) -> None:
    """Take a message away; one that is gone already is fine."""
    try:
        await call(bot, "deleteMessage", {"chat_id": chat, "message_id": message_id})
    except BadRequest as error:
        if NOT_THERE not in error.message.lower():
            raise


async def react(bot: Bot, chat: int, message_id: int, emoji: str) -> None:
    """Put a reaction of ours on a message."""
    reaction = [{"type": "emoji", "emoji": emoji}]
    await call(bot, "setMessageReaction", {"chat_id": chat, "message_id": message_id, "reaction": reaction})


def refuses_topic(error: BadRequest) -> bool:
    """Whether a message was refused because the topic that it was for is gone or closed."""
    return LOST_TOPIC in error.message.lower() or is_closed_topic(error)


def is_closed_topic(error: BadRequest) -> bool:
    """Whether a message was refused because the topic that it was for is closed."""
    return CLOSED_TOPIC in error.message.lower()


def closed_topic_note(target: ChatTarget) -> str:
    """Return the note in front of a message to a closed topic; in supergroups it links to the topic."""
    bare = FIRST_SUPERGROUP - target.chat
    link = f": https://t.me/c/{bare}/{target.thread}" if bare > 0 else ""
    return f"(The topic of this message is closed{link})\n\n"


def closes_chat(error: TelegramError) -> bool:
    """Whether an error says that the chat takes nothing from the bot: blocked, deleted, left, no right to write."""
    if isinstance(error, Forbidden):
        return True
    return isinstance(error, BadRequest) and any(part in error.message.lower() for part in CLOSED)


MAX_PARTS = 4
"""Maximum consecutive messages; a longer text is sent as its beginning and a document with the whole."""
BEGINNING_UNITS = 1_000
WHOLE_BELOW = "…\n\n(Only the beginning: the file below has the whole text.)"
WHOLE_NAME = "answer.md"
MAX_UPLOAD = 50 * 1024 * 1024
"""Maximum bytes that a bot may upload (Bot API, sendDocument)."""

NO_CAPTION = RenderedMessage("")


@record
class OutgoingFile:
    """A file that goes out, with its caption."""

    name: str
    content: bytes
    caption: RenderedMessage


Part = RenderedMessage | OutgoingFile


async def parts_of(delivery: Delivery, load_blob: Callable[[str], Awaitable[bytes]]) -> list[Part]:
    """Return the parts of a delivery: always the same for the same delivery, because progress counts them.

    Raises:
        DeliveryError: there is nothing to send, or its file cannot be sent.
    """
    parts = (
        await _texts(delivery.text, delivery.author)
        if delivery.media is None
        else await _with_file(delivery, load_blob)
    )
    if not parts:
        raise DeliveryError("this message is empty", permanent=True)
    return parts


async def _with_file(delivery: Delivery, load_blob: Callable[[str], Awaitable[bytes]]) -> list[Part]:
    try:
        content = await load_blob(delivery.media or "")
    except ToolError as error:
        raise DeliveryError(str(error), permanent=True) from error
    if len(content) > MAX_UPLOAD:
        raise DeliveryError(f"{delivery.media_name} is larger than {MAX_UPLOAD >> 20} MB", permanent=True)
    name = delivery.media_name or "file"
    captions = await render_off_loop(delivery.text, MAX_CAPTION_UNITS)
    if len(captions) > 1:
        return [OutgoingFile(name, content, NO_CAPTION), *await _texts(delivery.text, delivery.author)]
    return [OutgoingFile(name, content, captions[0] if captions else NO_CAPTION)]


async def _texts(markdown: str, author: str) -> list[Part]:
    """Return a text as messages; `author`: whose name stands above each, as it does above the first."""
    name = f"From {author}:\n\n" if author else ""
    chunks = await render_off_loop(markdown, MAX_UNITS - units(name))
    if len(chunks) <= MAX_PARTS:
        return [*chunks[:1], *(part for chunk in chunks[1:] for part in with_note(chunk, name))]
    return [beginning(chunks[0]), OutgoingFile(WHOLE_NAME, mask_known(printable(markdown)).encode(), NO_CAPTION)]


def beginning(chunk: RenderedMessage) -> RenderedMessage:
    """Return the beginning of a long text, and where the rest is."""
    first = next(split(chunk.text, list(chunk.spans), BEGINNING_UNITS))
    return RenderedMessage(first.text + WHOLE_BELOW, first.spans)


def with_note(part: Part, note: str) -> list[Part]:
    """`part` with a note in front, or the note as a message of its own where there is no room."""
    if not note:
        return [part]
    if isinstance(part, OutgoingFile) or units(note + part.text) > MAX_UNITS:
        return [RenderedMessage(note.strip()), part]
    shift = units(note)
    return [
        RenderedMessage(note + part.text, tuple(EntitySpan(s.start + shift, s.end + shift, s.mark) for s in part.spans))
    ]


PHOTOS = frozenset({".jpg", ".jpeg", ".png", ".webp"})
MAX_PHOTO = 10 * 1024 * 1024
"""Maximum bytes of a photo; a larger picture goes as a document (Bot API, sendPhoto)."""
OGG_HEAD = 64
"""Bytes at whose beginning an Ogg file names its codec."""


async def upload(bot: Bot, file: OutgoingFile, target: ChatTarget, keyboard: InlineKeyboardMarkup | None) -> int:
    """Send a file; returns its message id. A file that Telegram refuses as its apparent kind goes as a document."""
    kind = kind_of(file)
    if kind != "document":
        try:
            return await _send_file(bot, kind, file, target, keyboard)
        except BadRequest as error:
            if closes_chat(error) or refuses_topic(error):
                raise
            log.info("%s is sent as a document: %s", file.name, error.message)
    return await _send_file(bot, "document", file, target, keyboard)


def kind_of(file: OutgoingFile) -> str:
    """Return Telegram's kind of a file: the parameter's name of its send method (`sendVoice` takes `voice` …)."""
    ending, head = PurePath(file.name).suffix.lower(), file.content[:OGG_HEAD]
    if ending in PHOTOS and len(file.content) <= MAX_PHOTO:
        return "photo"
    # Voice messages are Opus in Ogg, and nothing else in Ogg is played (Bot API, sendVoice, sendAudio).
    if head.startswith(b"OggS") and b"OpusHead" in head:
        return "voice"
    if ending in (".mp3", ".m4a"):
        return "audio"
    if ending == ".gif" and head.startswith(b"GIF8"):
        return "animation"
    if ending == ".mp4" and head[4:8] == b"ftyp":
        return "video"
    return "document"


async def _send_file(
    bot: Bot, kind: str, file: OutgoingFile, target: ChatTarget, keyboard: InlineKeyboardMarkup | None
) -> int:
    parameters = {
        "chat_id": target.chat,
        kind: InputFile(file.content, file.name),
        "caption": file.caption.text or None,
        "caption_entities": entities_of(file.caption),
        "message_thread_id": target.thread,
        "reply_parameters": target.reply,
        "reply_markup": keyboard,
    }
    return sent_id(await call(bot, f"send{kind.capitalize()}", parameters))

"""The calls of the Bot API that show text, in our own terms: chunks and targets."""

import asyncio

from telegram import Bot, InlineKeyboardMarkup, LinkPreviewOptions, MessageEntity, ReplyParameters
from telegram.error import BadRequest, Forbidden, TelegramError

from goclaw.channels.telegram.inbound import GENERAL_TOPIC
from goclaw.channels.telegram.render import MAX_UNITS, RenderedMessage, render
from goclaw.errors import DeliveryError
from goclaw.events import Address
from goclaw.records import record

NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
NOT_MODIFIED = "not modified"
"""Part of Telegram's error for an edit that changes nothing: the message says what it should."""
NO_TEXT = "there is no text in the message to edit"
"""Part of Telegram's error for an edit of the text of a file: that is its caption."""
LOST_TOPIC = "message thread not found"
NOT_THERE = "message to delete not found"
CLOSED = (
    "chat not found",
    "group chat was deactivated",
    "peer_id_invalid",
    "chat_write_forbidden",
    "not enough rights",
)
"""Parts of Telegram's errors (all 400) for a chat that refuses messages of the bot; 403 always means that."""
LONG_TEXT = 10_000
"""Characters from which rendering (4 ms at worst) leaves the event loop for a thread."""


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
    def reply(self) -> ReplyParameters | None:
        """The message to reply to; the reply is sent even if that one was deleted."""
        if self.reply_to is None:
            return None
        return ReplyParameters(self.reply_to, allow_sending_without_reply=True)


def target_of(address: Address) -> ChatTarget:
    """Return the place of an address.

    Raises:
        DeliveryError: its ids are not Telegram's.
    """
    try:
        thread = None if address.thread in (None, str(GENERAL_TOPIC)) else int(address.thread)
        return ChatTarget(int(address.chat), thread, None if address.reply_to is None else int(address.reply_to))
    except ValueError:
        raise DeliveryError(f"{address.chat} is not a numeric chat id of Telegram", permanent=True) from None


async def rendered(markdown: str, limit: int = MAX_UNITS) -> list[RenderedMessage]:
    """`render`, off the event loop where a text is long."""
    if len(markdown) < LONG_TEXT:
        return render(markdown, limit)
    return await asyncio.to_thread(render, markdown, limit)


def entities_of(chunk: RenderedMessage) -> list[MessageEntity] | None:
    """Convert the marks of a chunk to the library's entities."""
    return [
        MessageEntity(span.mark.type, span.start, span.end - span.start, url=span.mark.url, language=span.mark.language)
        for span in chunk.spans
    ] or None


async def send_text(
    bot: Bot, target: ChatTarget, chunk: RenderedMessage, keyboard: InlineKeyboardMarkup | None = None
) -> int:
    """Send one message; returns its id."""
    message = await bot.send_message(
        target.chat,
        chunk.text,
        entities=entities_of(chunk),
        message_thread_id=target.thread,
        reply_parameters=target.reply,
        link_preview_options=NO_PREVIEW,
        reply_markup=keyboard,
    )
    return message.message_id


async def edit_text(
    bot: Bot, chat: int, message_id: int, chunk: RenderedMessage, keyboard: InlineKeyboardMarkup | None = None
) -> None:
    """Let a message of ours say `chunk` and have that keyboard or none; one that does so already is fine."""
    try:
        await bot.edit_message_text(
            chunk.text,
            chat,
            message_id,
            entities=entities_of(chunk),
            link_preview_options=NO_PREVIEW,
            reply_markup=keyboard,
        )
    except BadRequest as error:
        if NOT_MODIFIED not in error.message.lower():
            raise


async def edit_caption(
    bot: Bot, chat: int, message_id: int, chunk: RenderedMessage, keyboard: InlineKeyboardMarkup | None = None
) -> None:
    """`edit_text` for what stands below a file."""
    try:
        await bot.edit_message_caption(
            chat, message_id, caption=chunk.text, caption_entities=entities_of(chunk), reply_markup=keyboard
        )
    except BadRequest as error:
        if NOT_MODIFIED not in error.message.lower():
            raise


async def edit_keyboard(bot: Bot, chat: int, message_id: int, keyboard: InlineKeyboardMarkup | None) -> None:
    """Put another keyboard below a message of ours, or none."""
    try:
        await bot.edit_message_reply_markup(chat, message_id, reply_markup=keyboard)
    except BadRequest as error:
        if NOT_MODIFIED not in error.message.lower():
            raise


async def delete(bot: Bot, chat: int, message_id: int) -> None:
    """Take a message away; one that is gone already is fine."""
    try:
        await bot.delete_message(chat, message_id)
    except BadRequest as error:
        if NOT_THERE not in error.message.lower():
            raise


def names_lost_topic(error: TelegramError) -> bool:
    """Whether a message was refused because the topic that it was for is gone."""
    return isinstance(error, BadRequest) and LOST_TOPIC in error.message.lower()


def closes_chat(error: TelegramError) -> bool:
    """Whether an error says that the chat takes nothing from the bot: blocked, deleted, left, no right to write."""
    if isinstance(error, Forbidden):
        return True
    return isinstance(error, BadRequest) and any(part in error.message.lower() for part in CLOSED)

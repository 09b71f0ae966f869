"""The calls of the Bot API that put text before people, in our own terms: chunks and targets."""

import asyncio
from dataclasses import dataclass

from telegram import Bot, LinkPreviewOptions, MessageEntity, ReplyParameters
from telegram.error import BadRequest

from goclaw.channels.telegram.render import MAX_UNITS, Chunk, render
from goclaw.errors import DeliveryError
from goclaw.events import Address

NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
NOT_MODIFIED = "not modified"
"""Part of Telegram's error for an edit that changes nothing: the message says what it should."""
GONE = ("message to edit not found", "message can't be edited", "message_id_invalid")
"""Parts of Telegram's errors for an edit of a message that is no longer ours to edit."""
LONG_TEXT = 10_000
"""Characters from which rendering (4 ms at worst) leaves the event loop for a thread."""


@dataclass(frozen=True, slots=True)
class Target:
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
        """The message that is answered; the answer goes out all the same when that one was deleted."""
        if self.reply_to is None:
            return None
        return ReplyParameters(self.reply_to, allow_sending_without_reply=True)


def target_of(address: Address) -> Target:
    """The place of an address.

    Raises:
        DeliveryError: its ids are not Telegram's.
    """
    try:
        thread = None if address.thread is None else int(address.thread)
        return Target(int(address.chat), thread, None if address.reply_to is None else int(address.reply_to))
    except ValueError:
        raise DeliveryError(f"{address.chat} is not a numeric chat id of Telegram", permanent=True) from None


async def rendered(markdown: str, limit: int = MAX_UNITS) -> list[Chunk]:
    """`render`, without holding up everybody else for a long text."""
    if len(markdown) < LONG_TEXT:
        return render(markdown, limit)
    return await asyncio.to_thread(render, markdown, limit)


def entities_of(chunk: Chunk) -> list[MessageEntity] | None:
    """The marks of a chunk as the library wants them."""
    return [
        MessageEntity(span.mark.type, span.start, span.end - span.start, url=span.mark.url, language=span.mark.language)
        for span in chunk.spans
    ] or None


async def send_text(bot: Bot, target: Target, chunk: Chunk) -> int:
    """Send one message; returns its id."""
    message = await bot.send_message(
        target.chat,
        chunk.text,
        entities=entities_of(chunk),
        message_thread_id=target.thread,
        reply_parameters=target.reply,
        link_preview_options=NO_PREVIEW,
    )
    return message.message_id


async def edit_text(bot: Bot, target: Target, message_id: int, chunk: Chunk) -> None:
    """Let a message of ours say `chunk`; one that says so already is fine."""
    try:
        await bot.edit_message_text(
            chunk.text,
            target.chat,
            message_id,
            entities=entities_of(chunk),
            link_preview_options=NO_PREVIEW,
        )
    except BadRequest as error:
        if NOT_MODIFIED not in error.message:
            raise


def is_gone(error: BadRequest) -> bool:
    """Whether an edit failed because there is nothing to edit any more."""
    return any(part in error.message.lower() for part in GONE)

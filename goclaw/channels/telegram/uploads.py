"""Upload of files, each as media that people can look at or listen to in the chat; all others as a document."""

import logging
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from telegram import Bot, InlineKeyboardMarkup
from telegram.error import BadRequest

from goclaw.channels.telegram.calls import ChatTarget, closes_chat, entities_of
from goclaw.channels.telegram.parts import File

log = logging.getLogger(__name__)

PHOTOS = frozenset({".jpg", ".jpeg", ".png", ".webp"})
MAX_PHOTO = 10 * 1024 * 1024
"""Maximum bytes of a photo; a larger picture goes as a document (Bot API, sendPhoto)."""
HEAD = 64
"""Bytes at whose beginning an Ogg file names its codec."""


async def upload(bot: Bot, file: File, target: ChatTarget, keyboard: InlineKeyboardMarkup | None) -> int:
    """Send a file; returns its message id. What Telegram does not take for what it looks like goes as a document."""
    kind = kind_of(file)
    if kind != "document":
        try:
            return await _send(bot, kind, file, target, keyboard)
        except BadRequest as error:
            if closes_chat(error):
                raise
            log.info("%s goes as a document: %s", file.name, error.message)
    return await _send(bot, "document", file, target, keyboard)


def kind_of(file: File) -> str:
    """Return Telegram's kind of a file: the parameter's name of its send method (`sendVoice` takes `voice` …)."""
    ending, head = PurePath(file.name).suffix.lower(), file.content[:HEAD]
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


async def _send(bot: Bot, kind: str, file: File, target: ChatTarget, keyboard: InlineKeyboardMarkup | None) -> int:
    send: Callable[..., Any] = getattr(bot, f"send_{kind}")
    message = await send(
        target.chat,
        file.content,
        filename=file.name,
        caption=file.caption.text or None,
        caption_entities=entities_of(file.caption),
        message_thread_id=target.thread,
        reply_parameters=target.reply,
        reply_markup=keyboard,
    )
    return int(message.message_id)

"""Deliveries: messages in order, files, reactions, edits; and what each failure means for the next try.

A delivery of several messages that fails midway goes on where it stopped when it is tried again.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import PurePath

from telegram import Bot
from telegram.error import BadRequest, ChatMigrated, Forbidden, TelegramError

from goclaw.channels.telegram.calls import Target, edit_text, entities_of, is_gone, rendered, send_text, target_of
from goclaw.channels.telegram.live import LiveViews
from goclaw.channels.telegram.outlet import Outlet
from goclaw.channels.telegram.render import MAX_CAPTION_UNITS, MAX_UNITS, Chunk, Span, units
from goclaw.channels.telegram.request import Flood, Unanswered
from goclaw.errors import DeliveryError, ToolError
from goclaw.events import Delivery, Receipt

log = logging.getLogger(__name__)

AFTER_RESTART = "(sent again after a restart)\n\n"
AFTER_SILENCE = "(sent again: the first try may have arrived)\n\n"
PHOTOS = frozenset({".jpg", ".jpeg", ".png", ".webp"})
MAX_PHOTO = 10 * 1024 * 1024
"""Bytes that Telegram takes as a photo; a larger picture goes as a document (Bot API, sendPhoto)."""
MAX_UPLOAD = 50 * 1024 * 1024
"""Bytes that a bot may upload (Bot API, sendDocument)."""
REMEMBERED = 1_000
"""Deliveries whose progress is kept for the next try."""


@dataclass(frozen=True, slots=True)
class File:
    """A file that goes out, with what stands below it."""

    name: str
    content: bytes
    caption: Chunk


@dataclass(slots=True)
class Progress:
    """How far a delivery got."""

    parts: list[Chunk | File]
    edits: int | None
    """The message that becomes the first part, where there is one."""
    done: int = 0
    first: str = ""


class Sender:
    """Hands deliveries over to Telegram."""

    def __init__(self, bot: Bot, outlet: Outlet, live: LiveViews, load_blob: Callable[[str], Awaitable[bytes]]) -> None:
        self._bot = bot
        self._outlet = outlet
        self._live = live
        self._load_blob = load_blob
        self._progress: OrderedDict[str, Progress] = OrderedDict()
        self._moved: dict[int, int] = {}

    async def deliver(self, delivery: Delivery) -> Receipt:
        """Do what the delivery says, in Telegram.

        Raises:
            DeliveryError: says whether and when to try again.
        """
        target = target_of(delivery.address)
        target = replace(target, chat=self._moved.get(target.chat, target.chat))
        try:
            return await self._act(delivery, target)
        except ChatMigrated as error:
            # The group became a supergroup, which is another chat.
            self._moved[target.chat] = error.new_chat_id
            raise DeliveryError(
                "the group moved to another chat id; sending there now", retry_after=0.1, partly=self._begun(delivery)
            ) from error
        except Flood as error:
            self._outlet.hold(target.chat, error.seconds)
            raise DeliveryError(error.message, retry_after=error.seconds, partly=self._begun(delivery)) from error
        except TelegramError as error:
            raise DeliveryError(
                f"telegram: {error.message}",
                permanent=isinstance(error, Forbidden | BadRequest),
                maybe_delivered=isinstance(error, Unanswered),
                partly=self._begun(delivery),
            ) from error

    def _begun(self, delivery: Delivery) -> bool:
        """Whether some of its messages are there already."""
        progress = self._progress.get(delivery.id)
        return progress is not None and progress.done > 0

    async def _act(self, delivery: Delivery, target: Target) -> Receipt:
        if delivery.action == "send":
            return await self._send(delivery, target)
        message_id = message_id_of(delivery)
        if delivery.action == "edit":
            return await self._send(delivery, target, edits=message_id)
        if delivery.action == "delete":
            await self._bot.delete_message(target.chat, message_id)
        else:
            await self._bot.set_message_reaction(target.chat, message_id, delivery.emoji or [])
        return Receipt(str(message_id))

    async def _send(self, delivery: Delivery, target: Target, edits: int | None = None) -> Receipt:
        """Send all parts that are not there yet."""
        known = delivery.id in self._progress
        progress = self._progress.get(delivery.id) or await self._begin(delivery, target, edits)
        self._progress[delivery.id] = progress
        while len(self._progress) > REMEMBERED:
            self._progress.popitem(last=False)
        note = (AFTER_SILENCE if known else AFTER_RESTART) if delivery.repeated else ""
        for part in progress.parts[progress.done :]:
            edits = progress.edits is not None and progress.done == 0  # the same edit twice is one
            for piece in marked(part, "" if edits else note):
                sent = await self._hand_over(progress, piece, target)
                progress.first = progress.first or str(sent)
            progress.done += 1
            note = note if edits else ""
            target = replace(target, reply_to=None)
        del self._progress[delivery.id]
        return Receipt(progress.first)

    async def _begin(self, delivery: Delivery, target: Target, edits: int | None) -> Progress:
        """What a delivery consists of; the message that grew while it was written becomes its first part."""
        parts = await self._parts(delivery)
        if not parts:
            raise DeliveryError("there is nothing in this message to send", permanent=True)
        grown = await self._live.claim(delivery.turn) if delivery.turn and edits is None else None
        if grown is not None and isinstance(parts[0], File):
            await self._live.remove(target, grown)
            grown = None
        return Progress(parts, edits if grown is None else grown)

    async def _parts(self, delivery: Delivery) -> list[Chunk | File]:
        if delivery.media is None:
            return [*await rendered(delivery.text)]
        try:
            content = await self._load_blob(delivery.media)
        except ToolError as error:
            raise DeliveryError(str(error), permanent=True) from error
        if len(content) > MAX_UPLOAD:
            raise DeliveryError(f"{delivery.media_name} is larger than {MAX_UPLOAD >> 20} MB", permanent=True)
        name = delivery.media_name or "file"
        captions = await rendered(delivery.text, MAX_CAPTION_UNITS)
        if len(captions) > 1:
            return [File(name, content, Chunk("")), *await rendered(delivery.text)]
        return [File(name, content, captions[0] if captions else Chunk(""))]

    async def _hand_over(self, progress: Progress, part: Chunk | File, target: Target) -> int:
        """Send or edit one part; returns its message id."""
        await self._outlet.pace(target.chat)
        if isinstance(part, File):
            return await self._file(part, target)
        edits = progress.edits if progress.done == 0 else None
        try:
            return await self._text(target, part, edits)
        except BadRequest as error:
            if edits is not None and is_gone(error):
                progress.edits = None
                return await self._hand_over(progress, part, target)
            if not part.spans:
                raise
            log.warning("telegram refused the formatting of a message, it goes without: %s", error.message)
            return await self._text(target, Chunk(part.text), edits)

    async def _text(self, target: Target, chunk: Chunk, edits: int | None) -> int:
        if edits is None:
            return await send_text(self._bot, target, chunk)
        await edit_text(self._bot, target, edits, chunk)
        return edits

    async def _file(self, file: File, target: Target) -> int:
        """As a photo where Telegram takes it for one, else as a document."""
        if PurePath(file.name).suffix.lower() in PHOTOS and len(file.content) <= MAX_PHOTO:
            try:
                return await self._upload(file, target, as_photo=True)
            except BadRequest as error:
                log.info("%s goes as a document: %s", file.name, error.message)
        return await self._upload(file, target, as_photo=False)

    async def _upload(self, file: File, target: Target, *, as_photo: bool) -> int:
        send = self._bot.send_photo if as_photo else self._bot.send_document
        message = await send(
            target.chat,
            file.content,
            filename=file.name,
            caption=file.caption.text or None,
            caption_entities=entities_of(file.caption),
            message_thread_id=target.thread,
            reply_parameters=target.reply,
        )
        return message.message_id


def marked(part: Chunk | File, note: str) -> list[Chunk | File]:
    """`part` with a note in front, or the note as a message of its own where there is no room."""
    if not note:
        return [part]
    if isinstance(part, File) or units(note + part.text) > MAX_UNITS:
        return [Chunk(note.strip()), part]
    shift = units(note)
    return [Chunk(note + part.text, tuple(Span(s.start + shift, s.end + shift, s.mark) for s in part.spans))]


def message_id_of(delivery: Delivery) -> int:
    """The message that a reaction, an edit or a removal is about.

    Raises:
        DeliveryError: there is none.
    """
    try:
        return int(delivery.message_id or "")
    except ValueError:
        raise DeliveryError(f"{delivery.action} needs the numeric id of a message", permanent=True) from None

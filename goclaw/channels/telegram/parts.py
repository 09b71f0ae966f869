"""The parts of a delivery in Telegram: texts and files, in the order in which they are sent."""

from collections.abc import Awaitable, Callable

from goclaw.channels.telegram.calls import rendered
from goclaw.channels.telegram.render import (
    MAX_CAPTION_UNITS,
    MAX_UNITS,
    EntitySpan,
    RenderedMessage,
    printable,
    split,
    units,
)
from goclaw.errors import DeliveryError, ToolError
from goclaw.events import Delivery
from goclaw.records import record

MAX_PARTS = 4
"""Maximum consecutive messages; a longer text is sent as its beginning and a document with the whole."""
BEGINNING_UNITS = 1_000
WHOLE_BELOW = "…\n\n(This is the beginning. The whole text is in the file below.)"
WHOLE_NAME = "answer.md"
MAX_UPLOAD = 50 * 1024 * 1024
"""Maximum bytes that a bot may upload (Bot API, sendDocument)."""

NO_CAPTION = RenderedMessage("")


@record
class File:
    """A file that goes out, with what stands below it."""

    name: str
    content: bytes
    caption: RenderedMessage


Part = RenderedMessage | File


async def parts_of(delivery: Delivery, load_blob: Callable[[str], Awaitable[bytes]]) -> list[Part]:
    """Return the parts of a delivery: always the same for the same delivery, because progress counts them.

    Raises:
        DeliveryError: there is nothing to send, or its file cannot be sent.
    """
    parts = await _texts(delivery.text) if delivery.media is None else await _with_file(delivery, load_blob)
    if not parts:
        raise DeliveryError("there is nothing in this message to send", permanent=True)
    return parts


async def _with_file(delivery: Delivery, load_blob: Callable[[str], Awaitable[bytes]]) -> list[Part]:
    try:
        content = await load_blob(delivery.media or "")
    except ToolError as error:
        raise DeliveryError(str(error), permanent=True) from error
    if len(content) > MAX_UPLOAD:
        raise DeliveryError(f"{delivery.media_name} is larger than {MAX_UPLOAD >> 20} MB", permanent=True)
    name = delivery.media_name or "file"
    captions = await rendered(delivery.text, MAX_CAPTION_UNITS)
    if len(captions) > 1:
        return [File(name, content, NO_CAPTION), *await _texts(delivery.text)]
    return [File(name, content, captions[0] if captions else NO_CAPTION)]


async def _texts(markdown: str) -> list[Part]:
    chunks = await rendered(markdown)
    if len(chunks) <= MAX_PARTS:
        return [*chunks]
    return [beginning(chunks[0]), File(WHOLE_NAME, printable(markdown).encode(), NO_CAPTION)]


def beginning(chunk: RenderedMessage) -> RenderedMessage:
    """Return the beginning of a long text, and where the rest is."""
    first = next(split(chunk.text, list(chunk.spans), BEGINNING_UNITS))
    return RenderedMessage(first.text + WHOLE_BELOW, first.spans)


def marked(part: Part, note: str) -> list[Part]:
    """`part` with a note in front, or the note as a message of its own where there is no room."""
    if not note:
        return [part]
    if isinstance(part, File) or units(note + part.text) > MAX_UNITS:
        return [RenderedMessage(note.strip()), part]
    shift = units(note)
    return [
        RenderedMessage(note + part.text, tuple(EntitySpan(s.start + shift, s.end + shift, s.mark) for s in part.spans))
    ]

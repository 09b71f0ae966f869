"""Pictures and documents: those that a model takes go to its server as they are, of the others its text says something.

A document is in its message twice, as a file and as text (`Foreign.blob`): a model gets one of the two. A request that
a server refuses for its pictures or documents is made once more without them (`again_without_media`). The bytes of a
document are only copied here: no parser sees them.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TypeVar

from goclaw.common.core.messages import NO_LONGER_KEPT, NOT_SEEN, AssistantMessage, Image, ToolResult, UserMessage
from goclaw.errors import ModelError, ModelErrorKind, ToolError
from goclaw.llm.base import ModelEvent, Request

AS_A_FILE = "[This document is in the message as a file.]"
"""Stands in the marks of a document's text where the model gets the document."""
MediaT = TypeVar("MediaT", bound=UserMessage | ToolResult)
LoadedT = TypeVar("LoadedT")

NO_PICTURES = re.compile(
    r"multi-?modal|vision|mmproj"  # vLLM, llama.cpp
    r"|(image|picture).{0,80}(support|not allowed)|support.{0,40}(image|picture)"  # OpenAI, LM Studio, OpenRouter
    r"|missing data required for image"  # Ollama
    r"|unknown variant `?image"  # DeepSeek
    r"|content.{0,60}must be a string",  # Groq's text models
    re.IGNORECASE,
)
"""The model takes no pictures at all; the servers' own wordings, as documented or seen in 2026."""
ONE_PICTURE = re.compile(r"format|\bvalid|mime|\bsize|exceed|large|unsupported image", re.IGNORECASE)
"""Refusals of one picture, not of pictures in general: it is too large, say, or of a type the model cannot read."""
ABOUT_PICTURES = re.compile(r"image|picture", re.IGNORECASE)
ABOUT_DOCUMENTS = re.compile(r"pdf|document|\bfiles?\b|`file|content|media type|\bpages?\b", re.IGNORECASE)
"""Wider than that for pictures: the text of the document goes in its place, so little is lost."""
MEDIA_REFUSALS = frozenset({ModelErrorKind.REJECTED, ModelErrorKind.NOT_FOUND, ModelErrorKind.SERVER})
"""Kinds of errors that servers use: 400, 404 (OpenRouter), 500 (llama.cpp, Ollama)."""


class AcceptedMedia:
    """Which pictures and documents a model is shown: of the kinds that it takes all that its server has not refused."""

    def __init__(self, sees: Callable[[], bool] = lambda: True, *, reads: bool = False) -> None:
        """`sees`: whether it takes pictures, as far as is known (see also `drop_pictures`); `reads`: documents."""
        self._sees, self._reads = sees, reads
        self.blind = False
        """The server has refused pictures for this model."""
        self._refused: set[str] = set()
        """Keys of refused pictures and documents: the same bytes would be refused again."""
        self.changes = 0
        """How often the model has been shown less than before."""

    def takes(self, image: Image) -> bool:
        """Whether the model is shown this picture or document."""
        if image.blob in self._refused:
            return False
        return self._reads if image.pages else not self.blind and self._sees()

    def blobs_in(self, request: Request, *, documents: bool) -> set[str]:
        """Return the keys of the documents, or else of the pictures, of a request that the model is shown."""
        return {
            image.blob
            for message in request.messages
            if not isinstance(message, AssistantMessage)
            for image in message.images
            if bool(image.pages) is documents and self.takes(image)
        }

    def leave_out(self, media: set[str]) -> None:
        """Never show these pictures and documents again."""
        if media:
            self._refused |= media
            self.forget_forms()

    def drop_pictures(self) -> None:
        """Show the model no picture from now on, in no conversation."""
        self.blind = True
        self.forget_forms()

    def forget_forms(self) -> None:
        """Show messages with pictures or documents otherwise than before."""
        self.changes += 1

    async def load(
        self, message: MediaT, load: Callable[[Image], Awaitable[LoadedT]]
    ) -> tuple[MediaT, dict[str, LoadedT]]:
        """Return the message as the model is shown it, and its pictures and documents by key, as far as they exist."""
        taken = [image for image in message.images if self.takes(image)]
        found: dict[str, LoadedT] = {}
        for image in taken:
            with suppress(ToolError):
                found[image.blob] = await load(image)
        return _as_shown(message, taken, found), found


def _as_shown(message: MediaT, taken: Sequence[Image], found: Collection[str]) -> MediaT:
    """Return the message with the media that are found: lines say which pictures it lacks, documents stay as text."""
    kept = tuple(image for image in taken if image.blob in found)
    lost = [NO_LONGER_KEPT] * sum(not image.pages for image in taken if image.blob not in found)
    unseen = [NOT_SEEN] if any(not image.pages and image not in taken for image in message.images) else []
    if isinstance(message, ToolResult):
        content = "\n".join([message.content, *lost, *unseen]).strip() if lost or unseen else message.content
        return replace(message, content=content, images=kept)
    text = _without_documents(message, {image.blob for image in kept if image.pages})
    # What stands at the end may be a reminder.
    return replace(message, text="\n".join([*unseen, text, *lost]).strip() if lost or unseen else text, images=kept)


def _without_documents(message: UserMessage, documents: Collection[str]) -> str:
    """Return the text of a message without that of these documents."""
    text = message.text
    for piece in reversed(message.foreign):
        if piece.blob in documents:
            text = text[: piece.start] + AS_A_FILE + text[piece.end :]
    return text


def caption(message: ToolResult) -> str:
    """Return the text next to the pictures of a result, where a protocol takes them from a person only."""
    return f"[what {message.name} returned, call {message.call_id}]"


async def again_without_media(
    ask: Callable[[Request], AsyncGenerator[ModelEvent, None]], request: Request, media: AcceptedMedia
) -> AsyncGenerator[ModelEvent, None]:
    """Yield the events of a request; one that is refused for its pictures or documents is made again without them.

    The refusal is remembered while the process lives: for the model where it takes no pictures, else for those of this
    request, so that a conversation with a photo in it goes on. Of documents it is remembered once the request without
    them is answered, for only then they were the reason, and never where a request was too long.

    Raises:
        ModelError: as `ask`.
    """
    begun, refused = False, set[str]()
    while True:
        before = media.changes
        try:
            async with aclosing(ask(request)) as events:
                async for event in events:
                    if not begun:
                        begun = True
                        media.leave_out(refused)
                    yield event
            return
        except ModelError as error:
            if begun:
                raise
            if documents := _refused_documents(error, request, media):
                request = _without(request, documents)
                refused |= documents if error.kind in MEDIA_REFUSALS else set()
                continue
            # Another request may have been refused meanwhile for the same.
            is_known = error.kind in MEDIA_REFUSALS and media.changes > before
            if not (_leave_out_pictures(error, request, media) or is_known):
                raise


def _refused_documents(error: ModelError, request: Request, media: AcceptedMedia) -> set[str]:
    """Return the documents of a request if they are the likely reason for a refusal."""
    words = str(error)
    is_likely = error.kind is ModelErrorKind.OVERFLOW or (  # their size is the least known
        error.kind in MEDIA_REFUSALS
        and (
            ABOUT_DOCUMENTS.search(words)
            # Servers make pictures of their pages.
            or (_is_about_pictures(words) and not media.blobs_in(request, documents=False))
        )
    )
    return media.blobs_in(request, documents=True) if is_likely else set()


def _without(request: Request, documents: Collection[str]) -> Request:
    """Return the request with these documents as text."""
    messages = [
        replace(message, images=tuple(image for image in message.images if image.blob not in documents))
        if not isinstance(message, AssistantMessage) and any(image.blob in documents for image in message.images)
        else message
        for message in request.messages
    ]
    return replace(request, messages=messages)


def _leave_out_pictures(error: ModelError, request: Request, media: AcceptedMedia) -> bool:
    """Leave out the pictures if they are the likely reason for a refusal; return whether that changes anything."""
    words, pictures = str(error), media.blobs_in(request, documents=False)
    if error.kind not in MEDIA_REFUSALS or not pictures or not _is_about_pictures(words):
        return False
    media.leave_out(pictures)
    if NO_PICTURES.search(words) and not ONE_PICTURE.search(words):
        media.drop_pictures()
    return True


def _is_about_pictures(words: str) -> bool:
    return bool(ABOUT_PICTURES.search(words) or NO_PICTURES.search(words))

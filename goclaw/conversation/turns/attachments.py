"""Attachments of a person's message, as the model reads them: pictures, files in the workspace, documents, transcripts.

A file that cannot be fetched or opened becomes a line of text: a turn never fails for a file. Names lose everything
harmful, and types are detected from the content, because the sender's type may be wrong.
"""

import asyncio
import codecs
import logging
import mimetypes
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from goclaw.channels.base import Channel
from goclaw.common.core.document_kinds import OFTEN_TEXTS, SAMPLE, Kind, kind_of
from goclaw.common.core.events import LOCAL, UPLOADED, Attachment, Inbound
from goclaw.common.core.messages import Image, Piece, Provenance, SourceKind, UserMessage, join
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask, mask_known
from goclaw.conversation.agent.context.model_messages import OF_THE_SENDER, plain
from goclaw.conversation.agent.context.window import WINDOW_SHARE, files_for
from goclaw.durable.store.blobs import image_type
from goclaw.errors import DeliveryError, StateError, ToolError, TranscriptionError
from goclaw.llm.base import PDF, ChatModel
from goclaw.llm.token_counts import estimate_text
from goclaw.llm.transcription import Recording, Transcriber
from goclaw.tools.toolkit.base import ToolEnvironment
from goclaw.tools.toolkit.documents import Selection, SourceFile, read_document
from goclaw.tools.toolkit.pictures import keep_picture
from goclaw.tools.toolkit.registry import Registry

log = logging.getLogger(__name__)

INBOX = "inbox"
"""Folder of the workspace for received files."""
WRITE = "write"
"""The tool whose permission storing files requires: who may not write by asking does not write by sending."""
PAUSES, MAX_PAUSE = (1.0, 2.0), 10.0
"""Seconds between attempts to fetch a file: short, because a person waits."""
CHARACTERS = 3
"""A token of a text in Latin letters has at least about as many."""
A_RECORDING = "the transcript of a recording"
OF_WHAT_IS_ANSWERED = " of the message that this answers"
SPOKEN, IN_A_FILE = Provenance(SourceKind.VOICE), Provenance(SourceKind.FILE)
_KINDS: Mapping[str, str] = {
    "image": "Picture",
    "document": "Document",
    "voice": "Voice message",
    "audio": "Audio file",
    "video": "Video",
    "video_note": "Video note",
    "animation": "Animation",
}
HOW_TO_TRANSCRIBE = "no model that understands speech is set up"
MAX_NAME_BYTES = 120
"""Maximum bytes of a name, of the 255 that file systems allow: a number may follow."""
MAX_NAME_ENDING = 20
"""Maximum bytes of the ending that a name keeps when it is cut."""
_KEPT_IN_NAMES = frozenset("._- ()+,=")
_SOUND_ENDINGS = {
    "audio/ogg": ".ogg",
    "audio/mpeg": ".mp3",
    "audio/mp4": ".m4a",
    "audio/x-m4a": ".m4a",
    "audio/wav": ".wav",
    "audio/x-wav": ".wav",
    "audio/flac": ".flac",
    "audio/webm": ".webm",
    "video/mp4": ".mp4",
}
"""The endings that transcribers know (OpenAI's API reference, "Create transcription")."""
_BYTE_ORDER_MARKS = (
    # The longer mark first: it begins with the shorter one.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = bytes(sorted(frozenset(range(0x20)) - frozenset(b"\t\n\r\f\x1b")))
"""Control characters that no text contains, except ESC, which logs with colours do."""
_OF_TEXT = frozenset({".txt", ".csv", ".tsv", ".log", ".md", ".ini", ".cfg", ".srt", ".html", ".htm", ".xml", ".sql"})


@record
class ShownFiles:
    """How the files of one message are shown to the model that will answer."""

    images: list[Image]
    """The pictures and documents so far."""
    characters: int
    """Maximum characters of a text."""
    model: ChatModel | None
    """None: it is not known."""

    def takes(self, data: bytes, pages: int) -> bool:
        """Whether a document is given to the model as a file, next to those so far."""
        if self.model is None or not pages or kind_of(data[:SAMPLE], "") is not Kind.PDF:
            return False
        document = Image("", PDF, pages, len(data))
        return document in files_for(self.model, [*(image for image in self.images if image.pages), document])

    def fit(self, text: str) -> str:
        """Return the beginning of a text that takes no more than its share of the model's window."""
        tokens, share = estimate_text(text), self.model.context_window // WINDOW_SHARE if self.model else 0
        return text[: len(text) * share // tokens] if 0 < share < tokens else text


def mark_cut(part: str, text: str) -> str:
    """Return the beginning of a text, with a line that says how much follows, if any."""
    return f"{part}\n[cut: {len(text) - len(part):,} more characters]" if len(part) < len(text) else part


@record
class Attachments:
    """Opens what came with messages."""

    environment: ToolEnvironment
    channels: Mapping[str, Channel]
    registry: Registry
    transcriber: Transcriber | None

    async def message(
        self, inbound: Inbound, beside: Sequence[Piece] = (), model: ChatModel | None = None
    ) -> UserMessage:
        """Return the message with all its attachments, after words overheard before it.

        Repeating it after a crash gives the same result: files are fetched again and found in the workspace. `model`:
        the one that will answer, as far as is known; how much of a file is shown depends on its window.
        """
        shown = ShownFiles(list(inbound.given.images) if inbound.given else [], self._limit(model), model)
        parts: list[Piece] = [*beside, *inbound.pieces]
        for attachment in inbound.attachments:
            try:
                data = await self._fetch(inbound.address.channel, attachment)
            except DeliveryError as error:
                parts.append((f"[{_describe(attachment)}: could not be fetched: {error}]", ""))
                continue
            image = await self._image(attachment, data)
            if image is None:
                parts += await self._open(inbound, attachment, data, shown)
            else:
                shown.images.append(image)
                parts.append((await self._picture(inbound, attachment, image, data), ""))
        text, foreign = join(parts)
        return UserMessage(text, tuple(dict.fromkeys(shown.images)), foreign)  # the same file twice is shown once

    def _limit(self, model: ChatModel | None) -> int:
        """Return the characters of a file that a message shows: as configured, but no more than the window's share."""
        limit = self.environment.config.media.text_characters
        return min(limit, CHARACTERS * model.context_window // WINDOW_SHARE) if model else limit

    async def _fetch(self, name: str, attachment: Attachment) -> bytes:
        if name == LOCAL and attachment.ref.startswith(UPLOADED):
            try:
                return await self.environment.blobs.get(attachment.ref.removeprefix(UPLOADED))
            except ToolError as error:
                raise DeliveryError(str(error), permanent=True) from error
        channel = self.channels.get(name)
        if channel is None:
            raise DeliveryError(f"no channel named {name} is connected", permanent=True)
        for pause in PAUSES:
            try:
                return await channel.fetch(attachment)
            except DeliveryError as error:
                if error.permanent:
                    raise
                await self.environment.clock.sleep(min(error.retry_after or pause, MAX_PAUSE))
        return await channel.fetch(attachment)

    async def _image(self, attachment: Attachment, data: bytes) -> Image | None:
        """Return the picture to show to the model; None if the file is not a picture that models accept."""
        if attachment.kind != "image":
            return None
        # Channels make pictures themselves; a named file is what its sender says it is, or not, and a model
        # that is shown something else refuses this conversation from then on.
        mime = image_type(data) if attachment.name else attachment.mime
        return (await keep_picture(self.environment, data, mime))[0] if mime is not None else None

    async def _picture(self, inbound: Inbound, attachment: Attachment, image: Image, data: bytes) -> str:
        """Keep the picture as a file, too: tools work on files, and a model without eyes learns that it exists.

        Returns the line about it, empty where the sender may keep no files: the picture itself is before the model.
        """
        if self.registry.find(WRITE, inbound.actor) is None:
            return ""
        name = safe_name(attachment.name or picture_name(image.blob, image.mime), image.mime)
        return f"[{_describe(attachment)}, {in_words(len(data))}: {await self._save(inbound, name, data)}]"

    async def _open(self, inbound: Inbound, attachment: Attachment, data: bytes, shown: ShownFiles) -> list[Piece]:
        """Return the lines and the text of a file; its pictures and the file itself are added to `shown`."""
        is_media = kind_of(data[:SAMPLE], attachment.name, attachment.mime) is Kind.MEDIA
        if is_media and not attachment.seconds:
            attachment = replace(attachment, seconds=await self._seconds_of(data))
        if is_media and self.transcriber and attachment.kind in ("video", "document"):
            return await self._recording(inbound, attachment, data, shown, spoken=False)
        match attachment.kind:
            case "voice" | "audio" | "video_note":
                by_sender = attachment.origin is None or attachment.origin.kind is SourceKind.PERSON
                spoken = attachment.kind != "audio" and by_sender and not inbound.forwarded
                return await self._recording(inbound, attachment, data, shown, spoken=spoken)
            case "image" | "document" | "video" | "animation":
                return await self._document(inbound, attachment, data, shown)

    async def _document(self, inbound: Inbound, attachment: Attachment, data: bytes, shown: ShownFiles) -> list[Piece]:
        name = safe_name(attachment.name, attachment.mime, attachment.kind)
        place = await self._save(inbound, name, data)
        kind, refused = kind_of(data[:SAMPLE], name, attachment.mime), ""
        if kind not in (None, Kind.TABLE, Kind.MEDIA):
            try:
                return await self._convert(name, data, attachment, place, shown)
            except ToolError as error:
                refused = mask(str(error))
        is_text = not refused or kind in OFTEN_TEXTS
        text = await asyncio.to_thread(text_of, data, name, attachment.mime) if is_text else None
        head, mime = f"{_describe(attachment)}, {in_words(len(data))}", plain(attachment.mime, "[]<>", 100)
        if refused and text is None:
            # The reason may repeat words of the document.
            failed = f"[{head}, {mime}: {place}; could not be read]"
            return [(failed, ""), (refused, f"the file {name}", IN_A_FILE)]
        if text is None:
            return [(f"[{head}, {mime}: {place}]", "")]
        text = mask_known(text)
        part = shown.fit(text[: shown.characters])
        if len(part) < len(text):
            place = f"{place}; the first {len(part):,} of {len(text):,} characters follow"
        return [(f"[{head}: {place}]", ""), (part, f"the file {name}", IN_A_FILE)]

    async def _convert(
        self, name: str, data: bytes, attachment: Attachment, place: str, shown: ShownFiles
    ) -> list[Piece]:
        """Return a document as text, its outline and first pages where it is long; a PDF also as a file, if it may be.

        Our own line has no word of the document: its title or the name of a sheet may pose as the words of the sender.

        Raises:
            ToolError: it cannot be read.
        """
        head = f"{_describe(attachment)}, {in_words(len(data))}"
        source = SourceFile(name, data, attachment.mime)
        document = await read_document(self.environment, source, Selection(characters=shown.characters))
        blob, pages, media = "", document.total or 0, document.pictures
        if shown.takes(data, pages):
            blob, media = await self.environment.blobs.put(data, PDF), ()  # the file has the scanned pages, too
            shown.images.append(Image(blob, PDF, pages, len(data)))
        for mime, picture in media:
            shown.images.append(Image(await self.environment.blobs.put(picture, mime), mime))
        counted = f"; {document.size}" if document.size else ""
        text = "\n".join(filter(None, (f"[{document.head}]", document.content)))
        told = mark_cut(shown.fit(text), text)
        return [(f"[{head}: {place}{counted}]", ""), (told, f"the file {name}", IN_A_FILE, blob)]

    async def _recording(
        self, inbound: Inbound, attachment: Attachment, data: bytes, shown: ShownFiles, *, spoken: bool
    ) -> list[Piece]:
        """Return the transcript; `spoken`: by the sender. Without one, and of sound files and film, a file is kept."""
        is_film = attachment.mime.startswith("video/")
        mime = attachment.mime if is_film else sound_type(data) or attachment.mime
        name = recording_name(attachment.name, mime, attachment.kind)
        failed, words = "", ""
        try:
            words = await self._transcribe(Recording(data, mime, name))
        except TranscriptionError as error:
            failed = mask(str(error))
            log.warning("a %s could not be transcribed: %s", attachment.kind, failed)
        head = _describe(attachment)
        if attachment.kind != "voice" or failed:
            head = f"{head}, {in_words(len(data))}, {await self._save(inbound, name, data)}"
        if failed:
            return [(f"[{head}; not transcribed: {failed}]", "")]
        if not words:
            return [(f"[{head}, transcribed: nobody speaks in it]", "")]
        origin, provenance = (OF_THE_SENDER, SPOKEN) if spoken else (A_RECORDING, IN_A_FILE)
        words = mark_cut(shown.fit(words[: shown.characters]), words)
        return [(f"[{head}, transcribed:]", ""), (words, origin, provenance)]

    async def _seconds_of(self, data: bytes) -> int:
        """Return how long sound or film is; 0: not known."""
        try:
            return (await read_document(self.environment, SourceFile("recording", data), Selection())).total or 0
        except ToolError:
            return 0

    async def _transcribe(self, recording: Recording) -> str:
        transcriber, seconds = self.transcriber, self.environment.config.media.transcriber_seconds
        if transcriber is None:
            raise TranscriptionError(HOW_TO_TRANSCRIBE)
        try:
            async with asyncio.timeout(seconds):
                return await transcriber.transcribe(recording)
        except TimeoutError:
            raise TranscriptionError(f"{transcriber.spec} took longer than {seconds:g} s") from None

    async def _save(self, inbound: Inbound, name: str, data: bytes) -> str:
        """Put a file into the workspace that the sender works in; says where it is, or why it is nowhere."""
        if self.registry.find(WRITE, inbound.actor) is None:
            return f"not kept, because its sender may not use the tool {WRITE}"
        try:
            workspace = await self.environment.workspace(inbound.actor, inbound.session)
            return f"saved as {await workspace.add_bytes(f'{INBOX}/{name}', data)}"
        except (ToolError, StateError) as error:
            return f"could not be saved: {error}"


def message_without_files(inbound: Inbound) -> UserMessage:
    """Return the message of a turn that ended before it was opened; it says what came with it."""
    lines = [(f"[{_describe(attachment)}: not opened]", "") for attachment in inbound.attachments]
    text, foreign = join([*inbound.pieces, *lines])
    return UserMessage(text, foreign=foreign)


def _describe(attachment: Attachment) -> str:
    """Describe an attachment: its kind, its name on one line without our brackets, its origin, its duration."""
    named = f"{_KINDS[attachment.kind]} {plain(attachment.name, '[]<>', 100)}".strip() + (
        OF_WHAT_IS_ANSWERED if attachment.origin else ""
    )
    return f"{named}, {attachment.seconds} s" if attachment.seconds else named


def in_words(size: int) -> str:
    """Return a size as people say it."""
    if size < 1 << 10:
        return f"{size} bytes"
    return f"{size / (1 << 10):.0f} KB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MB"


def safe_name(name: str, mime: str, unnamed: str = "document") -> str:
    """Return a file's name without folders, marks of shells, control characters, and a dot or dash in front.

    A file without a name is called `unnamed`, with the ending of its type.
    """
    last = unicodedata.normalize("NFC", name).replace("\\", "/").rpartition("/")[2]
    kept = "".join(character if character.isalnum() or character in _KEPT_IN_NAMES else "_" for character in last)
    kept = kept.lstrip(".-_ ").rstrip(". ")
    if not kept:
        return f"{unnamed}{mimetypes.guess_extension(mime) or ''}"
    path = PurePosixPath(kept)
    ending = path.suffix if len(path.suffix.encode()) <= MAX_NAME_ENDING else ""
    stem = kept.removesuffix(ending).encode()[:MAX_NAME_BYTES].decode(errors="ignore")
    return stem.rstrip(". ") + ending


def recording_name(name: str, mime: str, kind: str) -> str:
    """Return a name for something that sounds; its ending says its kind."""
    ending = _SOUND_ENDINGS.get(mime.partition(";")[0].strip().lower(), "")
    if not name:
        return f"{kind}{ending or '.ogg'}"
    safe = safe_name(name, mime)
    known = PurePosixPath(safe).suffix.lower() in {*_SOUND_ENDINGS.values(), ".oga", ".mpga", ".mpeg"}
    return safe if known or not ending else f"{safe}{ending}"


def picture_name(blob: str, mime: str) -> str:
    """Return a name for a picture that came without one: the same for the same bytes, whenever they come."""
    return f"picture-{blob[:8]}{mimetypes.guess_extension(mime) or ''}"


def sound_type(data: bytes) -> str | None:
    """Return the media type of a recording, where its first bytes say."""
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return "audio/wav"
    if data[4:8] == b"ftyp":
        return "audio/mp4"
    marks = ((b"OggS", "audio/ogg"), (b"ID3", "audio/mpeg"), (b"\xff\xfb", "audio/mpeg"), (b"fLaC", "audio/flac"))
    return next((mime for mark, mime in marks if data.startswith(mark)), None)


def text_of(data: bytes, name: str, mime: str) -> str | None:
    """Decode a file as text; None if it is binary. Takes 0.1 s for 20 MB: do not call it on the event loop."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return _decode(data, encoding)
    if len(data.translate(None, _CONTROLS)) != len(data):
        return None
    text = _decode(data, "utf-8")
    if text is None and (mime.startswith("text/") or PurePosixPath(name).suffix.lower() in _OF_TEXT):
        # Older programs on Windows; every byte means something in it.
        text = data.decode("cp1252", "replace")
    return text


def _decode(data: bytes, encoding: str) -> str | None:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text

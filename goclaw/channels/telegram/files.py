"""The files of a message of Telegram's: which of them we open, and a line in words for everything else."""

from collections.abc import Callable, Mapping
from typing import Any

from goclaw.events import Attachment

MAX_IMAGE = 5 << 20
"""Bytes of a picture that we take (goclaw-facts, "Telegram": images up to 5 MB)."""
MAX_FILE = 20 << 20
"""Bytes that a bot may download (Bot API, getFile)."""
IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
IN_WORDS = ("animation", "video_note", "video", "sticker", "location", "contact", "poll")
"""Kinds of content that nobody opens: the agent is told that they came, so that nobody talks to a wall. An animation
comes with a document of the same file: it is looked for first."""
LONGEST_MIME = 100

Json = Mapping[str, Any]
Found = tuple[tuple[Attachment, ...], list[str]]


def files_of(message: Json) -> Found:
    """What can be opened of a message, and a line for what cannot."""
    for kind in IN_WORDS:
        if kind in message:
            article = "An" if kind[0] in "aeiou" else "A"
            return (), [f"[{article} {kind.replace('_', ' ')} came with this; it cannot be opened here.]"]
    for kind, read in _KINDS.items():
        if kind in message:
            return read(message[kind])
    return (), []


def limit_of(attachment: Attachment) -> int:
    """Bytes of such a file that we take."""
    return MAX_IMAGE if attachment.kind == "image" else MAX_FILE


def size_of(file: Json) -> int | None:
    """Bytes, if Telegram says."""
    return _number(file["file_size"]) if "file_size" in file else None


def in_megabytes(size: int) -> str:
    """A size as people say it; never rounded down to a limit that it is past."""
    return f"{-(-size * 10 // (1 << 20)) / 10:g} MB"


def _photo(sizes: Any) -> Found:
    fitting = [size for size in sizes if (size_of(size) or 0) <= MAX_IMAGE]
    if not fitting:
        smallest = min(size_of(size) or 0 for size in sizes)
        return (), [_too_large("picture", smallest, MAX_IMAGE)]
    best = max(fitting, key=lambda size: int(size["width"]) * int(size["height"]))
    return (Attachment("image", str(best["file_id"]), "image/jpeg", size=size_of(best)),), []


def _document(file: Json) -> Found:
    mime, name, size = _mime(file, "application/octet-stream"), str(file.get("file_name", "")), size_of(file)
    if (size or 0) > MAX_FILE:
        return (), [_too_large(f"document {_line(name)}", size or 0, MAX_FILE)]
    kind = "image" if mime in IMAGES and (size or 0) <= MAX_IMAGE else "document"
    return (Attachment(kind, str(file["file_id"]), mime, name, size),), []  # type: ignore[arg-type]  # one of two words


def _voice(file: Json) -> Found:
    return _recording(file, "voice message", "voice", "audio/ogg")


def _audio(file: Json) -> Found:
    return _recording(file, "audio file", "audio", "audio/mpeg")


def _recording(file: Json, what: str, kind: str, mime: str) -> Found:
    name, size, seconds = str(file.get("file_name", "")), size_of(file), _number(file.get("duration", 0))
    if (size or 0) > MAX_FILE:
        return (), [_too_large(f"{what} {_line(name)}", size or 0, MAX_FILE)]
    found = Attachment(kind, str(file["file_id"]), _mime(file, mime), name, size, seconds)  # type: ignore[arg-type]  # voice or audio
    return (found,), []


_KINDS: Mapping[str, Callable[[Any], Found]] = {
    "photo": _photo,
    "document": _document,
    "voice": _voice,
    "audio": _audio,
}


def _too_large(what: str, size: int, limit: int) -> str:
    return f"[{what.strip()}, {in_megabytes(size)}: larger than {limit >> 20} MB, not opened]"


def _mime(file: Json, default: str) -> str:
    """The media type that the sender's client gave, which may be anything."""
    given = str(file.get("mime_type", ""))
    return given if given.isascii() and given.isprintable() and 0 < len(given) <= LONGEST_MIME else default


def _line(name: str) -> str:
    """A file's name, which its sender chose, on one line of bounded length and without our brackets."""
    return "".join(character for character in name if character.isprintable() and character not in "[]")[:100]


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return value

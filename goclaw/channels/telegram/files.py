"""The files of a Telegram message, and a line of text for all its other content."""

from collections.abc import Callable, Mapping
from typing import Any

from goclaw.channels.telegram.descriptions import described, in_one_line
from goclaw.events import Attachment

MAX_IMAGE = 5 << 20
"""Maximum bytes of a picture (goclaw-facts, "Telegram": images up to 5 MB)."""
MAX_FILE = 20 << 20
"""Maximum bytes that a bot may download (Bot API, getFile)."""
IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
MAX_MIME = MAX_NAME = 100

Json = Mapping[str, Any]
Found = tuple[tuple[Attachment, ...], list[str]]


def files_of(message: Json) -> Found:
    """Return the files of a message, and a line for what else it brings or what cannot be downloaded."""
    for kind, read in _KINDS.items():
        if kind in message:
            return read(message[kind])
    line = described(message)
    return (), [line] if line else []


def limit_of(attachment: Attachment) -> int:
    """Return the bytes of such a file that we take."""
    return MAX_IMAGE if attachment.kind == "image" else MAX_FILE


def size_of(file: Json) -> int | None:
    """Return the bytes, if Telegram says."""
    return _number(file["file_size"]) if "file_size" in file else None


def in_megabytes(size: int) -> str:
    """Return a size as people say it; never rounded down to a limit that it is past."""
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
        return (), [_too_large(f"document {in_one_line(name, MAX_NAME)}", size or 0, MAX_FILE)]
    kind = "image" if mime in IMAGES and (size or 0) <= MAX_IMAGE else "document"
    return (Attachment(kind, str(file["file_id"]), mime, name, size),), []  # type: ignore[arg-type]  # one of two words


def _voice(file: Json) -> Found:
    return _recording(file, "voice message", "voice", "audio/ogg")


def _audio(file: Json) -> Found:
    return _recording(file, "audio file", "audio", "audio/mpeg")


def _video(file: Json) -> Found:
    return _recording(file, "video", "video", "video/mp4")


def _video_note(file: Json) -> Found:
    return _recording(file, "video note", "video_note", "video/mp4")


def _animation(file: Json) -> Found:
    return _recording(file, "animation", "animation", "video/mp4")


def _recording(file: Json, what: str, kind: str, mime: str) -> Found:
    name, size, seconds = str(file.get("file_name", "")), size_of(file), _number(file.get("duration", 0))
    if (size or 0) > MAX_FILE:
        return (), [_too_large(f"{what} {in_one_line(name, MAX_NAME)}", size or 0, MAX_FILE)]
    found = Attachment(kind, str(file["file_id"]), _mime(file, mime), name, size, seconds)  # type: ignore[arg-type]  # one of the kinds above
    return (found,), []


_KINDS: Mapping[str, Callable[[Any], Found]] = {
    # An animation comes with a document of the same file: it is looked for first.
    "animation": _animation,
    "photo": _photo,
    "document": _document,
    "voice": _voice,
    "audio": _audio,
    "video": _video,
    "video_note": _video_note,
}


def _too_large(what: str, size: int, limit: int) -> str:
    return f"[{what.strip()}, {in_megabytes(size)}: larger than {limit >> 20} MB, not opened]"


def _mime(file: Json, default: str) -> str:
    """Return the media type that the sender's client gave, which may be anything."""
    given = str(file.get("mime_type", ""))
    return given if given.isascii() and given.isprintable() and 0 < len(given) <= MAX_MIME else default


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return value

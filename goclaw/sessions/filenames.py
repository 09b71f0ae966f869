"""File names for received files: the sender's name without anything harmful."""

import mimetypes
import unicodedata
from pathlib import PurePosixPath

MAX_CHARACTERS = 120
"""Maximum bytes of a name, of the 255 that file systems allow: a number may follow."""
MAX_ENDING = 20
_KEPT = frozenset("._- ()+,=")
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


def safe_name(name: str, mime: str, unnamed: str = "document") -> str:
    """Return a file's name without folders, marks of shells, control characters, and a dot or dash in front.

    A file without a name is called `unnamed`, with the ending of its type.
    """
    last = unicodedata.normalize("NFC", name).replace("\\", "/").rpartition("/")[2]
    kept = "".join(character if character.isalnum() or character in _KEPT else "_" for character in last)
    kept = kept.lstrip(".-_ ").rstrip(". ")
    if not kept:
        return f"{unnamed}{mimetypes.guess_extension(mime) or ''}"
    path = PurePosixPath(kept)
    ending = path.suffix if len(path.suffix.encode()) <= MAX_ENDING else ""
    stem = kept.removesuffix(ending).encode()[:MAX_CHARACTERS].decode(errors="ignore")
    return stem.rstrip(". ") + ending


def recording_name(name: str, mime: str, kind: str) -> str:
    """Return a name for something that sounds; its ending says what it is."""
    ending = _SOUND_ENDINGS.get(mime.partition(";")[0].strip().lower(), "")
    if not name:
        return f"{kind}{ending or '.ogg'}"
    safe = safe_name(name, mime)
    known = PurePosixPath(safe).suffix.lower() in {*_SOUND_ENDINGS.values(), ".oga", ".mpga", ".mpeg"}
    return safe if known or not ending else f"{safe}{ending}"


def picture_name(blob: str, mime: str) -> str:
    """Return a name for a picture that came without one: the same for the same bytes, whenever they come."""
    return f"picture-{blob[:8]}{mimetypes.guess_extension(mime) or ''}"

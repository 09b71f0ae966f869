"""Detection of file types from content: the sender's type may be wrong."""

import codecs
from pathlib import PurePosixPath

_MARKS = (
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
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decoded(data, encoding)
    if len(data.translate(None, _CONTROLS)) != len(data):
        return None
    text = _decoded(data, "utf-8")
    if text is None and (mime.startswith("text/") or PurePosixPath(name).suffix.lower() in _OF_TEXT):
        # Older programs on Windows; every byte means something in it.
        text = data.decode("cp1252", "replace")
    return text


def _decoded(data: bytes, encoding: str) -> str | None:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text

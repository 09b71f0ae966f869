"""Text files, as they come: what lies in archives and is attached to mails. Everything else is refused."""

import codecs
from typing import BinaryIO

from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted, add_flow

_MAX_TEXT = 20 << 20
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Read a text in lines."""
    data = file.read(_MAX_TEXT + 1)
    if b"\0" in data[:8_192] and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Refused(f"is of a kind that is not read{f' ({wanted.mime[:100]})' if wanted.mime else ''}")
    answer.kind = "text"
    add_flow(answer, wanted, ((0, line) for line in decode(data[:_MAX_TEXT]).splitlines()))


def decode(data: bytes, declared: str = "") -> str:
    """Decode a text: by its mark, as UTF-8 if it is valid, by the declared charset, else as Windows-1252."""
    marked = [encoding for mark, encoding in _MARKS if data.startswith(mark)]
    for encoding in (*marked, "utf-8", declared):
        try:
            return data.decode(encoding) if encoding else data.decode("cp1252", "replace")
        except (UnicodeDecodeError, LookupError):
            continue
    return data.decode("cp1252", "replace")

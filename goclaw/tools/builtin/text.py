"""Conversion of text between models and files: as bytes for the system, and as a file that keeps its form."""

import codecs
import re

from goclaw.common.core.records import record
from goclaw.common.core.redact import reveal
from goclaw.common.workspace import FileStamp, Opened
from goclaw.errors import InvalidInput, ToolError

LATIN, LATIN_NAME = "cp1252", "Latin-1 (Windows-1252)"
"""The encoding of text that is not UTF-8: a superset of ISO 8859-1, as in browsers (WHATWG Encoding, 4.2)."""
_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""One that is not ASCII, in UTF-8: where such is, the text is a damaged one of that."""
_JUDGED = 1 << 20
"""Bytes in which these are looked for: a search lets no other thread run."""
WITHIN = 4
"""A cut is moved to the end of a line where one is in this part of the text; else it is within a line."""
MAX_BYTES = 20 << 20
"""Bytes of a file that can be edited: it is held in memory several times."""
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def encode(text: str, field: str) -> bytes:
    """UTF-8.

    Raises:
        InvalidInput: half a surrogate pair, which JSON can carry and no file can.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        found = ord(text[error.start])
        raise InvalidInput(f'field "{field}": expected Unicode text, got half a character (U+{found:04X})') from None


@record
class Text:
    """A text file as it was read.

    Text that is neither UTF-8, UTF-16 with its mark nor Latin-1 is kept byte by byte: each byte that means nothing in
    UTF-8 is half a surrogate pair in `body`, which no model can write.
    """

    body: str
    """Without the byte order mark, line ends as they are."""
    mark: bytes
    """The byte order mark, or nothing."""
    version: FileStamp
    encoding: str = "utf-8"
    is_whole: bool = True
    """All of it is text in that encoding."""

    @property
    def is_crlf(self) -> bool:
        """Whether every line ends in CR LF, as Windows writes them."""
        ends = self.body.count("\n")
        return ends > 0 and self.body.count("\r\n") == ends

    def with_line_ends(self, part: str) -> str:
        """`part` with the line ends of the file: models write LF."""
        return part.replace("\r\n", "\n").replace("\n", "\r\n") if self.is_crlf else part

    def content(self, body: str) -> bytes:
        """Return the bytes of the file with another body."""
        return self.mark + body.encode(self.encoding, "strict" if self.is_whole else "surrogateescape")

    def rewritten(self, content: str) -> tuple[bytes, str]:
        """Return new content as bytes in the form of the file, and the parts of the form added to it, in words.

        Kept are the byte order mark, CR LF where every line ends so, and an encoding that has all of its characters.
        """
        if not content:
            return b"", ""
        plain = content.removeprefix("\ufeff")
        body, encoding = self.with_line_ends(plain), self.encoding
        try:
            data = body.encode(encoding)
        except UnicodeEncodeError:
            encoding, data = "utf-8", body.encode()
        kept = {
            "CR LF": body != plain,
            "the byte order mark": bool(self.mark) and content == plain,
            LATIN_NAME if encoding == LATIN else "UTF-16": data != body.encode(),
        }
        return self.mark + data, ", ".join(form for form, is_kept in kept.items() if is_kept)

    def check_fits(self, path: str, part: str) -> None:
        """Check that `part` can be written in the file's encoding.

        Raises:
            ToolError: the file is in an encoding that has no such character, or is unknown, and `part` is not plain
                ASCII.
        """
        try:
            part.encode(self.encoding)
        except UnicodeEncodeError as error:
            found = part[error.start]
            raise ToolError(
                f"{path} is {LATIN_NAME}, which has no {found!r}: leave it out, or convert the file to UTF-8"
            ) from None
        if not self.is_whole and not part.isascii():
            raise ToolError(f"{path} is not UTF-8: only ASCII can be put into it; convert it first, or use ASCII")


def text_of(path: str, opened: Opened, tool: str = "edit") -> Text:
    """Decode the text of an opened file.

    Raises:
        ToolError: it is too large, or not text.
    """
    if opened.stat.size > MAX_BYTES:
        raise ToolError(f"file too large: {path} has {opened.stat.size:,} bytes, {tool} takes at most {MAX_BYTES:,}")
    data = opened.file.read(MAX_BYTES)
    version = opened.stat.version
    mark = next((mark for mark in (codecs.BOM_UTF8, *_WIDE) if data.startswith(mark)), b"")
    if mark in _WIDE:
        try:
            return Text(data[len(mark) :].decode(_WIDE[mark]), mark, version, _WIDE[mark])
        except UnicodeDecodeError:
            raise ToolError(f"not a text file: {path} is not UTF-16, as its first bytes say") from None
    if b"\0" in data:
        raise ToolError(f"not a text file: {path} is binary")
    try:
        return Text(data[len(mark) :].decode(), mark, version)
    except UnicodeDecodeError:
        if not mark and is_latin(data):
            return Text(data.decode(LATIN), mark, version, LATIN)
        return Text(data[len(mark) :].decode(errors="surrogateescape"), mark, version, is_whole=False)


def is_latin(data: bytes) -> bool:
    """Whether bytes that are no UTF-8 read as Latin-1."""
    if _CHARACTER.search(data, 0, _JUDGED):
        return False
    try:
        data.decode(LATIN)
    except UnicodeDecodeError:
        return False
    return True


def decode_line(raw: bytes, *, is_whole: bool = True) -> tuple[str, bool]:
    """Decode a line of a text, and tell whether it is Latin-1; bytes of neither that nor UTF-8 become U+FFFD.

    `is_whole`: it does not end within a character.
    """
    try:
        return codecs.utf_8_decode(raw, "strict", is_whole)[0], False
    except UnicodeDecodeError:
        return (raw.decode(LATIN), True) if is_latin(raw) else (raw.decode(errors="replace"), False)


def first_lines(text: str, most: int) -> str:
    """Return the first lines of a text, at most so many characters; of a longer line its beginning."""
    if len(text) <= most:
        return text
    end = text.rfind("\n", most - most // WITHIN, most) + 1
    return text[: end or most]


def last_lines(text: str, most: int, *, from_a_line: bool = True) -> str:
    """Return the last lines of a text, at most so many characters; of a longer line its end.

    `from_a_line`: the text begins with a whole line.
    """
    start = max(0, len(text) - most)
    if text[start - 1] == "\n" if start else from_a_line:
        return text[start:]
    end = text.find("\n", start, start + most // WITHIN) + 1
    return text[end or start :]


def readable_text(text: str) -> str:
    """`text` as a model may read it: bytes that are no text are U+FFFD."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def as_code(name: str) -> str:
    """Return a name as Markdown code: a person decides on it, so all of it is shown and none of it is markup."""
    plain = reveal(name)
    fence = "`"
    while fence in plain:
        fence += "`"
    space = " " if len(fence) > 1 else ""
    return f"{fence}{space}{plain}{space}{fence}"


def as_utf8(data: bytes) -> bytes:
    """UTF-16 with its mark as UTF-8; anything else as it is."""
    encoding = _WIDE.get(data[:2])
    return data[2:].decode(encoding, errors="replace").encode() if encoding else data


def is_wide(sample: bytes) -> bool:
    """Whether a file that begins so is UTF-16 with its mark."""
    return sample[:2] in _WIDE

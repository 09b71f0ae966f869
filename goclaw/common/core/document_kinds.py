"""Kinds of documents by their first bytes, name and media type. It opens nothing; the worker loads it, too.

The first bytes decide where they say something: a name and a media type are what the sender says.
"""

from enum import StrEnum
from pathlib import PurePosixPath

SAMPLE = 1024
"""First bytes of a file that are looked at."""


class Kind(StrEnum):
    """A family of formats that one reader opens."""

    PDF = "pdf"
    ZIP = "zip"
    """Office files, EPUB and archives: their contents say which."""
    TAR = "tar"
    GZIP = "gzip"
    RTF = "rtf"
    OLD_OFFICE = "old-office"
    PICTURE = "picture"
    """Pictures that models do not take."""
    MEDIA = "media"
    """Sound and film."""
    MAIL = "mail"
    CALENDAR = "calendar"
    CONTACTS = "contacts"
    HTML = "html"
    TABLE = "table"
    """CSV and its relatives."""


TEXTS = frozenset({Kind.CALENDAR, Kind.CONTACTS, Kind.HTML, Kind.TABLE})
"""Kinds that are also texts as they are, which tools read and edit line by line."""
_MARKS = (
    (b"%PDF-", Kind.PDF),
    (b"PK\x03\x04", Kind.ZIP),
    (b"PK\x05\x06", Kind.ZIP),
    (b"{\\rtf", Kind.RTF),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Kind.OLD_OFFICE),
    (b"\x1f\x8b\x08", Kind.GZIP),
    (b"II*\0", Kind.PICTURE),
    (b"MM\0*", Kind.PICTURE),
    (b"OggS\0", Kind.MEDIA),
    (b"ID3\2", Kind.MEDIA),
    (b"ID3\3", Kind.MEDIA),
    (b"ID3\4", Kind.MEDIA),
    (b"fLaC\0", Kind.MEDIA),
    (b"\x1a\x45\xdf\xa3", Kind.MEDIA),
)
_ENDINGS = {
    ".eml": Kind.MAIL,
    ".ics": Kind.CALENDAR,
    ".vcf": Kind.CONTACTS,
    ".html": Kind.HTML,
    ".htm": Kind.HTML,
    ".xhtml": Kind.HTML,
    ".csv": Kind.TABLE,
    ".tsv": Kind.TABLE,
}
_TYPES = {
    "message/rfc822": Kind.MAIL,
    "text/calendar": Kind.CALENDAR,
    "text/vcard": Kind.CONTACTS,
    "text/x-vcard": Kind.CONTACTS,
    "text/html": Kind.HTML,
    "application/xhtml+xml": Kind.HTML,
    "text/csv": Kind.TABLE,
}
_STILL = (b"avif", b"avis", b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1")
"""Brands of pictures among the files that begin as MP4 does (ISO/IEC 14496-12)."""
ENDINGS = frozenset(
    (
        *(
            ".pdf",
            ".docx",
            ".docm",
            ".pptx",
            ".pptm",
            ".xlsx",
            ".xlsm",
            ".odt",
            ".ods",
            ".odp",
            ".epub",
            ".rtf",
            ".eml",
        ),
        *(".zip", ".tar", ".tgz"),
    )
)
"""Endings of the names of documents whose text a search finds."""


def kind_of(sample: bytes, name: str, mime: str = "") -> Kind | None:
    """Return the kind of a document; None: it is none, as far as its first `SAMPLE` bytes tell."""
    for mark, kind in _MARKS:
        if sample.startswith(mark):
            return kind
    if sample[257:262] == b"ustar":
        return Kind.TAR
    if sample[4:8] == b"ftyp":
        return Kind.PICTURE if sample[8:12] in _STILL else Kind.MEDIA
    if sample[:4] == b"RIFF" and sample[8:12] in (b"WAVE", b"AVI "):
        return Kind.MEDIA
    if sample[:2] == b"BM" and sample[6:10] == bytes(4):
        return Kind.PICTURE
    # Readers of PDF look for the mark in the first kilobyte; in a text it may stand anywhere.
    if b"%PDF-" in sample and PurePosixPath(name).suffix.lower() == ".pdf":
        return Kind.PDF
    if b"\0" in sample:
        return None
    return _ENDINGS.get(PurePosixPath(name).suffix.lower()) or _TYPES.get(mime.partition(";")[0].strip().lower())

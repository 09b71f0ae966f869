"""Kinds of documents by their first bytes and name. It opens nothing; the worker that reads documents loads it, too.

The first bytes decide where they are known: the sender chose name and media type.
"""

from codecs import BOM_UTF8
from enum import StrEnum
from pathlib import PurePosixPath

DETAILS = "exif"
"""Asks for the place, camera and time of a picture, instead of a file in it."""
SAMPLE = 1024
"""First bytes of a file that are looked at."""


class Kind(StrEnum):
    """A family of formats that one reader opens."""

    PDF = "pdf"
    ZIP = "packages"
    """Office files, EPUB and archives: their contents say which."""
    TAR = "archives"
    RTF = "rtf"
    OLD_OFFICE = "old-office"
    PICTURE = "pictures"
    """Pictures that models do not take."""
    MAIL = "mail"
    HTML = "web"
    CARDS = "cards"
    """Calendars and contacts."""
    MEDIA = "media"
    """Sound and film."""
    TABLE = "sheets"
    """CSV and its relatives."""


TEXTS = frozenset({Kind.HTML, Kind.TABLE})
"""Kinds that are also texts as they are, which tools read and edit line by line."""
OFTEN_TEXTS = TEXTS | {Kind.MAIL, Kind.RTF, Kind.CARDS}
"""Kinds that are shown as the text that they are, if they are text, where their reader refuses them."""
_MARKS = (
    (b"%PDF-", Kind.PDF),
    (b"PK\x03\x04", Kind.ZIP),
    (b"PK\x05\x06", Kind.ZIP),
    (b"{\\rtf", Kind.RTF),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Kind.OLD_OFFICE),
    (b"\x1f\x8b\x08", Kind.TAR),
    (b"BEGIN:VCALENDAR", Kind.CARDS),
    (b"BEGIN:VCARD", Kind.CARDS),
    *((mark, Kind.MEDIA) for mark in (b"OggS\0", b"fLaC\0", b"ID3\2", b"ID3\3", b"ID3\4", b"\xff\xfb", b"\xff\xf3")),
    (b"\x1aE\xdf\xa3", Kind.MEDIA),
    (b"II*\0", Kind.PICTURE),
    (b"MM\0*", Kind.PICTURE),
)
TAKEN = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"RIFF")
"""Beginnings of pictures that models take; they are documents only for their place and camera."""
SEARCHED = {".pdf", ".docx", ".docm", ".pptx", ".xlsx", ".xlsm", ".odt", ".ods", ".odp", ".epub", ".rtf", ".eml"}
"""Endings of documents that searches look into: archives and texts are left out."""
_ENDINGS = {".eml": Kind.MAIL, ".csv": Kind.TABLE, ".tsv": Kind.TABLE, ".ics": Kind.CARDS, ".vcf": Kind.CARDS}
_ENDINGS |= dict.fromkeys((".html", ".htm", ".xhtml"), Kind.HTML)
_TYPES = {"message/rfc822": Kind.MAIL, "text/html": Kind.HTML, "text/csv": Kind.TABLE}
_STILL = (b"avif", b"avis", b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1")
"""Brands of pictures among the files that begin as MP4 does (ISO/IEC 14496-12)."""


def is_searched(path: str) -> bool:
    """Whether a search looks into the text of this document, by its name."""
    return PurePosixPath(path).suffix.lower() in SEARCHED


def kind_of(sample: bytes, name: str, mime: str = "") -> Kind | None:
    """Return the kind of a document, by its first `SAMPLE` bytes; None: no document is known by them."""
    marked = next((kind for mark, kind in _MARKS if sample.removeprefix(BOM_UTF8).startswith(mark)), None)
    ending = PurePosixPath(name).suffix.lower()
    if marked or (ending == ".pdf" and b"%PDF-" in sample):
        return marked or Kind.PDF
    if (sample[4:8] == b"ftyp" and sample[8:12] in _STILL) or (sample[:2] == b"BM" and sample[6:10] == bytes(4)):
        return Kind.PICTURE
    if sample[4:8] == b"ftyp" or (sample[:4] == b"RIFF" and sample[8:12] in (b"WAVE", b"AVI ")):
        return Kind.MEDIA
    if b"\0" in sample:
        return Kind.TAR if sample[257:262] == b"ustar" else None
    return _ENDINGS.get(ending) or _TYPES.get(mime.partition(";")[0].strip().lower())

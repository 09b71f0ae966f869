"""Decoding of bodies: the media types of text, and their character sets."""

import codecs
import re

PAGES = frozenset({"text/html", "application/xhtml+xml"})
_TEXTS = frozenset(
    f"application/{name}"
    for name in (
        *("json", "xml", "javascript", "ecmascript", "x-javascript", "yaml", "x-yaml", "toml", "sql", "graphql"),
        *("x-sh", "x-ndjson", "jsonl", "x-httpd-php", "x-tex", "rtf", "x-www-form-urlencoded"),
    )
)
_CHARSETS = re.compile(
    r"utf-?(8(-sig)?|16(-?[bl]e)?|32(-?[bl]e)?)|(iso-?)?8859-?\d+(-\w)?|windows-?\d+|cp\d+|koi8-[rut]|gbk|gb2312|gb18030"
    r"|big5(-?hkscs)?|euc-?(jp|kr)|shift-?jis|iso-?2022-?(jp|kr)|mac-?\w+|tis-?620"
)
"""Codecs that a page may name. Python has others, which are no characters (hex, zip) or take long (punycode)."""
_WITHOUT_BYTES = re.compile(r"utf-?(16|32)|iso-?2022")
"""Encodings whose bytes may look like UTF-8 by chance."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s{0,10}=\s{0,10}[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"<\?xml[^>]{0,100}?encoding\s{0,10}=\s{0,10}[\"']([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_HEAD = 4_096
"""Bytes in which a page says how it is written (the standard wants 1,024; some have comments before)."""
_HTML = re.compile(rb"\s*(<!--.{0,1000}?-->\s*)?(<!doctype\s+html|<html|<head|<body)", re.IGNORECASE | re.DOTALL)


def is_text(kind: str) -> bool:
    """Whether a media type can be read."""
    return kind.startswith("text/") or kind in _TEXTS | PAGES or kind.endswith(("+json", "+xml", "+yaml"))


def is_page(kind: str, body: bytes) -> bool:
    """Whether it is HTML: what the server says, or what it begins with where it says nothing."""
    return kind in PAGES or (kind in ("", "application/octet-stream") and _HTML.match(body[:_HEAD]) is not None)


def looks_binary(body: bytes, charset: str | None) -> bool:
    """Whether it is no text, whatever the server says."""
    wide = any(body.startswith(mark) for mark, _ in _MARKS) or _WITHOUT_BYTES.match((charset or "").lower())
    return b"\0" in body and not wide


def decoded(body: bytes, charset: str, *, page: bool, cut: bool) -> str:
    """Decode the text: by its byte order mark, as UTF-8 if valid, else by the declared charset, else as Windows-1252.

    Servers are often wrong about it, and hardly anything is valid UTF-8 by chance. `cut`: the last character may be
    incomplete.
    """
    for name in _names(body, charset, page=page):
        try:
            return codecs.getincrementaldecoder(name)("strict").decode(body, final=not cut)
        except (LookupError, UnicodeError):
            continue
    return body.decode("cp1252", "replace")


def _names(body: bytes, charset: str, *, page: bool) -> list[str]:
    for mark, name in _MARKS:
        if body.startswith(mark):
            return [name]
    found = (_META.search(body[:_HEAD]) if page else None) or _XML.search(body[:_HEAD])
    said = [_codec(charset), _codec(found[1].decode("ascii") if found else "")]
    first = [name for name in said if name and _WITHOUT_BYTES.match(name)]
    return [*first, "utf-8", *filter(None, said)]


def _codec(charset: str) -> str:
    """Return the codec for a page's charset; empty: none. Latin-1 and ASCII mean Windows-1252 (WHATWG, "Encoding")."""
    name = charset.strip().lower().replace("_", "-")
    if name in ("iso-8859-1", "iso8859-1", "latin1", "latin-1", "l1", "ascii", "us-ascii", "x-cp1252"):
        return "cp1252"
    return name if _CHARSETS.fullmatch(name) else ""

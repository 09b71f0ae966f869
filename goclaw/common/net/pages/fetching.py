"""One GET through the URL guard: redirects judged hop by hop, time and size bounded, before and after unpacking.

Bodies are decoded here, too: the media types of text, and their character sets.
"""

import asyncio
import codecs
import re
import zlib
from collections.abc import Mapping
from unicodedata import normalize
from urllib.parse import unquote_plus

import aiohttp
from aiohttp import hdrs
from yarl import URL

from goclaw import __version__
from goclaw.common.core.document_kinds import SAMPLE, TEXTS, Kind, kind_of
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask_known
from goclaw.common.net import UrlGuard
from goclaw.errors import ConfigError, ToolError

MAX_HOPS = 10
"""Redirects; browsers follow 20, honest sites need three."""
MAX_DECODED = 3
"""Times that `%2541` is decoded in the search for secrets: `URL` does it once, and servers once or twice."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
HEADERS: Mapping[str, str] = {
    hdrs.USER_AGENT: f"GoClaw/{__version__} (fetches a page for its user)",
    hdrs.ACCEPT: "text/html, text/markdown, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5",
    hdrs.ACCEPT_ENCODING: "gzip, deflate",
}
_PIECE = 1 << 18
"""Bytes unpacked at once: between two pieces others have their turn."""
_DOCUMENTS = (
    *("application/pdf", "application/rtf", "application/zip", "application/x-zip", "application/epub+zip"),
    *("application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument.", "application/msword"),
    *("application/vnd.ms-excel", "application/vnd.ms-powerpoint", "message/rfc822"),
)
"""How the media types of documents begin."""
_UNKNOWN = "application/octet-stream"
"""The type that servers give to unknown files; text is detected by its content."""


@record
class Fetched:
    """A response with its body unpacked."""

    url: str
    status: int
    kind: str
    charset: str
    body: bytes
    cut: bool
    """There was more."""


async def fetch(guard: UrlGuard, address: str, *, seconds: float, most: int) -> Fetched:
    """Return the body at an address: all of it, or its first `most` bytes.

    Raises:
        ToolError: it is refused, not reached, did not come in time, or is neither a page nor text.
    """
    url = _parse(address)
    host = url.host or "the server"
    try:
        async with asyncio.timeout(seconds), guard.client(seconds) as client:
            return await _follow(guard, client, url, most)
    except TimeoutError:
        raise ToolError(f"{host} did not send the whole page within {seconds:g} s") from None
    except ConfigError as error:
        raise ToolError(str(error)) from None
    except aiohttp.ClientPayloadError:
        raise ToolError(f"{host} broke off in the middle of the page; try again") from None
    except aiohttp.InvalidURL:
        raise ToolError(f"refused: {host[:100]} is no host of an address") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ToolError(
            f"{host} cannot be reached ({type(error).__name__}): nothing answers there, or not in HTTP"
        ) from None


def _parse(address: str) -> URL:
    text = address.strip()
    if not text.isprintable() or " " in text:
        raise ToolError("refused: an address has no spaces, line breaks or control characters; write them as %20")
    _refuse_secrets(text)
    try:
        return URL(text).with_fragment(None)
    except ValueError:
        raise ToolError(f"{text[:100]!r} is no address; it should look like https://example.com/page") from None


def _refuse_secrets(address: str) -> None:
    """Refuse an address that holds a secret as it is written, as a server may read it, or as a host's name is sent."""
    form = address
    for _ in range(MAX_DECODED + 1):
        for sent in (form, normalize("NFKC", form)):
            if mask_known(sent) != sent:
                raise ToolError("refused: the address holds a secret of this installation")
        form = unquote_plus(form)


async def _follow(guard: UrlGuard, client: aiohttp.ClientSession, url: URL, most: int) -> Fetched:
    for _ in range(MAX_HOPS + 1):
        guard.check_url(url)
        _refuse_secrets(str(url))
        async with client.get(url, allow_redirects=False, headers=HEADERS) as response:
            location = response.headers.get(hdrs.LOCATION)
            if response.status not in REDIRECTS or not location:
                return await _read_body(response, url, most)
        try:
            url = url.join(URL(location)).with_fragment(None)
        except ValueError:
            raise ToolError(f"{url.host} redirects to something that is no address") from None
    raise ToolError(f"{url.host} redirects more than {MAX_HOPS} times")


async def _read_body(response: aiohttp.ClientResponse, url: URL, most: int) -> Fetched:
    kind = response.content_type.lower() if hdrs.CONTENT_TYPE in response.headers else ""
    if kind not in ("", _UNKNOWN) and not is_text(kind) and not kind.startswith(_DOCUMENTS):
        raise _no_text(kind, response.content_length)
    body, cut = await _body(response, most)
    if looks_binary(body, response.charset) and not is_document(str(url), kind, body):
        raise _no_text(kind or _UNKNOWN, None if cut else len(body))
    return Fetched(str(url), response.status, kind, response.charset or "", body, cut)


def _no_text(kind: str, size: int | None) -> ToolError:
    said = "of unknown size" if size is None else f"{size:,} bytes"
    return ToolError(f"this is {kind[:100]} ({said}); only web pages and text can be read")


async def _body(response: aiohttp.ClientResponse, most: int) -> tuple[bytes, bool]:
    """Return the body, unpacked, and whether there was more than `most` bytes."""
    unpacking = _unpacking(response.headers.get(hdrs.CONTENT_ENCODING, ""))
    body = bytearray()
    received = 0
    async for chunk in response.content.iter_any():
        received += len(chunk)
        if unpacking is None:
            body += chunk
        else:
            await unpacking.add(chunk, body, most)
        if len(body) > most or received > most:
            return bytes(body[:most]), True
    return bytes(body), False


class _Unpacking:
    """gzip and deflate, never more at a time than fits."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # 32: a gzip or a zlib head, whichever comes
        self._begun = False

    async def add(self, chunk: bytes, body: bytearray, most: int) -> None:
        """Append the unpacked content of `chunk` to `body`, until that has more than `most` bytes."""
        while chunk and len(body) <= most and not self._stream.eof:
            body += self._decompress(chunk)
            chunk = self._stream.unconsumed_tail
            if chunk:
                await asyncio.sleep(0)

    def _decompress(self, chunk: bytes) -> bytes:
        try:
            return self._stream.decompress(chunk, _PIECE)
        except zlib.error:
            if self._begun:
                raise ToolError("what came is packed, and damaged; try again") from None
            self._stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)  # "deflate" without a head, as some servers send
        finally:
            self._begun = True
        return self._decompress(chunk)


def _unpacking(encoding: str) -> _Unpacking | None:
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return _Unpacking()
    raise ToolError(f"the server packs the page in a way that was not asked for ({encoding[:50]!r})")


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
"""Encodings that may look like UTF-8 by chance."""
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
"""Bytes where a page says how it is written (the standard wants 1,024; some have comments before)."""
_HTML = re.compile(rb"\s*(<!--.{0,1000}?-->\s*)?(<!doctype\s+html|<html|<head|<body)", re.IGNORECASE | re.DOTALL)


def is_text(kind: str) -> bool:
    """Whether a media type can be read."""
    return kind.startswith("text/") or kind in _TEXTS | PAGES or kind.endswith(("+json", "+xml", "+yaml"))


def is_document(url: str, kind: str, body: bytes) -> bool:
    """Whether it is a document that is no page and no text."""
    found = kind_of(body[:SAMPLE], URL(url).path, kind)
    return found is not None and found not in (*TEXTS, Kind.MEDIA) and not is_text(kind)


def is_page(kind: str, body: bytes) -> bool:
    """Whether it is HTML: by the server's word, or by its first bytes where the server says nothing."""
    return kind in PAGES or (kind in ("", "application/octet-stream") and _HTML.match(body[:_HEAD]) is not None)


def looks_binary(body: bytes, charset: str | None) -> bool:
    """Whether it is no text, whatever the server says."""
    wide = any(body.startswith(mark) for mark, _ in _MARKS) or _WITHOUT_BYTES.match((charset or "").lower())
    return b"\0" in body and not wide


def decode(body: bytes, charset: str, *, page: bool, cut: bool) -> str:
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

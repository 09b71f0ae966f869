"""One GET through the URL guard: redirects judged hop by hop, time and size bounded, before and after unpacking."""

import asyncio
import zlib
from collections.abc import Mapping

import aiohttp
from aiohttp import hdrs
from yarl import URL

from goclaw import __version__
from goclaw.errors import ConfigError, ToolError
from goclaw.net import UrlGuard
from goclaw.records import record
from goclaw.redact import mask_known
from goclaw.web.decoding import is_text, looks_binary

MAX_HOPS = 10
"""Redirects; browsers follow 20, honest sites need three."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
HEADERS: Mapping[str, str] = {
    hdrs.USER_AGENT: f"GoClaw/{__version__} (fetches a page for its user)",
    hdrs.ACCEPT: "text/html, text/markdown, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5",
    hdrs.ACCEPT_ENCODING: "gzip, deflate",
}
_PIECE = 1 << 18
"""Bytes unpacked at once: between two pieces others have their turn."""
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
    url = _parsed(address)
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
            f"{host} cannot be reached ({type(error).__name__}): nobody answers there, or not in HTTP"
        ) from None


def _parsed(address: str) -> URL:
    text = address.strip()
    if not text.isprintable() or " " in text:
        raise ToolError("refused: an address has no spaces, line breaks or control characters; write them as %20")
    if mask_known(text) != text:
        raise ToolError("refused: the address holds a secret of this installation")
    try:
        return URL(text).with_fragment(None)
    except ValueError:
        raise ToolError(f"{text[:100]!r} is no address; it should look like https://example.com/page") from None


async def _follow(guard: UrlGuard, client: aiohttp.ClientSession, url: URL, most: int) -> Fetched:
    for _ in range(MAX_HOPS + 1):
        guard.check_url(url)
        async with client.get(url, allow_redirects=False, headers=HEADERS) as response:
            location = response.headers.get(hdrs.LOCATION)
            if response.status not in REDIRECTS or not location:
                return await _read(response, url, most)
        try:
            url = url.join(URL(location)).with_fragment(None)
        except ValueError:
            raise ToolError(f"{url.host} redirects to something that is no address") from None
    raise ToolError(f"{url.host} redirects more than {MAX_HOPS} times")


async def _read(response: aiohttp.ClientResponse, url: URL, most: int) -> Fetched:
    kind = response.content_type.lower() if hdrs.CONTENT_TYPE in response.headers else ""
    if kind not in ("", _UNKNOWN) and not is_text(kind):
        raise _no_text(kind, response.content_length)
    body, cut = await _body(response, most)
    if looks_binary(body, response.charset):
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
    """gzip and deflate, never more at once than fits."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # 32: a gzip or a zlib head, whichever comes
        self._begun = False

    async def add(self, chunk: bytes, body: bytearray, most: int) -> None:
        """Put what `chunk` unpacks to behind `body`, until that has more than `most` bytes."""
        while chunk and len(body) <= most and not self._stream.eof:
            body += self._unpacked(chunk)
            chunk = self._stream.unconsumed_tail
            if chunk:
                await asyncio.sleep(0)

    def _unpacked(self, chunk: bytes) -> bytes:
        try:
            return self._stream.decompress(chunk, _PIECE)
        except zlib.error:
            if self._begun:
                raise ToolError("what came is packed, and damaged; try again") from None
            self._stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)  # "deflate" without a head, as some servers send
        finally:
            self._begun = True
        return self._unpacked(chunk)


def _unpacking(encoding: str) -> _Unpacking | None:
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return _Unpacking()
    raise ToolError(f"the server packs the page in a way that was not asked for ({encoding[:50]!r})")

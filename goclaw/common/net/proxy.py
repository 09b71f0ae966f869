"""The HTTP proxy that gives contained commands access to the network: every request goes through the URL guard.

It knows what ordinary programs need of a proxy: CONNECT for everything encrypted, whole addresses for plain HTTP. One
request to a connection, framed by us, so that no other request can hide in it. It decides about hosts and ports, not
about the data sent to them. One `Proxy` serves one command: its bounds are that command's.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from goclaw.common.core.records import record
from goclaw.common.net.guard import WITH_CREDENTIALS, Resolve, UrlGuard, UrlRefused
from goclaw.errors import ConfigError

HEAD = 1 << 15
"""Bytes of a request before its body; also how much waits in memory in each direction of a connection."""
_HEADERS = 100
_LOGGED = 100
"""Places that one command can put into the audit log: it must not be able to push out the lines of others."""

_REQUEST = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,8000}) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}):[ \t]*([\x20-\x7e\x80-\xff\t]*)")
"""No control character: a lone CR or LF, a folded line and a space before the colon are read differently by others."""
_HOST = r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})"
_AUTHORITY = re.compile(rf"{_HOST}:([0-9]{{1,5}})")
_ADDRESS = re.compile(rf"(?i:http)://{_HOST}(?::([0-9]{{1,5}}))?([/?][^#]*)?")
_OURS = frozenset(("host", "connection", "keep-alive", "te", "trailer", "upgrade"))
"""Headers that end at a proxy (RFC 9110, 7.6.1; all of `proxy-…` do, too), and the header that it writes itself."""

Tell = Callable[[str, bool, str], None]
"""Hears of every place that a command asked for (`host:port`), whether it was reached, and why not."""


@record
class ProxyLimits:
    """The limits of one command."""

    at_once: int = 64
    """Connections; each costs the daemon two descriptors."""
    connections: int = 20_000
    total_bytes: int = 4 << 30
    """Both directions together."""
    head_seconds: float = 10
    idle_seconds: float = 120
    """Without a byte in either direction."""


class _Refused(Exception):
    """The answer is an error of ours: status and sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@record
class _Request:
    host: str
    port: int
    head: bytes
    """The bytes sent to the server before the body; empty for CONNECT."""
    body: int | None
    """Bytes of the body; None: all that comes."""


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Proxy:
    """Serves the connections of one command."""

    def __init__(self, guard: UrlGuard, ports: Collection[int], tell: Tell, limits: ProxyLimits | None = None) -> None:
        self._guard = replace(guard, resolve=_one_at_a_time(guard.resolve))
        self._ports = ports
        self._tell = tell
        self._limits = limits or ProxyLimits()
        self._told: set[tuple[str, bool]] = set()
        self._open = self._count = self._bytes = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection to its end; raises nothing but a cancellation."""
        self._open += 1
        self._count += 1
        try:
            await self._serve(reader, writer)
        except _Refused as refused:
            await _answer(writer, refused.status, str(refused))
        except (OSError, EOFError, TimeoutError):
            pass  # one of the two is gone, or says nothing any more
        finally:
            self._open -= 1
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open > self._limits.at_once or self._count > self._limits.connections:
            raise _Refused(503, "too many connections of one command")
        request = _parse(await self._head(reader))
        upstream = await self._connect(request.host, request.port)
        try:
            if request.head:
                upstream[1].write(request.head)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self._relay((reader, writer), upstream, request.body)
        finally:
            upstream[1].close()

    async def _head(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                return await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise _Refused(431, f"a request of more than {HEAD} bytes before its body") from None
        except TimeoutError:
            raise _Refused(408, "the request did not come in time") from None

    async def _connect(self, host: str, port: int) -> Stream:
        place = f"{host}:{port}"
        try:
            if port not in self._ports:
                raise UrlRefused(f"refused: port {port} is not among the allowed ports")
            stream = await self._guard.connect(host.strip("[]"), port)
        except (UrlRefused, ConfigError) as refused:
            self._note(place, False, str(refused))
            raise _Refused(403, str(refused)) from None
        self._note(place, True, "")
        return stream

    def _note(self, place: str, reached: bool, why: str) -> None:
        if (place, reached) not in self._told and len(self._told) < _LOGGED:
            self._told.add((place, reached))
            self._tell(place, reached, why)

    async def _relay(self, client: Stream, server: Stream, body: int | None) -> None:
        async with asyncio.timeout(self._limits.idle_seconds) as bound:
            directions = [
                asyncio.create_task(self._pump(client[0], server[1], bound, body)),
                asyncio.create_task(self._pump(server[0], client[1], bound, None)),
            ]
            try:
                done, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_EXCEPTION)
                for direction in done:
                    direction.result()
            finally:
                for direction in directions:
                    direction.cancel()
                await asyncio.wait(directions)

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, bound: asyncio.Timeout, most: int | None
    ) -> None:
        """Pass on at most `most` bytes: bytes after a request's body are not forwarded."""
        left = most
        while left is None or left:
            chunk = await source.read(HEAD if left is None else min(left, HEAD))
            if not chunk:
                break
            left = None if left is None else left - len(chunk)
            self._bytes += len(chunk)
            if self._bytes > self._limits.total_bytes:
                raise EOFError("a command has moved all that it may")
            bound.reschedule(asyncio.get_running_loop().time() + self._limits.idle_seconds)
            target.write(chunk)
            await target.drain()
        if most is None and target.can_write_eof():
            target.write_eof()


def _one_at_a_time(resolve: Resolve) -> Resolve:
    """Resolve names one after the other: a hostile command must not take all of the resolver's threads."""
    looking_up = asyncio.Semaphore(1)

    async def resolved(host: str, port: int) -> Sequence[str]:
        async with looking_up:
            return await resolve(host, port)

    return resolved


def _parse(head: bytes) -> _Request:
    first, *lines = head[:-4].split(b"\r\n")
    request = _REQUEST.fullmatch(first)
    if request is None:
        raise _Refused(400, "not a request that this proxy understands")
    method, target = request[1], request[2].decode("ascii")
    if "@" in target.partition("://")[2].partition("/")[0] or (method == b"CONNECT" and "@" in target):
        raise _Refused(403, WITH_CREDENTIALS)
    headers = _headers(lines)
    if method == b"CONNECT":
        authority = _AUTHORITY.fullmatch(target)
        if authority is None:
            raise _Refused(400, "CONNECT wants `host:port`")
        return _Request(authority[1], int(authority[2]), b"", None)
    address = _ADDRESS.fullmatch(target)
    if address is None:
        raise _Refused(400, "this is a proxy: it takes `http://host/path`, and CONNECT for everything else")
    host, port, path = address[1], address[2], address[3] or "/"
    kept = [
        f"{method.decode()} {path if path.startswith('/') else f'/{path}'} HTTP/1.1".encode(),
        f"Host: {host}{f':{port}' if port else ''}".encode(),
        b"Connection: close",
        *_passed_on(headers),
    ]
    return _Request(host, int(port or 80), b"\r\n".join([*kept, b"", b""]), _body(headers))


def _headers(lines: Sequence[bytes]) -> list[tuple[str, bytes]]:
    matches = [_HEADER.fullmatch(line) for line in lines]
    if None in matches or len(matches) > _HEADERS:
        raise _Refused(400, "a malformed header, or too many of them")
    return [(match[1].decode("ascii").lower(), match[2].strip()) for match in matches if match]


def _passed_on(headers: Sequence[tuple[str, bytes]]) -> list[bytes]:
    lists = [value.decode("latin-1").lower() for name, value in headers if name == "connection"]
    named = {name.strip() for value in lists for name in value.split(",")}
    # What says where the body ends may not be taken away from it.
    dropped = _OURS | (named - {"content-length", "transfer-encoding"})
    passed_on = [header for header in headers if header[0] not in dropped and not header[0].startswith("proxy-")]
    return [name.encode() + b": " + value for name, value in passed_on]


def _body(headers: Sequence[tuple[str, bytes]]) -> int | None:
    """Return the length of the body in bytes; None for chunks. Ambiguous lengths are refused (request smuggling)."""
    lengths = [value for name, value in headers if name == "content-length"]
    codings = [value.lower() for name, value in headers if name == "transfer-encoding"]
    if len(lengths) + len(codings) > 1 or codings not in ([], [b"chunked"]):
        raise _Refused(400, "the length of the body is given in more than one way")
    if not lengths:
        return None if codings else 0
    if not re.fullmatch(rb"[0-9]{1,15}", lengths[0]):
        raise _Refused(400, "the length of the body is no number")
    return int(lengths[0])


async def _answer(writer: asyncio.StreamWriter, status: int, sentence: str) -> None:
    reason = {400: "Bad Request", 403: "Forbidden", 408: "Request Timeout", 431: "Too Large"}.get(status, "Refused")
    body = f"goclaw: {sentence}\n".encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    try:
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        await writer.drain()
    except OSError:
        pass  # it did not wait for the answer

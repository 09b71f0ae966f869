"""One POST to a model's server, and the server-sent events of its answer: shared by the wires.

Failures of the request are `ModelError`. Source of the rules for events: the WHATWG HTML standard, section "Server-sent
events". Ids and retry times are not kept: a broken answer of a model cannot be resumed.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from typing import TypeVar

import aiohttp

from goclaw.common.core.records import record
from goclaw.common.net import CONNECT_TIMEOUT
from goclaw.llm.base import ModelEvent, ModelPorts, TextDelta, ThinkingDelta
from goclaw.llm.failures import connecting, from_response

T = TypeVar("T")

ERROR_LIMIT = 64 * 1024
"""Bytes of an error body that are read."""
BETWEEN_BYTES = 60.0
"""Seconds of silence, once an answer has begun, after which its server counts as dead."""
IN_ONE_PIECE = 1 << 20
"""Bytes of a body up to which it is written to the connection at once; a longer one would hold up the event loop."""
SETTLE_SECONDS = 1.0
"""Seconds that the end of a body may lag behind the last event of its stream."""


@asynccontextmanager
async def post(
    ports: ModelPorts, spec: str, url: str, headers: Mapping[str, str], body: bytes
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Send a JSON body; the answer's own body is still to be read. Leaving the block closes the connection.

    Silence is bounded: `ports.first_byte` until the answer begins, for `read_events` then `BETWEEN_BYTES`.

    Raises:
        ModelError: the server cannot be reached, or its answer is no success.
    """
    sent = {"content-type": "application/json", **headers}
    data = BytesIO(body) if len(body) > IN_ONE_PIECE else body
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=ports.first_byte)
    with connecting(spec):
        # A redirect would send the key and the conversation to another server.
        response = await ports.http.post(url, data=data, headers=sent, allow_redirects=False, timeout=timeout)
    try:
        if response.status >= 300:
            with connecting(spec):
                refusal = await response.content.read(ERROR_LIMIT)
            raise from_response(spec, response.status, refusal, response.headers, ports.clock.now())
        yield response
    finally:
        # Not `release`: whatever is unread must end, else the model goes on writing (and billing).
        response.close()


async def drain(response: aiohttp.ClientResponse) -> None:
    """Read the little that follows a stream's last event, so that the connection serves the next request, too."""
    with suppress(TimeoutError, aiohttp.ClientError, OSError):  # the answer is complete; only the connection is lost
        async with asyncio.timeout(SETTLE_SECONDS):
            async for _ in response.content.iter_any():
                pass


EVENT_LIMIT = 8 * 1024 * 1024
"""Bytes of one event. The largest honest ones are a tool call written in one piece; more is a broken server."""
LINE_END = re.compile(rb"\r\n|\n|\r")
OTHER_FIELDS = (b"", b"id", b"retry")
"""Fields that mean nothing here; a line that begins with a colon is a comment."""
KNOWN_FIELDS = (b"data", b"event", *OTHER_FIELDS)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


UNFRAMED = ""
"""The name under which `read_events` gives, last, what a server wrote outside of all events."""


class EventTooLarge(ValueError):
    """A server sent more than `EVENT_LIMIT` bytes without ending the event."""


@record
class ServerEvent:
    """One event: its name (`message` if the server gave no name) and its data lines, joined by line feeds."""

    name: str
    data: bytes


class EventParser:
    """Turns bytes into events, however they were cut."""

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._rest = b""
        self._size = 0
        self._name = ""
        self._data: list[bytes] = []
        self._at_start = True
        self._unframed: list[bytes] = []
        self._unframed_size = 0

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Yield the events that `chunk` completes.

        Raises:
            EventTooLarge: an event passed the limit.
        """
        text = self._rest + chunk
        if self._at_start:
            if len(text) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(text):
                self._rest = text
                return
            text = text.removeprefix(BYTE_ORDER_MARK)
            self._at_start = False
        lines = self._lines(text)
        self._rest = lines.pop()
        if self._size + len(self._rest) > self._limit:
            raise EventTooLarge
        for line in lines:
            event = self._process_line(line)
            if event is not None:
                yield event

    def finish(self) -> Iterator[ServerEvent]:
        """Yield the event completed by the end of the stream, then any other text: JSON, a web page, an error in words.

        An event without its blank line is dropped, as the rules say.
        """
        if self._rest.endswith(b"\r"):
            yield from self.feed(b"\n")
        elif not any(name.startswith(self._rest.partition(b":")[0]) for name in KNOWN_FIELDS):
            self._process_line(self._rest)  # whole by itself; the beginning of a field's line is what a cut has left
        if self._unframed:
            yield ServerEvent(UNFRAMED, b"\n".join(self._unframed))

    @staticmethod
    def _lines(text: bytes) -> list[bytes]:
        """Return the lines of `text`; the last one is unfinished."""
        if b"\r" not in text:
            return text.split(b"\n")
        # A carriage return at the very end may be half of a CRLF: it waits for the next piece.
        held = b"\r" if text.endswith(b"\r") else b""
        lines = LINE_END.split(text[: len(text) - len(held)])
        lines[-1] += held
        return lines

    def _process_line(self, line: bytes) -> ServerEvent | None:
        if not line:
            return self._end()
        self._size += len(line)
        if self._size > self._limit:
            raise EventTooLarge
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field not in OTHER_FIELDS:
            # Bounded in all, too: these lines are kept until the end, a stream's events are not.
            self._unframed_size += len(line)
            if self._unframed_size > self._limit:
                raise EventTooLarge
            self._unframed.append(line)
        return None

    def _end(self) -> ServerEvent | None:
        """Finish the event at a blank line; None without data: it was only a comment or a keep-alive."""
        event = ServerEvent(self._name or "message", b"\n".join(self._data)) if self._data else None
        self._name, self._data, self._size = "", [], 0
        return event


async def read_events(
    response: aiohttp.ClientResponse, limit: int = EVENT_LIMIT
) -> AsyncGenerator[Iterator[ServerEvent], None]:
    """Yield the events of a response's body as they come, those of one read together.

    Read each group to its end before the next one.

    Raises:
        EventTooLarge: an event, or a text outside of events, is longer than `limit` bytes.
        aiohttp.ClientError: the connection broke.
        TimeoutError: nothing came for `BETWEEN_BYTES`.
    """
    parser, begun = EventParser(limit), False
    async for chunk in response.content.iter_any():
        if not begun:
            begun = True
            protocol = response.connection.protocol if response.connection else None
            if protocol is not None:  # else all of it is there
                # From now on the silence between two reads is bounded.
                protocol.read_timeout = BETWEEN_BYTES
                protocol.start_timeout()
        yield parser.feed(chunk)
    yield parser.finish()


async def promptly(items: AsyncIterator[T], first: float, between: float | None = None) -> AsyncGenerator[T, None]:
    """Yield items of another library's stream as they come.

    Args:
        items: the stream.
        first, between: seconds for the first item and for each further one, `BETWEEN_BYTES` where that is not given.

    Raises:
        TimeoutError: nothing came in that time.
    """
    wait = first
    while True:
        try:
            async with asyncio.timeout(wait):
                item = await anext(items)
        except StopAsyncIteration:
            return
        yield item
        wait = BETWEEN_BYTES if between is None else between


def join_texts(events: Iterable[ModelEvent]) -> Iterator[ModelEvent]:
    """Yield the events of one read with neighbouring pieces of text as one: each piece costs its way to the screen.

    What came before an error is yielded before it is raised.
    """
    kind: type[TextDelta | ThinkingDelta] = TextDelta
    pieces: list[str] = []

    def whole() -> Iterator[ModelEvent]:
        if pieces:
            text = "".join(pieces)
            pieces.clear()
            yield kind(text)

    try:
        for event in events:
            if not isinstance(event, TextDelta | ThinkingDelta):
                yield from whole()
                yield event
                continue
            if type(event) is not kind:
                yield from whole()
                kind = type(event)
            pieces.append(event.text)
    except Exception:
        yield from whole()
        raise
    yield from whole()

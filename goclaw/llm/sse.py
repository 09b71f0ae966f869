"""Server-Sent Events, read piece by piece. Knows nothing of models; the wires read theirs through it.

Source of the rules: the WHATWG HTML standard, section "Server-sent events". Ids and retry times are not kept: a broken
answer of a model cannot be resumed.
"""

import re
from collections.abc import AsyncGenerator, Iterator

import aiohttp

from goclaw.records import record

EVENT_LIMIT = 8 * 1024 * 1024
"""Bytes of one event. The largest honest ones are a tool call written in one piece; more is a broken server."""
LINE_END = re.compile(rb"\r\n|\n|\r")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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
            event = self._take(line)
            if event is not None:
                yield event

    def finish(self) -> Iterator[ServerEvent]:
        """Yield what the end of the stream completes. An event without its blank line is dropped, as the rules say."""
        if self._rest.endswith(b"\r"):
            yield from self.feed(b"\n")

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

    def _take(self, line: bytes) -> ServerEvent | None:
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
        return None

    def _end(self) -> ServerEvent | None:
        """Finish the event at a blank line; None without data: it was only a comment or a keep-alive."""
        event = ServerEvent(self._name or "message", b"\n".join(self._data)) if self._data else None
        self._name, self._data, self._size = "", [], 0
        return event


async def read_events(stream: aiohttp.StreamReader, limit: int = EVENT_LIMIT) -> AsyncGenerator[ServerEvent, None]:
    """Yield the events of a response's body (`response.content`) as they come, until the server ends it.

    Raises:
        EventTooLarge: an event passed `limit` bytes.
        aiohttp.ClientError: the connection broke.
    """
    parser = EventParser(limit)
    async for chunk in stream.iter_any():
        for event in parser.feed(chunk):
            yield event
    for event in parser.finish():
        yield event

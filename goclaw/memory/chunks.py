"""Splitting of Markdown and conversations into passages of about 200 tokens that know their headings and lines.

The sizes measured best for keyword and vector search alike (small embedders read 256 tokens).
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from goclaw.common.core.records import record

CHUNK_TOKENS = 200
OVERLAP_TOKENS = 40
MESSAGES = 3
"""Messages per window over a conversation: one vector of many short messages is near to none of them."""
MAX_HEADING = 200
"""Characters of a heading. Every passage below repeats it; a longer one is text that begins with `#`."""
BYTES_PER_TOKEN = 4
"""The usual estimate; in UTF-8 bytes, so that scripts with more tokens per character count for more."""

_MAX_BYTES = 4
"""Of a character in UTF-8."""
_PIECE_LENGTH = OVERLAP_TOKENS * BYTES_PER_TOKEN
# The rest of the line in one piece, closing marks and all (`_title`): to try where they begin takes the square of a
# line's length, and a regular expression keeps every other thread waiting.
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t](.*))?")
# What follows backticks on their line has none itself: ```this``` is code within a line.
_FENCE = re.compile(r" {0,3}(?:(?P<mark>`{3,})[^`]*|(?P<tildes>~{3,}).*)")
# A line longer than the overlap is cut between words, or anywhere where there are none.
_PIECE = re.compile(rf".{{1,{_PIECE_LENGTH}}}(?:\s|$)|.{{1,{_PIECE_LENGTH}}}", re.DOTALL)


@record
class Chunk:
    """A passage."""

    start: int
    end: int
    """First and last line, counted from 1."""
    heading: str
    """The headings above it, outermost first: `Deploys > Rollback`."""
    text: str


@record
class _Line:
    number: int
    text: str
    level: int = 0
    """Of a heading: 1 to 6; 0 for other lines."""


@record
class Seam:
    """The state needed to continue cutting at the last, growing window."""

    line: int
    """Place of the message."""
    piece: int
    """Which of the message's pieces."""
    repeated: int
    """How many of the window's first pieces repeat the end of the previous window."""


@record
class GrowingConversation:
    """Windows of a conversation that goes on."""

    full: list[Chunk]
    """Complete windows, which no longer change."""
    open: list[Chunk]
    """The last window, which still grows; empty where it has no messages."""
    seam: Seam | None
    """Where the last window begins."""


@record
class _Piece:
    line: int
    number: int
    """Which piece of its line."""
    text: str
    tokens: int


def chunk_markdown(text: str) -> list[Chunk]:
    """Return the passages of a Markdown text in order. No passage crosses a heading; blank text has none."""
    chunks: list[Chunk] = []
    path: list[tuple[int, str]] = []
    section: list[_Line] = []
    for line in [*_lines(text), None]:
        if line is not None and not line.level:
            section.append(line)
            continue
        # A heading without text is a passage of its own, unless the sections below it carry it in their paths.
        deeper = line is not None and bool(path) and line.level > path[-1][0]
        chunks += _section(path, section, alone=not deeper)
        if line is not None:
            path = [*((level, title) for level, title in path if level < line.level), (line.level, line.text)]
            section = [_Line(line.number, "")]
    return chunks


def chunk_messages(messages: Iterable[tuple[int, str]]) -> list[Chunk]:
    """Return windows over conversations: passages with messages for lines, and their places for line numbers.

    Args:
        messages: places in order, each with the text that it is embedded as. No window crosses a missing place.
    """
    grown = grow_windows(messages)
    return grown.full + grown.open


def grow_windows(messages: Iterable[tuple[int, str]], seam: Seam | None = None) -> GrowingConversation:
    """Return the windows of a growing conversation, the same as from cutting all of it together.

    Args:
        messages: from the one at the seam on; without a seam, from the first.
        seam: the seam returned by the last call.
    """
    full: list[Chunk] = []
    packing = _Packing("", seam.repeated if seam else 0, MESSAGES)
    last: int | None = None
    for place, text in messages:
        if last is not None and place != last + 1:
            full += packing.rest()
            packing = _Packing("", most=MESSAGES)
        last = place
        begun = seam.piece if seam and seam.line == place else 0
        for piece in _pieces([_Line(place, text)]):
            if piece.number >= begun:
                full += packing.add(piece)
    return GrowingConversation(full, list(packing.rest()), packing.seam())


def split_message(text: str) -> Iterator[tuple[int, int]]:
    """Return the passages of one message as pairs: the index of the first character, and the one after the last."""
    if len(text) * _MAX_BYTES <= CHUNK_TOKENS * BYTES_PER_TOKEN:
        yield 0, len(text)
        return
    begin = tokens = 0
    for found in _PIECE.finditer(text):
        more = _tokens(found[0])
        if tokens and tokens + more > CHUNK_TOKENS:
            yield begin, found.start()
            begin, tokens = found.start(), 0
        tokens += more
    if begin < len(text):
        yield begin, len(text)


def lines_of(text: str) -> list[str]:
    """Return lines as editors count them: those of a hit are lines of this list."""
    # No regular expression: one over megabytes would keep every other thread waiting.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _lines(text: str) -> Iterator[_Line]:
    """Return the lines, headings recognised except inside fenced code."""
    fence = ""
    for number, line in enumerate(lines_of(text), start=1):
        found = _FENCE.fullmatch(line)
        mark = (found["mark"] or found["tildes"]) if found else ""
        if mark and (not fence or (mark.startswith(fence) and line.strip() == mark)):
            fence = "" if fence else mark
        heading = None if fence or mark else _HEADING.fullmatch(line)
        title = _title(heading[2] or "") if heading else ""
        is_heading = heading is not None and len(title) <= MAX_HEADING
        yield _Line(number, title, len(heading[1])) if heading and is_heading else _Line(number, line)


def _title(rest: str) -> str:
    """Return the text of a heading without its opening and closing marks."""
    title = rest.strip()
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1].isspace() else title


def _section(path: Sequence[tuple[int, str]], lines: Sequence[_Line], *, alone: bool) -> Iterator[Chunk]:
    """Return the passages between two headings; the first of `lines` stands for the heading itself."""
    heading = " > ".join(title for _, title in path if title)
    if any(line.text.strip() for line in lines):
        packing = _Packing(heading)
        for piece in _pieces(lines):
            yield from packing.add(piece)
        yield from packing.rest()
    elif alone and path and path[-1][1]:
        yield Chunk(lines[0].number, lines[0].number, heading, path[-1][1])


class _Packing:
    """A builder that joins pieces to passages, one after the other."""

    def __init__(self, heading: str, repeated: int = 0, most: int = 0) -> None:
        self._heading = heading
        self._most = most
        """Maximum lines of a passage; 0: as many as its tokens allow."""
        self._held: list[_Piece] = []
        self._repeated = repeated
        """How many of the first held pieces also end the previous passage."""

    @property
    def _has_more(self) -> bool:
        return len(self._held) > self._repeated

    def add(self, piece: _Piece) -> Iterator[Chunk]:
        """Add a piece; yield the passage that it completes, if any."""
        lines = {each.line for each in (*self._held, piece)}
        tokens = sum(each.tokens for each in self._held) + piece.tokens
        is_full = tokens > CHUNK_TOKENS or (bool(self._most) and len(lines) > self._most)
        if self._has_more and is_full:
            yield from _join(self._heading, self._held)
            self._held = _tail(self._held)
            if self._most:
                # One message of overlap: more of them would leave no room for new ones.
                self._held = [each for each in self._held if each.line == self._held[-1].line]
            self._repeated = len(self._held)
        self._held.append(piece)

    def rest(self) -> Iterator[Chunk]:
        """Yield the passage that is not full yet, if any."""
        if self._has_more:
            yield from _join(self._heading, self._held)

    def seam(self) -> Seam | None:
        """Return where the rest begins."""
        return Seam(self._held[0].line, self._held[0].number, self._repeated) if self._held else None


def _pieces(lines: Sequence[_Line]) -> Iterator[_Piece]:
    for line in lines:
        # One by one: all pieces of a line of megabytes at once would keep every other thread waiting.
        for number, found in enumerate(_PIECE.finditer(line.text + "\n")):
            yield _Piece(line.number, number, found[0], _tokens(found[0]))


def _tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def _tail(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Return the last pieces that together stay within the overlap."""
    room = OVERLAP_TOKENS
    for index in range(len(pieces) - 1, -1, -1):
        room -= pieces[index].tokens
        if room < 0:
            return list(pieces[index + 1 :])
    return list(pieces)


def _join(heading: str, pieces: Sequence[_Piece]) -> Iterator[Chunk]:
    told = [piece for piece in pieces if piece.text.strip()]
    if told:
        first, last = told[0].line, told[-1].line
        text = "".join(piece.text for piece in pieces if first <= piece.line <= last)
        yield Chunk(first, last, heading, text.strip("\n").rstrip())

"""Cuts Markdown into passages of about 200 tokens that know their headings and lines, and conversations likewise.

Sizes are those measured best for keyword and vector search alike (256 tokens is what small embedders read).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

CHUNK_TOKENS = 200
OVERLAP_TOKENS = 40
BYTES_PER_TOKEN = 4
"""The usual estimate; in UTF-8 bytes, so that scripts with more tokens per character count for more."""

_PIECE_LENGTH = OVERLAP_TOKENS * BYTES_PER_TOKEN
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
# What follows backticks on their line has none itself: ```this``` is code within a line.
_FENCE = re.compile(r" {0,3}(?:(?P<mark>`{3,})[^`]*|(?P<tildes>~{3,}).*)")
# A line longer than the overlap is cut between words, or anywhere where there are none.
_PIECE = re.compile(rf".{{1,{_PIECE_LENGTH}}}(?:\s|$)|.{{1,{_PIECE_LENGTH}}}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage."""

    start: int
    end: int
    """First and last line, counted from 1."""
    heading: str
    """The headings above it, outermost first: `Deploys > Rollback`."""
    text: str


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    level: int = 0
    """Of a heading: 1 to 6; 0 for other lines."""


@dataclass(frozen=True, slots=True)
class _Piece:
    line: int
    text: str
    tokens: int


def chunk_markdown(text: str) -> list[Chunk]:
    """The passages of a Markdown text in order. A passage never reaches over a heading; blank text has none."""
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
    """Windows over conversations: passages whose lines are messages, and whose line numbers are the messages' places.

    Args:
        messages: places in order, each with the text that it is embedded as. A window reaches over no missing place.
    """
    chunks: list[Chunk] = []
    session: list[_Line] = []
    for place, text in messages:
        if session and place != session[-1].number + 1:
            chunks += _pack("", session)
            session = []
        session.append(_Line(place, text))
    return chunks + list(_pack("", session))


def _lines(text: str) -> Iterator[_Line]:
    """Lines as editors count them, headings recognised except inside fenced code."""
    fence = ""
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        found = _FENCE.fullmatch(line)
        mark = (found["mark"] or found["tildes"]) if found else ""
        if mark and (not fence or (mark.startswith(fence) and line.strip() == mark)):
            fence = "" if fence else mark
        heading = None if fence or mark else _HEADING.fullmatch(line)
        yield _Line(number, (heading[2] or "").strip(), len(heading[1])) if heading else _Line(number, line)


def _section(path: Sequence[tuple[int, str]], lines: Sequence[_Line], *, alone: bool) -> Iterator[Chunk]:
    """The passages between two headings; the first of `lines` stands for the heading itself."""
    heading = " > ".join(title for _, title in path if title)
    if any(line.text.strip() for line in lines):
        yield from _pack(heading, lines)
    elif alone and path and path[-1][1]:
        yield Chunk(lines[0].number, lines[0].number, heading, path[-1][1])


def _pack(heading: str, lines: Sequence[_Line]) -> Iterator[Chunk]:
    held: list[_Piece] = []
    fresh = 0  # how many of the held pieces were in no passage before
    for piece in _pieces(lines):
        if fresh and sum(each.tokens for each in held) + piece.tokens > CHUNK_TOKENS:
            yield from _joined(heading, held)
            held, fresh = _tail(held), 0
        held.append(piece)
        fresh += 1
    if fresh:
        yield from _joined(heading, held)


def _pieces(lines: Sequence[_Line]) -> Iterator[_Piece]:
    for line in lines:
        for text in _PIECE.findall(line.text + "\n"):
            yield _Piece(line.number, text, -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN))


def _tail(pieces: Sequence[_Piece]) -> list[_Piece]:
    """The last pieces that together stay within the overlap."""
    room = OVERLAP_TOKENS
    for index in range(len(pieces) - 1, -1, -1):
        room -= pieces[index].tokens
        if room < 0:
            return list(pieces[index + 1 :])
    return list(pieces)


def _joined(heading: str, pieces: Sequence[_Piece]) -> Iterator[Chunk]:
    told = [piece for piece in pieces if piece.text.strip()]
    if told:
        first, last = told[0].line, told[-1].line
        text = "".join(piece.text for piece in pieces if first <= piece.line <= last)
        yield Chunk(first, last, heading, text.strip("\n").rstrip())

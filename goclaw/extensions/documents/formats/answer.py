"""The answer of a reader: text by numbered parts within a bound of characters, an outline, notes and pictures."""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

PAGE = 3_000
"""Characters of a page of a format that has none of its own."""
MAX_OUTLINE = 200
"""Lines of an outline."""
_MAX_LINE = 160
"""Characters of a line of an outline."""
MAX_NOTES = 20
MAX_PICTURES = 4
_RANGE = re.compile(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})?\s*)?")


class Refused(Exception):
    """The document is not read; the message says why, and follows its name."""


@dataclass
class Wanted:
    """The wanted part, as the daemon asks for it."""

    name: str
    mime: str = ""
    pages: str = ""
    sheet: str = ""
    member: str = ""
    characters: int = 50_000
    scans: bool = True
    depth: int = 0
    """How many containers the file lies in."""

    def numbers(self, total: int, unit: str) -> Iterator[int]:
        """Yield the wanted numbers of 1 to `total`. Raises Refused for a selection that is invalid or empty."""
        if not self.pages:
            yield from range(1, total + 1)
            return
        found = 0
        for part in self.pages.split(","):
            match = _RANGE.fullmatch(part)
            if match is None:
                raise Refused(f"has no pages {self.pages[:50]!r}; write them as 3-7, 1,4 or 12")
            first = max(1, int(match[1]))
            last = int(match[2]) if match[2] else (total if "-" in part else first)
            for number in range(first, min(last, total) + 1):
                found += 1
                yield number
        if not found:
            raise Refused(f"has {total:,} {unit}{'' if total == 1 else 's'}, so none in {self.pages[:50]}")


@dataclass
class Answer:
    """Text, outline, notes and pictures that a reader has found so far."""

    kind: str
    room: int
    """Characters that are left."""
    unit: str = "page"
    total: int | None = None
    shown: list[int] = field(default_factory=list)
    rest: str = ""
    outline: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pictures: list[tuple[str, bytes]] = field(default_factory=list)

    def note(self, sentence: str) -> None:
        """Add a sentence about the document, once."""
        if sentence not in self.notes and len(self.notes) < MAX_NOTES:
            self.notes.append(sentence)

    def add_outline(self, lines: Iterable[tuple[int, str, int | None]]) -> None:
        """Add headings, as level from 1 on, title and number of the part that has it, to a third of the room."""
        most = self.room // 3
        for level, title, number in lines:
            where = "" if number is None else f" ({self.unit} {number:,})"
            line = f"{'  ' * min(level - 1, 6)}- {' '.join(title.split())[:_MAX_LINE]}{where}"
            most -= len(line) + 1
            if len(self.outline) == MAX_OUTLINE or most < 0:
                self.outline.append("- …")
                break
            self.outline.append(line)
        self.room -= sum(len(line) + 1 for line in self.outline)

    def add(self, text: str, number: int | None = None) -> bool:
        """Add the text of a part; False: there was no room for it. The first part is cut where it is too long."""
        marked = text if number is None else f"--- {self.unit} {number} ---\n{text}"
        if len(marked) > self.room:
            if self.texts:
                return False
            self.note(f"cut: {len(marked) - self.room:,} more characters")
            marked = marked[: self.room]
        self.texts.append(marked)
        self.room -= len(marked) + 1
        if number is not None:
            self.shown.append(number)
        return True

    def add_parts(self, wanted: Wanted, total: int, text_of: Callable[[int], str]) -> None:
        """Add the wanted ones of numbered parts, as many as there is room for."""
        self.total, numbers = total, list(wanted.numbers(total, self.unit))
        for number in numbers:
            if self.room <= 0 or not self.add(text_of(number), number):
                self.rest = f'pages="{number}-{numbers[-1]}"'
                return

    def as_json(self) -> dict[str, Any]:
        """Return the answer for the daemon: `tools.toolkit.documents.Document`."""
        names = ("kind", "unit", "total", "rest", "outline", "notes")
        pictures = [(mime, base64.b64encode(data).decode()) for mime, data in self.pictures]
        told = {"shown": _ranges(self.shown), "text": "\n".join(self.texts), "pictures": pictures}
        return {name: getattr(self, name) for name in names} | told


def add_flow(answer: Answer, wanted: Wanted, blocks: Iterable[tuple[int, str]]) -> None:
    """Add a text without pages of its own, in pages of about `PAGE` characters, with an outline of its headings.

    `blocks` are the paragraphs in their order: the level of a heading, 0 for other text, and the text.
    """
    pages, headings, length = list[list[str]](), list[tuple[int, str, int | None]](), PAGE
    for level, text in blocks:
        for start in range(0, max(len(text), 1), PAGE):
            piece = text[start : start + PAGE]
            if length + len(piece) > PAGE or (level and length > PAGE * 2 // 3):
                pages.append([])
                length = 0
            if level and len(headings) <= MAX_OUTLINE:
                headings.append((level, text, len(pages)))
                level, piece = 0, f"{'#' * min(level, 6)} {piece}"
            pages[-1].append(piece)
            length += len(piece) + 1
    if len(pages) > 1:
        answer.add_outline(headings)
        answer.add_parts(wanted, len(pages), lambda number: "\n".join(pages[number - 1]))
    else:
        list(wanted.numbers(1, answer.unit))
        answer.add("\n".join(pages[0]) if pages else "")
        answer.total = None


def add_slides(answer: Answer, wanted: Wanted, total: int, text_of: Callable[[int], str]) -> None:
    """Add slides; the outline has the first line of each."""
    answer.unit = "slide"
    if not wanted.pages and total > 1:
        first = range(1, min(total, MAX_OUTLINE) + 1)
        answer.add_outline((1, text_of(number).partition("\n")[0], number) for number in first)
    answer.add_parts(wanted, total, text_of)


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers in words: `1-3, 7`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)

"""Paragraphs and tables of marked-up text, from events of XML or HTML; a format says which elements are which."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from goclaw.extensions.documents.formats.markup import Event


class Flow:
    """Collects paragraphs. A format derives from it, names its elements, and takes in others in `begin` and `end`."""

    paragraphs: ClassVar[frozenset[str]]
    table: ClassVar[str] = "table"
    row: ClassVar[str] = "tr"
    cells: ClassVar[frozenset[str]] = frozenset({"td", "th"})
    skipped: ClassVar[frozenset[str]] = frozenset()
    """Elements that are left out with their text."""
    text: ClassVar[str] = ""
    """The element that holds text; empty: all do."""
    breaks: ClassVar[Mapping[str, str]] = {}
    """Elements that stand for a text."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        """The text of the paragraph so far."""
        self.level = 0
        """Level of the paragraph as a heading; 0: other text."""
        self.is_item = False
        """It is an item of a list."""
        self.link = ""
        """The address of the link that is open."""
        self._found: list[tuple[int, str]] = []
        self._rows: list[list[str]] = []
        self._tables = self._skipped = self._holds = 0

    def begin(self, tag: str, given: Mapping[str, str]) -> None:
        """Take in the start of an element."""

    def end(self, tag: str) -> None:
        """Take in the end of an element."""

    def blocks(self, events: Iterable[Event]) -> Iterator[tuple[int, str]]:
        """Yield the level of a heading, 0 for other paragraphs and tables, and the text."""
        for event in events:
            self._apply(*event)
            if self._found:
                yield from self._found
                self._found.clear()
        self.end_paragraph()
        while self._tables:
            self._end_table(self.table)
        yield from self._found

    def end_paragraph(self) -> None:
        """End the paragraph, if it has a text; in a table it belongs to its cell."""
        text = "".join(self.parts).strip("\n")
        if not text.strip():
            pass
        elif not self._tables:
            self._found.append((self.level, f"- {text}" if self.is_item and not self.level else text))
        elif self._rows and self._rows[-1]:
            self._rows[-1][-1] = f"{self._rows[-1][-1]} {text}".strip()
        self.parts, self.level, self.is_item = [], 0, False

    def end_link(self) -> None:
        """Write the address of the link that ends."""
        if self.link:
            self.parts.append(f" ({self.link})")
            self.link = ""

    def _apply(self, kind: str, tag: str, given: Mapping[str, str]) -> None:
        if kind == "text":
            if not self._skipped and (self._holds or not self.text):
                self.parts.append(tag)
        elif tag in self.skipped:
            self._skipped = max(0, self._skipped + (1 if kind == "start" else -1))
        elif not self._skipped:
            if tag in self.paragraphs:
                self.end_paragraph()
            if tag == self.text:
                self._holds += 1 if kind == "start" else -1
            elif kind == "start":
                self.parts += [self.breaks[tag]] if tag in self.breaks else []
                self._begin_table(tag)
                self.begin(tag, given)
            else:
                self.end(tag)
                self._end_table(tag)

    def _begin_table(self, tag: str) -> None:
        if tag == self.table:
            self.end_paragraph()
            self._tables += 1
        elif self._tables == 1 and tag == self.row:
            self._rows.append([])
        elif self._tables == 1 and tag in self.cells and self._rows:
            self._rows[-1].append("")

    def _end_table(self, tag: str) -> None:
        if self._tables and (tag in self.cells or tag == self.table):
            self.end_paragraph()
        if tag != self.table or not self._tables:
            return
        self._tables -= 1
        rows = [row for row in self._rows if any(row)]
        if not self._tables and rows:
            # Pages and mails are laid out in tables, too: with one column it is none.
            is_table = max(map(len, rows)) > 1
            self._found += [(0, table(rows))] if is_table else [(0, row[0]) for row in rows]
            self._rows = []


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table in Markdown; the first one is its head."""
    width = max(map(len, rows))
    lines = [f"| {' | '.join([*map(_cell, row), *[''] * (width - len(row))])} |" for row in rows]
    return "\n".join([*lines[:1], f"|{' --- |' * width}", *lines[1:]])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

"""ODT, ODS and ODP: the text, tables, sheets and slides of OpenDocument files (OASIS OpenDocument 1.3)."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted, add_flow, add_slides
from goclaw.extensions.documents.formats.flow import Flow
from goclaw.extensions.documents.formats.grid import Cells, Sheet, add_sheets
from goclaw.extensions.documents.formats.markup import Package

CONTENT, _MANIFEST = "content.xml", "META-INF/manifest.xml"
_MOST_REPEATED = 1_024
"""Copies of a cell or row that are made: sheets end with a million empty ones."""
_CELLS = frozenset({"table-cell", "covered-table-cell"})


class _Text(Flow):
    paragraphs = frozenset({"p", "h"})
    row, cells = "table-row", _CELLS
    skipped = frozenset({"tracked-changes", "note-citation", "meta", "forms", "font-face-decls", "automatic-styles"})
    breaks: ClassVar[Mapping[str, str]] = {"tab": "\t", "line-break": "\n", "note": " [note: "}
    _lists = 0

    def begin(self, tag: str, given: Mapping[str, str]) -> None:
        if tag == "h":
            self.level = _count(given.get("outline-level"))
        elif tag == "p":
            self.is_item = self._lists > 0
        elif tag == "list":
            self._lists += 1
        elif tag == "a":
            self.link = given.get("href", "")
        elif tag == "s":
            self.parts.append(" " * min(_count(given.get("c")), 100))

    def end(self, tag: str) -> None:
        if tag == "list":
            self._lists -= 1
        elif tag == "a":
            self.end_link()
        elif tag == "note":
            self.parts.append("]")


def extract_package(package: Package, wanted: Wanted, answer: Answer) -> None:
    """Read an OpenDocument file."""
    if _MANIFEST in package.names and any(tag == "encryption-data" for _, tag, _ in package.events(_MANIFEST)):
        raise Refused("is encrypted: it opens with a password only")
    tags = (tag for event, tag, _ in package.events(CONTENT) if event == "start")
    # What the body holds; styles before it have elements of these names, too.
    match next((next(tags, "") for tag in tags if tag == "body"), ""):
        case "spreadsheet":
            answer.kind = "OpenDocument spreadsheet"
            add_sheets(answer, wanted, [Sheet(name, _rows(package, name)) for name in _names(package)])
        case "presentation" | "drawing":
            answer.kind = "OpenDocument presentation"
            slides = list(_slides(package))
            add_slides(answer, wanted, len(slides), lambda number: slides[number - 1])
        case "text":
            answer.kind = "OpenDocument text"
            add_flow(answer, wanted, _Text().blocks(package.events(CONTENT)))
        case _:
            raise Refused("is an OpenDocument file without text")


def _slides(package: Package) -> Iterator[str]:
    found = list[tuple[str, str, Mapping[str, str]]]()
    for event in package.events(CONTENT):
        found.append(event)
        if event[:2] == ("end", "page"):
            yield "\n".join(text for _, text in _Text().blocks(found)) or "[no text]"
            found.clear()


def _names(package: Package) -> list[str]:
    events = package.events(CONTENT)
    return [given["name"] for event, tag, given in events if event == "start" and tag == "table" and "name" in given]


class _Row:
    """A row that is read."""

    def __init__(self) -> None:
        self.cells: Cells = {}
        self._column, self._copies, self._formula = 1, 1, ""
        self._texts: list[str] = []

    def apply(self, kind: str, tag: str, given: Mapping[str, str]) -> None:
        """Take in an event within it."""
        if kind == "text":
            self._texts.append(tag)
        elif tag == "p" and self._texts:
            self._texts.append(" ")
        elif tag in _CELLS and kind == "start":
            self._copies, self._texts = _count(given.get("number-columns-repeated")), []
            self._formula = given.get("formula", "").partition(":")[2]
        elif tag in _CELLS:
            value = "".join(self._texts).strip()
            if value or self._formula:
                told = f"{self._formula} → {value}" if self._formula else value
                places = range(self._column, self._column + min(self._copies, _MOST_REPEATED))
                self.cells.update(dict.fromkeys(places, told))
            self._column += self._copies


def _rows(package: Package, sheet: str) -> Iterator[tuple[int, Cells]]:
    """Yield the rows of a sheet with their numbers, without empty ones."""
    is_here, number, repeated, row = False, 1, 1, _Row()
    for kind, tag, given in package.events(CONTENT):
        if tag == "table" and kind == "start":
            is_here = given.get("name") == sheet
        elif not is_here:
            continue
        elif tag == "table" and kind == "end":
            return
        elif tag == "table-row" and kind == "start":
            row, repeated = _Row(), _count(given.get("number-rows-repeated"))
        elif tag == "table-row":
            for copy in range(min(repeated, _MOST_REPEATED) if row.cells else 0):
                yield number + copy, row.cells
            number += repeated
        else:
            row.apply(kind, tag, given)


def _count(text: str | None) -> int:
    return int(text) if text and text.isdigit() and len(text) < 10 else 1

"""XLSX and CSV: sheets, ranges of cells, formulas with their last values, dates as dates."""

import csv
import datetime
import io
import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted
from goclaw.extensions.documents.formats.grid import Cells, Sheet, add_sheets, column_of
from goclaw.extensions.documents.formats.markup import Package, parse
from goclaw.extensions.documents.formats.plain import decode

WORKBOOK = "xl/workbook.xml"
_MAX_STRINGS = 80 << 20
"""Characters of the strings that the cells of a workbook share."""
_MAX_SHEETS = 1_000
_DATES = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
"""Built-in number formats that show dates and times (ECMA-376 part 1, 18.8.30)."""
_DATE_FORMAT = re.compile(r'\[[^\]]*\]|"[^"]*"|\\.')
"""Parts of a custom format that show no number: colours, quoted text."""
_EPOCH = datetime.datetime(1899, 12, 30)  # noqa: DTZ001 -- cells have no zone
_ROW = re.compile(rb"""<(?:\w+:)?row [^>]{0,500}?\br=["'](\d+)""")
_MAX_BEFORE = 1 << 20
"""Bytes without a row, after which none is looked for."""
_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_FIRST_WANTED = re.compile(r"(?:^|!)\$?[A-Za-z]{0,3}\$?(\d{1,7})(?=:|$)")


def extract_package(package: Package, wanted: Wanted, answer: Answer) -> None:
    """Read a workbook."""
    answer.kind = "Excel workbook"
    related = package.relations_of(WORKBOOK)
    if any(outside or kind == "externalLink" for kind, _, outside in related.values()):
        answer.note("it refers to other workbooks, which are not opened: values from there are the last known ones")
    listed = [given for event, tag, given in package.events(WORKBOOK) if event == "start" and tag == "sheet"]
    wanted_row = _FIRST_WANTED.search(wanted.sheet)
    strings, styles, first = _Strings(package), _date_styles(package), int(wanted_row[1]) if wanted_row else 1
    sheets = []
    for given in listed[:_MAX_SHEETS]:
        part = related.get(given.get("id", ""), ("", "", True))[1]
        if part in package.names:
            sheets.append(Sheet(given.get("name", ""), _rows(package, part, strings, styles, first)))
    if hidden := [given.get("name", "") for given in listed if given.get("state", "visible") != "visible"]:
        answer.note(f"hidden sheets: {', '.join(hidden)[:300]}")
    add_sheets(answer, wanted, sheets)


class _Strings:
    """The strings that cells share; loaded with the first cell that has one."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._found: list[str] | None = None

    def at(self, index: str) -> str:
        """Return the string with this number; empty: the workbook lacks it."""
        if self._found is None:
            self._found = list(self._load())
        return self._found[int(index)] if index.isdigit() and int(index) < len(self._found) else ""

    def _load(self) -> Iterator[str]:
        name = "xl/sharedStrings.xml"
        if name not in self._package.names:
            return
        parts, left, in_text, phonetic = list[str](), _MAX_STRINGS, False, False
        for event, tag, _ in self._package.events(name):
            if event == "text":
                if in_text and not phonetic:
                    parts.append(tag)
                    left -= len(tag)
                    if left < 0:
                        raise Refused("is not opened: its texts are larger than what fits into the memory")
            elif tag == "t":
                in_text = event == "start"
            elif tag == "rPh":
                phonetic = event == "start"
            elif tag == "si" and event == "end":
                yield "".join(parts)
                parts = []


def _date_styles(package: Package) -> frozenset[str]:
    """Return the numbers of the styles that show dates."""
    own, found, inside, count = dict[str, str](), set[str](), False, 0
    if "xl/styles.xml" not in package.names:
        return frozenset()
    for event, tag, given in package.events("xl/styles.xml"):
        if event == "start" and tag == "numFmt":
            own[given.get("numFmtId", "")] = given.get("formatCode", "")
        elif tag == "cellXfs":
            inside = event == "start"
        elif inside and event == "start" and tag == "xf":
            number = given.get("numFmtId", "0")
            code = _DATE_FORMAT.sub("", own.get(number, "")).lower()
            if (number.isdigit() and int(number) in _DATES) or any(letter in code for letter in "ydh"):
                found.add(str(count))
            count += 1
    return frozenset(found)


class _Row:
    """A row that is read."""

    def __init__(self, strings: _Strings, dates: frozenset[str]) -> None:
        self._strings, self._dates = strings, dates
        self.cells: Cells = {}
        self._column, self._kind, self._is_date, self._inside = 0, "", False, ""
        self._texts: dict[str, str] = {}

    def apply(self, event: str, tag: str, given: Mapping[str, str]) -> None:
        """Take in an event within it."""
        if event == "text":
            if self._inside:
                self._texts[self._inside] = self._texts.get(self._inside, "") + tag
        elif tag in ("v", "t", "f"):
            self._inside = tag if event == "start" else ""
        elif tag == "c" and event == "start":
            match = _REFERENCE.fullmatch(given.get("r", ""))
            self._column = column_of(match[1]) if match else self._column + 1
            self._kind, self._is_date, self._texts = given.get("t", ""), given.get("s", "") in self._dates, {}
        elif tag == "c" and self._texts:
            value, formula = self._texts.get("v", self._texts.get("t", "")), self._texts.get("f", "")
            told = _format_value(value, self._kind, self._strings, is_date=self._is_date)
            self.cells[self._column] = f"={formula} → {told}" if formula else told


def _rows(
    package: Package, part: str, strings: _Strings, dates: frozenset[str], first: int
) -> Iterator[tuple[int, Cells]]:
    """Yield the rows that are not empty, those before `first` left out as far as that is quick."""
    number, row = 0, _Row(strings, dates)
    for event, tag, given in parse(_from_row(package.chunks(part), first), part):
        if tag == "row" and event == "start":
            told = given.get("r", "")
            number, row = int(told) if told.isdigit() else number + 1, _Row(strings, dates)
        elif tag == "row" and event == "end" and row.cells:
            yield number, row.cells
        elif tag == "sheetData" and event == "end":
            return
        else:
            row.apply(event, tag, given)


def _format_value(value: str, kind: str, strings: _Strings, *, is_date: bool) -> str:
    """Return the value of a cell as a person reads it: files have 45000 for a date, 0.30000000000000004 for 0.3."""
    if kind == "s":
        return strings.at(value)
    if kind == "b":
        return "TRUE" if value == "1" else "FALSE"
    if kind not in ("", "n") or not ("." in value or is_date) or "e" in value.lower():
        return value
    try:
        number = float(value)
        moment = _EPOCH + datetime.timedelta(seconds=round(number * 86_400)) if is_date else None
    except (ValueError, OverflowError):
        return value
    if moment is None:
        return f"{number:.15g}"
    return moment.strftime("%H:%M:%S") if number < 1 else moment.isoformat(" ").removesuffix(" 00:00:00")


def _from_row(chunks: Iterator[bytes], first: int) -> Iterator[bytes]:
    """Leave out rows before `first` without parsing them: the end of a million rows is found in seconds."""
    waiting, has_begun = b"", first < 2
    for chunk in chunks:
        if has_begun:
            yield chunk
            continue
        waiting += chunk
        starts = list(_ROW.finditer(waiting))
        if starts and b"<sheetData" in waiting[: starts[0].start()]:
            yield waiting[: starts[0].start()]
        if later := next((start for start in starts if int(start[1]) >= first), None):
            yield waiting[later.start() :]
            has_begun = True
        elif starts:
            waiting = waiting[starts[-1].start() :]
        elif has_begun := len(waiting) > _MAX_BEFORE:
            yield waiting
    if not has_begun:
        yield waiting


def extract(file: BinaryIO, wanted: Wanted, answer: Answer) -> None:
    """Read a table of text: CSV, or with tabs or semicolons."""
    answer.kind = "table (CSV)"
    text = decode(file.read())
    try:
        dialect: type[csv.Dialect] = csv.Sniffer().sniff(text[:8_192], ",;\t|")
    except csv.Error:
        dialect = csv.excel_tab if text.partition("\n")[0].count("\t") else csv.excel
    csv.field_size_limit(1 << 20)
    add_sheets(answer, wanted, [Sheet("table", _records(csv.reader(io.StringIO(text, newline=""), dialect)))])


def _records(reader: Iterator[list[str]]) -> Iterator[tuple[int, Cells]]:
    try:
        for number, record in enumerate(reader, 1):
            if cells := {column: text for column, text in enumerate(record, 1) if text}:
                yield number, cells
    except csv.Error as error:
        raise Refused(f"is damaged: {error}") from None

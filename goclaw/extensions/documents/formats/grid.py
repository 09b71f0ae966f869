"""Sheets of tables: names, ranges such as `Data!A1:D20`, and rows with their numbers."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from goclaw.extensions.documents.formats.answer import Answer, Refused, Wanted

Cells = dict[int, str]
"""The cells of a row by the number of their column, from 1 on; empty ones are absent."""
MAX_CELL = 1_000
"""Characters of a cell."""
_LAST_ROW = 1 << 31
_MAX_COLUMNS = 100
"""Columns that are shown without a range."""
_RANGE = re.compile(r"\$?([A-Za-z]{0,3})\$?(\d{0,9})(?::\$?([A-Za-z]{0,3})\$?(\d{0,9}))?")


@dataclass
class Sheet:
    """A sheet that can be read once."""

    name: str
    rows: Iterable[tuple[int, Cells]]
    """The rows that are not empty, with their numbers."""


@dataclass
class Area:
    """A range of cells."""

    first_row: int = 1
    last_row: int = _LAST_ROW
    first_column: int = 1
    last_column: int = _MAX_COLUMNS


def choose(wanted: Wanted, names: Mapping[str, Sheet], first: str) -> tuple[Sheet, Area]:
    """Return the wanted sheet and range. Raises Refused: there is no such sheet or range."""
    name, _, cells = wanted.sheet.rpartition("!")
    if not name and cells in names:
        name, cells = cells, ""
    name = name.strip("'") or first
    if name not in names:
        raise Refused(f"has no sheet {name[:100]!r}; it has {', '.join(names)[:500]}")
    match = _RANGE.fullmatch(cells)
    if match is None:
        raise Refused(
            f"has no sheet or range {wanted.sheet[:100]!r}; write Name, Name!A1:D20 or A1:D20; its sheets are "
            f"{', '.join(names)[:500]}"
        )
    area, single = Area(), ":" not in cells and bool(cells)
    left, top, right, bottom = match[1], match[2], match[1] if single else match[3], match[2] if single else match[4]
    if left:
        area.first_column = column_of(left)
    if right:
        area.last_column = min(column_of(right), area.first_column + 16_383)
    area.first_row, area.last_row = int(top or 1), int(bottom or area.last_row)
    return names[name], area


def add_sheets(answer: Answer, wanted: Wanted, sheets: list[Sheet]) -> None:
    """Add the wanted sheet or range, else the first sheet; the outline has the names of all."""
    if not sheets:
        raise Refused("has no sheets")
    answer.unit = "row"
    names = {sheet.name: sheet for sheet in sheets}
    if not wanted.sheet and len(sheets) > 1:
        answer.add_outline((1, f"sheet {sheet.name}", None) for sheet in sheets)
    sheet, area = choose(wanted, names, sheets[0].name)
    if wanted.pages:
        numbers = list(wanted.numbers(1 << 20, "row"))
        area.first_row, area.last_row = numbers[0], numbers[-1]
    add_rows(answer, sheet, area, several=len(sheets) > 1)


def add_rows(answer: Answer, sheet: Sheet, area: Area, *, several: bool) -> None:
    """Add rows of a sheet, as many as there is room for, under the letters of their columns."""
    lines, widest, last = list[tuple[int, Cells]](), 0, 0
    room = answer.room
    for number, cells in sheet.rows:
        if number > area.last_row:
            break
        if number < area.first_row:
            continue
        kept = {at: text for at, text in cells.items() if area.first_column <= at <= area.last_column}
        if area.last_column == _MAX_COLUMNS and any(at > _MAX_COLUMNS for at in cells):
            answer.note(f"columns after {letters(_MAX_COLUMNS)} are left out; ask for a range")
        room -= sum(min(len(text), MAX_CELL) + 3 for text in kept.values()) + 12
        if room < 0 and lines:
            named = f"{sheet.name}!" if several else ""
            end = letters(area.last_column) if area.last_column != _MAX_COLUMNS else letters(max(widest, 1))
            stop = area.last_row if area.last_row < _LAST_ROW else ""
            answer.rest = f'sheet="{named}{letters(area.first_column)}{number}:{end}{stop}"'
            break
        lines.append((number, kept))
        widest, last = max([widest, *kept]), number
    if not lines:
        answer.add(f"[sheet {sheet.name}: no cells are filled there]")
        return
    columns = range(area.first_column, max(widest, area.first_column) + 1)
    answer.add("\n".join(_lines(sheet.name, columns, lines)))
    answer.shown = [lines[0][0]] if lines[0][0] == last else list(range(lines[0][0], last + 1))


def _lines(name: str, columns: range, lines: Iterable[tuple[int, Cells]]) -> Iterator[str]:
    yield f"sheet {name}"
    yield f"row | {' | '.join(map(letters, columns))}"
    for number, cells in lines:
        yield f"{number} | {' | '.join(_fit_cell(cells.get(column, '')) for column in columns)}"


def _fit_cell(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_CELL else f"{text[:MAX_CELL]}…"


def letters(number: int) -> str:
    """Return the letters of a column: 1 is A, 28 is AB."""
    found = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        found = chr(65 + rest) + found
    return found


def column_of(name: str) -> int:
    """Return the number of a column by its letters."""
    number = 0
    for letter in name.upper():
        number = number * 26 + ord(letter) - 64
    return number

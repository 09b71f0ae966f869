"""Jupyter notebooks through nbformat: shown as text, changed cell by cell. A file is neither read nor written here."""

import json
import re
from collections.abc import Iterator
from typing import Any

import nbformat
import nbformat.v4.rwbase
from nbformat import NBFormatError, ValidationError

from goclaw.errors import ToolError
from goclaw.extensions.notebook.cells import CellAction, CellChange, CellChanged, CellKind
from goclaw.tools.builtin.read import NotebookPart

_library: Any = nbformat  # it has no types
_new = _library.v4
_NEW = {CellKind.CODE: _new.new_code_cell, CellKind.MARKDOWN: _new.new_markdown_cell, CellKind.RAW: _new.new_raw_cell}
_BROKEN = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
"""The library's errors for data that is not a notebook."""
_MAX_OUTPUT = 2_000
"""Characters of one output that are shown."""
_HALVES = re.compile("[\ud800-\udfff]")
_IDS_SINCE = (4, 5)
"""The version of the format that gave cells ids."""


def shown(data: bytes) -> str:
    """Return the cells, each under a line with its place, kind and id; outputs shortened, pictures by their size.

    Raises:
        ToolError: it is no notebook.
    """
    notebook = _parse(data)
    try:
        lines = [line for place, cell in enumerate(notebook.cells) for line in _cell(place, cell)]
        return "\n".join(lines or ["[a notebook without cells]"]) + "\n"
    except _BROKEN as error:
        raise ToolError(f"the notebook is damaged ({type(error).__name__}: {error})") from None


def _cell(place: int, cell: Any) -> Iterator[str]:
    cell_id = f", id {cell.id}" if "id" in cell else ""
    yield f"[cell {place}, {cell.cell_type}{cell_id}]"
    yield from str(cell.source).splitlines()
    for output in cell.get("outputs", ()):
        text = _output(output)
        cut = len(text) - _MAX_OUTPUT
        yield "[output]"
        yield from text[:_MAX_OUTPUT].splitlines()
        if cut > 0:
            yield f"[output cut: {cut:,} more characters]"


def _output(output: Any) -> str:
    match output.get("output_type"):
        case "stream":
            return str(output.get("text", ""))
        case "error":
            return f"{output.get('ename', '')}: {output.get('evalue', '')}"
    data = output.get("data", {})
    if "text/plain" in data and not any(kind.startswith("image/") for kind in data):
        return str(data["text/plain"])
    return "\n".join(f"({kind}, {len(str(value)):,} characters)" for kind, value in data.items())


def apply(data: bytes, change: CellChange) -> CellChanged:
    """Return the notebook with one change made.

    Raises:
        ToolError: it is no notebook of version 4, there is no such cell, or it would not be valid any more.
    """
    notebook = _parse(data, as_it_is=True)
    cells = notebook.cells
    try:
        was_valid = _fault(notebook) is None
        has_ids = (notebook.nbformat, notebook.get("nbformat_minor", 0)) >= _IDS_SINCE
        place, cell_id = _act(cells, change, has_ids=has_ids)
        fault = _fault(notebook) if was_valid else None
        if fault:
            raise ToolError(f"the notebook would not be valid any more: {fault}")
        text = json.dumps(_library.v4.rwbase.split_lines(notebook), ensure_ascii=False, indent=_indent(data))
        # JSON has a way to write half a character, UTF-8 has none.
        text = _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
    except _BROKEN as error:
        raise ToolError(f"the notebook is damaged ({type(error).__name__}: {error})") from None
    return CellChanged(text.encode() + (b"\n" if data.endswith(b"\n") else b""), cell_id, place, len(cells))


def _fault(notebook: Any) -> str | None:
    """Return the first violation of the format's schema."""
    fault = next(_library.validator.iter_validate(notebook), None)
    return None if fault is None else str(fault).splitlines()[0]


def _act(cells: list[Any], change: CellChange, *, has_ids: bool) -> tuple[int, str]:
    """Return the changed cell's number and id."""
    if change.action is CellAction.INSERT:
        place = 0 if change.cell is None else _place(cells, change.cell) + 1
        cells.insert(place, _make_cell(change, change.kind or CellKind.CODE, has_ids=has_ids))
    else:
        if change.cell is None:
            raise ToolError(f"say which cell to {change.action} (cell_id or cell_number)")
        place = _place(cells, change.cell)
        old = cells[place]
        if change.action is CellAction.DELETE:
            del cells[place]
            return place, str(old.get("id", ""))
        if change.kind is None or change.kind == old.cell_type:
            old.source = change.source
            if old.cell_type == CellKind.CODE:
                # What an older source gave is not what this one gives.
                old.outputs, old.execution_count = [], None
        else:
            cells[place] = _make_cell(change, change.kind, has_ids=has_ids)
            cells[place].metadata = old.metadata
            if "id" in old:
                cells[place].id = old.id
    return place, str(cells[place].get("id", ""))


def _make_cell(change: CellChange, kind: CellKind, *, has_ids: bool) -> Any:
    cell = _NEW[kind](change.source)
    if not has_ids:
        del cell["id"]
    return cell


def _place(cells: list[Any], wanted: str | int) -> int:
    if isinstance(wanted, int):
        if -len(cells) <= wanted < len(cells):
            return wanted % len(cells)
        raise ToolError(f"there is no cell {wanted}: the notebook has {len(cells)} (0 to {len(cells) - 1})")
    found = [place for place, cell in enumerate(cells) if cell.get("id") == wanted]
    if len(found) != 1:
        known = ", ".join(str(cell.get("id")) for cell in cells[:20] if "id" in cell)
        raise ToolError(f"there is no cell with the id {wanted[:80]!r}; there are {known or 'no ids: use cell_number'}")
    return found[0]


def _parse(data: bytes, *, as_it_is: bool = False) -> Any:
    """Parse the notebook; an older version is converted to version 4, unless it has to stay as it is."""
    try:
        notebook = _library.reader.reads(data.decode("utf-8-sig"))
        if notebook.get("nbformat") != 4 and not as_it_is:
            notebook = _library.convert(notebook, 4)
        if not isinstance(notebook.get("cells"), list) and notebook.get("nbformat") == 4:
            raise TypeError
    except (*_BROKEN, NBFormatError, ValidationError) as error:
        raise ToolError(f"not a notebook ({type(error).__name__})") from None
    if notebook.nbformat != 4:
        raise ToolError(f"the notebook has format {notebook.nbformat}; only format 4 can be changed")
    return notebook


def _indent(data: bytes) -> int | None:
    """Return the spaces that the file indents with; None: it is all on one line."""
    second = data.split(b"\n", 2)[1:2]
    return (len(second[0]) - len(second[0].lstrip(b" "))) or None if second else None


NOTEBOOKS = NotebookPart(shown)

"""A change of one cell of a notebook, and its outcome."""

from enum import StrEnum

from goclaw.common.core.records import record


class CellKind(StrEnum):
    """The kinds of a cell."""

    CODE = "code"
    MARKDOWN = "markdown"
    RAW = "raw"


class CellAction(StrEnum):
    """The actions on a cell."""

    REPLACE = "replace"
    INSERT = "insert"
    DELETE = "delete"


@record
class CellChange:
    """One change of a notebook."""

    action: CellAction
    cell: str | int | None = None
    """An id, or a place (0-based; -1 is the last). To insert: the cell behind which; None: at the beginning."""
    source: str = ""
    kind: CellKind | None = None
    """None: as it is; of a new cell, code."""


@record
class CellChanged:
    """The outcome of a change to a notebook."""

    content: bytes
    cell_id: str
    """Of the cell that was changed, made or taken away; empty: notebooks of that version have no ids."""
    place: int
    cells: int

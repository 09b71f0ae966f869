"""The `notebook_edit` tool: one cell of a Jupyter notebook is replaced, inserted or deleted; the rest stays.

The library for notebooks (`notebooks`) is loaded at the first one.
"""

import asyncio
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field

from goclaw.common.specs import Annotations, Example, SideEffect
from goclaw.common.workspace import FileStamp, Opened
from goclaw.errors import InvalidInput, ToolError
from goclaw.extensions.notebook.cells import CellAction, CellChange, CellChanged, CellKind
from goclaw.tools.approval.requests import Grounds
from goclaw.tools.builtin.file_changes import Proposed, again_unless_approved, grounds_of, review_risk
from goclaw.tools.builtin.listing import with_suggestion
from goclaw.tools.builtin.text import MAX_BYTES, encode
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse

Path = Annotated[
    str,
    Field(
        validation_alias=AliasChoices("path", "file_path", "notebook_path"),
        description="The notebook (.ipynb), absolute or relative to the workspace.",
    ),
]
_A_NOTEBOOK = (
    '{"cells": [{"cell_type": "code", "execution_count": null, "id": "first", "metadata": {}, "outputs": [], '
    '"source": "1 + 1"}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
)


class NotebookResult(Result):
    """What became of the notebook."""

    path: str
    action: Literal["replace", "insert", "delete"]
    cell_id: str
    cell_number: Annotated[int, Field(ge=0)]
    cells: Annotated[int, Field(ge=0, description="How many there are now.")]

    def text(self) -> str:
        """Return one line."""
        done = {"replace": "replaced", "insert": "inserted", "delete": "deleted"}[self.action]
        cell_id = f" (id {self.cell_id})" if self.cell_id else ""
        return f"{done} cell {self.cell_number}{cell_id} of {self.path}, which has {self.cells} cells now"


async def _grounds(arguments: Any, ctx: ToolContext) -> Grounds:
    change = _change(
        arguments.action, arguments.cell_id, arguments.cell_number, arguments.new_source, arguments.cell_type
    )
    data, _, made = await _plan(ctx, arguments.path, change)
    before, after = (content.decode("utf-8-sig", errors="replace") for content in (data, made.content))
    return await grounds_of(ctx, [Proposed(arguments.path, before, after)])


@tool(
    side_effect=SideEffect.MUTATING,
    idempotent=False,
    risk=review_risk,
    grounds=_grounds,
    tags=("filesystem", "notebook", "write"),
    annotations=Annotations("Edit a notebook", read_only=False, destructive=True, idempotent=False, open_world=False),
    access=lambda arguments, ctx: ResourceUse(writes=(arguments.path,)),
    asks="{{ action }} a cell of {{ path or 'a notebook' }}",
    does="edit notebooks",
    call_hint="{{ action | first | upper }}{{ action[1:] }} a cell of {{ path }}",
    result_hint="{{ path }}: cell {{ cell_number }} {{ action }}d, {{ cells }} cells",
    examples=(
        Example(
            "Another source for a cell",
            {"path": "a.ipynb", "cell_id": "first", "new_source": "2 + 2"},
            "replaced cell 0 (id first) of a.ipynb, which has 1 cells now",
            {"a.ipynb": _A_NOTEBOOK},
        ),
    ),
)
async def notebook_edit(
    ctx: ToolContext,
    path: Path,
    action: Annotated[
        Literal["replace", "insert", "delete"],
        Field(validation_alias=AliasChoices("action", "edit_mode"), description="What to do with the cell."),
    ] = "replace",
    cell_id: Annotated[
        str | None, Field(min_length=1, description="The cell; to insert, the one behind which (none: at the top).")
    ] = None,
    cell_number: Annotated[int | None, Field(description="The same by its place, 0-indexed; -1 is the last.")] = None,
    new_source: Annotated[str | None, Field(description="The source of the cell; needed unless it is deleted.")] = None,
    cell_type: Annotated[
        Literal["code", "markdown", "raw"] | None,
        Field(description="Its kind (default: as it is; of a new one, code)."),
    ] = None,
) -> NotebookResult:
    """Replace, insert or delete one cell of a Jupyter notebook. `read` shows the cells with their ids.

    A code cell that gets another source loses its outputs.
    """
    change = _change(action, cell_id, cell_number, new_source, cell_type)

    async def changed() -> CellChanged:
        _, version, made = await _plan(ctx, path, change)
        await ctx.workspace.write_bytes(path, made.content, unless_changed=version)
        return made

    made = await again_unless_approved(ctx, "notebook_edit", changed)
    return NotebookResult(path=path, action=action, cell_id=made.cell_id, cell_number=made.place, cells=made.cells)


def _change(action: str, cell_id: str | None, number: int | None, source: str | None, kind: str | None) -> CellChange:
    if cell_id is not None and number is not None:
        raise InvalidInput("give cell_id or cell_number, not both")
    if source is None and action != CellAction.DELETE:
        raise InvalidInput('field "new_source": expected string, got nothing')
    encode(source or "", "new_source")
    wanted = cell_id if cell_id is not None else number
    return CellChange(CellAction(action), wanted, source or "", CellKind(kind) if kind else None)


async def _plan(ctx: ToolContext, path: str, change: CellChange) -> tuple[bytes, FileStamp, CellChanged]:
    try:
        data, version = await ctx.workspace.use(path, lambda opened: _bytes(path, opened))
    except ToolError as error:
        raise await with_suggestion(ctx, path, error) from error
    return data, version, await asyncio.to_thread(_apply, path, data, change)


def _apply(path: str, data: bytes, change: CellChange) -> CellChanged:
    from goclaw.extensions.notebook import notebooks  # its library takes a tenth of a second to load

    try:
        return notebooks.apply(data, change)
    except ToolError as error:
        raise ToolError(f"{path}: {error}") from error


def _bytes(path: str, opened: Opened) -> tuple[bytes, FileStamp]:
    if opened.stat.size > MAX_BYTES:
        raise ToolError(
            f"file too large: {path} has {opened.stat.size:,} bytes, notebook_edit takes at most {MAX_BYTES:,}"
        )
    return opened.file.read(MAX_BYTES), opened.stat.version

"""The `read` tool: a file of the workspace, or a kept output: text with line numbers, a picture, a notebook's cells.

A document (PDF, Office files, mails, archives) is read as text by `toolkit.documents`.
"""

import asyncio
import io
import os
from collections.abc import Callable
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, BinaryIO, Literal

from pydantic import Field

from goclaw.common.core import catalog
from goclaw.common.core.document_kinds import DETAILS, OFTEN_TEXTS, SAMPLE, TEXTS, Kind, kind_of
from goclaw.common.core.messages import Image, SourceKind
from goclaw.common.core.pictures import fault_of
from goclaw.common.core.plugins import load
from goclaw.common.core.records import record
from goclaw.common.specs import Annotations, Example, SideEffect
from goclaw.common.workspace import Opened
from goclaw.durable.store.blobs import SPILL_PREFIX, image_type
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.builtin.lines import Lines, LineWindow, lines_of
from goclaw.tools.builtin.listing import FilePath, is_missing
from goclaw.tools.builtin.text import LATIN_NAME, is_wide
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.documents import Selection, SourceFile, read_document
from goclaw.tools.toolkit.pictures import keep_picture
from goclaw.tools.toolkit.results import BoundedResult
from goclaw.tools.toolkit.scheduling import ResourceUse

MAX_PICTURE = 5 << 20
"""Bytes of a picture that models take (Anthropic, "Vision")."""
NOTEBOOK = ".ipynb"
MAX_NAMES = 20
"""Maximum names of a folder in the error for reading it."""
_ALL_LINES = 1 << 30
"""Of a document: it comes in pages, which are bounded already."""


class ReadResult(BoundedResult):
    """What is in a file, or a part of it."""

    path: str
    kind: Literal["text", "picture", "notebook", "document"] = "text"
    first: Annotated[int, Field(ge=0, description="0-based number of the first line here.")] = 0
    content: Annotated[str, Field(description="Lines with their 1-based numbers, or a sentence in their place.")]
    note: Annotated[str, Field(description="What is unusual about it.")] = ""
    picture: Image | None = None
    more_pictures: tuple[Image, ...] = ()
    counted: Annotated[int | None, Field(description="Lines that were counted, where there are more than those.")] = (
        None
    )

    def text(self) -> str:
        """Return the lines; below them how to go on."""
        parts = [self.note, self.content]
        if self.truncated:
            shown = f"{self.first + 1}-{self.first + self.returned}"
            of = self.total if self.counted is None else f"more than {self.counted:,}"
            parts.append(f"[lines {shown} of {of}; {self.refinement_hint}]")
        return "\n".join(filter(None, parts))

    def pictures(self) -> tuple[Image, ...]:
        """Return the picture for the model."""
        return (self.picture, *self.more_pictures) if self.picture else ()


@record
class NotebookPart:
    """A line of the catalogue: notebooks as text."""

    shown: Callable[[bytes], str]
    """Returns the cells; not for the event loop. Raises ToolError."""


@record
class _Picture:
    data: bytes
    mime: str


@record
class _Notebook:
    data: bytes


@record
class _OpenDocument:
    file: BinaryIO
    """The caller closes it."""
    size: int
    may_be_text: bool
    """Whether its text is shown as it is if the reader refuses the document."""


@tool(
    side_effect=SideEffect.READ_ONLY,
    tags=("filesystem", "read"),
    annotations=Annotations("Read a file", read_only=True, destructive=None, idempotent=True, open_world=False),
    timeout=60,  # a document may take half of it, and say so
    bounded=True,
    access=lambda arguments, ctx: ResourceUse(reads=(arguments.path,)),
    asks="read {{ path or 'a file' }}",
    does="read files",
    call_hint="Reading {{ path }}",
    result_hint="Read {{ path }}{% if kind == 'text' %}, {{ returned }}{% if total %} of {{ total }}{% endif %} lines"
    "{% endif %}",
    examples=(
        Example("A whole file", {"path": "a.txt"}, "     1\tone\n     2\ttwo", {"a.txt": "one\ntwo\n"}),
        Example(
            "A few lines of it",
            {"path": "a.txt", "start_line": 2, "end_line": 2},
            "     2\ttwo",
            {"a.txt": "one\ntwo\n"},
        ),
    ),
)
async def read(
    ctx: ToolContext,
    path: FilePath,
    offset: Annotated[int | None, Field(ge=0, description="Start line, 0-indexed.")] = None,
    limit: Annotated[int | None, Field(ge=1, description="Max lines to read.")] = None,
    start_line: Annotated[int | None, Field(ge=1, description="First line, 1-indexed; in place of offset.")] = None,
    end_line: Annotated[int | None, Field(ge=1, description="Last line, 1-indexed; in place of limit.")] = None,
    max_lines: Annotated[int | None, Field(ge=1, description="At most so many lines (default: 500).")] = None,
    max_bytes: Annotated[int | None, Field(ge=1, description="At most so many bytes (default: 50000).")] = None,
    pages: Annotated[str, Field(description="Of a document: 3-7.")] = "",
    sheet: Annotated[str, Field(description="Or Name!A1:D20.")] = "",
    member: Annotated[str, Field(description="File in an archive or mail.")] = "",
) -> ReadResult:
    """Read a file. Returns its lines with line numbers; long files come in parts, each telling how to go on.

    Pictures are shown to you, of a Jupyter notebook (.ipynb) you see the cells, of documents the text (PDF, Office,
    mails, archives). `output:<id>` reads a kept output. The path of a file that does not exist is taken for the nearest
    name there is, if only one is near.
    """
    settings = ctx.config.tools.read
    window, most = _window(offset, limit, start_line, end_line, max_lines), settings.max_bytes
    window = LineWindow(window.offset, window.limit, min(max_bytes or most, most))
    found = await _nearest(ctx, path, window, Selection(pages, sheet, member, window.max_bytes))
    if max_bytes is None or max_bytes <= most:
        return found
    bound = f"[max_bytes is at most {most}]"
    return found.model_copy(update={"note": "\n".join(filter(None, (found.note, bound)))})


async def _nearest(ctx: ToolContext, path: str, window: LineWindow, wanted: Selection) -> ReadResult:
    """Read a kept output, a file, or for a missing file the one with the most similar name."""
    if path.startswith(SPILL_PREFIX):
        ctx.set_source(SourceKind.DOCUMENT)  # the output of any tool
        window = _with_limit(ctx, window)
        return _build_result(
            path, await ctx.blobs.use_spill(path, ctx.actor.key, partial(lines_of, path, window)), window
        )
    try:
        return await _read(ctx, path, window, wanted)
    except ToolError as error:
        if isinstance(error.__cause__, IsADirectoryError):
            raise await _with_names(ctx, path, error, "it") from error
        if not is_missing(error):
            raise
        near, is_sure = await ctx.workspace.nearest(path)
        if not near:
            raise await _with_nearest_folder(ctx, path, error) from error
        if not is_sure:
            raise ToolError(f"{error} (did you mean {near}?)") from error
    found = await _read(ctx, near, window, wanted)
    near_name = f"[{path} does not exist; this is {near}, the nearest name]"
    return found.model_copy(update={"note": "\n".join(filter(None, (near_name, found.note)))})


async def _with_nearest_folder(ctx: ToolContext, path: str, error: ToolError) -> ToolError:
    """Return the error about a missing file with the names in the last folder of its path that exists, if any does."""
    for parent in PurePosixPath(path).parents[:-1]:
        try:
            return await _with_names(ctx, str(parent), error, str(parent))
        except ToolError:
            continue
    return error


async def _with_names(ctx: ToolContext, folder: str, error: ToolError, called: str) -> ToolError:
    """Return the error with the names in a folder: small models try nothing else after a plain refusal."""
    names = sorted(name for name, _ in (await ctx.workspace.entries(folder, MAX_NAMES + 1))[1])
    more = ", …" if len(names) > MAX_NAMES else ""
    return ToolError(f"{error} (in {called}: {', '.join(names[:MAX_NAMES])}{more})") if names else error


def _window(
    offset: int | None, limit: int | None, start_line: int | None, end_line: int | None, max_lines: int | None
) -> LineWindow:
    """Return the wanted lines; a limit of 0 means none was given."""
    by_offset = offset is not None or limit is not None
    if by_offset and (start_line is not None or end_line is not None):
        raise InvalidInput("give offset and limit (0-indexed), or start_line and end_line (1-indexed), not both")
    first = start_line - 1 if start_line is not None else offset or 0
    if end_line is not None and end_line <= first:
        raise InvalidInput(f'field "end_line": expected at least start_line, {first + 1}, got {end_line}')
    wanted = [limit, end_line - first if end_line is not None else None, max_lines]
    return LineWindow(first, min((each for each in wanted if each is not None), default=0), 0)


def _with_limit(ctx: ToolContext, window: LineWindow) -> LineWindow:
    return LineWindow(window.offset, window.limit or ctx.config.tools.read.max_lines, window.max_bytes)


async def _read(ctx: ToolContext, path: str, window: LineWindow, wanted: Selection) -> ReadResult:
    largest = ctx.config.tools.read.max_file_mb << 20
    lines = _with_limit(ctx, window)
    found = await ctx.workspace.use(path, partial(_of_file, path, lines, largest, wanted))
    match found:
        case Lines():
            return _build_result(path, found, lines)
        case _Picture():
            picture, is_changed = await keep_picture(ctx.environment, found.data, found.mime)
            details = f'; what it says of place, camera and time is left out: member="{DETAILS}" has it'
            said = f"{path} is a picture ({found.mime}, {len(found.data):,} bytes){details if is_changed else ''}"
            return ReadResult(path=path, kind="picture", returned=0, content=said, picture=picture)
        case _Notebook():
            return await asyncio.to_thread(_of_notebook, path, found.data, lines)
        case _OpenDocument():
            with found.file:
                try:
                    return await _of_document(ctx, path, found.file, window, wanted)
                except ToolError as error:
                    if not found.may_be_text:
                        raise
                    return await _of_refused(path, found, lines, error)


async def _of_document(
    ctx: ToolContext, path: str, file: BinaryIO, window: LineWindow, wanted: Selection
) -> ReadResult:
    ctx.set_source(SourceKind.DOCUMENT)  # others wrote it, or may have
    document = await read_document(ctx.environment, SourceFile(path, file), wanted)
    window = LineWindow(window.offset, window.limit or _ALL_LINES, window.max_bytes)
    content = io.BytesIO(document.content.encode(errors="replace"))
    told = _build_result(path, await asyncio.to_thread(lines_of, path, window, content), window)
    pictures = [Image(await ctx.blobs.put(data, mime), mime) for mime, data in document.pictures]
    return told.model_copy(
        update={
            "kind": "document",
            "note": f"[{path}: {document.head}]",
            "content": told.content if document.content else "",
            "picture": next(iter(pictures), None),
            "more_pictures": tuple(pictures[1:]),
        }
    )


async def _of_refused(path: str, document: _OpenDocument, window: LineWindow, refused: ToolError) -> ReadResult:
    """Return the text of a file that only seemed to be a document; raise `refused` if it is no text either."""
    document.file.seek(0)
    try:
        lines = await asyncio.to_thread(lines_of, path, window, document.file, document.size)
    except ToolError:
        raise refused from None
    told = _build_result(path, lines, window)
    return told.model_copy(update={"note": f"[{refused}; this is its text]"})


def _of_file(
    path: str, window: LineWindow, largest: int, wanted: Selection, opened: Opened
) -> Lines | _Picture | _Notebook | _OpenDocument:
    sample = opened.file.read(SAMPLE)
    opened.file.seek(0)
    mime = image_type(sample)
    if mime and not wanted.member:
        if opened.stat.size > MAX_PICTURE:
            raise ToolError(f"picture too large: {path} has {opened.stat.size:,} bytes, at most {MAX_PICTURE:,}")
        picture = _Picture(opened.file.read(MAX_PICTURE), mime)
        if fault := fault_of(picture.data, mime):
            raise ToolError(f"{path} begins like a picture ({mime}) and cannot be shown: {fault}")
        return picture
    kind = Kind.PICTURE if mime else kind_of(sample, path)
    if kind and (kind not in TEXTS or wanted.is_part):
        file = os.fdopen(os.dup(opened.file.fileno()), "rb")
        file.seek(0)  # both have one place, which the sample has moved
        return _OpenDocument(file, opened.stat.size, kind in OFTEN_TEXTS and not wanted.is_part)
    is_notebook = path.lower().endswith(NOTEBOOK) and opened.stat.size
    if opened.stat.size > largest and (is_notebook or is_wide(sample)):
        what = "a notebook" if is_notebook else "a text in UTF-16"
        raise ToolError(
            f"file too large: {path} has {opened.stat.size:,} bytes, read takes at most {largest:,} of "
            f"{what}; search or cut it with exec"
        )
    if is_notebook:
        return _Notebook(opened.file.read(opened.stat.size))
    return lines_of(path, window, opened.file, opened.stat.size)


def _of_notebook(path: str, data: bytes, window: LineWindow) -> ReadResult:
    """Return its cells as text; an invalid notebook is shown as it is, with a note."""
    try:
        cells: BinaryIO = io.BytesIO(
            load(catalog.NOTEBOOKS["nbformat"], NotebookPart).shown(data).encode(errors="replace")
        )
        note = ""
    except ToolError as error:
        cells, note = io.BytesIO(data), f"[{path}: {error}; this is its text]"
    told = _build_result(path, lines_of(path, window, cells), window)
    return told.model_copy(update={"kind": "text" if note else "notebook", "note": note or told.note})


def _build_result(path: str, lines: Lines, window: LineWindow) -> ReadResult:
    following = window.offset + len(lines.shown)
    more = bool(lines.shown) and (following < lines.total or not lines.complete)
    return ReadResult(
        path=path,
        first=window.offset,
        content=lines.text(path, window),
        returned=len(lines.shown),
        total=lines.total if lines.complete else None,
        counted=None if lines.complete else lines.total,
        note=f"[{path} is {LATIN_NAME}, not UTF-8]" if lines.latin else "",
        truncated=more,
        refinement_hint=f"to go on, read with offset={following}" if more else "",
    )

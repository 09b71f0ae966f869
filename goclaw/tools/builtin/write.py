"""The `write` tool: a whole file in one step."""

import asyncio
import operator
import posixpath
import re
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import Field

from goclaw.common.specs import Annotations, Example, SideEffect
from goclaw.common.workspace.paths import CLOSE, nearest
from goclaw.errors import ToolError
from goclaw.tools.approval.requests import Grounds
from goclaw.tools.builtin.file_changes import Proposed, grounds_of, note_change, now_in, review_risk
from goclaw.tools.builtin.listing import FilePath
from goclaw.tools.builtin.text import Text, encode, text_of
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.results import Result
from goclaw.tools.toolkit.scheduling import ResourceUse

Content = Annotated[str, Field(description="The whole new content.")]


class WriteResult(Result):
    """What became of the file."""

    path: str
    size: Annotated[int, Field(ge=0, description="Bytes written.")]
    created: Annotated[bool, Field(description="False: a file was replaced.")]
    kept: Annotated[
        str,
        Field(
            description="What of the form of the file that was replaced the content had not.", exclude_if=operator.not_
        ),
    ] = ""
    twin: Annotated[str, Field(description="File beside a new one of nearly its name.", exclude_if=operator.not_)] = ""

    def text(self) -> str:
        """Return one line."""
        created = f"created; {self.twin} exists" if self.twin else "created"
        how = created if self.created else f"replaced, {self.kept} kept" if self.kept else "replaced"
        return f"wrote {self.size} bytes to {self.path} ({how})"


async def _grounds(arguments: Any, ctx: ToolContext) -> Grounds:
    encode(arguments.content, "content")
    return await grounds_of(ctx, [Proposed(arguments.path, await now_in(ctx, arguments.path), arguments.content)])


@tool(
    side_effect=SideEffect.MUTATING,
    risk=review_risk,
    grounds=_grounds,
    tags=("filesystem", "write"),
    annotations=Annotations("Write a file", read_only=False, destructive=True, idempotent=True, open_world=False),
    access=lambda arguments, ctx: ResourceUse(writes=(arguments.path,)),
    asks="write {{ path or 'a file' }}",
    does="write files",
    call_hint="Writing {{ path }}",
    result_hint="{{ 'Created' if created else 'Replaced' }} {{ path }}, {{ size }} bytes",
    examples=(
        Example(
            "A new file in a folder that is not there yet",
            {"path": "src/hello.py", "content": "print('hello')\n"},
            "wrote 15 bytes to src/hello.py (created)",
        ),
    ),
)
async def write(
    ctx: ToolContext,
    path: FilePath,
    content: Content,
    create_dirs: Annotated[bool, Field(description="Make parent folders that are missing.")] = True,
) -> WriteResult:
    """Write content to a file. Replaces a file that exists; makes parent folders that are missing."""
    data, kept = encode(content, "content"), ""
    if old := await _load_text(ctx, path):
        data, kept = await asyncio.to_thread(old.rewritten, content)
    try:
        written = await ctx.workspace.write_bytes(path, data, create_dirs=create_dirs)
    except ToolError as error:
        if create_dirs or "create_dirs" not in str(error):
            raise
        folder = posixpath.dirname(path)
        meant = await _nearest_folder(ctx, folder)
        raise ToolError(f"{error}; did you mean {meant}?") if meant else error from None
    await note_change(ctx, written.path, old, data)
    twin = await _find_twin(ctx, written.path) if written.created else ""
    return WriteResult(path=written.path, size=written.size, created=written.created, kept=kept, twin=twin)


async def _find_twin(ctx: ToolContext, path: str) -> str:
    """Return the file beside a new one that was probably meant; names that differ in a number alone are a series."""
    folder, name = posixpath.split(path)
    beside = map(posixpath.basename, await ctx.workspace.paths_in(folder or ".", 1_000))  # more would take long
    near, is_sure = await asyncio.to_thread(nearest, name, [each for each in beside if each not in ("", name)])
    is_series = re.sub(r"\d+", "0", near) == re.sub(r"\d+", "0", name)
    return posixpath.join(folder, near) if is_sure and not is_series else ""


async def _load_text(ctx: ToolContext, path: str) -> Text | None:
    """Return the text file that is replaced; None: no file, or no text."""
    try:
        return await ctx.workspace.use(path, lambda opened: text_of(path, opened))
    except ToolError:
        return None


async def _nearest_folder(ctx: ToolContext, folder: str) -> str:
    """Return the folder with the name nearest to a misspelt one."""
    folders = [path.rstrip("/") for path in await ctx.workspace.paths() if path.endswith("/")]
    return next(iter(await asyncio.to_thread(get_close_matches, folder, folders, 1, CLOSE)), "")

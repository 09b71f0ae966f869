"""Find files: the tools `glob` and `list`, the path arguments of all file tools, and suggestions for a missing file."""

from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, Field

from goclaw.common.specs import Annotations, Example, SideEffect
from goclaw.common.workspace import FileQuery, Pattern, patterns
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.results import BoundedResult
from goclaw.tools.toolkit.scheduling import ResourceUse

FilePath = Annotated[
    str,
    Field(
        # Many models were taught the other name; it is shown nowhere, and giving both is an error.
        validation_alias=AliasChoices("path", "file_path"),
        description="File path, absolute or relative to the workspace.",
    ),
]
"""The file that a tool is about."""

Folder = Annotated[str, Field(description="Folder to look in, absolute or relative to the workspace (default: all).")]
"""Where a tool looks."""

Ignored = Annotated[bool, Field(description="Also what git ignores, and folders like node_modules.")]
"""Whether a tool looks everywhere."""


_MAX_GLOBBED = 100_000
"""Files of one search: each costs memory."""


class Globbed(BaseModel, frozen=True, strict=True):
    """One file."""

    path: str
    size: int
    modified: float


class GlobResult(BoundedResult):
    """Files that fit, the newest first."""

    pattern: str
    files: list[Globbed]

    def text(self) -> str:
        """Return one path per line."""
        lines = [format_name(file.path) for file in self.files] or [f"no file matches {self.pattern}"]
        if self.truncated:
            of = f"{self.returned} of {self.total}" if self.total is not None else f"{self.returned}, there are more"
            lines.append(f"[{of}; {self.refinement_hint}]")
        return "\n".join(lines)


def globs(text: str, field: str) -> list[Pattern]:
    """Parse a glob into patterns.

    Raises:
        InvalidInput: the glob is invalid; the message names the field.
    """
    try:
        return patterns(text)
    except ValueError as error:
        raise InvalidInput(f'field "{field}": {error}') from None


@tool(
    side_effect=SideEffect.READ_ONLY,
    tags=("filesystem", "read"),
    annotations=Annotations("Find files", read_only=True, destructive=None, idempotent=True, open_world=False),
    bounded=True,
    access=lambda arguments, ctx: ResourceUse(reads=(arguments.path,)),
    asks="look for files named {{ pattern or 'like this' }}",
    does="read files",
    call_hint="Looking for {{ pattern }}",
    result_hint="{{ returned }} files match {{ pattern }}",
    examples=(
        Example(
            "Every Python file",
            {"pattern": "**/*.py"},
            "src/main.py",
            {"src/main.py": "", "readme.md": "", "build/x.py": "", ".gitignore": "build/\n"},
        ),
    ),
)
async def glob(
    ctx: ToolContext,
    pattern: Annotated[
        str, Field(description="`*.py` (anywhere), `src/**/*.ts`, `*.{yml,yaml}`; relative to the folder.")
    ],
    path: Folder = ".",
    limit: Annotated[int, Field(ge=1, le=1_000, description="Max files.")] = 100,
    include_ignored: Ignored = False,
) -> GlobResult:
    """Find files by a pattern of their paths, the newest first. What git ignores is left out."""
    wanted = FileQuery(path, globs(pattern, "pattern"), ignored=include_ignored)
    seconds = ctx.config.tools.search.timeout
    found = await ctx.workspace.find(wanted, most=_MAX_GLOBBED, seconds=seconds)
    newest = sorted(found.entries, key=lambda entry: (-entry.modified, entry.path))[:limit]
    more = len(found.entries) > limit or not found.complete
    return GlobResult(
        pattern=pattern,
        files=[Globbed(path=entry.path, size=entry.size, modified=entry.modified) for entry in newest],
        returned=len(newest),
        total=len(found.entries) if found.complete else None,
        truncated=more,
        refinement_hint="narrow the pattern or the path" if more else "",
    )


_MAX_ENTRIES = 10_000
"""Entries of a folder that are looked at."""


class Listed(BaseModel, frozen=True, strict=True):
    """One name in the folder."""

    name: str
    kind: Literal["file", "folder"]
    size: Annotated[int | None, Field(description="Bytes of a file.")] = None


class ListResult(BoundedResult):
    """What is in a folder, in the order of names, folders first."""

    path: str
    entries: list[Listed]

    def text(self) -> str:
        """Return a line per entry: `name/` for a folder, a file with its size."""
        if not self.entries:
            return f"{self.path} is empty"
        lines = [
            format_name(each.name) + ("/" if each.kind == "folder" else f"  {each.size:,} bytes")
            for each in self.entries
        ]
        if self.truncated:
            lines.append(f"[{self.returned} of {self.total} entries; {self.refinement_hint}]")
        return "\n".join(lines)


@tool(
    side_effect=SideEffect.READ_ONLY,
    name="list",
    tags=("filesystem", "read"),
    annotations=Annotations("List a folder", read_only=True, destructive=None, idempotent=True, open_world=False),
    bounded=True,
    access=lambda arguments, ctx: ResourceUse(reads=(arguments.path,)),
    asks="list the files in {{ path or 'a folder' }}",
    does="read files",
    call_hint="Listing {{ path }}",
    result_hint="{{ total }} entries in {{ path }}",
    examples=(Example("The workspace", {}, "src/\na.txt  4 bytes", {"a.txt": "one\n", "src/b.txt": "two\n"}),),
)
async def list_(
    ctx: ToolContext,
    path: Folder = ".",
    limit: Annotated[int, Field(ge=1, le=2_000, description="Max entries.")] = 500,
) -> ListResult:
    """List what is in a folder: folders, and files with their sizes. Symbolic links are left out."""
    try:
        shown, found = await ctx.workspace.entries(path, _MAX_ENTRIES + 1)
    except ToolError as error:
        if not is_missing(error):
            raise
        raise ToolError(f"{error} (glob finds files by their names)") from error
    entries = [
        Listed(name=name, kind="folder" if size is None else "file", size=size)
        for name, size in sorted(found[:_MAX_ENTRIES], key=lambda item: (item[1] is not None, item[0]))
    ]
    more = len(entries) > limit or len(found) > _MAX_ENTRIES
    return ListResult(
        path=shown,
        entries=entries[:limit],
        returned=min(limit, len(entries)),
        total=None if len(found) > _MAX_ENTRIES else len(entries),
        truncated=more,
        refinement_hint="give a larger limit, or use glob with a pattern" if more else "",
    )


def format_name(name: str) -> str:
    """Return the name of a file without control characters: it may be hostile, and a model reads it."""
    return name if name.isprintable() else repr(name)


def is_missing(error: ToolError) -> bool:
    """Whether it says that nothing exists there."""
    return isinstance(error.__cause__, FileNotFoundError)


async def with_suggestion(ctx: ToolContext, path: str, error: ToolError) -> ToolError:
    """Return the error; where a file is missing, with the nearest existing name."""
    if not is_missing(error):
        return error
    meant, _ = await ctx.workspace.nearest(path)
    return ToolError(f"{error} (did you mean {meant}?)") if meant else error

"""The `glob` tool: files by their paths, the newest first."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from goclaw.errors import InvalidInput
from goclaw.specs import Annotations, Example, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.results import BoundedResult
from goclaw.toolkit.scheduling import ResourceUse
from goclaw.tools.arguments import Folder, Ignored
from goclaw.workspace import FileQuery, Pattern, patterns

_MAX_LOOKED_AT = 100_000
"""Files of one search: each costs memory."""


class Globbed(BaseModel):
    """One file."""

    model_config = ConfigDict(frozen=True, strict=True)

    path: str
    size: int
    modified: float


class GlobResult(BoundedResult):
    """Files that fit, the newest first."""

    pattern: str
    files: list[Globbed]

    def text(self) -> str:
        """Return one path per line."""
        lines = [file.path if file.path.isprintable() else repr(file.path) for file in self.files]
        if not lines:
            lines = [f"no file matches {self.pattern}"]
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
    found = await ctx.workspace.find(wanted, most=_MAX_LOOKED_AT, seconds=seconds)
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

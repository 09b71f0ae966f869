"""The `memory_get` tool."""

from functools import partial
from itertools import islice
from typing import Annotated

from pydantic import Field

from goclaw.errors import ToolError
from goclaw.memory.base import owner_of
from goclaw.memory.chunks import lines_of
from goclaw.memory.file_indexer import MAX_FILE
from goclaw.specs import Example, SideEffect
from goclaw.toolkit.base import ToolContext, offered, tool
from goclaw.toolkit.results import BoundedResult
from goclaw.tools.memory_search import memory_access, needs_search, whose
from goclaw.workspace import Opened

MAX_LINES = 2_000
MAX_CHARACTERS = 50_000
"""As much as `read` shows at once."""


class Passage(BoundedResult):
    """Lines of a memory file."""

    path: str
    start: Annotated[int, Field(description="The first line of them, 1-indexed.")]
    content: str

    def text(self) -> str:
        if not self.returned:
            return f"{self.path} has {self.total} lines; there is none from {self.start} on"
        head = f"{self.path}:{self.start}-{self.start + self.returned - 1} of {self.total}"
        return "\n".join(part for part in (head, self.content, self.refinement_hint) if part)


@offered(needs=needs_search)
@tool(
    side_effect=SideEffect.READ_ONLY,
    title="Memory file",
    tags=("memory", "read"),
    bounded=True,
    access=memory_access,
    call_hint="Reading {{ path | truncate(100) }}",
    result_hint="{{ returned }} of {{ total }} lines",
    examples=(
        Example(
            "The lines around a hit of memory_search",
            {"path": "memory/tea.md", "from": 2, "lines": 1},
            "memory/tea.md:2-2 of 3\nAnna likes Assam.",
            {"memory/tea.md": "# Tea\nAnna likes Assam.\nBert likes none.\n"},
        ),
    ),
)
async def memory_get(
    ctx: ToolContext,
    path: Annotated[str, Field(min_length=1, max_length=4_096, description="The file, as memory_list names it.")],
    first: Annotated[int, Field(alias="from", ge=1, description="First line, 1-indexed.")] = 1,
    lines: Annotated[int, Field(ge=1, le=MAX_LINES, description="How many lines.")] = 200,
) -> Passage:
    """Read lines of a memory file: the surroundings of what `memory_search` found, or a whole note.

    Takes the files that `memory_list` lists for this person, and no others; `read` reads all others.
    """
    if lack := needs_search(ctx.config):
        raise ToolError(lack)
    listed = {file.path for file in await ctx.memory.files(ctx.home, whose(ctx))}
    name = path.removeprefix("./")
    if name not in listed:
        raise ToolError(f"no memory file: {path[:200]} (memory_list lists them)")
    # Read as the person the file is listed for: a link put in its place reaches no other person's notes.
    read = partial(_read, path=name, first=first, lines=lines)
    return await ctx.home.seen_by(owner_of(name)).use(name, read)


def _read(opened: Opened, path: str, first: int, lines: int) -> Passage:
    # In the thread that reads: splitting megabytes into lines would block the event loop.
    return _passage(path, opened.file.read(MAX_FILE).decode("utf-8-sig", errors="replace"), first, lines)


def _passage(path: str, text: str, first: int, lines: int) -> Passage:
    whole = lines_of(text)
    found, length = list[str](), 0
    for line in islice(whole, first - 1, first - 1 + lines):
        length += len(line) + 1
        if found and length > MAX_CHARACTERS:
            break
        found.append(line[:MAX_CHARACTERS])
    following = first + len(found)
    more = bool(found) and following <= len(whole)
    return Passage(
        path=path,
        start=first,
        content="\n".join(found),
        returned=len(found),
        total=len(whole),
        truncated=more,
        refinement_hint=f'more lines: {{"path": "{path}", "from": {following}}}' if more else "",
    )

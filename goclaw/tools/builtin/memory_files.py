"""The tools for memory files: `memory_search`, `memory_list`, `memory_get`.

In a group, where all members read the result, only the notes for everybody are read.
"""

from functools import partial
from itertools import islice
from typing import Annotated, Any

from pydantic import BaseModel, Field

from goclaw.common.auth.access import is_group
from goclaw.common.config.schema import Config
from goclaw.common.core.document_kinds import is_searched
from goclaw.common.core.messages import SourceKind
from goclaw.common.specs import Example, SideEffect
from goclaw.common.workspace import SHARED, Opened
from goclaw.errors import ToolError
from goclaw.memory.base import MemoryFile, NoteHit, owner_of
from goclaw.memory.chunks import lines_of
from goclaw.memory.dates import moment
from goclaw.memory.file_indexer import MAX_FILE, is_by_others
from goclaw.memory.memory_queries import quote_lines
from goclaw.memory.user_memory import KeyValueFile, place_of
from goclaw.tools.toolkit.base import ToolContext, offered, tool
from goclaw.tools.toolkit.results import BoundedResult, Result
from goclaw.tools.toolkit.scheduling import ResourceUse

OTHER_WORDS = "try other words before you give up: names, synonyms, the words that the note would use"
"""The advice for an empty result; a second query finds much that the first one missed."""


class FoundNotes(Result):
    """What memory has on something."""

    query: str
    mode: Annotated[str, Field(description="How passages were looked for: `hybrid` (words and meaning) or `keyword`")]
    hits: Annotated[tuple[NoteHit, ...], Field(description="The best passages, best first")]
    more: Annotated[bool, Field(description="More passages match than were returned")] = False

    def text(self) -> str:
        if not self.hits:
            return f"no memory matches {_shorten(self.query)!r} (mode: {self.mode})\n{OTHER_WORDS}"
        count = "1 hit" if len(self.hits) == 1 else f"{len(self.hits)} hits"
        parts = [f"mode: {self.mode}, {count}", *map(_hit_text, self.hits)]
        if all(hit.score.weak for hit in self.hits):
            parts.append(f"only weak matches, which probably do not answer: {OTHER_WORDS}")
        elif self.more:
            parts.append("more passages match: ask for something narrower, or read a file with memory_get")
        return "\n\n".join(parts)


def whose(ctx: ToolContext) -> str:
    """Return the key of the person to read the notes of; empty in a group, where all members read the result."""
    return "" if is_group(ctx.session) else ctx.actor.key


def memory_access(arguments: Any, ctx: ToolContext) -> ResourceUse:
    """Return the files read: a memory file written earlier in the same answer is found."""
    return ResourceUse(reads=("MEMORY.md", "memory", SHARED, *ctx.config.memory.paths, *ctx.config.memory.documents))


def needs_search(config: Config) -> str:
    """Why nothing is searched; empty: it is."""
    return "" if config.memory.enabled else "memory search is disabled: set memory.enabled"


@offered(needs=needs_search)
@tool(
    side_effect=SideEffect.READ_ONLY,
    title="Memory search",
    tags=("memory", "read"),
    access=memory_access,
    asks="look into memory for {{ query or 'this' }}",
    does="recall notes",
    call_hint="Looking into memory for {{ query | truncate(90) | quote }}",
    result_hint="Memory: {{ hits | count }} passage(s) for {{ args.query | truncate(80) | quote }}",
    examples=(
        Example(
            "Look for what somebody likes",
            {"query": "What does Anna drink?"},
            output="MEMORY.md:1-1",
            files={"MEMORY.md": "Anna likes to drink tea, and no coffee.\n"},
        ),
    ),
)
async def memory_search(
    ctx: ToolContext,
    query: Annotated[
        str, Field(min_length=1, description="What to look for: a question, or the words that the note would use")
    ],
) -> FoundNotes:
    """Search the memory files for what was noted earlier: facts, decisions, preferences, addresses.

    Returns the best passages with their file, lines and score, and when the file was changed. In a group only notes for
    everybody are searched. When the passages do not answer, try other words before giving up.
    """
    if lack := needs_search(ctx.config):
        raise ToolError(lack)
    found = await ctx.memory.search(ctx.home, whose(ctx), query, ctx.config.memory.max_results)
    if any(is_by_others(hit.path, ctx.config.memory) for hit in found.hits):
        ctx.set_source(SourceKind.DOCUMENT)
    return FoundNotes(query=query, mode=found.mode, hits=tuple(found.hits), more=found.more)


def _hit_text(hit: NoteHit) -> str:
    changed = moment(hit.modified)
    weak = "  weak match" if hit.score.weak else ""
    place = f"{hit.path}:{hit.start}-{hit.end}  score {hit.score.score:.2f}  {changed:%Y-%m-%d %H:%M} UTC{weak}"
    return "\n".join(line for line in (place, hit.heading, quote_lines(hit.text)) if line)


def _shorten(query: str) -> str:
    return query if len(query) <= 100 else f"{query[:100]}…"


class KeptKey(BaseModel):
    """A value, by its name."""

    key: str
    size: Annotated[int, Field(description="Characters of the value")]
    shared: bool


class MemoryFiles(Result):
    """What is remembered: the memory files, then the keys of values."""

    files: Annotated[tuple[MemoryFile, ...], Field(description="Those that the acting person may see")]
    kept: Annotated[tuple[KeptKey, ...], Field(description="What `memory_read` reads")] = ()

    @property
    def count(self) -> str:
        """How many, in words."""
        return "1 memory file" if len(self.files) == 1 else f"{len(self.files)} memory files"

    def text(self) -> str:
        none = "no memory files yet: write MEMORY.md, or a Markdown file in the folder memory"
        files = "\n".join((self.count, *map(_file_line, self.files))) if self.files else none
        if not self.kept:
            return files
        count = "1 value" if len(self.kept) == 1 else f"{len(self.kept)} values"
        return "\n".join((files, "", f"{count} (memory_read reads them)", *map(_key_line, self.kept)))


@offered(needs=needs_search)
@tool(
    side_effect=SideEffect.READ_ONLY,
    title="Memory files",
    tags=("memory", "read"),
    access=memory_access,
    does="recall notes",
    call_hint="Listing memory files",
    result_hint="Listed {{ files | count }} memory file(s)",
    examples=(Example("List them", {}, output="1 memory file\nMEMORY.md", files={"MEMORY.md": "Anna likes tea.\n"}),),
)
async def memory_list(ctx: ToolContext) -> MemoryFiles:
    """List what is remembered: the memory files that `memory_search` looks into, with size, lines and time of the last
    change, then the keys of the values that `memory_read` reads. In a group only what is for everybody.
    """
    if lack := needs_search(ctx.config):
        raise ToolError(lack)
    files = tuple(await ctx.memory.files(ctx.home, whose(ctx)))
    own = await _keys(ctx, shared=False) if whose(ctx) else []
    return MemoryFiles(files=files, kept=(*own, *await _keys(ctx, shared=True)))


async def _keys(ctx: ToolContext, *, shared: bool) -> list[KeptKey]:
    """None where they cannot be read: the files are listed all the same, and `memory_read` names the problem."""
    try:
        values = await KeyValueFile(place_of(ctx.home, ctx.actor.key, shared=shared)).all()
    except ToolError:
        return []
    return [KeptKey(key=key, size=len(value), shared=shared) for key, value in sorted(values.items())]


def _key_line(kept: KeptKey) -> str:
    return f"{kept.key}  {kept.size} characters{'  shared' if kept.shared else ''}"


def _file_line(file: MemoryFile) -> str:
    modified = moment(file.modified).isoformat(timespec="seconds")
    lines = "1 line" if file.lines == 1 else f"{file.lines} lines"
    return f"{file.path}  {file.size} bytes  {lines}  {modified}"


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
    asks="read {{ path or 'a note' }}",
    does="recall notes",
    call_hint="Reading {{ path | truncate(100) }}",
    result_hint="Read {{ returned }} of {{ total }} lines of {{ args.path | truncate(80) }}",
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
    if is_searched(name):
        raise ToolError(f"{name} is a document: `read` reads it")
    if is_by_others(name, ctx.config.memory):
        ctx.set_source(SourceKind.DOCUMENT)
    # Read as the person the file is listed for: a link put in its place reaches no other person's notes.
    read = partial(_read_passage, path=name, first=first, lines=lines)
    return await ctx.home.seen_by(owner_of(name)).use(name, read)


def _read_passage(opened: Opened, path: str, first: int, lines: int) -> Passage:
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

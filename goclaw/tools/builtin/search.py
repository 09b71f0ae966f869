"""The `search` tool: a regular expression in the files of the workspace.

ripgrep finds the places (`tools.ripgrep`); documents are searched by their text (`document_search`). The lines shown
are read through the workspace, so that nothing is shown that `read` would not read. Files are ordered by the kind that
their suffix names, then by the number of matches; documents come last.
"""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import BaseModel, Field

from goclaw.common.core.document_kinds import is_searched
from goclaw.common.core.messages import SourceKind
from goclaw.common.specs import Annotations, Example, SideEffect
from goclaw.common.workspace import FileQuery, Opened, Stat
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.builtin import document_search
from goclaw.tools.builtin.document_search import select_searched, text_of
from goclaw.tools.builtin.listing import Folder, Ignored, format_name, globs
from goclaw.tools.builtin.ripgrep import (
    NO_RIPGREP,
    LineMatches,
    Query,
    Spot,
    checked_expression,
    find_ripgrep,
    known_hits,
    lines_at,
    search_folder,
    search_large,
    search_text,
    searchable,
)
from goclaw.tools.builtin.text import decode_line
from goclaw.tools.toolkit.base import ToolContext, offered, tool
from goclaw.tools.toolkit.results import BoundedResult
from goclaw.tools.toolkit.scheduling import ResourceUse

log = logging.getLogger(__name__)


_MAX_OF_A_FILE = 10
"""Matching lines of one file that are shown while other files would have no room otherwise."""
_WIDTH = 200
"""Characters of a line."""
_AT_ONCE = 50
"""Files that are judged together."""
_MAX_PATTERN = 500
"""Characters of a pattern."""
_MAX_TERMS = 10
_MAX_NAMED = 3
"""Of files that were not searched."""
_MAX_SKIPPED = 1_000


class FoundLine(BaseModel, frozen=True, strict=True):
    """One line."""

    number: int
    text: str
    matches: bool
    """False: it is shown because a neighbouring line matches."""


class FoundFile(BaseModel, frozen=True, strict=True):
    """A file with matching lines."""

    path: str
    matches: Annotated[int, Field(description="Matching lines in it.")]
    lines: list[FoundLine]


class SearchResult(BoundedResult):
    """Matching lines, by files."""

    pattern: str
    files: list[FoundFile]
    note: str = ""
    skipped: Annotated[
        tuple[str, ...],
        Field(description="Too large: named as path, such a file is searched; or documents that cannot be read."),
    ] = ()

    def text(self) -> str:
        """Return each file under its name; matching lines with `:`, context with `-`."""
        parts = [self.note] if self.note else []
        parts += ["\n".join(_shown_file(file)) for file in self.files]
        if not self.files:
            parts.append(f"nothing matches {self.pattern}")
        if self.skipped:
            parts += self._not_searched()
        if self.truncated:
            of = f" of {self.total} matching lines" if self.total is not None else " matching lines, there are more"
            parts.append(f"[{self.returned}{of}; {self.refinement_hint}]")
        return "\n".join(parts)

    def _not_searched(self) -> Iterator[str]:
        if large := [path for path in self.skipped if not is_searched(path)]:
            yield f"[not searched, too large: {_format_paths(large)}; name one as path to search it]"
        if unread := [path for path in self.skipped if is_searched(path)]:
            yield f"[not searched, cannot be read: {_format_paths(unread)}; name one as path to see why]"


def _format_paths(paths: Sequence[str]) -> str:
    named = ", ".join(map(format_name, paths[:_MAX_NAMED]))
    more = f" and {len(paths) - _MAX_NAMED:,} more" if len(paths) > _MAX_NAMED else ""
    return f"{len(paths):,} {'file' if len(paths) == 1 else 'files'} ({named}{more})"


def _shown_file(file: FoundFile) -> Iterator[str]:
    yield f"{format_name(file.path)} ({file.matches} matching {'line' if file.matches == 1 else 'lines'})"
    before = 0
    for line in file.lines:
        if before and line.number > before + 1:
            yield "     --"
        yield f"{line.number:6}{':' if line.matches else '-'} {line.text}"
        before = line.number


@offered(needs=lambda config: "" if find_ripgrep() else NO_RIPGREP)
@tool(
    side_effect=SideEffect.READ_ONLY,
    tags=("filesystem", "read"),
    annotations=Annotations("Search files", read_only=True, destructive=None, idempotent=True, open_world=False),
    bounded=True,
    access=lambda arguments, ctx: ResourceUse(reads=(arguments.path,)),
    asks="search files for {{ pattern or 'this' }}",
    does="read files",
    call_hint="Searching for {{ pattern }}",
    result_hint="{{ returned }} lines in {{ files | count }} files match {{ pattern }}",
    examples=(
        Example(
            "Where functions are defined",
            {"pattern": "def \\w+\\(", "glob": "*.py", "context_lines": 0},
            "a.py (1 matching line)\n     2: def go():",
            {"a.py": "import os\ndef go():\n    pass\n", "a.md": "def go():\n"},
        ),
    ),
)
async def search(
    ctx: ToolContext,
    pattern: Annotated[str, Field(min_length=1, description="Regular expression, matched line by line.")],
    path: Folder = ".",
    glob: Annotated[str | None, Field(description="Only files whose path fits, like *.go or **/*.test.js.")] = None,
    recursive: Annotated[bool, Field(description="Also in folders below.")] = True,
    case_sensitive: Annotated[bool, Field(description="A and a are not the same.")] = False,
    max_results: Annotated[int, Field(ge=1, le=1_000, description="Max matching lines to show.")] = 30,
    context_lines: Annotated[int, Field(ge=0, le=20, description="Lines shown around each.")] = 1,
    exclude: Annotated[list[str], Field(max_length=50, description="Folders to leave out, as names or globs.")] = [],  # noqa: B006 -- read only
    include_ignored: Ignored = False,
) -> SearchResult:
    """Search the text of files for a regular expression. Source code comes first, then the files with most matches.

    Syntax: literals . ^ $ | ( ) [ ] \\d \\w \\s \\b * + ? {n,m}; no look-around, no back references. What git ignores
    is left out. A pattern with | that matches nothing is searched term by term.
    """
    if len(pattern) > _MAX_PATTERN:
        raise InvalidInput(f'field "pattern": expected at most {_MAX_PATTERN} characters, got {len(pattern)}')
    excluded = [each for text in exclude for each in globs(text.rstrip("/"), "exclude")]
    only = globs(glob, "glob") if glob is not None else ()
    try:
        found: str | None = await checked_expression(pattern)
    except InvalidInput:
        if "|" not in pattern:
            raise
        found = None  # one of its terms may be one
    settings = ctx.config.tools.search
    query = Query(
        found or "",
        FileQuery(path, only, excluded, include_ignored, recursive),
        case_sensitive,
        settings.threads,
        settings.max_file_mb << 20,
        settings.timeout,
    )
    finder = _Finder(ctx, pattern, max_results, context_lines)
    result = await finder.search(query) if found else None
    if result is None or (not result.files and not result.truncated and "|" in pattern):
        return await finder.by_terms(query)
    return result


@dataclass
class _InDocuments:
    """Results of a search of documents so far."""

    files: list[FoundFile]
    unread: list[str]
    """Documents that cannot be read, or not in their time."""
    left: int
    """Documents that are still to be searched."""
    in_time: bool = True


class _Finder:
    """One call: how much it shows, and of what."""

    def __init__(
        self, ctx: ToolContext, pattern: str, most: int, context: int, documents_until: float | None = None
    ) -> None:
        self._ctx = ctx
        self._pattern = pattern
        self._most = most
        self._context = context
        self._largest = ctx.config.tools.search.max_file_mb << 20
        self.documents_until = documents_until
        """The end of the time for documents, on the clock of the event loop; None: the first of them sets it."""

    async def search(self, query: Query) -> SearchResult:
        """Return the matches of the query's expression."""
        stat = await self._ctx.workspace.stat(query.wanted.folder)
        query = replace(query, wanted=replace(query.wanted, folder=stat.path))
        hits = await (search_folder(query, self._ctx.workspace) if stat.is_folder else self._in_file(query, stat))
        skipped = (
            await self._ctx.workspace.visible(hits.oversized[:_MAX_SKIPPED], query.wanted) if stat.is_folder else []
        )
        documents = (
            await self._ctx.workspace.visible(hits.documents, query.wanted) if stat.is_folder else hits.documents
        )
        chosen = select_searched(documents)
        order = await asyncio.to_thread(sort_paths, hits.counts, self._ctx.config.state_dir.expanduser())
        as_texts = set(order).difference(chosen)
        order = [path for path in order if path in as_texts]
        files, looked_at = await self._select(order, hits, query.wanted if stat.is_folder else None)
        in_documents = await self._in_documents(query, chosen, files, is_folder=stat.is_folder)
        files += in_documents.files
        returned = sum(line.matches for file in files for line in file.lines)
        total = sum(file.matches for file in files)
        in_time = hits.complete and in_documents.in_time and len(chosen) == len(documents)
        everything = in_time and looked_at == len(order) and not in_documents.left
        more = not everything or returned < total
        return SearchResult(
            pattern=self._pattern,
            files=files,
            returned=returned,
            total=total if everything else None,
            truncated=more,
            refinement_hint=_refinement(complete=in_time) if more else "",
            skipped=(*skipped, *in_documents.unread),
        )

    async def by_terms(self, query: Query) -> SearchResult:
        """Search each term between the `|` by itself; an invalid expression is searched literally."""
        terms = list(dict.fromkeys(filter(None, map(str.strip, self._pattern.split("|")))))[:_MAX_TERMS]
        files: dict[str, FoundFile] = {}
        said, refinement, skipped = [], "", dict[str, None]()
        for term in terms:
            left = self._most - sum(line.matches for file in files.values() for line in file.lines)
            if left <= 0:
                refinement = refinement or _refinement(complete=True)
                break
            finder = _Finder(self._ctx, term, left, self._context, self.documents_until)
            part = await finder.search(replace(query, expression=await _of_term(term)))
            self.documents_until = finder.documents_until
            said.append(f"{term} ({part.returned})")
            refinement = refinement or part.refinement_hint
            skipped.update(dict.fromkeys(part.skipped))
            for file in part.files:
                files[file.path] = _together(files[file.path], file) if file.path in files else file
        returned = sum(line.matches for file in files.values() for line in file.lines)
        return SearchResult(
            pattern=self._pattern,
            files=list(files.values()),
            returned=returned,
            truncated=bool(refinement),
            refinement_hint=refinement,
            skipped=tuple(skipped),
            note=f"[nothing matches the whole pattern; searched its terms one by one: {', '.join(said)}]",
        )

    async def _in_documents(
        self, query: Query, paths: Sequence[str], shown: Sequence[FoundFile], *, is_folder: bool
    ) -> _InDocuments:
        """Search these documents, as far as there is time and room for lines."""
        left = self._most - sum(line.matches for file in shown for line in file.lines)
        found = _InDocuments([], [], left=len(paths))
        if paths:
            self.documents_until = self.documents_until or asyncio.get_running_loop().time() + query.seconds
        try:
            async with asyncio.timeout_at(self.documents_until if is_folder else None):
                for path in paths:
                    if left <= 0:
                        break
                    try:
                        file = await self._in_document(query, path, left, is_folder=is_folder)
                    except ToolError:
                        if not is_folder:
                            self._ctx.set_source(SourceKind.DOCUMENT)  # the reason may repeat words of it
                            raise
                        found.unread.append(path)
                        file = None
                    found.left -= 1
                    found.files += [file] if file else []
                    left -= sum(line.matches for line in file.lines) if file else 0
        except TimeoutError:
            found.in_time = False  # what was found is shown
        if found.files:
            self._ctx.set_source(SourceKind.DOCUMENT)  # others wrote it, or may have
        return found

    async def _in_document(self, query: Query, path: str, most: int, *, is_folder: bool) -> FoundFile | None:
        """Search a document; in a folder it has little time and room, so that others have some.

        Raises:
            ToolError: it is gone, or cannot be read.
        """
        if is_folder:
            text, most = await text_of(self._ctx, path, document_search.SECONDS), min(most, _MAX_OF_A_FILE)
        else:
            text = await text_of(self._ctx, path, query.seconds)
        hits = await search_text(query, text.encode(errors="replace") or b"\n", path)
        spots = (await hits.spots([path])).get(path, ())[:most]
        texts = dict(enumerate((line.encode(errors="replace") for line in text.split("\n")), 1)) if spots else {}
        lines = _context_of(dict(spots), self._context, lambda wanted: {at: texts[at] for at in wanted if at in texts})
        return FoundFile(path=path, matches=hits.counts[path], lines=lines) if lines else None

    async def _in_file(self, query: Query, stat: Stat) -> LineMatches:
        if is_searched(stat.path):
            return replace(known_hits({}, complete=True), documents=[stat.path])
        if stat.size > query.largest:
            return await search_large(query, self._ctx.workspace, stat.path)
        data = await self._ctx.workspace.use(stat.path, lambda opened: searchable(opened, query.largest))
        return await search_text(query, data or b"\n", stat.path)

    async def _select(
        self, order: Sequence[str], hits: LineMatches, wanted: FileQuery | None
    ) -> tuple[list[FoundFile], int]:
        """Return files in this order until enough lines are shown, and how many were read."""
        files: list[FoundFile] = []
        left, looked_at = self._most, 0
        spare = max(0, left - sum(min(hits.counts[path], _MAX_OF_A_FILE) for path in order))
        while looked_at < len(order) and left > 0:
            some = order[looked_at : looked_at + _AT_ONCE]
            visible = some if wanted is None else await self._ctx.workspace.visible(some, wanted)
            spots = await hits.spots(visible)
            for path in some:
                if left <= 0:
                    break
                looked_at += 1
                if path not in spots:
                    continue
                most_of_it = min(left, _MAX_OF_A_FILE + spare)
                reader = partial(_lines, path, spots[path][:most_of_it], self._context, self._largest)
                try:
                    lines = await self._ctx.workspace.use(path, reader)
                except ToolError:
                    continue  # gone meanwhile
                if lines:
                    files.append(FoundFile(path=path, matches=hits.counts[path], lines=lines))
                    matching = sum(line.matches for line in lines)
                    left, spare = left - matching, spare - max(0, matching - _MAX_OF_A_FILE)
        return files, looked_at


async def _of_term(term: str) -> str:
    try:
        return await checked_expression(term)
    except InvalidInput:
        return re.escape(term)


def _together(one: FoundFile, other: FoundFile) -> FoundFile:
    """Merge the lines of both; a line that matches in either one matches."""
    lines = {line.number: line for line in sorted([*one.lines, *other.lines], key=lambda line: line.matches)}
    shown = [lines[number] for number in sorted(lines)]
    return FoundFile(path=one.path, matches=max(one.matches, sum(line.matches for line in shown)), lines=shown)


def _refinement(*, complete: bool) -> str:
    if complete:
        return "narrow it with path or glob, or give a larger max_results"
    return "the time or the room for all files was not enough: narrow it with path or glob"


def _lines(path: str, spots: Sequence[Spot], context: int, largest: int, opened: Opened) -> list[FoundLine]:
    """Return the lines of a file at these places, with context; none when the file is no text any more."""
    return _context_of(dict(spots), context, lambda wanted: _texts(path, wanted, largest, opened))


def _context_of(
    columns: Mapping[int, int], context: int, texts_of: Callable[[Sequence[int]], Mapping[int, bytes]]
) -> list[FoundLine]:
    wanted = sorted({number for line in columns for number in range(max(1, line - context), line + context + 1)})
    found = [
        FoundLine(number=number, text=_part(line, columns.get(number, 1)), matches=number in columns)
        for number, line in texts_of(wanted).items()
    ]
    if found and not found[-1].text and not found[-1].matches:
        found.pop()  # behind the last line there is none
    return found


def _texts(path: str, wanted: Sequence[int], largest: int, opened: Opened) -> Mapping[int, bytes]:
    if opened.stat.size > largest:
        return lines_at(path, wanted, opened)
    last = wanted[-1] if wanted else 0
    lines = searchable(opened, opened.stat.size).split(b"\n", last)[:last]
    return {number: lines[number - 1] for number in wanted if number <= len(lines)}


def _part(line: bytes, column: int) -> str:
    """Return a line, or of a long one the part around the match."""
    text, _ = decode_line(line)
    if len(text) <= _WIDTH:
        return text
    at = len(decode_line(line[: column - 1])[0])
    start = max(0, min(at - _WIDTH // 4, len(text) - _WIDTH))
    return f"{'…' if start else ''}{text[start : start + _WIDTH]}{'…' if start + _WIDTH < len(text) else ''}"


PRIORITY_FILE = "search_priority.json"
"""The built-in list next to this file, and the operator's own in the state folder: kinds with endings, in order."""
_MAX_PRIORITY_BYTES = 1 << 20


def sort_paths(counts: Mapping[str, int], state: Path) -> list[str]:
    """Return the paths in display order, from the number of matches in each; blocks."""
    places = _tiers(state)
    unknown = max(places.values(), default=0) - 1  # before the last kind only

    def rank(path: str) -> int:
        return places.get(PurePosixPath(path).suffix.lstrip(".").lower(), unknown)

    return sorted(counts, key=lambda path: (rank(path), -counts[path], path))


def _tiers(state: Path) -> Mapping[str, int]:
    """Return the rank of each suffix's kind, the first to be shown first. For an ending, the operator's file takes
    precedence over the built-in list. A file that makes no sense counts for nothing, and the log says so."""
    built_in = _ranks(json.loads(files("goclaw.tools.builtin").joinpath(PRIORITY_FILE).read_text("utf-8")))
    own = state / PRIORITY_FILE
    try:
        with own.open("rb") as file:
            return {**built_in, **_ranks(json.loads(file.read(_MAX_PRIORITY_BYTES)))}
    except FileNotFoundError:
        return built_in
    except (OSError, ValueError) as error:
        log.warning("%s is not used: %s", own, error)
        return built_in


def _ranks(kinds: Any) -> dict[str, int]:
    if not isinstance(kinds, dict) or not all(
        isinstance(endings, list) and all(isinstance(ending, str) for ending in endings) for endings in kinds.values()
    ):
        raise ValueError('expected {"kind": ["ending", …], …}, the kind to be shown first first')
    return {ending.lstrip(".").lower(): place for place, endings in enumerate(kinds.values()) for ending in endings}

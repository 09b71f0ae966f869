"""Mementos: Markdown artifacts that the agent keeps for a person, or for all users of a workspace.

Each is a file of its own in `mementos/` of its place. Their summaries are part of every request to the model
(`sessions.remembering`); a tool reads the full text.
"""

import re
from collections.abc import Iterator, Sequence
from glob import escape
from itertools import takewhile
from pathlib import PurePosixPath

from goclaw.errors import InvalidInput, ToolError
from goclaw.memory.places import MemoryFolder, place_of
from goclaw.records import record
from goclaw.workspace import ABSENT, FileStamp, GlobMatch, Workspace, again_when_changed

FOLDER, ENDING = "mementos", ".md"
MAX_NAME = 64
MAX_BYTES = 64 << 10
"""Bytes of one memento: the most that the model may read at once."""
MAX_MEMENTOS = 100
"""Mementos of one place."""
MAX_SUMMARY = 200
_HEAD = 4_096
"""Bytes at the beginning of a file that are searched for heading and first paragraph."""
_NAME = re.compile(r"[^\W_][\w .-]*")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(.+?)\s*#*\s*")


@record
class Memento:
    """The metadata of a memento, without its content."""

    name: str
    summary: str
    """Its first heading and the beginning of its first paragraph, on one line."""
    size: int
    """Bytes."""
    modified: float
    """Epoch seconds."""
    shared: bool


class Mementos:
    """The mementos of one place."""

    def __init__(self, place: MemoryFolder) -> None:
        self._place = place
        self._workspace = place.workspace

    def path(self, name: str) -> str:
        """Return the file of a memento, relative to the workspace.

        Raises:
            InvalidInput: the name is invalid.
        """
        return self._place.path(f"{FOLDER}/{checked_name(name)}{ENDING}")

    async def read(self, name: str) -> str:
        """Return the text of a memento.

        Raises:
            ToolError: the name is unknown, or it is not text.
        """
        data = await self._workspace.read_bytes(await self._existing(name), MAX_BYTES)
        return data.decode("utf-8", errors="replace")

    async def write(self, name: str, content: str, *, add: bool = False) -> tuple[int, bool]:
        """Replace a memento's content with `content`, or append it; return its size and whether it is new.

        Raises:
            ToolError: it would be too large, or there are too many.
        """
        path = self.path(name)
        await self._place.check(path)

        async def rewrite() -> tuple[int, bool]:
            version = await self._version(path)
            if version == ABSENT and len(await self._entries()) >= MAX_MEMENTOS:
                raise ToolError(f"{MAX_MEMENTOS} mementos are kept already: delete some first")
            data = content.encode()
            if add and version != ABSENT:
                data = _joined(await self._workspace.read_bytes(path, MAX_BYTES), data)
            if len(data) > MAX_BYTES:
                raise ToolError(
                    f"the memento would have {len(data):,} bytes, {MAX_BYTES:,} are the limit: make two of it"
                )
            await self._workspace.write_bytes(path, data, unless_changed=version)
            return len(data), version == ABSENT

        return await again_when_changed(rewrite)

    async def delete(self, name: str) -> None:
        """Delete a memento.

        Raises:
            ToolError: the name is unknown.
        """
        path = await self._existing(name)
        await self._place.check(path)
        await self._workspace.remove(path)

    async def names(self) -> list[str]:
        """Return their names, in order."""
        return sorted(PurePosixPath(entry.path).stem for entry in await self._entries())

    async def _entries(self) -> list[GlobMatch]:
        return await self._workspace.walk([_pattern(self._place)], MAX_MEMENTOS + 1)

    async def _version(self, path: str) -> FileStamp:
        return (await self._workspace.stat(path)).version if await self._workspace.exists(path) else ABSENT

    async def _existing(self, name: str) -> str:
        path = self.path(name)
        if not await self._workspace.exists(path):
            known = ", ".join(await self.names()) or "none yet"
            raise ToolError(f"no memento {name!r}; there are: {known}")
        return path


async def mementos_of(workspace: Workspace, key: str, *, own: bool = True) -> list[Memento]:
    """Return the shared mementos and, with `own`, those of the person, the latest first, each with its summary."""
    found: list[Memento] = []
    for shared in (False, True) if own else (True,):
        place = place_of(workspace, key, shared=shared)
        for entry in await place.workspace.walk([_pattern(place)], MAX_MEMENTOS):
            try:
                summary = summary_of(await place.workspace.use(entry.path, lambda opened: opened.file.read(_HEAD)))
            except ToolError:
                continue  # gone since, or no regular file any more
            name = PurePosixPath(entry.path).stem
            found.append(Memento(name, summary, entry.size, entry.modified, shared))
    return sorted(found, key=lambda each: (-each.modified, each.name))


def checked_name(name: str) -> str:
    """Return the name without `.md`, once checked.

    Raises:
        InvalidInput: it is a path, a hidden file, or too long.
    """
    plain = name.removesuffix(ENDING)
    if not _NAME.fullmatch(plain) or plain != plain.strip() or len(plain.encode(errors="replace")) > MAX_NAME:
        raise InvalidInput(
            f'field "name": expected up to {MAX_NAME} letters, digits, spaces, ".", "-" and "_", '
            "beginning with a letter or digit"
        )
    return plain


def summary_of(data: bytes) -> str:
    """Return the first heading and the first paragraph of a Markdown text, on one line of bounded length."""
    lines = data.decode("utf-8", errors="replace").splitlines()
    heading = next((found[1] for line in lines if (found := _HEADING.fullmatch(line))), "")
    text = ": ".join(part for part in (heading, " ".join(_paragraph(lines))) if part)
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return plain if len(plain) <= MAX_SUMMARY else f"{plain[: MAX_SUMMARY - 1]}…"


def _paragraph(lines: Sequence[str]) -> Iterator[str]:
    """Return the lines of the first paragraph that is not a heading."""
    begin = next((at for at, line in enumerate(lines) if line.strip() and not _HEADING.fullmatch(line)), len(lines))
    return takewhile(lambda line: bool(line.strip()) and not _HEADING.fullmatch(line), lines[begin:])


def _pattern(place: MemoryFolder) -> str:
    return f"{escape(place.folder)}/{FOLDER}/*{ENDING}"


def _joined(before: bytes, added: bytes) -> bytes:
    return before + (b"" if not before or before.endswith(b"\n") else b"\n") + added

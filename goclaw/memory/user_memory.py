"""Values and mementos that the agent keeps, for one person or for all users of a workspace.

Both are files in the workspace, so that a person can read and edit them, a backup has them, and the workspace alone
separates users. Values are short texts under names, in one JSON file per folder (memory_read, memory_write,
memory_delete). A memento is a Markdown file of its own in `mementos/`: its summary is part of every request to the
model (`sessions.reminding`), and a tool reads the full text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from glob import escape
from itertools import takewhile
from pathlib import PurePosixPath

import orjson

from goclaw.common.core.records import record
from goclaw.common.workspace import ABSENT, SHARED, FileStamp, GlobMatch, Opened, Workspace, again_when_changed
from goclaw.errors import InvalidInput, ToolError
from goclaw.memory.base import notes_folder

SHARED_FOLDER = "memory"
"""The folder shared by all users: of the workspace, or of the folder that it shows as `shared/`."""

VALUES_FILE = "values.json"
MAX_KEY, MAX_VALUE = 100, 10_000
"""Characters: anything longer is a note, and belongs in a file."""
MAX_VALUES = 500
MAX_VALUES_BYTES = 256 << 10
"""Bytes of one place's file, so that reading one value takes about a millisecond."""

MEMENTOS_FOLDER, ENDING = "mementos", ".md"
MAX_MEMENTO_NAME = 64
MAX_MEMENTO_BYTES = 64 << 10
"""Bytes of one memento: the most that the model may read at once."""
MAX_MEMENTOS = 100
"""Mementos of one place."""
_MAX_FILES = 10 * MAX_MEMENTOS
"""Files of all places that are looked at: only by hand can there be more in one than `MAX_MEMENTOS`."""
MAX_SUMMARY = 200
_HEAD = 4_096
"""Bytes at the beginning of a file that are searched for heading and first paragraph."""
_MEMENTO_NAME = re.compile(r"[^\W_][\w .-]*")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(.+?)\s*#*\s*")


@record
class MemoryFolder:
    """A folder of the workspace, accessed with the rights of its owner."""

    workspace: Workspace
    folder: str

    def path(self, name: str) -> str:
        """Return the file of that name in it, relative to the workspace."""
        return f"{self.folder}/{name}"

    async def check(self, path: str) -> None:
        """Check that no link redirects `path`.

        Raises:
            ToolError: a link is on the way.
        """
        if await self.workspace.has_link(path):
            raise ToolError(f"{path} is or lies behind a symbolic link, which may lead to another person's notes")


def place_of(workspace: Workspace, key: str, *, shared: bool) -> MemoryFolder:
    """Return the folder of the person with this actor key, or the shared one, which shows no user's own notes.

    Raises:
        ToolError: the key names no folder.
    """
    if shared:
        folder = f"{SHARED}/{SHARED_FOLDER}" if workspace.shared else SHARED_FOLDER
        return MemoryFolder(workspace.seen_by(""), folder)
    if key in ("", ".", "..") or "/" in key or "\0" in key:
        raise ToolError(f"nothing can be kept for {key or 'nobody'}: no folder can have that name; use shared")
    return MemoryFolder(workspace.seen_by(key), notes_folder(key))


class KeyValueFile:
    """The values of one place. Each change replaces the file."""

    def __init__(self, place: MemoryFolder) -> None:
        self._place = place
        self.path = place.path(VALUES_FILE)

    async def all(self) -> dict[str, str]:
        """Return every value by its key.

        Raises:
            ToolError: the file cannot be read, or was changed by another program.
        """
        return (await self._read())[0]

    async def put(self, key: str, value: str) -> bool:
        """Store a value; return whether it replaced an older one.

        Raises:
            ToolError: there are too many values, or they are too large together.
        """

        def added(values: dict[str, str]) -> bool:
            is_new = key not in values
            if is_new and len(values) >= MAX_VALUES:
                raise ToolError(f"{MAX_VALUES} values are kept already: delete some with memory_delete")
            values[key] = value
            return not is_new

        return await self._change(added)

    async def drop(self, key: str) -> bool:
        """Delete a value; return False if there was none."""
        return await self._change(lambda values: values.pop(key, None) is not None, only_if=True)

    async def _change(self, change: Callable[[dict[str, str]], bool], *, only_if: bool = False) -> bool:
        """Change the values; with `only_if`, nothing is written where the change returns False."""
        await self._place.check(self.path)
        return await again_when_changed(partial(self._rewrite, change, only_if=only_if))

    async def _rewrite(self, change: Callable[[dict[str, str]], bool], *, only_if: bool) -> bool:
        values, version = await self._read()
        changed = change(values)
        if only_if and not changed:
            return False
        data = orjson.dumps(values, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        if len(data) > MAX_VALUES_BYTES:
            raise ToolError(f"the values would have {len(data):,} bytes together, {MAX_VALUES_BYTES:,} are the limit")
        await self._place.workspace.write_bytes(self.path, data, unless_changed=version)
        return changed

    async def _read(self) -> tuple[dict[str, str], FileStamp]:
        workspace = self._place.workspace
        if not await workspace.exists(self.path):
            return {}, ABSENT
        version = (await workspace.stat(self.path)).version
        try:
            values = orjson.loads(await workspace.read_bytes(self.path, MAX_VALUES_BYTES))
        except orjson.JSONDecodeError as error:
            raise ToolError(f"{self.path} is damaged ({error}): mend the file, or delete it") from None
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise ToolError(f"{self.path} is damaged (it has to be an object of texts): mend the file, or delete it")
        return values, version


def nearest_key(key: str, values: dict[str, str]) -> str:
    """Return the key that was probably meant; empty if none is near."""
    return next(iter(get_close_matches(key, values, 1)), "")


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
        return self._place.path(f"{MEMENTOS_FOLDER}/{checked_name(name)}{ENDING}")

    async def read(self, name: str) -> str:
        """Return the text of a memento.

        Raises:
            ToolError: the name is unknown, or it is not text.
        """
        data = await self._workspace.read_bytes(await self._existing(name), MAX_MEMENTO_BYTES)
        return data.decode("utf-8", errors="replace")

    async def write(self, name: str, content: str, *, add: bool = False) -> tuple[int, bool]:
        """Replace a memento's content with `content`, or append it; return its size and whether it is new.

        Raises:
            ToolError: it would be too large, or there are too many.
        """
        path = self.path(name)
        await self._place.check(path)

        async def rewrite() -> tuple[int, bool]:
            exists = await self._workspace.exists(path)
            version = (await self._workspace.stat(path)).version if exists else ABSENT
            if version == ABSENT and len(await self._entries()) >= MAX_MEMENTOS:
                raise ToolError(f"{MAX_MEMENTOS} mementos are kept already: delete some first")
            data = content.encode()
            if add and version != ABSENT:
                before = await self._workspace.read_bytes(path, MAX_MEMENTO_BYTES)
                data = before + (b"" if not before or before.endswith(b"\n") else b"\n") + data
            if len(data) > MAX_MEMENTO_BYTES:
                raise ToolError(
                    f"the memento would have {len(data):,} bytes, {MAX_MEMENTO_BYTES:,} are the limit: make two of it"
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

    async def _existing(self, name: str) -> str:
        path = self.path(name)
        if not await self._workspace.exists(path):
            known = ", ".join(await self.names()) or "none yet"
            raise ToolError(f"no memento {name!r}; there are: {known}")
        return path


async def mementos_of(workspace: Workspace, key: str, *, own: bool = True) -> list[Memento]:
    """Return the shared mementos and, with `own`, those of the person, the latest first, each with its summary."""
    places = {shared: place_of(workspace, key, shared=shared) for shared in ((False, True) if own else (True,))}
    sight = next(iter(places.values())).workspace  # the person's own view shows what is shared, too
    # Together: a thread asked for each, of a hundred at most, would cost every request more than reading them.
    entries = await sight.walk([_pattern(place) for place in places.values()], _MAX_FILES)
    summaries = await sight.use_each({entry.path: _summary for entry in entries}) if entries else ()
    found: dict[bool, list[Memento]] = {shared: [] for shared in places}
    for entry, summary in zip(entries, summaries, strict=True):
        if not isinstance(summary, ToolError):  # gone since, or no regular file any more
            path = PurePosixPath(entry.path)
            shared = path.parent == PurePosixPath(places[True].folder, MEMENTOS_FOLDER)
            found[shared].append(Memento(path.stem, summary, entry.size, entry.modified, shared))
    shown = [memento for each in found.values() for memento in each[:MAX_MEMENTOS]]
    return sorted(shown, key=lambda each: (-each.modified, each.name))


def checked_name(name: str) -> str:
    """Return the name without `.md`, once checked.

    Raises:
        InvalidInput: it is a path, a hidden file, or too long.
    """
    plain = name.removesuffix(ENDING)
    if (
        not _MEMENTO_NAME.fullmatch(plain)
        or plain != plain.strip()
        or len(plain.encode(errors="replace")) > MAX_MEMENTO_NAME
    ):
        raise InvalidInput(
            f'field "name": expected up to {MAX_MEMENTO_NAME} letters, digits, spaces, ".", "-" and "_", '
            "beginning with a letter or digit"
        )
    return plain


def _summary(opened: Opened) -> str:
    return summary_of(opened.file.read(_HEAD))


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
    return f"{escape(place.folder)}/{MEMENTOS_FOLDER}/*{ENDING}"

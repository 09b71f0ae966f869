"""The workspace: regular files below one folder, read, written and listed without a way out."""

import asyncio
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import BinaryIO, Self, TypeVar

from goclaw.errors import StateError, ToolError
from goclaw.workspace.atomic import create, replace
from goclaw.workspace.beneath import has_openat2, open_beneath
from goclaw.workspace.globs import Entry, matches
from goclaw.workspace.listing import MOST_PATHS, listing, listing_of
from goclaw.workspace.paths import clean, without_mark
from goclaw.workspace.words import in_words

ResultT = TypeVar("ResultT")

READ_LIMIT = 20 << 20
"""Bytes that `read_bytes` returns when the caller names no bound."""
_MOST_ENTRIES = 10_000
_HASHED_AT_ONCE = 1 << 20
_NEW_FOLDER = 0o755
_MOST_OF_ONE_NAME = 100
"""Files `name`, `name-2` … that `keep_bytes` looks at."""
_NO_WAITING = os.O_NONBLOCK | os.O_NOCTTY
"""Opening a pipe must not wait for its other end, and a terminal must not become ours."""
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


@dataclass(frozen=True, slots=True)
class Version:
    """What tells one state of a file from the next; see `Workspace.write_bytes`."""

    inode: tuple[int, int]
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Stat:
    """A regular file, or a folder."""

    path: str
    """Relative to the workspace; `.` is the workspace."""
    size: int
    mode: int
    """Permission bits."""
    modified: float
    """Seconds since the epoch."""
    is_folder: bool
    version: Version


@dataclass(frozen=True, slots=True)
class Opened:
    """An open regular file, as `Workspace.use` hands it to its reader."""

    file: BinaryIO
    stat: Stat


@dataclass(frozen=True, slots=True)
class Written:
    """What `write_bytes` did."""

    path: str
    size: int
    created: bool
    """False: a file was replaced."""


class Workspace:
    """One folder and everything below it; an async context manager that holds a descriptor of the folder.

    `denied` are paths of the daemon's own files. They are looked up at every use and compared by device and inode, so
    that a hard link or another name of such a file does not help.

    All methods take a path as a model writes it: relative, absolute below the workspace, or with the `@` that people
    put before a file's name. All raise `ToolError` with one line in words: `file not found: …`, `permission denied: …`,
    `path traversal detected: …`, `is a directory: …`, `not a regular file: …`. The work is done in a thread.
    """

    def __init__(self, root: Path, denied: Iterable[Path] = ()) -> None:
        self.root = root.absolute()
        self._denied = tuple(denied)
        self._roots = tuple(dict.fromkeys((os.path.normpath(self.root), os.path.realpath(self.root))))
        self._folder = -1
        self._by_walk = False

    async def __aenter__(self) -> Self:
        """Open the folder.

        Raises:
            StateError: it does not exist or cannot be used.
        """
        await asyncio.to_thread(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._folder)
        self._folder = -1

    async def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """The whole file; a `ToolError` when it has more than `limit` bytes."""
        return await self.use(path, lambda opened: _read_whole(opened, limit))

    async def use(self, path: str, reader: Callable[[Opened], ResultT]) -> ResultT:
        """What `reader` makes of the opened file. It runs in a thread; the file is closed when it returns."""
        return await asyncio.to_thread(self._use, path, reader)

    async def stat(self, path: str) -> Stat:
        """A file or folder."""
        return await asyncio.to_thread(self._stat, path)

    async def exists(self, path: str) -> bool:
        """Whether a regular file or folder is there that may be read."""
        try:
            await self.stat(path)
        except ToolError:
            return False
        return True

    async def has_link(self, path: str) -> bool:
        """Whether a symbolic link is on the way to what `path` names, or is it."""
        return await asyncio.to_thread(self._has_link, path)

    async def write_bytes(self, path: str, data: bytes, *, unless_changed: Version | None = None) -> Written:
        """Put `data` in the file's place in one step; missing parent folders are made, its mode is kept.

        With `unless_changed` the file must still be in that version: otherwise a `ToolError` says that it changed.
        """
        return await asyncio.to_thread(self._write, path, data, unless_changed)

    async def keep_bytes(self, path: str, data: bytes) -> str:
        """Put `data` into a new file `path`, or `name-2.ending` … beside what is there; returns its relative path.

        Nothing is ever replaced. Where one of these files holds the same bytes, that one is it.
        """
        return await asyncio.to_thread(self._keep, path, data)

    async def walk(self, patterns: Iterable[str], limit: int = _MOST_ENTRIES) -> list[Entry]:
        """Regular files that one of the patterns (`MEMORY.md`, `memory/**/*.md`) matches, each once, at most `limit`.

        Symbolic links are not followed; a name with a leading dot needs a pattern that has it.
        """
        return await asyncio.to_thread(self._walk, tuple(patterns), limit)

    async def paths(self, limit: int = MOST_PATHS) -> list[str]:
        """Files and folders (with a `/` at the end) that a person may want to name; see `listing`."""
        return await asyncio.to_thread(self._paths, limit)

    async def paths_in(self, folder: str, limit: int = MOST_PATHS) -> list[str]:
        """What lies in one folder, ignored or not; nothing when there is no such folder."""
        return await asyncio.to_thread(self._paths_in, folder, limit)

    async def fingerprints(self, paths: Iterable[str]) -> dict[str, str]:
        """The state of each path: the hash of a regular file's bytes, or in words why there is none."""
        return await asyncio.to_thread(lambda names: {name: self._fingerprint(name) for name in names}, tuple(paths))

    async def folder(self, path: str) -> Path:
        """The absolute path of an existing folder, for running something in it."""
        await asyncio.to_thread(self._still_there)
        found = await self.stat(path)
        if not found.is_folder:
            raise ToolError(f"not a directory: {path}")
        return self.root / found.path

    def _fingerprint(self, path: str) -> str:
        try:
            return self._use(path, _hash)
        except ToolError as error:
            return str(error)

    def _has_link(self, path: str) -> bool:
        name = PurePosixPath(self._names(path)[0])
        with in_words(path):
            return any(self._is_link(str(part)) for part in (*reversed(name.parents[:-1]), name))

    def _still_there(self) -> None:
        """Whoever starts a program goes by the path: it must still lead to the folder that was opened."""
        with in_words(str(self.root)):
            if not os.path.samestat(os.stat(self.root), os.fstat(self._folder)):  # noqa: PTH116 -- beside a descriptor
                raise ToolError(f"the workspace {self.root} was moved or replaced; restart GoClaw")

    def _open(self) -> None:
        try:
            self._folder = os.open(self.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StateError(f"the workspace {self.root} cannot be used: {error.strerror}") from error
        self._by_walk = not has_openat2(self._folder)

    @contextmanager
    def _descriptor(self, path: str, flags: int) -> Iterator[tuple[int, str]]:
        """A descriptor and the relative path that it was found under."""
        names = self._names(path)
        with in_words(path):
            found, name = self._first_of(names, flags)
        try:
            yield found, name
        finally:
            os.close(found)

    def _names(self, path: str) -> tuple[str, ...]:
        """The relative paths that may be meant; `@path` is `path` unless something here is really called so."""
        names = clean(path, self._roots)
        if names[0].startswith("@") and not self._has(names[0].partition("/")[0]):
            return clean(without_mark(path, self._roots), self._roots)
        return names

    def _has(self, name: str) -> bool:
        try:
            os.close(open_beneath(self._folder, name, os.O_PATH | os.O_NOFOLLOW, by_walk=self._by_walk))
        except OSError as error:
            return error.errno == errno.ELOOP
        return True

    def _first_of(self, names: tuple[str, ...], flags: int) -> tuple[int, str]:
        for name in names[:-1]:
            try:
                return open_beneath(self._folder, name, flags, by_walk=self._by_walk), name
            except FileNotFoundError:
                continue
        return open_beneath(self._folder, names[-1], flags, by_walk=self._by_walk), names[-1]

    def _use(self, path: str, reader: Callable[[Opened], ResultT]) -> ResultT:
        with self._descriptor(path, os.O_RDONLY | _NO_WAITING) as (descriptor, name):
            found = self._regular(os.fstat(descriptor), path)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return reader(Opened(file, _described(name, found)))

    def _stat(self, path: str) -> Stat:
        with self._descriptor(path, os.O_PATH) as (descriptor, name):
            found = os.fstat(descriptor)
            if not stat.S_ISDIR(found.st_mode):
                self._regular(found, path)
            return _described(name, found)

    def _regular(self, found: os.stat_result, path: str) -> os.stat_result:
        if stat.S_ISDIR(found.st_mode):
            raise ToolError(f"is a directory: {path}")
        if not stat.S_ISREG(found.st_mode):
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
            raise ToolError(f"not a regular file: {path} ({kind})")
        if (found.st_dev, found.st_ino) in self._denied_inodes():
            raise ToolError(f"permission denied: {path}")
        return found

    def _denied_inodes(self) -> set[tuple[int, int]]:
        inodes = set()
        for path in self._denied:
            try:
                found = path.stat()
            except OSError:
                continue  # not there (yet): then no other name can lead to it
            inodes.add((found.st_dev, found.st_ino))
        return inodes

    def _walk(self, patterns: tuple[str, ...], limit: int) -> list[Entry]:
        denied = self._denied_inodes()
        found: dict[str, Entry] = {}
        for pattern in patterns:
            entries = matches(self._folder, pattern, by_walk=self._by_walk)
            allowed = (entry for entry in entries if entry.inode not in denied)
            found.update((entry.path, entry) for entry in islice(allowed, limit))
        return list(found.values())[:limit]

    def _paths(self, limit: int) -> list[str]:
        return listing(self._folder, self._denied_inodes(), by_walk=self._by_walk, most=limit)

    def _paths_in(self, folder: str, limit: int) -> list[str]:
        below = clean(folder, self._roots)[0]
        return listing_of(self._folder, below, self._denied_inodes(), by_walk=self._by_walk, most=limit)

    def _write(self, path: str, data: bytes, unless_changed: Version | None) -> Written:
        name, old = self._target(path)
        if unless_changed is not None and (old is None or _version(old) != unless_changed):
            raise ToolError(f"the file changed since it was read: {path}")
        target = PurePosixPath(name)
        with in_words(path):
            folder = self._parent(target.parent)
            try:
                self._refuse_denied_name(folder, target.name, path)
                replace(folder, target.name, data, old)
            finally:
                os.close(folder)
        return Written(name, len(data), created=old is None)

    def _keep(self, path: str, data: bytes) -> str:
        target = PurePosixPath(clean(path, self._roots)[0])
        with in_words(path):
            folder = self._parent(target.parent)
            try:
                for number in range(1, _MOST_OF_ONE_NAME + 1):
                    name = target.name if number == 1 else f"{target.stem}-{number}{target.suffix}"
                    self._refuse_denied_name(folder, name, path)
                    if create(folder, name, data) or self._holds(folder, name, data):
                        return str(target.with_name(name))
            finally:
                os.close(folder)
        raise ToolError(f"there are {_MOST_OF_ONE_NAME} files of that name already: {path}")

    def _holds(self, folder: int, name: str, data: bytes) -> bool:
        """Whether the file `name` is ours to read and has exactly these bytes."""
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | _NO_WAITING, dir_fd=folder)
        except OSError:
            return False
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            same = stat.S_ISREG(found.st_mode) and found.st_size == len(data)
            return same and (found.st_dev, found.st_ino) not in self._denied_inodes() and file.read() == data

    def _target(self, path: str) -> tuple[str, os.stat_result | None]:
        """Where a write to `path` goes, links followed, and what is there now."""
        names = self._names(path)
        with in_words(path):
            try:
                # Opened for writing so that the file's own permission decides, although the write replaces it.
                descriptor, name = self._first_of(names, os.O_WRONLY | _NO_WAITING)
            except FileNotFoundError:
                if self._is_link(names[0]):
                    raise ToolError(f"is a dangling symbolic link: {path}") from None
                return names[0], None
        try:
            found = self._regular(os.fstat(descriptor), path)
            return self._real_name(descriptor, name) if found.st_nlink else name, found
        finally:
            os.close(descriptor)

    def _refuse_denied_name(self, folder: int, name: str, path: str) -> None:
        """A file of the daemon that does not exist yet has no inode: its folder and name tell it."""
        here = os.fstat(folder)
        for denied in self._denied:
            if denied.name == name and denied.parent.exists() and os.path.samestat(denied.parent.stat(), here):
                raise ToolError(f"permission denied: {path}")

    def _real_name(self, descriptor: int, name: str) -> str:
        real = Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115 -- a descriptor, not a file
        root = Path(os.readlink(f"/proc/self/fd/{self._folder}"))  # noqa: PTH115 -- the same
        # A bind mount inside the workspace may give the file a path that does not start with the root's.
        return str(real.relative_to(root)) if real.is_relative_to(root) else name

    def _is_link(self, name: str) -> bool:
        try:
            descriptor = open_beneath(self._folder, name, os.O_PATH | os.O_NOFOLLOW, by_walk=self._by_walk)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno == errno.ELOOP:
                return True  # the walk follows none, and says so
            raise
        try:
            return stat.S_ISLNK(os.fstat(descriptor).st_mode)
        finally:
            os.close(descriptor)

    def _parent(self, path: PurePosixPath) -> int:
        """A descriptor of the folder `path`; whatever of it is missing is made."""
        flags = os.O_RDONLY | os.O_DIRECTORY
        try:
            return open_beneath(self._folder, str(path), flags, by_walk=self._by_walk)
        except FileNotFoundError:
            above = self._parent(path.parent)
        try:
            os.mkdir(path.name, _NEW_FOLDER, dir_fd=above)
        except FileExistsError:
            pass  # somebody else just made it
        finally:
            os.close(above)
        return open_beneath(self._folder, str(path), flags, by_walk=self._by_walk)


def _hash(opened: Opened) -> str:
    whole = hashlib.sha256()
    while part := opened.file.read(_HASHED_AT_ONCE):
        whole.update(part)
    return f"sha256:{whole.hexdigest()}"


def _read_whole(opened: Opened, limit: int) -> bytes:
    # The size is asked first so that a sparse file of terabytes costs nothing; a growing file is cut at the bound.
    data = opened.file.read(limit + 1) if opened.stat.size <= limit else b""
    if opened.stat.size > limit or len(data) > limit:
        raise ToolError(
            f"file too large: {opened.stat.path} has {max(opened.stat.size, len(data))} bytes, the limit is {limit}"
        )
    return data


def _described(name: str, found: os.stat_result) -> Stat:
    return Stat(
        path=name,
        size=found.st_size,
        mode=stat.S_IMODE(found.st_mode),
        modified=found.st_mtime,
        is_folder=stat.S_ISDIR(found.st_mode),
        version=_version(found),
    )


def _version(found: os.stat_result) -> Version:
    return Version((found.st_dev, found.st_ino), found.st_size, found.st_mtime_ns)

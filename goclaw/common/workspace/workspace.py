"""The workspace: regular files below one folder, read, written and listed without a way out."""

import asyncio
import copy
import errno
import os
import posixpath
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self, TypeVar

from goclaw.common.core.files import Writer
from goclaw.common.core.records import BoundedDict
from goclaw.common.workspace import atomic
from goclaw.common.workspace import paths as path_rules
from goclaw.common.workspace.atomic import lock
from goclaw.common.workspace.described import (
    ABSENT,
    FileChanged,
    FileStamp,
    Opened,
    Stat,
    Written,
    describe,
    fingerprint,
    read_whole,
    refuse_kind,
    status_at,
    version_of,
)
from goclaw.common.workspace.finding import (
    MAX_PATHS,
    FileQuery,
    FoundFiles,
    GlobMatch,
    Sight,
    Tree,
    find,
    listing,
    listing_of,
    matches,
    names_of,
)
from goclaw.common.workspace.forbidden_files import inode_of
from goclaw.common.workspace.notes import ABOVE, USERS, Notes, parts_of_note
from goclaw.common.workspace.openat2 import open_beneath
from goclaw.common.workspace.path_resolver import PathResolver, ResolvedPath, WorkspaceRoot, open_resolver, root_at
from goclaw.common.workspace.shared import part_of_shared
from goclaw.errors import ToolError

ResultT = TypeVar("ResultT")

READ_LIMIT = 20 << 20
"""Bytes that `read_bytes` returns when the caller names no bound."""
_MAX_ENTRIES = 10_000
_MAX_OF_ONE_NAME = 100  # files `name`, `name-2` … that `add_bytes` looks at


class Workspace:
    """One folder and everything below it; an async context manager that holds a descriptor of the folder.

    `denied` are paths of the daemon's own files and folders. They are matched by device and inode, so that hard links
    and other names are denied, too (see `forbidden_files`); with a folder everything in it is denied.

    `locks` is a folder that all processes share which write here: from the read of a file to its change each of them
    holds the lock of its inode (see `atomic`); None: no other process does.

    `notes` is the folder of all persons' private notes, which lies elsewhere and is shown as `memory/users` (see the
    module `notes`); `seen_by` gives the view of one person. None: nothing exists there. `writer` changes a note.

    `shared` is a folder that lies elsewhere and is shown as `shared` (see the module `shared`); None: no folder is.
    `spared` are folders in `denied` ones that hold workspaces of other people.

    All methods take a path as a model writes it: relative, absolute below the workspace, or with the `@` that people
    put before a file's name. All raise `ToolError` with one line in words: `file not found: …`, `permission denied: …`,
    `path traversal detected: …`, `is a directory: …`, `not a regular file: …`. The work is done in a thread.
    """

    def __init__(
        self,
        root: Path,
        denied: Iterable[Path] = (),
        locks: Path | None = None,
        notes: Path | None = None,
        shared: Path | None = None,
        spared: Iterable[Path] = (),
        writer: Writer | None = None,
    ) -> None:
        self.root: Path = root.absolute()
        self.shared: Path | None = shared and shared.absolute()
        self._notes = Notes(notes, writer=writer)
        self._denied, self._spared, self._locks = tuple(denied), tuple(spared), locks
        self._roots = path_rules.roots_of(self.root, self.shared)
        self._resolver: PathResolver
        self._views: BoundedDict[str | None, Self] = BoundedDict(1_000)  # of the last persons; all copies share them

    async def __aenter__(self) -> Self:
        """Open the folder.

        Raises:
            StateError: it does not exist, cannot be used, or shows one of the folders that are denied.
        """
        denied = (self._denied, self._spared)
        self._resolver = await asyncio.to_thread(open_resolver, self.root, denied, self._notes, self.shared)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._resolver.close()

    @property
    def viewer(self) -> str | None:
        """The person that this view is for; None: all persons' notes are visible."""
        return self._resolver.notes.viewer

    def seen_by(self, key: str) -> Self:
        """Return the same workspace, open until this one closes, with the notes of the actor `key` only.

        With an empty key it has no person's notes.
        """
        return self._view(key)

    def seen_by_all(self) -> Self:
        """Return the same workspace with all persons' notes: for callers that filter them."""
        return self._view(None)

    @asynccontextmanager
    async def within(self, folder: str) -> AsyncIterator[Self]:
        """Open a folder of it as a workspace by itself, without private notes; no path leads out of it."""
        path, found = await self.folder(folder), await self.stat(folder)
        inner = type(self)(path, locks=self._locks)
        workspace_root = await asyncio.to_thread(self._root_of, found.path)
        inner._resolver = PathResolver(workspace_root, Notes(None, self.viewer))
        try:
            yield inner
        finally:
            workspace_root.close()

    def _root_of(self, folder: str) -> WorkspaceRoot:
        # From the descriptor on, and not by the path: a link that comes meanwhile leads nowhere.
        with path_rules.in_words(folder):
            opened, above = self._resolver.folder(folder, os.O_PATH)[0], self._resolver.workspace_root
            return root_at(opened, self.on_disk(folder), above.denied, above.renaming)

    def _view(self, viewer: str | None) -> Self:
        if viewer == self.viewer:
            return self
        if viewer not in self._views:
            view = self._views[viewer] = copy.copy(self)
            view._resolver = replace(self._resolver, notes=replace(self._resolver.notes, viewer=viewer))
        return self._views[viewer]

    async def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """Return the whole file; a `ToolError` when it has more than `limit` bytes."""
        return await self.use(path, lambda opened: read_whole(opened, limit))

    async def use(self, path: str, reader: Callable[[Opened], ResultT]) -> ResultT:
        """Return the result of `reader` on the opened file. It runs in a thread; the file is closed when it returns."""
        return await asyncio.to_thread(self._use, path, reader)

    async def use_each(self, readers: Mapping[str, Callable[[Opened], ResultT]]) -> "list[ResultT | ToolError]":
        """Return each reader's result on its file, or the error, one file after the other."""
        return await asyncio.to_thread(lambda: [self._made_of(path, reader) for path, reader in readers.items()])

    async def stat(self, path: str) -> Stat:
        """Describe a file or folder."""
        return await asyncio.to_thread(self._stat, path)

    async def exists(self, path: str) -> bool:
        """Whether a regular file or folder exists that may be read."""
        try:
            await self.stat(path)
        except ToolError:
            return False
        return True

    async def has_link(self, path: str) -> bool:
        """Whether a symbolic link is on the way to what `path` names, or is it."""
        return await asyncio.to_thread(self._has_link, path)

    async def write_bytes(
        self, path: str, data: bytes, *, unless_changed: FileStamp | None = None, create_dirs: bool = True
    ) -> Written:
        """Put `data` in the file's place in one step; its mode is kept.

        Parent folders that are missing are made with `create_dirs`, else a `ToolError` says so. With `unless_changed`
        the file must still be in that version (`ABSENT`: not be there): otherwise `FileChanged` says that it is not. A
        `ToolError` says `busy` where another process keeps the file's lock.
        """
        return await asyncio.to_thread(self._write, path, data, unless_changed, create_dirs=create_dirs)

    async def add_bytes(self, path: str, data: bytes) -> str:
        """Write `data` to a new file `path`, or `name-2.ending` … where names are taken; returns its relative path.

        Nothing is ever replaced. Where one of these files holds the same bytes, its path is returned.
        """
        return await asyncio.to_thread(self._add, path, data)

    async def remove(self, path: str) -> None:
        """Delete a regular file; a link in its place is not followed, and not deleted either."""
        await asyncio.to_thread(self._remove, path)

    async def walk(
        self, patterns: Iterable[str], limit: int = _MAX_ENTRIES, endings: tuple[str, ...] = ("",)
    ) -> list[GlobMatch]:
        """Regular files that one of the patterns (`MEMORY.md`, `memory/**/*.md`) matches, each once, at most `limit`.

        Only those with one of the `endings` (`.pdf`), in capitals or not. Symbolic links are not followed; a name with
        a leading dot needs a pattern that has it.
        """
        return await asyncio.to_thread(self._walk, tuple(patterns), limit, endings)

    async def paths(self, limit: int = MAX_PATHS) -> list[str]:
        """Return files and folders (with a `/` at the end) that a person may want to name; see `listing`."""
        return await asyncio.to_thread(listing, self._resolver, limit)

    async def paths_in(self, folder: str, limit: int = MAX_PATHS) -> list[str]:
        """Return the paths in one folder, ignored or not; empty when there is no such folder."""
        return await asyncio.to_thread(
            lambda: listing_of(self._resolver, path_rules.clean(folder, self._roots)[0], limit)
        )

    async def entries(self, folder: str, limit: int) -> tuple[str, list[tuple[str, int | None]]]:
        """Return the folder's relative path and its entries: names, and the sizes of files (None: a folder)."""
        return await asyncio.to_thread(self._entries, folder, limit)

    async def find(self, wanted: FileQuery, *, most: int = _MAX_ENTRIES, seconds: float = 10.0) -> FoundFiles:
        """Regular files below a folder; see `finding`."""
        return await asyncio.to_thread(self._find, wanted, most, seconds)

    async def visible(self, paths: Sequence[str], wanted: FileQuery) -> list[str]:
        """Return those relative paths that are visible regular files, and are `wanted`; at a bounded rate."""
        return await asyncio.to_thread(self._visible, paths, wanted)

    async def nearest(self, path: str) -> tuple[str, bool]:
        """Return the file with the path most like a misspelt one, if any, and whether it is the only candidate."""
        return await asyncio.to_thread(path_rules.nearest, self._names(path)[0], await self.paths())

    async def fingerprints(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the state of each path: the hash of a regular file's bytes, `FOLDER`, or why it has none."""
        return await asyncio.to_thread(lambda names: {name: self._fingerprint(name) for name in names}, tuple(paths))

    async def folder(self, path: str) -> Path:
        """Return the absolute path of an existing folder, for running something in it."""
        found = await asyncio.to_thread(self._stat_now, path)
        if not found.is_folder:
            raise ToolError(f"not a directory: {path}")
        if parts_of_note(found.path) is not None:
            raise ToolError(f"permission denied: {path} (commands do not see private notes, file tools do)")
        return self.on_disk(found.path)

    def on_disk(self, path: str) -> Path:
        """Return where a relative path lies, to watch it or to compare it; never to open anything."""
        if self.shared and (inside := part_of_shared(path)) is not None:
            return self.shared / inside
        return self._resolver.notes.place(path) or self.root / path

    def real(self, path: str) -> str:
        """Return the real path, links followed, as one string for all its names; an invalid path as it is.

        To compare two paths, never to open one: it may change in the next moment. Blocks.
        """
        try:
            return os.path.realpath(self.on_disk(self._name(path)))
        except ToolError:
            return path

    def _fingerprint(self, path: str) -> str:
        try:
            return self._use(path, fingerprint)
        except ToolError as error:
            return path_rules.FOLDER if isinstance(error.__cause__, IsADirectoryError) else str(error)

    def _has_link(self, path: str) -> bool:
        name = PurePosixPath(self._name(path))
        steps = [str(step) for step in (*reversed(name.parents[:-1]), name)]
        # Where the notes are shown is no folder of the workspace.
        first = len(PurePosixPath(USERS).parts) if parts_of_note(str(name)) else 0
        with path_rules.in_words(path):
            return any(map(self._resolver.is_link, steps[first:]))

    def _stat_now(self, path: str) -> Stat:
        """Return the status of a path below the opened folder, to which the root's path has to lead: for programs."""
        with path_rules.in_words(str(self.root)):
            for root_path, root in ((self.root, self._resolver.workspace_root), (self.shared, self._resolver.shared)):
                if root_path and root and not os.path.samestat(os.stat(root_path), os.fstat(root.folder)):  # noqa: PTH116 -- beside a descriptor
                    raise ToolError(f"the workspace {root_path} was moved or replaced; restart GoClaw")
        return self._stat(path)

    def _names(self, path: str) -> tuple[str, ...]:
        """Return the possible relative paths; `@path` is `path` unless a file is really called so."""
        names = path_rules.clean(path, self._roots)
        if names[0].startswith("@") and not self._has(names[0].partition("/")[0]):
            return path_rules.clean(path_rules.without_mark(path, self._roots), self._roots)
        return names

    def _has(self, name: str) -> bool:
        """Whether something exists, be it a link that leads nowhere."""
        workspace_root = self._resolver.workspace_root
        try:
            os.close(
                open_beneath(workspace_root.folder, name, os.O_PATH | os.O_NOFOLLOW, by_walk=workspace_root.by_walk)
            )
        except OSError as error:
            return error.errno == errno.ELOOP
        return True

    def _name(self, path: str) -> str:
        """Return the relative path: of an existing file, else composed (NFC) in the existing folders."""
        names = self._names(path)
        return names[0] if len(names) == 1 else path_rules.choose_spelling(names, self._is_there)

    def _is_there(self, name: str) -> bool:
        try:
            with self._resolver.place(name) as place:
                return place.found is not None
        except OSError:
            return False

    @contextmanager
    def _file(self, path: str, flags: int) -> Iterator[tuple[int, Stat]]:
        """Yield a descriptor and the status of a regular file or, with O_PATH, a folder."""
        name = self._name(path)
        with path_rules.in_words(path), self._resolver.place(name) as place:
            if place.found is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            folder_too = bool(flags & os.O_PATH)
            # Asked before anything is opened: opening a device may already do something.
            refuse_kind(place.found, path, folder_too=folder_too)
            descriptor, found = self._resolver.open(place, flags)
            try:
                refuse_kind(found, path, folder_too=folder_too)
                yield descriptor, describe(place.path, found)
            finally:
                os.close(descriptor)

    def _use(self, path: str, reader: Callable[[Opened], ResultT]) -> ResultT:
        with self._file(path, os.O_RDONLY) as (descriptor, described):
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return reader(Opened(file, described))

    def _made_of(self, path: str, reader: Callable[[Opened], ResultT]) -> ResultT | ToolError:
        try:
            return self._use(path, reader)
        except ToolError as error:
            return error

    def _stat(self, path: str) -> Stat:
        with self._file(path, os.O_PATH) as (_, described):
            return described

    def _walk(self, patterns: tuple[str, ...], limit: int, endings: tuple[str, ...]) -> list[GlobMatch]:
        sight, found = Sight(self._resolver), dict[str, GlobMatch]()
        for pattern in patterns:
            named = (entry for entry in matches(sight, pattern) if entry.path.lower().endswith(endings))
            found.update((entry.path, entry) for entry in islice(named, limit))
        return list(found.values())[:limit]

    def _entries(self, folder: str, limit: int) -> tuple[str, list[tuple[str, int | None]]]:
        try:
            path = self._folder(folder)
        except ToolError:
            path = self._name(folder)
            if path != ABOVE or not self._resolver.notes.are_any:
                raise
        names = Sight(self._resolver).names_in("" if path == "." else path, limit)
        return path, [(name, None if found is None else found.st_size) for name, _, found in names]

    def _find(self, wanted: FileQuery, most: int, seconds: float) -> FoundFiles:
        return find(self._resolver, replace(wanted, folder=self._folder(wanted.folder)), most=most, seconds=seconds)

    def _folder(self, path: str) -> str:
        found = self._stat(path)
        if not found.is_folder:
            raise ToolError(f"not a directory: {path}")
        return found.path

    def _visible(self, paths: Sequence[str], wanted: FileQuery) -> list[str]:
        tree, start = Tree(self._resolver, ignored=wanted.ignored), names_of(wanted.folder)
        return [path for path in paths if self._matches(tree, path, start, wanted)]

    def _matches(self, tree: Tree, path: str, start: tuple[str, ...], wanted: FileQuery) -> bool:
        names = names_of(path)
        below = names[len(start) :]
        if names[: len(start)] != start or not wanted.takes(below) or (len(below) > 1 and not wanted.recursive):
            return False
        if not all(wanted.enters(below[:end]) for end in range(1, len(below))):
            return False
        if tree.hides_path(names, len(start)):
            return False
        try:
            return not self._stat(path).is_folder
        except ToolError:
            return False

    def _write(self, path: str, data: bytes, unless_changed: FileStamp | None, *, create_dirs: bool = True) -> Written:
        name = self._name(path)
        path_rules.check_names_a_file(path)
        if not create_dirs and not self._is_there(posixpath.dirname(name) or "."):
            raise ToolError(f"file not found: {path} (its folder is not there, and create_dirs is false)")
        written = None
        while written is None:
            with path_rules.in_words(path), self._resolver.making(name) as place:
                _refuse_change(place, path, unless_changed)  # a look saves writing megabytes for nothing
                with self._unchanging(place, path, new=unless_changed == ABSENT) as is_same:
                    written = self._replace(place, path, data, unless_changed) if is_same else None
        return written

    def _replace(self, place: ResolvedPath, path: str, data: bytes, unless_changed: FileStamp | None) -> Written:
        with self._old(place, path) as old, place.resolver.workspace_root.renaming:
            atomic.replace(place.folder, place.name, data, old, lambda: _refuse_change(place, path, unless_changed))
        return Written(place.path, len(data), created=old is None)

    @contextmanager
    def _unchanging(self, place: ResolvedPath, path: str, *, new: bool = False) -> Iterator[bool]:
        """Hold the lock of the file at a place; False: it was replaced or removed while waiting.

        A file that is not there has no lock; with `new` that of its folder stands for it.
        """
        if self._locks is None or (place.found is None and not new):
            yield True
            return
        inode = inode_of(place.found) if place.found else None
        with lock(self._locks, inode or inode_of(os.fstat(place.folder)), path):
            now = status_at(place.folder, place.name)
            yield (inode_of(now) if now else None) == inode

    @contextmanager
    def _old(self, place: ResolvedPath, path: str) -> Iterator[int | None]:
        """Open the file that will be replaced; None: it does not exist."""
        if place.found is None:
            yield None
            return
        refuse_kind(place.found, path)
        # Opened for writing so that the file's own permission decides, although the write replaces it.
        descriptor, found = self._resolver.open(place, os.O_WRONLY)
        try:
            refuse_kind(found, path)
            yield descriptor
        finally:
            os.close(descriptor)

    def _remove(self, path: str) -> None:
        name = self._name(path)
        gone = False
        while not gone:
            with (
                path_rules.in_words(path),
                self._resolver.making(name, through_link=False) as place,
                self._unchanging(place, path) as is_same,
            ):
                gone = is_same and self._unlink(place, path)

    def _unlink(self, place: ResolvedPath, path: str) -> bool:
        with self._old(place, path) as old, place.resolver.workspace_root.renaming:
            if old is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            os.unlink(place.name, dir_fd=place.folder)
            os.fsync(place.folder)
        return True

    def _add(self, path: str, data: bytes) -> str:
        with path_rules.in_words(path), self._resolver.making(self._name(path), through_link=False) as first:
            stem, suffix = PurePosixPath(first.name).stem, PurePosixPath(first.name).suffix
            for number in range(1, _MAX_OF_ONE_NAME + 1):
                place = first if number == 1 else self._resolver.beside(first, f"{stem}-{number}{suffix}")
                if atomic.create(place.folder, place.name, data) or self._holds(place, data):
                    return place.path
            raise ToolError(f"there are {_MAX_OF_ONE_NAME} files of that name already: {path}")

    def _holds(self, place: ResolvedPath, data: bytes) -> bool:
        """Whether the file is ours to read and has exactly these bytes."""
        try:
            descriptor, found = self._resolver.open(place, os.O_RDONLY)
        except OSError:
            return False
        with os.fdopen(descriptor, "rb") as file:
            return stat.S_ISREG(found.st_mode) and found.st_size == len(data) and file.read(len(data) + 1) == data


def _refuse_change(place: ResolvedPath, path: str, expected: FileStamp | None) -> None:
    if expected is None:
        return
    found = status_at(place.folder, place.name)
    if (version_of(found) if found else ABSENT) != expected:
        raise FileChanged(path)

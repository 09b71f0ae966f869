"""Path resolution and access checks, shared by reading, writing and listing.

A name is split into its folder and its last part. The folder is opened beneath the workspace, and checked by the inodes
of the folders above it; the last part is opened in it without following a link. Links are followed here, one by one,
each time with the whole check. A path of private notes is resolved below its person's own folder (`notes`), and one of
the shared folder below that (`shared`), by the same steps. The caller is `workspace`. Errors are the kernel's
(`OSError`); `paths` words them.
"""

import errno
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock

from goclaw.common.core.records import record
from goclaw.common.workspace.described import status_at
from goclaw.common.workspace.forbidden_files import Denylist, Inode, inode_of
from goclaw.common.workspace.notes import ABOVE, USERS, Notes, parts_of_note
from goclaw.common.workspace.openat2 import has_openat2, is_same_mount, open_beneath
from goclaw.common.workspace.shared import SHARED, part_of_shared
from goclaw.errors import StateError

_NO_WAITING = os.O_NONBLOCK | os.O_NOCTTY
"""Opening a pipe must not wait for its other end, and a terminal must not become ours."""
_MAX_LINKS = 40  # as the kernel (path_resolution(7))
_DEEPEST = 1_300
"""Folders above a folder that are looked at: as many `..` as a path takes."""
_NEW_FOLDER = 0o755


@record
class WorkspaceRoot:
    """A workspace as it was opened: its folder, and its knowledge of the daemon's files."""

    folder: int
    inode: Inode
    by_walk: bool
    denied: Denylist
    renaming: Lock
    """Held from a last look at a file to its being replaced; shared with the folders in it that are roots, too."""

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self.folder)


def open_root(root: Path, denied: Denylist) -> WorkspaceRoot:
    """Open the folder of a workspace, or the one that it shares.

    Raises:
        StateError: it does not exist, cannot be used, or shows the daemon's own folder.
    """
    try:
        folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StateError(f"the workspace {root} cannot be used: {error.strerror}") from error
    return root_at(folder, root, denied, Lock())


def root_at(folder: int, root: Path, denied: Denylist, renaming: Lock) -> WorkspaceRoot:
    """Return the root of an open folder, which is closed when this fails; `root` is its path.

    `renaming` is that of the workspace which the folder lies in, or a new one.

    Raises:
        StateError: it shows the daemon's own folder.
    """
    try:
        denied.check_apart(folder, root)
        return WorkspaceRoot(folder, inode_of(os.fstat(folder)), not has_openat2(folder), denied, renaming)
    except BaseException:
        os.close(folder)
        raise


@record
class ResolvedPath:
    """The last part of a name, in its folder."""

    folder: int
    """A descriptor, open as long as the place is in use."""
    path: str
    """Relative to the workspace, links followed."""
    name: str
    found: os.stat_result | None
    """The status of the file; None: it does not exist."""
    crossed: bool
    """A mount point is on the way."""
    resolver: "PathResolver"
    """The files object that can open it."""


_NOTHING_DENIED = Denylist(())
_NO_NOTES = Notes(None)


@record
class PathResolver:
    """A resolver of the paths of a workspace, `notes` and the `shared` folder among them."""

    workspace_root: WorkspaceRoot
    notes: Notes = _NO_NOTES
    below: str = ""
    """The beginning of each path that it returns."""
    shared: WorkspaceRoot | None = None
    """The folder that `shared/` stands for; None: that is an ordinary name."""

    def close(self) -> None:
        """Let go of the folders."""
        self.workspace_root.close()
        if self.shared is not None:
            self.shared.close()

    @contextmanager
    def place(self, name: str) -> Iterator[ResolvedPath]:
        """Resolve `name` (relative, without `..`) for reading.

        Raises:
            OSError: EXDEV or ELOOP when it leads out of the workspace, ENOENT when to another person's notes, EACCES
                when to the daemon's files; else the error of opening its folder.
        """
        with self._of(name) as (resolver, inside):
            found = resolver._follow(inside, None)
            try:
                yield found
            finally:
                resolver._close(found.folder)

    @contextmanager
    def making(self, name: str, *, through_link: bool = True) -> Iterator[ResolvedPath]:
        """Resolve `name` for writing. Missing folders are made, and removed again when the block fails.

        Without `through_link` a link in its place is not followed.

        Raises:
            OSError: as `place` does, but EACCES for another person's notes; ENOLINK for a dangling link.
        """
        made: list[str] = []
        with self._of(name, making=True) as (resolver, inside):
            try:
                found = resolver._follow(inside, made, through_link=through_link)
                try:
                    yield found
                finally:
                    resolver._close(found.folder)
            except BaseException:
                for path in reversed(made):
                    resolver._unmake(path)
                raise

    def beside(self, place: ResolvedPath, name: str) -> ResolvedPath:
        """Another name in the folder of a place where something is made."""
        place.resolver._allow(place.folder, name, crossed=place.crossed, making=True)
        path = posixpath.join(posixpath.dirname(place.path), name)
        return replace(place, path=path, name=name, found=status_at(place.folder, name))

    def folder(self, name: str, flags: int = os.O_RDONLY) -> tuple[int, bool]:
        """Return a descriptor of the folder `name`, which is no link, and whether a mount point is on the way.

        Raises:
            OSError: as `place` does.
        """
        with self._of(name) as (resolver, inside):
            folder, crossed = resolver._open(inside or ".", flags | os.O_DIRECTORY | os.O_NOFOLLOW)
            return resolver._allow_or_close(folder, ".", crossed=crossed, making=False)

    def is_link(self, name: str) -> bool:
        """Whether a symbolic link has this name, wherever it leads.

        Raises:
            OSError: as `place` does, but for a name that nothing has.
        """
        try:
            with self._of(name) as (resolver, inside):
                root = resolver.workspace_root
                descriptor = open_beneath(root.folder, inside, os.O_PATH | os.O_NOFOLLOW, by_walk=root.by_walk)
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

    def open(self, place: ResolvedPath, flags: int) -> tuple[int, os.stat_result]:
        """Return a descriptor of the file at a place, and its status.

        Raises:
            OSError: it may not be touched, or cannot be opened.
        """
        more, resolver = 0 if flags & os.O_PATH else _NO_WAITING, place.resolver
        descriptor, crossed = resolver._open(
            place.name, flags | more | os.O_NOFOLLOW, place.folder, crossed=place.crossed
        )
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISDIR(found.st_mode) and resolver._is_refused(found, crossed=crossed):
                raise _error(errno.EACCES, place.path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, found

    def forbidden(self) -> set[Inode]:
        """Return every file that may not be touched, under any name; for a listing, which asks for many."""
        return self.workspace_root.denied.everything(self.workspace_root.inode)

    @contextmanager
    def _of(self, name: str, *, making: bool = False) -> Iterator[tuple["PathResolver", str]]:
        """Yield the resolver that knows the way to `name`, and the path from where it begins."""
        if self.shared is not None and (inside := part_of_shared(name)) is not None:
            if parts_of_note(inside) is not None:  # nobody's notes, as in the shared workspace itself
                raise _error(errno.EACCES if making else errno.ENOENT, name)
            yield PathResolver(self.shared, below=SHARED), inside
            return
        if (parts := parts_of_note(name)) is None:
            yield self, name
            return
        key, inside = parts
        change = self.notes.change(name) if making else nullcontext()
        with change, self.notes.open_folder(key, making=making) as folder:
            above = self.workspace_root
            # The same lock for all who come this way: one that each made for itself would hold up none of the others.
            root = WorkspaceRoot(folder, inode_of(os.fstat(folder)), above.by_walk, _NOTHING_DENIED, above.renaming)
            yield PathResolver(root, below=f"{USERS}/{key}".rstrip("/")), inside
        if making:
            with suppress(OSError):  # it is there, or another file has its name: the notes are kept all the same
                os.mkdir(ABOVE, _NEW_FOLDER, dir_fd=self.workspace_root.folder)

    def _is_refused(self, found: os.stat_result, *, crossed: bool) -> bool:
        inode, workspace_root = inode_of(found), self.workspace_root
        if inode in workspace_root.denied.named():
            return True
        if not crossed and found.st_nlink <= 1:
            return False  # its only name is the one it was found under
        return inode in workspace_root.denied.everything(workspace_root.inode)

    def _follow(self, name: str, made: list[str] | None, *, through_link: bool = True) -> ResolvedPath:
        making = made is not None
        for links in range(_MAX_LINKS):
            above, last = _split(name)
            try:
                folder, crossed = self._folder(above, made if not links else None, making=making)
            except FileNotFoundError:
                raise _error(errno.ENOLINK if links and making else errno.ENOENT, name) from None
            folder, crossed = self._allow_or_close(folder, last, crossed=crossed, making=making)
            keep = False
            try:
                found = status_at(folder, last)
                if found is None and links and making:
                    raise _error(errno.ENOLINK, name)
                if found is None or not (through_link and stat.S_ISLNK(found.st_mode)):
                    keep = True
                    return ResolvedPath(folder, self._path(_tidy(name) if links else name), last, found, crossed, self)
                target = _target(folder, last)
            finally:
                if not keep:
                    self._close(folder)
            if self.workspace_root.by_walk:
                break
            if target.startswith("/"):
                raise _error(errno.EXDEV, name)
            name = posixpath.join(above, target) if target else name
        raise _error(errno.ELOOP, name)

    def _path(self, name: str) -> str:
        return name if not self.below else self.below if name == "." else f"{self.below}/{name}"

    def _folder(self, path: str, made: list[str] | None, *, making: bool) -> tuple[int, bool]:
        """Return the folder to look in or (`making`) to write to."""
        if path == "." and not making:
            return self.workspace_root.folder, False
        flags = os.O_DIRECTORY | (os.O_RDONLY if making else os.O_PATH)
        try:
            return self._open(path, flags)
        except OSError as error:
            if made is not None and error.errno == errno.ENOENT:
                self._make(path, made)
                return self._open(path, flags)
            raise

    def _make(self, path: str, made: list[str]) -> None:
        above, last = _split(path)
        folder, crossed = self._folder(above, made, making=True)
        folder, _ = self._allow_or_close(folder, last, crossed=crossed, making=True)
        try:
            os.mkdir(last, _NEW_FOLDER, dir_fd=folder)
            made.append(path)
            os.fsync(folder)
        except FileExistsError:
            pass  # another process just made it
        finally:
            os.close(folder)

    def _unmake(self, path: str) -> None:
        above, last = _split(path)
        with suppress(OSError):  # another process put something into it meanwhile, which stays
            folder, _ = self._open(above, os.O_PATH | os.O_DIRECTORY)
            try:
                os.rmdir(last, dir_fd=folder)
            finally:
                os.close(folder)

    def _open(self, path: str, flags: int, folder: int | None = None, *, crossed: bool = False) -> tuple[int, bool]:
        workspace_root = self.workspace_root
        start = workspace_root.folder if folder is None else folder
        if workspace_root.by_walk:
            descriptor = open_beneath(start, path, flags, by_walk=True)
            return descriptor, not is_same_mount(descriptor, workspace_root.folder)
        if not crossed:
            try:
                return open_beneath(start, path, flags, one_mount=True), False
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
        return open_beneath(start, path, flags), True

    def _allow_or_close(self, folder: int, name: str, *, crossed: bool, making: bool) -> tuple[int, bool]:
        """Return the folder, or close it and raise an error with the reason."""
        try:
            self._allow(folder, name, crossed=crossed, making=making)
        except BaseException:
            self._close(folder)
            raise
        return folder, crossed

    def _close(self, folder: int) -> None:
        if folder != self.workspace_root.folder:
            os.close(folder)

    def _allow(self, folder: int, name: str, *, crossed: bool, making: bool) -> None:
        workspace_root = self.workspace_root
        if crossed and not workspace_root.denied.everything(workspace_root.inode).isdisjoint(self._chain(folder)):
            raise _error(errno.EACCES, name)
        if making and workspace_root.denied.is_name(folder, name):
            raise _error(errno.EACCES, name)

    def _chain(self, folder: int) -> list[Inode]:
        """Return the folder and those above it, up to the workspace, exclusively."""
        chain: list[Inode] = []
        if folder == self.workspace_root.folder:
            return chain
        inode, above = inode_of(os.fstat(folder)), ".."
        while inode != self.workspace_root.inode:
            chain.append(inode)
            if len(chain) > _DEEPEST:
                raise _error(errno.EXDEV, above)
            inode = inode_of(os.stat(above, dir_fd=folder))
            above += "/.."
        return chain


def open_resolver(
    root: Path, denied: tuple[Sequence[Path], Sequence[Path]], notes: Notes, shared: Path | None
) -> PathResolver:
    """Open a workspace and, if there is one, the folder that it shares; raises as `open_root` does.

    `denied` are the daemon's folders and files, and the folders in them that are spared.
    """
    theirs = Denylist(denied[0], [*denied[1], *([shared] if shared else [])])
    opened = open_root(root, theirs)
    try:
        return PathResolver(opened, notes, shared=open_root(shared, theirs) if shared else None)
    except BaseException:
        opened.close()
        raise


def _split(name: str) -> tuple[str, str]:
    """Return a folder, and a name in it; `.` for the folder itself."""
    above, _, last = name.rstrip("/").rpartition("/")
    return (name, ".") if last in ("", ".", "..") else (above or ".", last)


def _tidy(path: str) -> str:
    # `..` behind a link is not what the text says; only the kernel knows.
    return path if ".." in path.split("/") else posixpath.normpath(path)


def _target(folder: int, name: str) -> str:
    """Return the target of a link; empty when it was exchanged meanwhile."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return ""


def _error(number: int, name: str) -> OSError:
    return OSError(number, os.strerror(number), name)

"""Files of a workspace that may not be touched: the daemon's own, and notes of other people.

Both are told by device and inode, not by path: another spelling, a link, another name of a file, or a folder that is
renamed meanwhile does not help. A file with one name, on the mount of the workspace, cannot be one of the daemon's:
that name is below the workspace, and the state folder is not. Only a file with several names, or behind a mount point,
is looked up in the state folder, live: so state files added later are denied, too. A file that does not exist yet is
matched by its folder and name. `memory/users/<key>/` is visible only to the person with that key.
"""

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from goclaw.errors import StateError
from goclaw.workspace.openat2 import open_beneath

Inode = tuple[int, int]
"""Device and number."""

_MAX_STATE_FILES = 500_000
"""Entries of the state folder that are looked at; with more, whatever has several names is denied."""


class Denylist:
    """The daemon's files: `paths` themselves and, of a folder, everything below it but for the workspace."""

    def __init__(self, paths: Iterable[Path]) -> None:
        paths = tuple(dict.fromkeys(path.absolute() for path in paths))
        self._folders = tuple(path for path in paths if path.is_dir())
        # Whatever lies in such a folder cannot also lie in the workspace under its only name.
        self._files = tuple(path for path in paths if not any(path.is_relative_to(folder) for folder in self._folders))

    def check_apart(self, root: int, shown: Path) -> None:
        """Refuse a workspace that is one of the folders, or shows one, as a mount of what is above it does.

        Raises:
            StateError: it does.
        """
        here = os.fstat(root)
        for folder in self._folders:
            there, parts = folder.stat(), folder.resolve().parts
            below = (_status("/".join(parts[start:]), root) for start in range(1, len(parts)))
            if any(found and os.path.samestat(found, there) for found in (here, *below)):
                raise StateError(f"the workspace {shown} contains {folder}; set `workspace` to another place")

    def named(self) -> set[Inode]:
        """Return the files that could lie in the workspace by their only name."""
        return {inode_of(found) for path in self._files if (found := _status(path))}

    def everything(self, root: Inode) -> set[Inode]:
        """Return every file and folder, as of now, without those below the folder `root` (the workspace).

        Raises:
            PermissionError: there are too many to look at.
        """
        found, folders = self.named(), list(self._folders)
        found |= {inode_of(status) for path in folders if (status := _status(path))}
        while folders:
            for entry in _entries(folders.pop()):
                status = _status(entry.path)
                if status is None or inode_of(status) == root:
                    continue
                found.add(inode_of(status))
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
            if len(found) > _MAX_STATE_FILES:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return found - {root}

    def is_name(self, folder: int, name: str) -> bool:
        """Whether a file of the daemon has this place, be it there yet or not."""
        for path in self._files:
            if path.name == name and (above := _status(path.parent)) and os.path.samestat(above, os.fstat(folder)):
                return True
        return False


def inode_of(found: os.stat_result) -> Inode:
    """Return the identity of a file: device and inode."""
    return found.st_dev, found.st_ino


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []  # gone meanwhile


def _status(path: Path | str, folder: int | None = None) -> os.stat_result | None:
    """Return the status of a path, links followed; None where nothing exists."""
    try:
        return os.stat(path, dir_fd=folder)
    except OSError:
        return None


USERS = "memory/users"
"""Folder of the workspace with one folder per actor key; what lies below it is for that actor only."""
_MAX_HELD_FOLDERS = 64
_MAX_NOTES = 100_000
"""Files of all notes together that are compared with one that has several names."""


class Notes:
    """The folders of notes in one workspace. Nothing is asked of the disk but through descriptors."""

    def __init__(self, root: int, *, by_walk: bool) -> None:
        self._root = root
        self._by_walk = by_walk
        self._held: dict[Inode, int] = {}
        """Descriptors of every `memory/users` that was seen: one that is renamed is still what it was."""

    def close(self) -> None:
        """Let go of the folders."""
        while self._held:
            os.close(self._held.popitem()[1])

    def look(self) -> None:
        """Find `memory/users` where it is now."""
        try:
            found = os.stat(USERS, dir_fd=self._root)
        except OSError:
            return
        if inode_of(found) in self._held or len(self._held) >= _MAX_HELD_FOLDERS:
            return
        try:
            descriptor = open_beneath(self._root, USERS, os.O_RDONLY | os.O_DIRECTORY, by_walk=self._by_walk)
        except OSError:
            return  # a link that leads out of the workspace, or none of it is there any more: nothing is kept there
        found, above = os.fstat(descriptor), os.fstat(self._root)
        if os.path.samestat(found, above) or self._held.setdefault(inode_of(found), descriptor) != descriptor:
            os.close(descriptor)

    def are_hidden(self, viewer: str, chain: Sequence[Inode], name: str) -> bool:
        """Whether `name`, in the folder whose inode begins `chain` (then the folders above it), is another person's.

        In `memory/users` itself, `.` is the folder, which is visible to all; each entry is visible to its person only.
        """
        users = next((place for place, inode in enumerate(chain) if inode in self._held), None)
        if users is None:
            return False
        own = self._person(viewer, chain[users])
        if users:
            return chain[users - 1] != own
        return name not in (".", viewer) and (own is None or self._person(name, chain[0]) != own)

    @property
    def are_any(self) -> bool:
        """Whether there may be notes of any person."""
        return bool(self._held)

    def are_in(self, folder: Inode) -> bool:
        """Whether this is a folder with one folder per person."""
        return folder in self._held

    def files(self, viewer: str) -> set[Inode]:
        """Return every file in the notes of other persons than `viewer`.

        Raises:
            PermissionError: there are too many to look at.
        """
        found: set[Inode] = set()
        for users, descriptor in list(self._held.items()):
            own = self._person(viewer, users)
            for path, folders, names, folder in os.fwalk(".", dir_fd=descriptor):
                found.update(inode_of(status) for name in names if (status := _status_of_itself(name, folder)))
                if path == ".":
                    folders[:] = [name for name in folders if own is None or self._person(name, users) != own]
                if len(found) > _MAX_NOTES:
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return found

    def _person(self, name: str, users: Inode) -> Inode | None:
        """Return the folder of a person, if it exists."""
        if "/" in name or name in ("", ".", ".."):
            return None
        found = _status_of_itself(name, self._held[users])
        return inode_of(found) if found and stat.S_ISDIR(found.st_mode) else None


def _status_of_itself(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None

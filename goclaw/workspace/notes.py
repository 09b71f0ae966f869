"""The visibility of notes: `memory/users/<key>/` is visible only to the person with that key.

Told by the inodes of the folders above a file, not by its path: another spelling, a link or a folder that is renamed
meanwhile does not help. Above: `path_resolver`.
"""

import errno
import os
import stat
from collections.abc import Sequence

from goclaw.workspace.denylist import Inode, inode_of
from goclaw.workspace.openat2 import open_beneath

USERS = "memory/users"
"""Folder of the workspace with one folder per actor key; what lies below it is for that actor only."""
_MAX_HELD = 64
_MAX_FILES = 100_000
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
        if inode_of(found) in self._held or len(self._held) >= _MAX_HELD:
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
                found.update(inode_of(status) for name in names if (status := _stat(name, folder)))
                if path == ".":
                    folders[:] = [name for name in folders if own is None or self._person(name, users) != own]
                if len(found) > _MAX_FILES:
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return found

    def _person(self, name: str, users: Inode) -> Inode | None:
        """Return the folder of a person, if it exists."""
        if "/" in name or name in ("", ".", ".."):
            return None
        found = _stat(name, self._held[users])
        return inode_of(found) if found and stat.S_ISDIR(found.st_mode) else None


def _stat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None

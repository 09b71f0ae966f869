"""Files of a workspace that may not be touched: the daemon's own.

They are recognized by device and inode, not by path: another spelling, a link, another name of a file, or a folder that
is renamed meanwhile does not help. A file with one name, on the mount of the workspace, cannot be one of the daemon's:
that name is below the workspace, and the state folder is not. Only a file with several names, or below a mount point,
is looked up in the state folder, live: so state files added later are denied, too. A file that does not exist yet is
matched by its folder and name.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from goclaw.errors import StateError

Inode = tuple[int, int]
"""Device and number."""

_MAX_STATE_FILES = 500_000
"""Entries of the state folder that are looked at; with more, whatever has several names is denied."""


class Denylist:
    """The daemon's files: `paths` themselves and, of a folder, everything below it but for the workspace.

    `spared` are folders in them that are workspaces, too: other people's, and the one that all share.
    """

    def __init__(self, paths: Iterable[Path], spared: Iterable[Path] = ()) -> None:
        self._spared = tuple(spared)
        paths = tuple(dict.fromkeys(path.absolute() for path in paths))
        self._folders = tuple(path for path in paths if path.is_dir())
        # Whatever lies in such a folder cannot also lie in the workspace under its only name.
        self._files = tuple(path for path in paths if not any(path.is_relative_to(folder) for folder in self._folders))

    def check_apart(self, root: int, shown: Path) -> None:
        """Refuse a workspace that is one of the folders, or shows one, as a mount of a parent folder does.

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
        """Return every file and folder, as of now, without those below the folder `root` and other workspaces.

        Raises:
            PermissionError: there are too many to look at.
        """
        found, folders = self.named(), list(self._folders)
        spared = {root, *(inode_of(status) for path in self._spared if (status := _status(path)))}
        found |= {inode_of(status) for path in folders if (status := _status(path))}
        while folders:
            for entry in _entries(folders.pop()):
                status = _status(entry.path)
                if status is None or inode_of(status) in spared:
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

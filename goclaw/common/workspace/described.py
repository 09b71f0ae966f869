"""Descriptions of files and folders: kind, version, content read or written."""

import hashlib
import os
import stat
from typing import BinaryIO

from goclaw.common.core.records import record
from goclaw.errors import ToolError

_HASHED_AT_ONCE = 1 << 20
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


class FileChanged(ToolError):
    """A file was changed between the look at it and the write that rests on it."""

    def __init__(self, path: str) -> None:
        super().__init__(f"the file changed since it was read: {path}")
        self.path = path


@record
class FileStamp:
    """The marks that tell one state of a file from the next; see `Workspace.write_bytes`."""

    inode: tuple[int, int]
    size: int
    modified_ns: int


ABSENT = FileStamp((0, 0), 0, 0)
"""The version of a file that is not there."""


@record
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
    version: FileStamp


@record
class Opened:
    """An open regular file, as `Workspace.use` hands it to its reader."""

    file: BinaryIO
    stat: Stat


@record
class Written:
    """The outcome of `write_bytes`."""

    path: str
    size: int
    created: bool
    """False: a file was replaced."""


def fingerprint(opened: Opened) -> str:
    """Return the hash of the bytes of a file."""
    whole, left = hashlib.sha256(), opened.stat.size  # a file that grows meanwhile has no end
    while left > 0 and (part := opened.file.read(min(left, _HASHED_AT_ONCE))):
        whole.update(part)
        left -= len(part)
    return f"sha256:{whole.hexdigest()}"


def read_whole(opened: Opened, limit: int) -> bytes:
    """Return all bytes of a file; a `ToolError` when it has more than `limit`."""
    # The size is asked first so that a sparse file of terabytes costs nothing; a growing file is cut at the bound.
    data = opened.file.read(limit + 1) if opened.stat.size <= limit else b""
    if opened.stat.size > limit or len(data) > limit:
        raise ToolError(
            f"file too large: {opened.stat.path} has {max(opened.stat.size, len(data))} bytes, the limit is {limit}"
        )
    return data


def describe(name: str, found: os.stat_result) -> Stat:
    """Describe a file by its relative path and its `stat`."""
    return Stat(
        path=name,
        size=found.st_size,
        mode=stat.S_IMODE(found.st_mode),
        modified=found.st_mtime,
        is_folder=stat.S_ISDIR(found.st_mode),
        version=version_of(found),
    )


def status_at(folder: int, name: str) -> os.stat_result | None:
    """Return the status of a name in a folder descriptor, a link's own; None: nothing has the name."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def version_of(found: os.stat_result) -> FileStamp:
    """Return the version of a file."""
    return FileStamp((found.st_dev, found.st_ino), found.st_size, found.st_mtime_ns)


def refuse_kind(found: os.stat_result, path: str, *, folder_too: bool = False) -> None:
    """Check that something is a regular file or, with `folder_too`, a folder.

    Raises:
        ToolError: it is something else.
    """
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFREG or (folder_too and kind == stat.S_IFDIR):
        return
    if kind == stat.S_IFDIR:
        raise ToolError(f"is a directory: {path}") from IsADirectoryError()
    raise ToolError(f"not a regular file: {path} ({_KINDS.get(kind, 'something else')})")

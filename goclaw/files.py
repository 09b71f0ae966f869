"""Files that are on disk whole or not at all, and one writer at a time where several programs of ours change one.

A file is written beside its place and gets its name when it is whole. Agents' files are written by `workspace.atomic`,
which follows no link on the way to them.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """One writer at a time, by a lock on the folder (the file itself is replaced). On disk when the block ends.

    Raises:
        OSError: the folder cannot be used.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(
    path: Path, content: str | bytes, *, mode: int = 0o600, fsync: bool = True, reuse: bool = False
) -> None:
    """Put a file with this content in the place of `path`.

    Args:
        path: its folder is not flushed; see `flush`.
        content: the whole of it.
        mode: of the file, less the umask.
        fsync: the content survives a power cut, not only kill -9.
        reuse: for the only writer: the file is written as `<name>.new`, so that a kill leaves one behind at most.

    Raises:
        OSError: it cannot be written; what was there before still is.
    """
    beside = path.with_name(f"{path.name}.new") if reuse else _free(path)
    with _written(beside, path, os.O_TRUNC if reuse else os.O_EXCL, mode, fsync, Path.replace) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def create_file(path: Path) -> Iterator[BinaryIO]:
    """Write a new file of mode 0600, which has its name when the block has ended; nothing is left where that fails.

    Raises:
        FileExistsError: there is one already, or by then.
        OSError: it cannot be written.
    """
    with _written(_free(path), path, os.O_EXCL, 0o600, True, publish) as file:
        yield file


def publish(finished: Path, path: Path) -> None:
    """Give a finished file its name.

    Raises:
        FileExistsError: something has that name; the finished file stays where it is.
    """
    try:
        path.hardlink_to(finished)  # a renamed file would take the place of one that appeared meanwhile
    except FileExistsError:
        raise
    except OSError:
        # A file system without links. The first to make the empty file has the name.
        path.touch(mode=0o600, exist_ok=False)
        finished.replace(path)
    else:
        finished.unlink()


def flush(path: Path) -> None:
    """Have a file on disk, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free(path: Path) -> Path:
    return path.with_name(f".goclaw-{os.urandom(8).hex()}.tmp")


@contextmanager
def _written(
    beside: Path, path: Path, how: int, mode: int, fsync: bool, name: Callable[[Path, Path], object]
) -> Iterator[BinaryIO]:
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | how | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if fsync:
                file.flush()
                os.fsync(file.fileno())
        name(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise

"""Files on disk: written whole or not at all, by one writer at a time; read bounded, as text, with words for people.

A file is written next to its place and gets its name when it is whole. Agents' files are written by `workspace.atomic`,
which follows no link on the way to them. Files that a person wrote are read here: one that is too large, binary or
not UTF-8 is a `ConfigError` of one line.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

from goclaw.errors import ConfigError

Writer = Callable[[Path], AbstractContextManager[None]]
"""Lets one writer at a time change a file of the state folder. In the block the file is up to date; what it is at the
end of the block counts. Raises `OSError`, and `StateError` where a store has the file, too."""


def lock_folder(path: Path) -> AbstractContextManager[None]:
    """Lock the folder of a file: the `Writer` for files that are on this machine alone."""
    return only_writer(path.parent)


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
        reuse: for the only writer: the file is written as `<name>.new`, so that a kill leaves at most one.

    Raises:
        OSError: it cannot be written; the old content is still there.
    """
    beside = path.with_name(f"{path.name}.new") if reuse else _free(path)
    with _write_beside(beside, path, os.O_TRUNC if reuse else os.O_EXCL, mode, fsync, Path.replace) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def create_file(path: Path) -> Iterator[BinaryIO]:
    """Write a new file of mode 0600, which has its name when the block has ended; nothing is left where that fails.

    Raises:
        FileExistsError: there is one already, or by then.
        OSError: it cannot be written.
    """
    with _write_beside(_free(path), path, os.O_EXCL, 0o600, True, publish) as file:
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
def _write_beside(
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


def read_text(path: Path, shown: str, limit: int) -> str:
    """Read the text of a file.

    Raises:
        ConfigError: one line that says why it cannot be read.
    """
    return decode(read_bytes(path, shown, limit), shown)


def read_bytes(path: Path, shown: str, limit: int) -> bytes:
    """Read a file of at most `limit` bytes.

    Raises:
        ConfigError: one line that says why it cannot be read.
    """
    try:
        # Opening a pipe would block.
        if path.is_fifo() or path.is_dir():
            raise ConfigError(f"{shown}: is not a file")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read: {error.strerror}") from None
    if len(content) > limit:
        raise ConfigError(f"{shown}: larger than {limit:,} bytes; is it the right file?")
    return content


def decode(content: bytes, shown: str) -> str:
    """Return the text that a file's content is.

    Raises:
        ConfigError: it is binary or not UTF-8.
    """
    if b"\0" in content:
        raise ConfigError(f"{shown}: not a text file (it contains binary data)")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise ConfigError(f"{shown}:{line}:{column}: not UTF-8 text; save the file as UTF-8") from None


def lies_inside(path: Path, folder: Path) -> bool:
    """Whether `path` is `folder` or below it, links followed; also for what does not exist, or is a loop of links."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def shown_path(path: Path) -> str:
    """Return the path as people read it: relative where that is inside the current folder."""
    return str(path.relative_to(Path.cwd()) if path.is_absolute() and path.is_relative_to(Path.cwd()) else path)


def readable_by_others(path: Path) -> int:
    """Return the file's mode when group or others may read or change it and its folder lets them in; else 0."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        folder = path.parent.stat().st_mode
    except OSError:
        return 0
    group = mode & 0o060 and folder & 0o010
    others = mode & 0o006 and folder & 0o001
    return mode if group or others else 0


class FileLook:
    """Tells by a look at a file's entry whether the file must be read again.

    A version counts as known from the second look on: two writes within one tick of the file system's clock may leave
    the same size and the same times. A look is one call of the kernel, a tenth of the cost of a hop to a thread.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self._is_known = False

    def is_due(self) -> bool:
        """Whether the file, or that it is missing, was not yet read as it is now."""
        version = file_version(self._path)
        if version == self._seen and self._is_known:
            return False
        self._is_known, self._seen = version == self._seen, version
        return True

    def forget(self) -> None:
        """Have it read at the next look, whatever its version: it could not be read."""
        self._seen, self._is_known = None, False


def file_version(path: Path) -> tuple[int, ...]:
    """Return what changes whenever a file is replaced or written (inode, size, times); empty: it is not there."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

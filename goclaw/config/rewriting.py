"""Writing small files that several programs of ours change: one writer at a time, all of it or nothing."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the lock on the folder (the file itself is replaced) for a single writer. On disk when the block ends.

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


def replace(target: Path, text: str) -> None:
    """Put a file with this text (mode 0600) in the place of `target`.

    Raises:
        OSError: it cannot be written; what was there before still is.
    """
    # Files of tempfile have mode 0600.
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

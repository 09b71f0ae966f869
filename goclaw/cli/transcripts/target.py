"""The target of a transcript: standard output, or a new file that is complete when it gets its name."""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from goclaw.errors import StateError

STDOUT = "-"


class OutputFile(Protocol):
    """The type of `open` for writing text."""

    def write(self, text: str, /) -> int: ...


@contextmanager
def open_target(name: str) -> Iterator[OutputFile]:
    """Open the new file `name` (mode 0600: it holds a conversation), or standard output for `-`.

    Raises:
        StateError: it exists, or cannot be written. Nothing half-written is left.
    """
    if name == STDOUT:
        yield sys.stdout
        return
    path = Path(name).expanduser()
    if path.exists() or path.is_symlink():
        raise _exists(path)
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _publish(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror or error}") from error


def _publish(part: Path, path: Path) -> None:
    try:
        path.hardlink_to(part)
    except FileExistsError:
        raise _exists(path) from None
    except OSError:
        # A file system without links. The first to make the empty file has the name.
        try:
            path.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            raise _exists(path) from None
        part.replace(path)


def _exists(path: Path) -> StateError:
    return StateError(f"{path}: exists already; name another file, nothing is overwritten")

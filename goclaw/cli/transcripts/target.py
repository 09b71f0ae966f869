"""The target of a transcript: standard output, or a new file that is complete when it gets its name."""

import sys
from codecs import getwriter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from goclaw.errors import StateError
from goclaw.files import create_file

STDOUT = "-"


class OutputFile(Protocol):
    """The type of `open` for writing text."""

    def write(self, text: str, /) -> object: ...


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
    try:
        with create_file(path) as file:
            yield getwriter("utf-8")(file)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror or error}") from error


def _exists(path: Path) -> StateError:
    return StateError(f"{path}: exists already; name another file, nothing is overwritten")

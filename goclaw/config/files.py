"""Reading files that a person wrote: bounded, as text, with a line for people when that fails."""

import os
import stat
from pathlib import Path

from goclaw.errors import ConfigError


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
        raise ConfigError(f"{shown}: not a text file (it holds binary data)")
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

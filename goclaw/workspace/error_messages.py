"""The messages for the kernel's errors about a path, as the tools' contract words them."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from goclaw.errors import ToolError

_FORBIDDEN = "permission denied: {path}"
_FOLDER = "is a directory: {path}"
_NO_FILE = "not a regular file: {path}"
_FULL = "no space left for {path}"
_WORDS = {
    errno.ENOENT: "file not found: {path}",
    errno.ENOTDIR: "file not found: {path} (a part of the path is not a directory)",
    errno.EXDEV: "path traversal detected: {path}",
    errno.ELOOP: "path traversal detected: {path} (symbolic links that cannot be followed)",
    errno.ENOLINK: "is a dangling symbolic link: {path}",
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: _FORBIDDEN,
    errno.EISDIR: _FOLDER,
    errno.ENOTEMPTY: _FOLDER,
    errno.ENAMETOOLONG: "path is too long: {beginning}…",
    errno.ENXIO: _NO_FILE,
    errno.ENODEV: _NO_FILE,
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
}
"""By what the kernel says (errno(3))."""


@contextmanager
def in_words(path: str) -> Iterator[None]:
    """Turn what the kernel says into the error texts that tools promise."""
    try:
        yield
    except OSError as error:
        raise ToolError(_sentence(error, path)) from error


def _sentence(error: OSError, path: str) -> str:
    words = _WORDS.get(error.errno or 0)
    return words.format(path=path, beginning=path[:80]) if words else f"{path}: {error.strerror}"

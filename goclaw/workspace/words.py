"""What the kernel says about a path, in the words that tools promise."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from goclaw.errors import ToolError


@contextmanager
def in_words(path: str) -> Iterator[None]:
    """Turn what the kernel says into the error texts that tools promise."""
    try:
        yield
    except OSError as error:
        raise ToolError(_sentence(error, path)) from error


def _sentence(error: OSError, path: str) -> str:
    match error.errno:
        case errno.ENOENT:
            return f"file not found: {path}"
        case errno.ENOTDIR:
            return f"file not found: {path} (a part of the path is not a directory)"
        case errno.EXDEV:
            return f"path traversal detected: {path}"
        case errno.ELOOP:
            return f"path traversal detected: {path} (symbolic links that cannot be followed)"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"permission denied: {path}"
        case errno.EISDIR | errno.ENOTEMPTY:
            return f"is a directory: {path}"
        case errno.ENAMETOOLONG:
            return f"path is too long: {path[:80]}…"
        case errno.ENXIO | errno.ENODEV:
            return f"not a regular file: {path}"
        case errno.ENOSPC | errno.EDQUOT:
            return f"no space left for {path}"
        case _:
            return f"{path}: {error.strerror}"

"""What a model calls a path becomes a relative path below the workspace, or an error in words."""

import os
import unicodedata

from goclaw.errors import ToolError

_LONGEST = 4096  # PATH_MAX of Linux
_SHOWN = 80


def clean(path: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    """The relative paths that `path` may mean, best first: composed Unicode (NFC), then exactly as it was written.

    Both are tried because a file made by a command may carry either form; each goes through the same guard. An
    absolute path is accepted below one of `roots` (the workspace as configured and as resolved). `..` is resolved by
    the text alone, so that a symbolic link cannot change what it means. The workspace itself is `.`.

    Raises:
        ToolError: `path traversal detected: …`, or the path holds characters that no file of ours has.
    """
    if not path.strip():
        raise ToolError("path is empty")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in path):
        raise ToolError(f"path contains control characters: {path[:_SHOWN]!r}")
    if len(os.fsencode(path)) >= _LONGEST:
        raise ToolError(f"path is too long: {path[:_SHOWN]}…")
    spellings = dict.fromkeys((unicodedata.normalize("NFC", path), path))
    return tuple(dict.fromkeys(_relative(spelling, roots, path) for spelling in spellings))


def without_mark(path: str, roots: tuple[str, ...]) -> str:
    """What `@path` names, as people write a file's name into a message: the path, from the workspace on.

    `@"a path"` has white space in it; `@` alone is the workspace (tool-system contract: "a leading @ expands to the
    current working directory").
    """
    inside = path.removeprefix("@")
    if len(inside) > 1 and inside[0] == inside[-1] and inside[0] in "\"'":
        inside = inside[1:-1]
    if not any(inside == root or inside.startswith(f"{root.rstrip('/')}/") for root in roots):
        inside = inside.lstrip("/")
    return inside or "."


def _relative(path: str, roots: tuple[str, ...], shown: str) -> str:
    if path.startswith("/"):
        path = _below(os.path.normpath(path), roots, shown)
    relative = os.path.normpath(path)
    if relative == ".." or relative.startswith(("../", "/")):
        raise ToolError(f"path traversal detected: {shown}")
    return relative


def _below(path: str, roots: tuple[str, ...], shown: str) -> str:
    # POSIX lets normpath keep two leading slashes.
    path = "/" + path.lstrip("/")
    for root in roots:
        if path == root:
            return "."
        if path.startswith(root.rstrip("/") + "/"):
            return path[len(root.rstrip("/")) + 1 :]
    raise ToolError(f"path traversal detected: {shown}")

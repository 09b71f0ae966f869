"""Paths as models write them: made relative to the workspace, worded in errors, and the nearest one to a misspelt path.

Each becomes a relative path below the workspace, or an error as the tools' contract words it.
"""

import errno
import os
import posixpath
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path

from goclaw.common.workspace.shared import SHARED
from goclaw.errors import ToolError

_MAX_BYTES = 4096  # PATH_MAX of Linux, with its end
_MAX_NAME = 255  # NAME_MAX
_REVERSING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""They make a name look like another one, also in an approval request."""
_REFUSED = frozenset(("Cc", "Cs", "Zl", "Zp"))
"""Control characters, halves of characters, ends of lines and paragraphs."""
_SHOWN = 80


Roots = Mapping[str, str]
"""Absolute paths of folders, each with the relative path that a workspace shows it under."""


def roots_of(root: Path, shared: Path | None) -> Roots:
    """Return the folders of a workspace, as configured and as resolved: its own, and the one that it shares."""
    shown = {root: "."} | ({shared: SHARED} if shared else {})
    return {form(folder): name for folder, name in shown.items() for form in (os.path.normpath, os.path.realpath)}


def clean(path: str, roots: Roots) -> tuple[str, ...]:
    """Return the possible relative paths, best first: composed Unicode (NFC), as written, decomposed (NFD).

    All are tried because a file made by a command, or on a Mac, may carry any form; each goes through the same guard.
    An absolute path is accepted below one of `roots`. `..` is resolved by the text alone, so that a symbolic link
    cannot change its meaning. The workspace itself is `.`.

    Raises:
        ToolError: `path traversal detected: …`, or the path holds characters that no file of ours has.
    """
    if not path.strip():
        raise ToolError("path is empty")
    if path.isascii() and path.isprintable():
        spellings: tuple[str, ...] = (path,)
    elif any(unicodedata.category(character) in _REFUSED or character in _REVERSING for character in path):
        raise ToolError(f"path contains control characters: {path[:_SHOWN]!r}")
    else:
        spellings = (unicodedata.normalize("NFC", path), path, unicodedata.normalize("NFD", path))
    if any(map(_is_too_long, spellings)):
        raise ToolError(f"path is too long: {path[:_SHOWN]}…")
    return tuple(dict.fromkeys(_relative(spelling, roots, path) for spelling in spellings))


def choose_spelling(names: tuple[str, ...], is_there: Callable[[str], bool]) -> str:
    """Choose a spelling of a path: the one that exists, else the one of each folder that does."""
    if found := next(filter(is_there, names), ""):
        return found
    for parts in zip(*(name.split("/") for name in names), strict=True):
        ways = [posixpath.join(found, part) for part in dict.fromkeys(parts)]
        found = next(filter(is_there, ways), ways[0]) if len(ways) > 1 else ways[0]
    return found


def check_names_a_file(path: str) -> None:
    """Check that `path` can be a file to write.

    Raises:
        ToolError: it ends as the names of folders do.
    """
    if path.rpartition("/")[2] in ("", ".", ".."):
        raise ToolError(f"is a directory: {path} (a file in it needs a name)")


def without_mark(path: str, roots: Roots) -> str:
    """Return the path of `@path`, as people write a file's name into a message, relative to the workspace.

    `@"a path"` has white space in it; `@` alone is the workspace (tool-system contract: "a leading @ expands to the
    current working directory").
    """
    inside = path.removeprefix("@")
    if len(inside) > 1 and inside[0] == inside[-1] and inside[0] in "\"'":
        inside = inside[1:-1]
    if not any(inside == root or inside.startswith(f"{root.rstrip('/')}/") for root in roots):
        inside = inside.lstrip("/")
    return inside or "."


def _is_too_long(path: str) -> bool:
    # Asked first, so that a write does not make folders for a name that then cannot be.
    encoded = os.fsencode(path)
    return len(encoded) >= _MAX_BYTES or any(len(name) > _MAX_NAME for name in encoded.split(b"/"))


def _relative(path: str, roots: Roots, shown: str) -> str:
    if path.startswith("/"):
        path = _below(os.path.normpath(path), roots, shown)
    relative = os.path.normpath(path)
    if relative == ".." or relative.startswith(("../", "/")):
        raise ToolError(f"path traversal detected: {shown}")
    return relative


def _below(path: str, roots: Roots, shown: str) -> str:
    # POSIX lets normpath keep two leading slashes.
    path = "/" + path.lstrip("/")
    for root, name in roots.items():
        if path == root:
            return name
        if path.startswith(root.rstrip("/") + "/"):
            return posixpath.join(name, path[len(root.rstrip("/")) + 1 :])
    raise ToolError(f"path traversal detected: {shown}")


FOLDER = "folder"
"""The state of a folder (`Workspace.fingerprints`)."""
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
    """Turn the kernel's errors into the error texts that tools promise."""
    try:
        yield
    except OSError as error:
        words = _WORDS.get(error.errno or 0)
        shown = words.format(path=path, beginning=path[:80]) if words else f"{path}: {error.strerror}"
        raise ToolError(shown) from error


CLOSE = 0.75
"""Likeness of names (difflib's ratio) from which one is offered."""
SURE, APART = 0.85, 0.05
"""From where it is taken for what was meant, and how far it has to be ahead of the next."""
_MAX_COMPARED = 300


def nearest(path: str, paths: Sequence[str]) -> tuple[str, bool]:
    """Return the file of `paths` most like `path`, empty if none is, and whether it is the only candidate.

    A file of the very same name in another folder counts as close: people misremember folders.
    """
    if len(path) > _MAX_COMPARED:
        return "", False
    name = path.rpartition("/")[2].casefold()
    by_name: dict[str, list[str]] = {}
    for each in paths:
        if not each.endswith("/"):
            by_name.setdefault(each.rpartition("/")[2].casefold(), []).append(each)
    close = [each for found in get_close_matches(name, by_name, n=5, cutoff=CLOSE) for each in by_name[found]]
    ranked = sorted(((_likeness(path, each), each) for each in close), reverse=True)
    if not ranked:
        return "", False
    best, second = ranked[0][0], ranked[1][0] if len(ranked) > 1 else 0.0
    return ranked[0][1], best >= SURE and best - second >= APART


def _likeness(path: str, other: str) -> float:
    """Return the likeness of the path or of its name, whichever is greater; a name alone counts for less."""
    one, two = path.casefold(), other.casefold()
    whole = SequenceMatcher(None, one, two).ratio()
    names = SequenceMatcher(None, one.rpartition("/")[2], two.rpartition("/")[2]).ratio()
    return max(whole, 0.9 * names)

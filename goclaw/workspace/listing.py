"""Every path of a workspace that a person may want to name, within bounds; nothing is ranked or kept here."""

import os
import stat
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from goclaw.workspace.beneath import open_beneath
from goclaw.workspace.globs import names_in
from goclaw.workspace.ignored import LONGEST, Ignored

MOST_PATHS = 10_000
_DEEPEST = 24
_NEVER = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
"""What programs keep for themselves, whether or not a `.gitignore` says so."""


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    names: tuple[str, ...]
    ignored: Ignored | None


def listing(root: int, denied: set[tuple[int, int]], *, by_walk: bool, most: int = MOST_PATHS) -> list[str]:
    """Files and folders (with a `/` at the end) below the folder `root`, near ones first, at most so many.

    What begins with a dot comes last. Symbolic links are passed over, what a `.gitignore` names is, too, and every file
    of `denied` (device and inode). Names that no tool would take, with control characters in them, are no paths.
    """
    found: list[str] = []
    folders, hidden = deque([_Folder("", (), None)]), deque[_Folder]()
    while len(found) < most and (folders or hidden):
        folder = folders.popleft() if folders else hidden.popleft()
        for path, below in _inside(root, folder, denied, by_walk, most - len(found)):
            if below and len(below.names) < _DEEPEST:
                (hidden if below.path.startswith(".") or "/." in below.path else folders).append(below)
            found.append(path)
    return found


def listing_of(root: int, path: str, denied: set[tuple[int, int]], *, by_walk: bool, most: int) -> list[str]:
    """What lies in the folder `path`, ignored or not."""
    inside = _inside(root, _Folder(f"{path}/", (), None), denied, by_walk, most, whatever=True)
    return [found for found, _ in inside]


def _inside(
    root: int, folder: _Folder, denied: set[tuple[int, int]], by_walk: bool, most: int, *, whatever: bool = False
) -> Iterator[tuple[str, _Folder | None]]:
    """The paths in a folder, each with the folder that it is."""
    entries = names_in(root, folder.path.removesuffix("/"), by_walk=by_walk, most=most)
    ignored = folder.ignored
    if not whatever and any(name == ".gitignore" for name, _, _ in entries):
        ignored = Ignored(folder.names, _text(root, f"{folder.path}.gitignore", by_walk), ignored)
    for name, is_folder, found in entries:
        if not name.isprintable() or not (is_folder or found) or (found and (found.st_dev, found.st_ino) in denied):
            continue
        names = (*folder.names, name)
        if not whatever and (name in _NEVER or (ignored and ignored.hides(names, is_folder=is_folder))):
            continue
        path = f"{folder.path}{name}/" if is_folder else f"{folder.path}{name}"
        yield path, _Folder(path, names, ignored) if is_folder else None


def _text(root: int, path: str, by_walk: bool) -> str:
    """The beginning of a `.gitignore`; nothing when it is a link, a pipe, or not readable."""
    try:
        descriptor = open_beneath(root, path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, by_walk=by_walk)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return file.read(LONGEST).decode(errors="replace")

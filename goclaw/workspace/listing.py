"""Every path of a workspace that a person may want to name, within bounds; nothing is ranked or kept here."""

import os
import stat
from collections import deque
from collections.abc import Iterator

from goclaw.records import record
from goclaw.workspace.globs import Sight
from goclaw.workspace.ignored import MAX_CHARACTERS, Ignored
from goclaw.workspace.path_resolver import PathResolver

MAX_PATHS = 10_000
_DEEPEST = 24
NEVER = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
"""Folders that programs keep for themselves, hidden even without a `.gitignore`."""


@record
class _Folder:
    path: str
    names: tuple[str, ...]
    ignored: Ignored | None


def listing(resolver: PathResolver, most: int = MAX_PATHS) -> list[str]:
    """Return files and folders (with a `/` at the end) of the workspace, near ones first, at most `most`.

    What begins with a dot comes last. Symbolic links are passed over, what a `.gitignore` names is, too, and every file
    that may not be seen. Names that no tool would take, with control characters in them, are no paths.
    """
    sight, found = Sight(resolver), list[str]()
    folders, hidden = deque([_Folder("", (), None)]), deque[_Folder]()
    while len(found) < most and (folders or hidden):
        folder = folders.popleft() if folders else hidden.popleft()
        for path, below in _inside(sight, folder, most - len(found)):
            if below and len(below.names) < _DEEPEST:
                (hidden if below.path.startswith(".") or "/." in below.path else folders).append(below)
            found.append(path)
    return found


def listing_of(resolver: PathResolver, path: str, most: int) -> list[str]:
    """Return the paths in the folder `path`, ignored or not."""
    return [found for found, _ in _inside(Sight(resolver), _Folder(f"{path}/", (), None), most, whatever=True)]


def _inside(
    sight: Sight, folder: _Folder, most: int, *, whatever: bool = False
) -> Iterator[tuple[str, _Folder | None]]:
    """Yield the paths in a folder, each with its folder if it is one."""
    entries = sight.names_in(folder.path.removesuffix("/"), most)
    ignored = folder.ignored
    if not whatever and any(name == ".gitignore" for name, _, _ in entries):
        ignored = rules_in(sight.resolver, folder.names, ignored)
    for name, is_folder, found in entries:
        if not name.isprintable() or not (is_folder or found):
            continue
        names = (*folder.names, name)
        if not whatever and (name in NEVER or (ignored and ignored.hides(names, is_folder=is_folder))):
            continue
        path = f"{folder.path}{name}/" if is_folder else f"{folder.path}{name}"
        yield path, _Folder(path, names, ignored) if is_folder else None


def rules_in(resolver: PathResolver, folder: tuple[str, ...], above: Ignored | None) -> Ignored | None:
    """Return the ignore rules of a folder: its own `.gitignore`, and those above."""
    text = _text(resolver, "/".join((*folder, ".gitignore")))
    return Ignored(folder, text, above) if text else above


def _text(resolver: PathResolver, path: str) -> str:
    """Return the beginning of a `.gitignore`; empty when it is a link, a pipe, or not readable."""
    try:
        with resolver.place(path) as place:
            descriptor, found = resolver.open(place, os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(MAX_CHARACTERS).decode(errors="replace") if stat.S_ISREG(found.st_mode) else ""
    except OSError:
        return ""

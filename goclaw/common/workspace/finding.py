"""Finds files below a folder: by globs, every path to choose from, or by a query. Bounded; links are not followed.

Files that git ignores are left out of queries and lists unless asked for; so are the folders that programs keep for
themselves. Nothing is ranked or kept here.
"""

import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice

from goclaw.common.core.records import record
from goclaw.common.workspace.atomic import is_temporary
from goclaw.common.workspace.forbidden_files import Inode, inode_of
from goclaw.common.workspace.notes import ABOVE, SHOWN_AS, USERS, parts_of_note
from goclaw.common.workspace.path_resolver import PathResolver
from goclaw.common.workspace.patterns import MAX_IGNORE_FILE, Ignored, Pattern
from goclaw.common.workspace.shared import SHARED

_DEEPEST_GLOB = 24
_WILDCARDS = re.compile(r"[*?[]")

Name = tuple[str, bool, os.stat_result | None]
"""A name in a folder; whether it is a folder; its stat when it is a regular file."""


@record
class GlobMatch:
    """A regular file that a pattern matched."""

    path: str
    """Relative to the workspace."""
    size: int
    modified: float
    """Seconds since the epoch."""
    inode: tuple[int, int]
    """(device, inode)."""


class Sight:
    """The visibility of files in one listing: the hidden files are looked up once, and only if needed."""

    def __init__(self, resolver: PathResolver) -> None:
        self.resolver = resolver

    @cached_property
    def _forbidden(self) -> set[Inode]:
        return self.resolver.forbidden()

    @cached_property
    def _named(self) -> set[Inode]:
        return self.resolver.workspace_root.denied.named()

    def shows(self, found: os.stat_result, *, crossed: bool) -> bool:
        """Whether this file may be seen."""
        inode = inode_of(found)
        return inode not in self._named and not ((crossed or found.st_nlink > 1) and inode in self._forbidden)

    def is_the_shared(self, names: Sequence[str]) -> bool:
        """Whether this path is the shared folder, where only its own `.gitignore` counts."""
        return len(names) == 1 and names[0] == SHARED and self.resolver.shared is not None

    def has_folder(self, path: str) -> bool:
        """Whether there is this folder, and no link in its place; of the folder above that is known by now."""
        if is_temporary(path.rpartition("/")[2]):
            return False  # half-written, or left by a kill
        try:
            os.close(self.resolver.folder(path, os.O_PATH)[0])
        except OSError:
            return path == ABOVE and self.resolver.notes.are_any
        return True

    def names_in(self, below: str, most: int | None = None) -> list[Name]:
        """Return the names in a folder, sorted, at most `most`.

        Links and special files are left out; a folder that is gone or may not be read has no names.
        """
        notes = self.resolver.notes
        found = self._names_on_disk(below, most)
        if not below and self.resolver.shared:
            found = [name for name in found if name[0] != SHARED] + [(SHARED, True, None)]
        elif below == f"{SHARED}/{ABOVE}" and self.resolver.shared:
            found = [name for name in found if name[0] != SHOWN_AS]
        if below == ABOVE:
            # What a command put there under that name is not what the name stands for.
            found = [name for name in found if name[0] != SHOWN_AS]
            found += [(SHOWN_AS, True, None)] if notes.are_any else []
        elif below == USERS:
            found = [name for name in found if notes.shows(name[0])]
        elif not below and all(name[0] != ABOVE for name in found) and notes.are_any:
            found.append((ABOVE, True, None))
        return sorted(found, key=lambda item: item[0])

    def _names_on_disk(self, below: str, most: int | None) -> list[Name]:
        try:
            folder, crossed = self.resolver.folder(below)
        except OSError:
            return []  # gone, forbidden or no folder: nothing to list
        try:
            with os.scandir(folder) as entries:
                found = [described for entry in islice(entries, most) if (described := _describe(entry)) is not None]
        finally:
            os.close(folder)
        if parts_of_note(below) is not None:
            return found
        return [name for name in found if name[2] is None or self.shows(name[2], crossed=crossed)]


def matches(sight: Sight, pattern: str) -> Iterator[GlobMatch]:
    """Regular files of the workspace that `pattern` names, in name order.

    `*`, `?` and `[…]` match within one name, `**` any number of folders; a pattern without wildcards is one file. A
    name that starts with a dot is matched only by a pattern part that starts with a dot. Symbolic links are skipped.
    """
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if parts[:2] == [ABOVE, SHOWN_AS] and parts[2:] and ".." not in parts:
        yield from _match(sight, USERS, parts[2:], _DEEPEST_GLOB)  # neither of them has to be looked for
    elif parts and ".." not in parts:
        yield from _match(sight, "", parts, _DEEPEST_GLOB)


def _match(sight: Sight, below: str, parts: list[str], depth: int) -> Iterator[GlobMatch]:
    part, rest = parts[0], parts[1:]
    if depth and rest and not _WILDCARDS.search(part):
        # A folder that is named is not looked for: the one above may have thousands of names.
        path = f"{below}/{part}" if below else part
        if sight.has_folder(path):
            yield from _match(sight, path, rest, depth - 1)
    elif depth:
        yield from _match_names(sight, below, parts, depth)


def _match_names(sight: Sight, below: str, parts: list[str], depth: int) -> Iterator[GlobMatch]:
    part, rest = parts[0], parts[1:]
    if part == "**":
        # Zero folders first, then each folder with the same pattern again.
        yield from _match(sight, below, rest or ["*"], depth)
    for name, is_folder, found in sight.names_in(below):
        path = f"{below}/{name}" if below else name
        if part == "**":
            if is_folder and not name.startswith("."):
                yield from _match(sight, path, parts, depth - 1)
        elif not fnmatchcase(name, part) or (name.startswith(".") and not part.startswith(".")):
            continue
        elif rest and is_folder:
            yield from _match(sight, path, rest, depth - 1)
        elif not rest and found is not None:
            yield GlobMatch(path, found.st_size, found.st_mtime, inode_of(found))


def _describe(entry: os.DirEntry[str]) -> Name | None:
    if is_temporary(entry.name):
        return None  # half-written, or left by a kill
    try:
        if entry.is_dir(follow_symlinks=False):
            return entry.name, True, None
        if entry.is_file(follow_symlinks=False):
            return entry.name, False, entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        pass  # removed while we looked
    return None


MAX_PATHS = 10_000
_DEEPEST_LISTED = 24
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
            if below and len(below.names) < _DEEPEST_LISTED:
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
    ignored = None if sight.is_the_shared(folder.names) else folder.ignored
    if not whatever and any(name == ".gitignore" for name, _, _ in entries):
        ignored = rules_in(sight.resolver, folder.names, ignored)
    for name, is_folder, found in entries:
        if not name.isprintable() or not (is_folder or found):
            continue
        names = (*folder.names, name)
        is_kept = whatever or sight.is_the_shared(names)
        if not is_kept and (name in NEVER or (ignored and ignored.hides(names, is_folder=is_folder))):
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
            return file.read(MAX_IGNORE_FILE).decode(errors="replace") if stat.S_ISREG(found.st_mode) else ""
    except OSError:
        return ""


DEEPEST = 64
"""Folders below each other that are looked into."""


@record
class FileQuery:
    """Which files are looked for."""

    folder: str = "."
    """Relative to the workspace."""
    patterns: Sequence[Pattern] = ()
    """One of them matches the path from `folder` on; none: every file."""
    exclude: Sequence[Pattern] = ()
    """Folders that are left out."""
    ignored: bool = False
    """Include files that git ignores."""
    recursive: bool = True

    def takes(self, names: Sequence[str]) -> bool:
        """Whether a file is wanted, by its path from `folder` on."""
        return not self.patterns or any(pattern.matches(names) for pattern in self.patterns)

    def enters(self, names: Sequence[str]) -> bool:
        """Whether a folder is looked into."""
        if any(pattern.matches(names) for pattern in self.exclude):
            return False
        return not self.patterns or any(pattern.may_match_below(names) for pattern in self.patterns)


@record
class FoundFiles:
    """The files found, in the order of folders."""

    entries: Sequence[GlobMatch]
    complete: bool
    """False: time or room ran out."""


def find(resolver: PathResolver, wanted: FileQuery, *, most: int, seconds: float) -> FoundFiles:
    """Find at most `most` files, within `seconds`. The folder itself may be ignored: naming it includes it."""
    entries: list[GlobMatch] = []
    for entry in _files(Tree(resolver, ignored=wanted.ignored), wanted, time.monotonic() + seconds):
        if entry is None or len(entries) >= most:
            return FoundFiles(entries, complete=False)
        entries.append(entry)
    return FoundFiles(entries, complete=True)


def _files(tree: "Tree", wanted: FileQuery, until: float) -> Iterator[GlobMatch | None]:
    """Yield the files; None when the time is up."""
    start = names_of(wanted.folder)
    folders: deque[tuple[str, ...]] = deque([()])
    while folders:
        below = folders.popleft()
        for name, is_folder, found in tree.sight.names_in("/".join((*start, *below))):
            names = (*below, name)
            if tree.hides((*start, *names), is_folder=is_folder):
                continue
            if found is not None and wanted.takes(names):
                yield GlobMatch("/".join((*start, *names)), found.st_size, found.st_mtime, inode_of(found))
            elif is_folder and wanted.recursive and len(names) < DEEPEST and wanted.enters(names):
                folders.append(names)
        if time.monotonic() > until:
            yield None


class Tree:
    """The ignore rules of a workspace; each `.gitignore` is read once."""

    def __init__(self, resolver: PathResolver, *, ignored: bool) -> None:
        self.sight = Sight(resolver)
        self._shows_all = ignored
        self._rules: dict[tuple[str, ...], Ignored | None] = {}

    def hides(self, names: Sequence[str], *, is_folder: bool) -> bool:
        """Whether a name is ignored, while the folders above it are not. The shared folder never is."""
        if self.sight.is_the_shared(names):
            return False
        if self._shows_all:
            return names[-1] == ".git"
        if names[-1] in NEVER:
            return True
        rules = self._rules_in(tuple(names[:-1]))
        return rules is not None and rules.hides(names, is_folder=is_folder)

    def hides_path(self, names: Sequence[str], start: int) -> bool:
        """Whether a file is ignored, or a folder above it; the first `start` names are not looked at."""
        return any(self.hides(names[:end], is_folder=end < len(names)) for end in range(start + 1, len(names) + 1))

    def _rules_in(self, folder: tuple[str, ...]) -> Ignored | None:
        if folder not in self._rules:
            above = self._rules_in(folder[:-1]) if folder and not self.sight.is_the_shared(folder) else None
            self._rules[folder] = rules_in(self.sight.resolver, folder, above)
        return self._rules[folder]


def names_of(path: str) -> tuple[str, ...]:
    """Return a relative path as names; none for `.`."""
    return tuple(name for name in path.split("/") if name not in ("", "."))

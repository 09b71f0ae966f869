"""A search for regular files below a folder, all or by a pattern: bounded in number and time, links not followed.

Files that git ignores are left out unless asked for; so are the folders that programs keep for themselves.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence

from goclaw.records import record
from goclaw.workspace.denylist import inode_of
from goclaw.workspace.globs import GlobMatch, Sight
from goclaw.workspace.ignored import Ignored
from goclaw.workspace.listing import NEVER, rules_in
from goclaw.workspace.path_resolver import PathResolver
from goclaw.workspace.patterns import Pattern

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
        """Whether a name is ignored, while the folders above it are not."""
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
            above = self._rules_in(folder[:-1]) if folder else None
            self._rules[folder] = rules_in(self.sight.resolver, folder, above)
        return self._rules[folder]


def names_of(path: str) -> tuple[str, ...]:
    """Return a relative path as names; none for `.`."""
    return tuple(name for name in path.split("/") if name not in ("", "."))

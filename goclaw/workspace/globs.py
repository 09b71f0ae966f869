"""Listing files of a workspace by patterns, without following links and within bounds."""

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice

from goclaw.records import record
from goclaw.workspace.atomic import is_temporary
from goclaw.workspace.denylist import Inode, inode_of
from goclaw.workspace.path_resolver import PathResolver

_DEEPEST = 24

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

    def names_in(self, below: str, most: int | None = None) -> list[Name]:
        """Return the names in a folder, sorted, at most `most`.

        Links and special files are left out; a folder that is gone or may not be read has no names.
        """
        resolver = self.resolver
        try:
            folder, crossed = resolver.folder(below)
        except OSError:
            return []  # gone, forbidden or no folder: nothing to list
        try:
            with os.scandir(folder) as entries:
                found = [described for entry in islice(entries, most) if (described := _describe(entry)) is not None]
            found = [name for name in found if name[2] is None or self.shows(name[2], crossed=crossed)]
            if resolver.viewer is not None and resolver.workspace_root.notes.are_in(inode_of(os.fstat(folder))):
                found = [name for name in found if name[0] == resolver.viewer]
        finally:
            os.close(folder)
        return sorted(found, key=lambda item: item[0])


def matches(sight: Sight, pattern: str) -> Iterator[GlobMatch]:
    """Regular files of the workspace that `pattern` names, in name order.

    `*`, `?` and `[…]` match within one name, `**` any number of folders; a pattern without wildcards is one file. A
    name that starts with a dot is matched only by a pattern part that starts with a dot. Symbolic links are skipped.
    """
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if parts and ".." not in parts:
        yield from _match(sight, "", parts, _DEEPEST)


def _match(sight: Sight, below: str, parts: list[str], depth: int) -> Iterator[GlobMatch]:
    if depth == 0:
        return
    part, rest = parts[0], parts[1:]
    if part == "**":
        # Zero folders first, then each folder with the same pattern again.
        yield from _match(sight, below, rest or ["*"], depth)
    for name, is_folder, found in sight.names_in(below):
        path = f"{below}/{name}" if below else name
        if part == "**":
            if is_folder and not name.startswith("."):
                yield from _match(sight, path, parts, depth - 1)
        elif not _fits(name, part):
            continue
        elif rest and is_folder:
            yield from _match(sight, path, rest, depth - 1)
        elif not rest and found is not None:
            yield GlobMatch(path, found.st_size, found.st_mtime, inode_of(found))


def _fits(name: str, part: str) -> bool:
    return fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))


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

"""Listing files below a folder descriptor by patterns, without following links and within bounds."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice

from goclaw.workspace.beneath import open_beneath

_DEEPEST = 24


@dataclass(frozen=True, slots=True)
class Entry:
    """A regular file that a pattern matched."""

    path: str
    """Relative to the workspace."""
    size: int
    modified: float
    """Seconds since the epoch."""
    inode: tuple[int, int]
    """(device, inode)."""


def matches(folder: int, pattern: str, *, by_walk: bool) -> Iterator[Entry]:
    """Regular files below `folder` that `pattern` names, in name order.

    `*`, `?` and `[…]` match within one name, `**` any number of folders; a pattern without wildcards is one file. A
    name that starts with a dot is matched only by a pattern part that starts with a dot. Symbolic links are skipped.
    """
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if parts and ".." not in parts:
        yield from _match(folder, "", parts, by_walk, _DEEPEST)


def _match(root: int, below: str, parts: list[str], by_walk: bool, depth: int) -> Iterator[Entry]:
    if depth == 0:
        return
    part, rest = parts[0], parts[1:]
    if part == "**":
        # Zero folders first, then each folder with the same pattern again.
        yield from _match(root, below, rest or ["*"], by_walk, depth)
    for name, is_folder, found in names_in(root, below, by_walk=by_walk):
        path = f"{below}/{name}" if below else name
        if part == "**":
            if is_folder and not name.startswith("."):
                yield from _match(root, path, parts, by_walk, depth - 1)
        elif not _fits(name, part):
            continue
        elif rest and is_folder:
            yield from _match(root, path, rest, by_walk, depth - 1)
        elif not rest and found is not None:
            yield Entry(path, found.st_size, found.st_mtime, (found.st_dev, found.st_ino))


def _fits(name: str, part: str) -> bool:
    return fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))


def names_in(
    root: int, below: str, *, by_walk: bool, most: int | None = None
) -> list[tuple[str, bool, os.stat_result | None]]:
    """Names in a folder (at most so many, in order); whether each is a folder; its stat when it is a regular file.

    Links and special files are passed over; a folder that is gone or cannot be read has no names.
    """
    try:
        folder = open_beneath(root, below or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, by_walk=by_walk)
    except OSError:
        return []  # gone, forbidden or no folder: nothing to list
    try:
        with os.scandir(folder) as entries:
            found = [described for entry in islice(entries, most) if (described := _describe(entry)) is not None]
    finally:
        os.close(folder)
    return sorted(found, key=lambda item: item[0])


def _describe(entry: os.DirEntry[str]) -> tuple[str, bool, os.stat_result | None] | None:
    try:
        if entry.is_dir(follow_symlinks=False):
            return entry.name, True, None
        if entry.is_file(follow_symlinks=False):
            return entry.name, False, entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        pass  # removed while we looked
    return None

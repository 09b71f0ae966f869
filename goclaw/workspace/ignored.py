"""The rules of a `.gitignore`, for lists that people choose from. It never decides about access.

The rules are those of gitignore(5): the last line that matches wins, `!` takes back, a pattern with a slash before its
end is bound to the file's own folder, one that ends in a slash means folders only, `**` is any number of folders.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase, translate
from typing import Self

from goclaw.records import record

MAX_CHARACTERS = 64 << 10
"""Bytes of a `.gitignore` that are read."""
_MAX_LINES, _MAX_LINE = 500, 250
"""Lines and characters per line: every name is matched against every line, which a hostile file could make slow."""
_ESCAPE = re.compile(r"\\(.)")
_TRAILING_SPACES = re.compile(r"(?<!\\)[ \t]+$")


class Ignored:
    """The rules of one `.gitignore` and of those in the folders above."""

    def __init__(self, folder: Sequence[str], text: str, above: Self | None = None) -> None:
        """`folder`: where the file lies, as names from the workspace down."""
        self._depth = len(folder)
        self._groups = _groups(text)
        self._above = above

    def hides(self, path: Sequence[str], *, is_folder: bool) -> bool:
        """Whether a path (names from the workspace down) is ignored, while the folders above it are not."""
        own = path[self._depth :]
        for group in self._groups:
            if (group.of_folders if is_folder else group.of_files).fit(own):
                return not group.takes_back
        return self._above is not None and self._above.hides(path, is_folder=is_folder)


@record
class _Line:
    pattern: str
    takes_back: bool
    only_folders: bool


@record
class _Bound:
    """A pattern with a slash before its end."""

    parts: tuple[str, ...]

    def fits(self, path: Sequence[str]) -> bool:
        """Whether the whole path fits; names are the cheapest way to say no."""
        if self.parts[-1] != "**" and not fnmatchcase(path[-1], self.parts[-1]):
            return False
        if "**" not in self.parts:
            return len(path) == len(self.parts) and all(map(fnmatchcase, path, self.parts))
        return self._fits_anywhere(path)

    def _fits_anywhere(self, path: Sequence[str]) -> bool:
        """Walk the path once, with every place in the pattern that it may have reached: `**` never backtracks."""
        places = self._passed_on({0})
        for name in path:
            reached = set[int]()
            for place in places - {len(self.parts)}:
                if self.parts[place] == "**":
                    reached |= {place} if place < len(self.parts) - 1 else {place, place + 1}
                elif fnmatchcase(name, self.parts[place]):
                    reached.add(place + 1)
            places = self._passed_on(reached)
        return len(self.parts) in places

    def _passed_on(self, places: set[int]) -> set[int]:
        """`**` may stand for no folder at all, but at the end it stands for something."""
        for place, part in enumerate(self.parts[:-1]):
            if place in places and part == "**":
                places.add(place + 1)
        return places


@record
class _Patterns:
    """The patterns of some lines, for files or for folders."""

    names: re.Pattern[str] | None
    paths: tuple[_Bound, ...]

    def fit(self, path: Sequence[str]) -> bool:
        if self.names is not None and self.names.match(path[-1]):
            return True
        return bool(self.paths) and any(bound.fits(path) for bound in self.paths)


@record
class _Group:
    """Lines that stand together and all ignore, or all take back."""

    takes_back: bool
    of_files: _Patterns
    of_folders: _Patterns


def _groups(text: str) -> list[_Group]:
    """Return the groups of lines, the last lines first: they take precedence."""
    groups: list[list[_Line]] = []
    for line in filter(None, map(_line, text.splitlines()[:_MAX_LINES])):
        if groups and groups[-1][-1].takes_back == line.takes_back:
            groups[-1].append(line)
        else:
            groups.append([line])
    return [
        _Group(lines[0].takes_back, _patterns([line for line in lines if not line.only_folders]), _patterns(lines))
        for lines in reversed(groups)
    ]


def _line(written: str) -> _Line | None:
    pattern = _TRAILING_SPACES.sub("", written)
    if not pattern or pattern.startswith("#") or len(pattern) > _MAX_LINE:
        return None
    takes_back = pattern.startswith("!")
    whole = pattern[takes_back:]
    pattern = whole.rstrip("/")
    return _Line(pattern, takes_back, only_folders=pattern != whole) if pattern else None


def _patterns(lines: Sequence[_Line]) -> _Patterns:
    names = [translate(_glob(line.pattern)) for line in lines if "/" not in line.pattern]
    paths = [line.pattern.lstrip("/").split("/") for line in lines if "/" in line.pattern]
    return _Patterns(
        re.compile("|".join(names)) if names else None,
        tuple(_Bound(tuple(map(_glob, parts))) for parts in paths),
    )


def _glob(pattern: str) -> str:
    """Return the glob as `fnmatch` writes it, whose expressions do not backtrack: `[!…]`, classes for backslashes."""
    return _ESCAPE.sub(lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], pattern).replace("[^", "[!")

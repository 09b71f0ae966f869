"""Globs as people and models write them, and the rules of a `.gitignore`, matched against a path name by name.

`*`, `?` and `[…]` match within one name, `**` any number of folders, `{a,b}` one of several. A pattern without a slash
is held against the name alone, wherever it lies. Composed and decomposed letters (NFC, NFD) are the same. Matching
takes a time in proportion to pattern and path.

The rules of a `.gitignore` are those of gitignore(5): the last line that matches wins, `!` takes back, a pattern with a
slash before its end is bound to the file's own folder, one that ends in a slash means folders only. They are for lists
that people choose from, and never decide about access.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase, translate
from typing import Self
from unicodedata import normalize

from goclaw.common.core.records import record

_BRACES = re.compile(r"\{([^{}]*)\}")
_CLASS = re.compile(r"\[[!^]?+\]?+[^\]]*\]")
"""Characters of which one has to be there, as `fnmatch` reads them: a `]` right at the beginning is one of them."""
_MAX_PATTERNS = 100
"""Patterns that braces may make of one."""
MAX_PATTERN = 1_000

MAX_IGNORE_FILE = 64 << 10
"""Bytes of a `.gitignore` that are read."""
_MAX_LINES, _MAX_LINE = 500, 250
"""Lines and characters per line: every name is matched against every line, which a hostile file could make slow."""
_ESCAPE = re.compile(r"\\(.)")
_TRAILING_SPACES = re.compile(r"(?<!\\)[ \t]+$")


def patterns(text: str) -> "list[Pattern]":
    """Parse a glob into patterns.

    Raises:
        ValueError: it is invalid, or leads out of the folder that it is matched in.
    """
    if not text.strip() or len(text) > MAX_PATTERN:
        raise ValueError(f"expected a glob of 1 to {MAX_PATTERN} characters")
    if "\0" in text or ".." in text.split("/") or text.startswith("/"):
        raise ValueError("expected a glob relative to the folder, without `..` (the folder is `path`)")
    each_way = _without_braces(text)
    for part in (part for each in each_way for part in each.split("/")):
        if "[" in _CLASS.sub("", part):
            raise ValueError(f"the [ in {part!r} is never closed; for a [ as it is, write [[]")
    return [Pattern(each) for each in each_way]


def _without_braces(text: str) -> list[str]:
    done, open_ = list[str](), [text]
    while open_:
        each = open_.pop()
        braces = _BRACES.search(each)
        if braces is None:
            done.append(each)
        else:
            open_ += [f"{each[: braces.start()]}{one}{each[braces.end() :]}" for one in braces[1].split(",")]
        if len(done) + len(open_) > _MAX_PATTERNS:
            raise ValueError(f"the braces stand for more than {_MAX_PATTERNS} patterns")
    return done


class Pattern:
    """One pattern without braces."""

    def __init__(self, text: str) -> None:
        self.text = text
        parts = [part for part in normalize("NFC", text).split("/") if part not in ("", ".")]
        if len(parts) < 2 and "/" not in text.strip("/") and parts != ["**"]:
            parts = ["**", *parts]
        if parts and parts[-1] == "**":
            parts.append("*")
        # `fnmatch` writes expressions that do not backtrack.
        self._parts = [None if part == "**" else re.compile(translate(part.replace("[^", "[!"))) for part in parts]

    def matches(self, names: Sequence[str]) -> bool:
        """Whether the whole path fits."""
        return len(self._parts) in self._places(names)

    def may_match_below(self, names: Sequence[str]) -> bool:
        """Whether something in this folder may fit."""
        return any(place < len(self._parts) for place in self._places(names))

    def _places(self, names: Sequence[str]) -> set[int]:
        """Return the places in the pattern that the path may have reached, for all ways together."""
        places = self._passed_on({0})
        for name in (each if each.isascii() else normalize("NFC", each) for each in names):
            reached = set[int]()
            for place in places - {len(self._parts)}:
                part = self._parts[place]
                if part is None:
                    reached.add(place)
                elif part.match(name):
                    reached.add(place + 1)
            places = self._passed_on(reached)
            if not places:
                break
        return places

    def _passed_on(self, places: set[int]) -> set[int]:
        """`**` may stand for no folder at all."""
        for place, part in enumerate(self._parts):
            if place in places and part is None:
                places.add(place + 1)
        return places


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
        # The path is walked once, with every place in the pattern that it may have reached: `**` never backtracks.
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
    bound = tuple(_Bound(tuple(map(_glob, parts))) for parts in paths)
    return _Patterns(re.compile("|".join(names)) if names else None, bound)


def _glob(pattern: str) -> str:
    """Return the glob as `fnmatch` writes it; its expressions do not backtrack: `[!…]`, classes for backslashes."""
    return _ESCAPE.sub(lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], pattern).replace("[^", "[!")

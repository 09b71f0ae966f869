"""A glob as people and models write them, matched against a path name by name.

`*`, `?` and `[…]` match within one name, `**` any number of folders, `{a,b}` one of several. A pattern without a slash
is held against the name alone, wherever it lies. Composed and decomposed letters (NFC, NFD) are the same. Matching
takes a time in proportion to pattern and path.
"""

import re
from collections.abc import Sequence
from fnmatch import translate
from unicodedata import normalize

_BRACES = re.compile(r"\{([^{}]*)\}")
_CLASS = re.compile(r"\[[!^]?+\]?+[^\]]*\]")
"""Characters of which one has to be there, as `fnmatch` reads them: a `]` right at the beginning is one of them."""
_MAX_PATTERNS = 100
"""Patterns that braces may make of one."""
MAX_CHARACTERS = 1_000


def patterns(text: str) -> "list[Pattern]":
    """Parse a glob into patterns.

    Raises:
        ValueError: it is invalid, or leads out of the folder that it is matched in.
    """
    if not text.strip() or len(text) > MAX_CHARACTERS:
        raise ValueError(f"expected a glob of 1 to {MAX_CHARACTERS} characters")
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
        """Return the places in the pattern that the path may have reached, all ways at once."""
        places = self._passed_on({0})
        for name in (each if each.isascii() else normalize("NFC", each) for each in names):
            places = self._passed_on({self._next(place) for place in places if self._fits(place, name)})
            if not places:
                break
        return places

    def _fits(self, place: int, name: str) -> bool:
        if place == len(self._parts):
            return False
        part = self._parts[place]
        return part is None or part.match(name) is not None

    def _next(self, place: int) -> int:
        return place if self._parts[place] is None else place + 1

    def _passed_on(self, places: set[int]) -> set[int]:
        """`**` may stand for no folder at all."""
        for place, part in enumerate(self._parts):
            if place in places and part is None:
                places.add(place + 1)
        return places

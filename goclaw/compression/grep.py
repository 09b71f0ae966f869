"""`grep` and `rg`: the matches of each file under its name, long lines cut.

With line numbers a line says by itself where it comes from. Without them only a search through folders is grouped:
`key: value` of a single file looks the same.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from goclaw.compression.base import Family, Shown, Words, essence, flags, shortened, signals

_NUMBERED = re.compile(r"([^:\0]{1,500}):(\d+):(.*)", re.DOTALL)
_NAMED = re.compile(r"([^:\0\s][^:\0]{0,499}):(.*)", re.DOTALL)
_BARE = re.compile(r"(\d+[:-])(.*)", re.DOTALL)
_AROUND = re.compile(r"-(\d+)-")
_SELF = re.compile("[efz]?grep|rg|Binary file .*")
"""In place of a file: the command itself has something to say."""
_NUMBERS = {"-n", "--line-number", "--vimgrep"}
_NAMES = {"-r", "-R", "-H", "--recursive", "--with-filename", "--dereference-recursive"}
_VALUED = {"-t", "-g", "-A", "-B", "-C", "-m", "--type", "--glob"}
"""Options of `rg` whose value is a word of its own."""
_OTHER_FORM = {"-Z", "-z", "--null", "--null-data", "--json", "--color", "--colour", "--heading", "--pretty", "-T"}


class _Found(NamedTuple):
    line: str
    path: str
    """Empty: not known to be of a file."""
    place: str
    """With the sign behind it: `12:` where something was found, `12-` near it."""
    text: str


def compress(lines: Sequence[str], words: Words) -> Shown | None:
    """Group matches by file; None for another format."""
    asked = flags(words)
    if asked & _OTHER_FORM:
        return None
    named = bool(asked & _NAMES) or _searches_folders(words)
    read = _with_gaps(list(_read(lines, numbered=bool(asked & _NUMBERS), named=named)))
    shown = [line for path, group in groupby(read, lambda each: each.path) for line in _group(path, list(group))]
    left_out = any(shortened(each.text) != each.text for each in read if each.place or each.path)
    return Shown(shown, left_out)


def _searches_folders(words: Words) -> bool:
    """Whether it is `rg` with a pattern and no place, which names files unasked."""
    plain = [word for last, word in pairwise(words) if not word.startswith("-") and last not in _VALUED]
    return words[0].rpartition("/")[2] == "rg" and len(plain) == 1


def _read(lines: Sequence[str], *, numbered: bool, named: bool) -> Iterator[_Found]:
    paths = {found[1] for line in lines if (found := _NUMBERED.fullmatch(line))} if numbered else set()
    for line in lines:
        if numbered and (found := _NUMBERED.fullmatch(line)) and _is_path(found[1]):
            yield _Found(line, found[1], f"{found[2]}:", found[3])
        elif numbered and (near := _near(line, paths)):
            yield near
        elif numbered and (found := _BARE.fullmatch(line)):
            yield _Found(line, "", found[1], found[2])
        elif not numbered and named and (found := _NAMED.fullmatch(line)) and _is_path(found[1]):
            yield _Found(line, found[1], "", found[2])
        else:
            yield _Found(line, "", "", line)


def _is_path(text: str) -> bool:
    """Whether it may be a file, and not `error` in `error: no such host`."""
    return not _SELF.fullmatch(text) and (not signals(text) or ("." in text and not re.search(r"\s", text)))


def _near(line: str, paths: set[str]) -> _Found | None:
    """Return a context line (`-C`), which only its file name distinguishes from other lines."""
    for found in _AROUND.finditer(line[:600]):
        if (path := line[: found.start()]) in paths:
            return _Found(line, path, f"{found[1]}-", line[found.end() :])
    return None


def _with_gaps(read: Sequence[_Found]) -> list[_Found]:
    """`--` between lines of one file belongs to that file."""
    around = zip(["", *(each.path for each in read)], read, [*(each.path for each in read[1:]), ""], strict=False)
    return [
        _Found("--", before, "", "--") if each.line == "--" and before == after else each
        for before, each, after in around
    ]


def _group(path: str, group: Sequence[_Found]) -> Iterator[str]:
    """Yield the lines of one file; unrecognised ones stay."""
    if not path:
        yield from (each.place + shortened(each.text) if each.place else each.line for each in group)
        return
    if len(group) == 1:
        yield f"{path}:{group[0].place}{shortened(group[0].text)}"
        return
    yield path
    yield from (f" {each.place}{shortened(each.text)}" for each in group)


def _essence(line: str) -> str:
    """Return the part of a line to keep, without a file name at its beginning, which stands above it."""
    for form in (_NUMBERED, _NAMED):
        if (found := form.fullmatch(line)) and signals(found[1]) and _is_path(found[1]):
            return essence(line[found.end(1) + 1 :])
    return essence(line)


FAMILY = Family("grouped by file", compress, essence=_essence)

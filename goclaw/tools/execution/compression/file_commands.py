"""Shorter output of `ls -l`, `cat`, `head`, `tail`, `grep` and `rg`.

ls: names only, and the columns requested by options. The size stays with `-h`, `-S` and their long forms, the time
with `-t`, `-c`, `-u`, `--full-time`. Folders get a slash. Output with further columns (`-i`, `-s`, `-Z`) is not
recognised and stays.
cat, head, tail: repeated lines once, with their number. Lines are numbered, as in the file, where that still saves
something: only for one file from a known line on. No shown line is cut, because the file was asked for to be read.
grep, rg: the matches of each file under its name, long lines cut. With line numbers a line says by itself where it
comes from; without them only a search through folders is grouped: `key: value` of a single file looks the same.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from goclaw.tools.execution.compression.base import (
    MAX_RECOGNISED,
    Family,
    Shown,
    Words,
    essence,
    flags,
    shorten,
    signals,
)

_ENTRY = re.compile(
    r"(?P<kind>[bcdlps-])[rwxsStT-]{9}[.+@]?\s+\d+\s+(?:\S{1,64}\s+){0,2}?"
    r"(?P<size>\d[\d.,]{0,20}[KMGTPE]?|\d+,\s+\d+)\s+"
    r"(?P<time>[A-Z][a-z]{2}\s+\d{1,2}\s+[\d:]{4,5}|\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d\.\d+ [+-]\d{4})?)\s(?P<name>.+)"
)
"""A line of GNU's and BusyBox' long form; numbers of devices stand in place of the size."""
_TOTAL = re.compile(r"total [\d.,]+[KMGTPE]?")
_LONG = {"-l", "-g", "-n", "-o", "--full-time", "--format=long", "--format=verbose", "--numeric-uid-gid"}
_SIZES = {"-h", "-S", "--human-readable", "--si", "--sort=size", "--block-size"}
_TIMES = {"-t", "-c", "-u", "--sort=time", "--time", "--time-style", "--full-time"}


def compress_ls(lines: Sequence[str], words: Words) -> Shown | None:
    """Return the long form without unrequested columns; None for every other form."""
    asked = flags(words)
    if not asked & _LONG:
        return None
    sizes, times = bool(asked & _SIZES), bool(asked & _TIMES)
    shown = []
    for line in lines:
        found = _ENTRY.fullmatch(line) if len(line) <= MAX_RECOGNISED else None
        if found and found["name"] not in (".", ".."):
            shown.append(_short_entry(found, sizes=sizes, times=times))
        elif not found and not _TOTAL.fullmatch(line):
            shown.append(line)
    return Shown(shown, left_out=True)


def _short_entry(entry: re.Match[str], *, sizes: bool, times: bool) -> str:
    is_folder = entry["kind"] == "d" and not entry["name"].endswith("/")
    name = entry["name"] + "/" * is_folder
    if signals(entry[0]) and not signals(name):
        return entry[0]
    return " ".join([*[entry["size"]] * sizes, *[entry["time"]] * times, name])


LS = Family("names only", compress_ls)


REPEATED = 4
"""Times from which on a line is not said again."""
_FROM = re.compile(r"(?:-n|--lines=)?\+(\d{1,9})")
_COUNT = re.compile(r"-n\d*|-\d+|--lines=\d+")


def compress_cat(lines: Sequence[str], words: Words) -> Shown | None:
    """Remove repetitions; None where there are none."""
    runs = [(line, len(list(same))) for line, same in groupby(lines)]
    if all(count < REPEATED for _, count in runs):
        return None
    first = _first_number(words)
    bare = list(_once(runs, None))
    numbered = bare if first is None else list(_once(runs, first))
    return Shown(numbered if _length(numbered) < _length(lines) else bare, left_out=False)


def _once(runs: Sequence[tuple[str, int]], first: int | None) -> Iterator[str]:
    number = first or 0
    for line, count in runs:
        shown = count if count < REPEATED else 1
        yield from (line if first is None else f"{number + each}\t{line}" for each in range(shown))
        if shown < count:
            yield f"[the same {count - shown:,} more times]"
        number += count


def _first_number(words: Words) -> int | None:
    """Return the number of the first shown line; None: unknown, or the output has numbers."""
    command, *rest = words
    files = [word for word in rest if not word.startswith(("-", "+"))]
    options = [word for word in rest if word.startswith(("-", "+"))]
    match command:
        case "cat" if not options and len(files) == 1:
            return 1
        case "head" if all(map(_COUNT.fullmatch, options)) and len(files) == 1 + ("-n" in options):
            return 1
        case "tail" if len(files) == 1 and (found := _FROM.fullmatch("".join(options))):
            return int(found[1])
    return None


def _length(lines: Sequence[str]) -> int:
    return sum(map(len, lines)) + len(lines)


CAT = Family("repeated lines once", compress_cat)


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


def compress_grep(lines: Sequence[str], words: Words) -> Shown | None:
    """Group matches by file; None for another format."""
    asked = flags(words)
    if asked & _OTHER_FORM:
        return None
    named = bool(asked & _NAMES) or _searches_folders(words)
    read = _with_gaps(list(_read_matches(lines, numbered=bool(asked & _NUMBERS), named=named)))
    shown = [line for path, group in groupby(read, lambda each: each.path) for line in _group(path, list(group))]
    left_out = any(shorten(each.text) != each.text for each in read if each.place or each.path)
    return Shown(shown, left_out)


def _searches_folders(words: Words) -> bool:
    """Whether it is `rg` with a pattern and no place, which names files unasked."""
    plain = [word for last, word in pairwise(words) if not word.startswith("-") and last not in _VALUED]
    return words[0].rpartition("/")[2] == "rg" and len(plain) == 1


def _read_matches(lines: Sequence[str], *, numbered: bool, named: bool) -> Iterator[_Found]:
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
        yield from (each.place + shorten(each.text) if each.place else each.line for each in group)
        return
    if len(group) == 1:
        yield f"{path}:{group[0].place}{shorten(group[0].text)}"
        return
    yield path
    yield from (f" {each.place}{shorten(each.text)}" for each in group)


def _essence(line: str) -> str:
    """Return the part of a line to keep, without a file name at its beginning, which stands above it."""
    for form in (_NUMBERED, _NAMED):
        if (found := form.fullmatch(line)) and signals(found[1]) and _is_path(found[1]):
            return essence(line[found.end(1) + 1 :])
    return essence(line)


GREP = Family("grouped by file", compress_grep, essence=_essence)

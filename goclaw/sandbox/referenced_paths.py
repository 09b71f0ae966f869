"""Which files a shell line may run or read, by its words: for whoever has to notice that one of them was changed.

Rather too many than too few: every word that could be a path counts, in whatever quotes it stands and behind whatever
`cd` comes before it. What a program opens by itself, without being told on the line, is not found.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from posixpath import basename, join, normpath

MAX_PATHS = 20_000
"""Paths of one line. Nobody can read a line that has more."""
MAX_FOLDERS = 20
_UNKNOWN = re.compile(r"[`*?\[]|\$[^{(\s\"']|\$[{('\"]|\beval\b|\bxargs\b")
"""What makes it unknown, before a line runs, which files it is about."""
_SEPARATORS = re.compile(r"[\s;&|()<>`\"'={},:\\]+")
_QUOTED = re.compile(r'"([^"]*)"|\'([^\']*)\'', re.DOTALL)
_VARIABLE = re.compile(r"\$\{[^}]*\}|\$\w+")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_READ_BY_ITSELF = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "npm": ("package.json",),
    "npx": ("package.json",),
    "pnpm": ("package.json",),
    "yarn": ("package.json",),
    "just": ("justfile",),
    "tox": ("tox.ini",),
}
"""What these programs run without being told."""


class TooMany(Exception):
    """A line names so much that nobody can look at all of it."""


def is_roundabout(line: str) -> bool:
    """Whether a line may run a file that no word of it names."""
    return _UNKNOWN.search(line) is not None


def paths_of(line: str, folders: Iterable[str] = ()) -> list[str]:
    """What the words of a line may name, relative to where it runs, or in one of `folders` that it may go to.

    Raises:
        TooMany: it names more than `MAX_PATHS`.
    """
    words = list(dict.fromkeys(_words(line)))
    found = dict.fromkeys(normpath(join(folder, word)) for folder in ("", *folders) for word in words)
    if len(found) > MAX_PATHS:
        raise TooMany
    return list(found)


def folders_of(paths: Sequence[str]) -> list[str]:
    """Where a line may go that names these folders, one after the other."""
    found = [""]
    for path in paths:
        found += [normpath(join(folder, path)) for folder in found[: MAX_FOLDERS - len(found)]]
    return list(dict.fromkeys(found))[1:]


def _words(line: str) -> Iterator[str]:
    for word in _raw(line):
        if not word or len(word) > 4_000:
            continue
        yield word
        yield from _READ_BY_ITSELF.get(basename(word), ())
        yield join(word, "__main__.py")
        if _MODULE.fullmatch(word):  # python -m package.module
            yield f"{word.replace('.', '/')}.py"
            yield f"{word.replace('.', '/')}/__main__.py"


def _raw(line: str) -> Iterator[str]:
    quoted = [part for found in _QUOTED.findall(line) for part in found]
    for word in (*_split(line), *quoted, *_SEPARATORS.split(line)):
        yield word
        if "$" in word:
            yield from (part.lstrip("/") for part in _VARIABLE.split(word))


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return []  # half of a quotation; other ways find the words all the same

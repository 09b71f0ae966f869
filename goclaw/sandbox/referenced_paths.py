"""The files that a shell line may run or read, found from its words, so that a change of them can be noticed.

It errs on the side of too many: every word that could be a path counts, in any quotes and after any `cd`. A file that a
program opens without being named on the line is not found.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from posixpath import basename, join, normpath

MAX_PATHS = 20_000
"""Paths of one line: more than a person can check."""
MAX_FOLDERS = 20
_UNKNOWN = re.compile(r"[`*?\[]|\$[^{(\s\"']|\$[{('\"]|\beval\b|\bxargs\b")
"""Expressions that make a line's files unknown before it runs."""
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
"""The files that these programs run without being named."""


class TooMany(Exception):
    """A line names too many files to check."""


def is_roundabout(line: str) -> bool:
    """Whether a line may run a file that no word of it names."""
    return _UNKNOWN.search(line) is not None


def paths_of(line: str, folders: Iterable[str] = ()) -> list[str]:
    """Return the paths that the words may name, relative to the line's folder or to one of `folders` it may change to.

    Raises:
        TooMany: it names more than `MAX_PATHS`.
    """
    words = list(dict.fromkeys(_words(line)))
    found = dict.fromkeys(normpath(join(folder, word)) for folder in ("", *folders) for word in words)
    if len(found) > MAX_PATHS:
        raise TooMany
    return list(found)


def folders_of(paths: Sequence[str]) -> list[str]:
    """Return the folders that a line may get to by changing to these, one after the other."""
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

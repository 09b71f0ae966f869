"""The table of commands, with the family that shortens the output of each."""

import re
from collections.abc import Mapping

from goclaw.compression import cat, git_diff, git_log, git_status, go_test, grep, ls, pytest
from goclaw.compression.base import Family, Words

FAMILIES: Mapping[str, Family] = {
    "ls": ls.FAMILY,
    "git status": git_status.FAMILY,
    "git diff": git_diff.FAMILY,
    "git log": git_log.FAMILY,
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg"), grep.FAMILY),
    **dict.fromkeys(("cat", "head", "tail"), cat.FAMILY),
    **dict.fromkeys(("pytest", "py.test"), pytest.FAMILY),
    "go test": go_test.FAMILY,
}
"""By the name of a command, with its subcommand where it has one."""
_PYTHON = re.compile(r"python[\d.]*")
_RUNNERS = frozenset({"uv", "poetry", "pdm", "hatch"})
"""With `run` before it, what follows is the command."""
_VALUED = frozenset({"-C", "-c"})
"""Options of `git` itself whose value is a word of its own."""


def family_of(words: Words) -> tuple[Family, Words] | None:
    """Return the family of a command, and the command from its name on; None: it has no family."""
    words = _named(words)
    if not words:
        return None
    if words[0] in FAMILIES:
        return FAMILIES[words[0]], words
    family = FAMILIES.get(" ".join(words[:2]))
    return (family, words[1:]) if family else None


def _named(words: Words) -> Words:
    """Return the words from the command's name on, without its folder."""
    if not words:
        return words
    name, *rest = (words[0].rpartition("/")[2], *words[1:])
    if _PYTHON.fullmatch(name) and rest[:1] == ["-m"]:
        return rest[1:]
    if name in _RUNNERS and rest[:1] == ["run"]:
        return _named(rest[1:])
    if name == "git":
        while rest and rest[0].startswith("-"):
            rest = rest[2:] if rest[0] in _VALUED else rest[1:]
    return (name, *rest)

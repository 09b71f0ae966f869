"""Options of well-known programs: those before a subcommand, those with a value, and those that change the program's
effect.

Rules for commands are about words (`git push`); between the words of a command stand options (`git -C . push`). To look
past them, it must be known which take the next word with them. Sources: git(1), docker(1), `kubectl options`,
npm-config(7), `pip --help`, apt-get(8), systemctl(1), ssh(1), coreutils, sudo(8).
"""

from collections.abc import Mapping, Sequence

from goclaw.records import record
from goclaw.sandbox.base import Unclear

_WHOLE = frozenset({"--text"})
"""Whole names of options that are also the beginning of another (`--textconv`)."""
_MAX_LETTERS = 4
"""Options of one dash with more letters are words (`find -delete`), not letters put together."""


@record
class Syntax:
    """Options before the subcommand of a program, or before the command that a wrapper runs."""

    valued: frozenset[str]
    """They have a value: in the same word, or else in the next."""
    flags: frozenset[str] = frozenset()
    steering: frozenset[str] = frozenset()
    """Those of both by which something else runs, or elsewhere, than the words after them say."""
    anywhere: bool = False
    """They may also stand behind the subcommand."""
    wraps: bool = False
    """It runs another command. Variables (`NAME=value`) stand among its options, and unlisted letters are
    flags."""
    skip: int = 0
    """Words of a wrapper before the command that it runs."""
    commands: frozenset[str] = frozenset()
    """All its subcommands, where another word may be an alias; empty: it has no aliases."""
    names: Mapping[str, str] | None = None
    """Other names of subcommands; and a beginning of one is one, too."""
    groups: frozenset[str] = frozenset()
    """Words that may stand before a subcommand and change nothing (`docker container run`)."""
    letters: Mapping[str, str] | None = None
    """Other names of options of one letter."""
    runs: Mapping[str, str] | None = None
    """By subcommand (empty: any), options behind it by which it runs a program that they or a file name."""

    def takes_next(self, option: str) -> bool:
        """Whether the word behind an option is its value.

        Raises:
            Unclear: the option is not known.
        """
        if option.startswith("--"):
            name, given, _ = option.partition("=")
            if name not in self.valued and name not in self.flags:
                raise Unclear(f"the option {name} is not followed")
            return name in self.valued and not given
        if option in self.valued or option in self.flags:
            return option in self.valued
        for at, letter in enumerate(option[1:], 2):
            if f"-{letter}" in self.valued:
                return at == len(option)
            if f"-{letter}" not in self.flags and not self.wraps:
                raise Unclear(f"the option {option} is not followed")
        return False

    def steers(self, option: str) -> bool:
        """Whether an option that is known makes something else of the command."""
        letters = () if option.startswith("--") else tuple(f"-{letter}" for letter in option[1:])
        return not self.steering.isdisjoint((option.partition("=")[0], *letters))

    def dangers(self, subcommand: str, words: Sequence[str | None]) -> str | None:
        """Return the first word by which a subcommand runs another program; `…` for an unknown word."""
        if self.runs is None:
            return None
        listed = f"{self.runs.get('', '')} {self.runs.get(subcommand, '')}".split()
        for word in words:
            if word == "--":
                break
            if word is None:
                return "…"
            if word.startswith("-") and any(_may_be(word, option) for option in listed):
                return word
        return None


def is_option(word: str | None) -> bool:
    """Whether a word is an option; `-` alone is not."""
    return word is not None and word.startswith("-") and word != "-"


def _may_be(word: str, option: str) -> bool:
    """Whether a word is an option, by a beginning of its name or among other letters, too."""
    name = word.partition("=")[0]
    if option.startswith("--"):
        return len(name) > 2 and option.startswith(name) and name not in _WHOLE
    return not word.startswith("--") and option[1] in word[1:]


def has_option(words: Sequence[str | None], option: str, syntax: Syntax | None) -> bool:
    """Whether an option that a rule names may stand among the words: all of its letters, or a beginning of its name; by
    another name, where the program has such."""
    given = [word for word in words if word is not None and is_option(word)]
    same = (syntax and syntax.letters) or {}
    if option.startswith("--"):
        name, _, value = option.partition("=")
        named = any(_may_be(word, name) and (not value or word.endswith(f"={value}")) for word in given)
        return named or (name in same and has_option(words, same[name], syntax))
    if option in given or len(option) > _MAX_LETTERS + 1:
        return option in given
    letters = (f"-{letter}" for letter in option[1:])
    wanted = (
        {letter, *(other for other, short in same.items() if short == same.get(letter, letter))} for letter in letters
    )
    return all(any(_may_be(word, name) for word in given for name in names) for names in wanted)

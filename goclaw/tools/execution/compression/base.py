"""The base of every command family: a function over lines, and the words that no line may lose."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import field

from goclaw.common.core.records import record

Words = Sequence[str]
"""A command and its arguments, as the shell made them."""

_SIGNAL = re.compile("error|fatal|warning|traceback|failed|panic", re.IGNORECASE)
"""The words of errors. A line with one of them stays, whatever its topic: rather too much than a hidden error."""
MAX_RECOGNISED = 2_000
"""Characters of a line that is looked at: a longer one is nothing that these commands say, and stays as it is."""
CUT = 200
"""Characters of a line that was found (goa, "Output Compression")."""


@record
class Shown:
    """The compressed output."""

    lines: Sequence[str]
    left_out: bool
    """The rest no longer contains all facts."""


def essence(line: str) -> str:
    """Return the part of a line that has to stay: from its first error word on, without a trailing ruler."""
    found = _SIGNAL.search(line)
    return line[found.start() :].rstrip(" =_-\t\r") if found else ""


@record
class Family:
    """Commands with output of one form."""

    about: str
    """A description of the compression, in two or three words for the model."""
    compress: Callable[[Sequence[str], Words], Shown | None]
    """From the lines and the command; None: there is nothing to be done about this one."""
    fine: Collection[int] = field(default=(0,))
    """Exit codes that mean no more than the output says. With any other one nothing is touched."""
    essence: Callable[[str], str] = essence
    """Returns the part of a line that has to stay verbatim."""


def signals(line: str) -> bool:
    """Whether a line may speak of an error."""
    return _SIGNAL.search(line) is not None


def shorten(text: str, most: int = CUT) -> str:
    """Return the beginning of a long text; the whole text if its end may speak of an error."""
    more = len(text) - most
    if more <= len(" … (+9,999)") or signals(text[most - len("traceback") :]):
        return text
    return f"{text[:most]} … (+{more:,})"


def flags(words: Words) -> set[str]:
    """Return the options of a command: `-la` is `-l` and `-a`; of `--sort=size` the name and the whole."""
    found: set[str] = set()
    for word in words[1:]:
        if word == "--":
            break
        if word.startswith("--"):
            found |= {word.partition("=")[0], word}
        elif word.startswith("-"):
            found |= {f"-{letter}" for letter in word[1:]}
    return found

"""The choice of output compression for the tools that run commands."""

from collections.abc import Sequence

from goclaw import catalog
from goclaw.compression.shorten import Short, Shorten, shorten
from goclaw.plugins import load
from goclaw.sandbox.base import Grammar, Unclear


def shorten_line(line: str) -> Shorten:
    """Return the compression for a line of shell; none where it is unclear whose output it shows."""

    def shortened(text: str, code: int) -> Short | None:
        try:
            words = load(catalog.GRAMMARS["bash"], Grammar).shown_by(line)
        except Unclear:
            return None
        return shorten(text, words, code)

    return shortened


def shorten_words(words: Sequence[str]) -> Shorten:
    """Return the compression for a command without a shell."""
    return lambda text, code: shorten(text, words, code)

"""Shortens one output, or leaves it alone. Lines about errors stay in every family."""

import logging
from collections.abc import Callable, Sequence

from goclaw.compression.base import Family, Words
from goclaw.compression.table import family_of
from goclaw.llm.estimate import estimate_text
from goclaw.records import record

log = logging.getLogger(__name__)

LEAST_SAVED = 0.1
"""Share of the tokens that has to be saved: less is not worth a form that the model knows less well."""
NOTICE = 30
"""Tokens of the line that says what was done."""


@record
class Short:
    """A shortened output."""

    text: str
    about: str
    left_out: bool

    def note(self, whole: str) -> str:
        """Return a line for the model; `whole` is the place of the whole output, empty where it is not needed."""
        return f"[compressed: {self.about}; for the whole read {whole}]" if whole else f"[compressed: {self.about}]"


Shorten = Callable[[str, int], Short | None]
"""From a command's output and exit code to a shorter text; None: keep the output."""


def shorten(text: str, words: Words, code: int) -> Short | None:
    """Shorten the output of the command `words`; None: keep it.

    It is kept for other commands, for exit codes that mean a failure, and where too little would be saved.
    """
    found = family_of(words)
    if found is None or code not in found[0].fine:
        return None
    family, words = found
    lines = text.removesuffix("\n").split("\n")
    try:
        shown = family.compress(lines, words)
    except Exception:
        log.exception("what %s said could not be compressed", words[0])
        return None
    if shown is None:
        return None
    short = "".join(f"{line}\n" for line in shown.lines)
    if len(short) >= len(text) or estimate_text(short) + NOTICE > (1 - LEAST_SAVED) * estimate_text(text):
        return None
    if (lost := _lost(family, lines, short)) is not None:
        log.warning("what %s said was not compressed: a line about an error would have gone", words[0])
        log.debug("that line is %r", lost)
        return None
    return Short(short, family.about, shown.left_out)


def _lost(family: Family, lines: Sequence[str], short: str) -> str | None:
    """Return a line that may speak of an error and was removed."""
    return next((line for line in lines if family.essence(line) not in short), None)

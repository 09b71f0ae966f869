"""Notices that a model repeats itself without end: small local models do, and write until their output limit.

Two signs: the last `PIECE` characters for the third time in a row, at equal distances, and `ROWS` lines that differ in
their numbers only, with a first number that counts up.
"""

import re

from goclaw.common.core.messages import AssistantMessage
from goclaw.llm.base import Finished, ModelEvent, Restarted, Stop, TextDelta, ThinkingDelta, Usage

PIECE, TIMES = 400, 3
"""Characters of a piece that is repeated, and how often it stands there in a row."""
ROWS = 200
_EVERY = 200
"""Characters after which it is looked again."""
_LONGEST_ROW = 200
"""Characters of a row at most; longer lines are paragraphs."""
_NUMBER = re.compile(r"\d+")


class Repetition:
    """Watches the pieces of one answer."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._thought: list[str] = []
        self._new = 0

    def add(self, event: ModelEvent) -> bool:
        """Add a piece, and return whether the answer repeats itself by now."""
        match event:
            case TextDelta(text):
                pieces = self._said
            case ThinkingDelta(text):
                pieces = self._thought
            case Restarted():
                self._said.clear()
                return False
            case _:
                return False
        pieces.append(text)
        self._new += len(text)
        if self._new < _EVERY:
            return False
        self._new = 0
        pieces[:] = ["".join(pieces)]
        return repeats(pieces[0]) or counts_up(pieces[0])

    def finish(self, spec: str) -> Finished:
        """Return the answer as far as it was written, without the repetition."""
        return Finished(AssistantMessage(shorten("".join(self._said))), Usage(), Stop.REPETITION, spec)


def repeats(text: str) -> bool:
    """Return whether the end of a text stands there `TIMES` times in a row."""
    return _period(text) > 0


def _period(text: str) -> int:
    """Return the length of the piece that the end of a text repeats; 0: it does not."""
    piece = text[-PIECE:]
    before = text.rfind(piece, 0, len(text) - 1) if len(text) >= PIECE * TIMES else -1
    if before < 0:
        return 0
    period = len(text) - PIECE - before
    run = max(PIECE * TIMES, (TIMES - 1) * period + PIECE)
    return period if len(text) >= run and text[-run:-period] == text[-run + period :] else 0


def counts_up(text: str) -> bool:
    """Return whether a text ends with `ROWS` lines that are alike but for their numbers, and the first number grows."""
    lines = text[-ROWS * _LONGEST_ROW :].split("\n")[-ROWS - 1 : -1]
    if len(lines) < ROWS or not (first := _NUMBER.search(lines[0])):
        return False
    shape, number = _NUMBER.sub("0", lines[0]), int(first.group()[:18])
    step = 0
    for line in lines[1:]:
        found = _NUMBER.search(line)
        if found is None or _NUMBER.sub("0", line) != shape:
            return False
        value = int(found.group()[:18])
        step = step or value - number
        if value - number != step or not step:
            return False
        number = value
    return True


def shorten(text: str) -> str:
    """Return a text with what its end repeats standing there once."""
    period = _period(text)
    if not period:
        return text
    start = len(text)
    while start > period and text[start - 1] == text[start - 1 - period]:
        start -= 1
    return text[:start].rstrip()

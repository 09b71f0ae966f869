"""Conversations for the tool that searches them: what it asked for, and what it is answered."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from goclaw.memory.base import Heard, Line, Quote, Score, Talk, Wanted
from goclaw.memory.off import NoMemory

ANNA, BERT = "telegram:5", "telegram:6"
MORNING = datetime(2026, 11, 20, 9, 30, tzinfo=UTC).timestamp()
ASSAM = Quote(
    ANNA,
    (
        Line(11, MORNING - 30, "GoClaw", "Which tea shall I order?"),
        Line(12, MORNING, "Anna", "I like Assam best."),
        Line(13, MORNING + 60, "GoClaw", "Assam it is."),
    ),
    12,
    Score(1.0, 0.9, 0.0, weak=False),
)


@dataclass
class Spoken(NoMemory):
    """A `MemoryPort` that answers every search of conversations alike."""

    known: Sequence[Talk] = (Talk(ANNA, frozenset({ANNA})),)
    answer: Heard = field(default_factory=lambda: Heard("keyword", (ASSAM,)))
    asked: list[Wanted] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)

    async def heard(self, wanted: Wanted, limit: int) -> Heard:
        self.asked.append(wanted)
        self.limits.append(limit)
        return self.answer

    async def talks(self) -> Sequence[Talk]:
        return self.known

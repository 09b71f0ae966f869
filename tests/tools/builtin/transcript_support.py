"""Conversations for the tool that searches them: what it asked for, and what it is answered."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from goclaw.memory.base import NoMemory, Quote, Score, Talk, TranscriptLine, TranscriptQuery, TranscriptResults

ANNA, BERT = "telegram:5", "telegram:6"
MORNING = datetime(2026, 11, 20, 9, 30, tzinfo=UTC).timestamp()
ASSAM = Quote(
    ANNA,
    (
        TranscriptLine(11, MORNING - 30, "GoClaw", "Which tea shall I order?"),
        TranscriptLine(12, MORNING, "Anna", "I like Assam best."),
        TranscriptLine(13, MORNING + 60, "GoClaw", "Assam it is."),
    ),
    12,
    Score(1.0, 0.9, 0.0, weak=False),
)


@dataclass
class Spoken(NoMemory):
    """A `MemoryPort` that answers every search of conversations alike."""

    known: Sequence[Talk] = (Talk(ANNA, frozenset({ANNA})),)
    answer: TranscriptResults = field(default_factory=lambda: TranscriptResults("keyword", (ASSAM,)))
    asked: list[TranscriptQuery] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)

    async def search_transcripts(self, wanted: TranscriptQuery, limit: int) -> TranscriptResults:
        self.asked.append(wanted)
        self.limits.append(limit)
        return self.answer

    async def talks(self) -> Sequence[Talk]:
        return self.known

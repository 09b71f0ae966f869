"""LoCoMo as it is read from disk: turns of conversations, and questions with the turns that answer them.

The data (CC BY-NC 4.0) is no part of this repository; only figures that were computed from it are.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

FOLDER_VARIABLE = "LOCOMO_FOLDER"
"""Names the folder with `<conversation>.turns.jsonl` and `<conversation>.queries.jsonl`."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A message."""

    row: int
    """Its number in the index, counted from 1."""
    talk: str
    """Whose turn it is: the name of the conversation."""
    speaker: str
    text: str
    """With the caption of its picture."""
    told: datetime
    """UTC. The sessions of a conversation lie days apart."""

    @property
    def line(self) -> str:
        """As it is embedded and shown."""
        return f"{self.speaker}: {self.text}"

    @property
    def dated(self) -> str:
        """As BM25 alone reads it: what it is about in words, with nothing left to metadata."""
        return f"[{self.told:%d %B %Y}] {self.line}"

    @property
    def tokens(self) -> float:
        """What showing it costs, by the usual estimate of four characters a token."""
        return len(self.line) / 4


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the rows of its evidence."""

    text: str
    category: str
    evidence: frozenset[int]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in order, and the questions about them."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def conversations(folder: Path) -> list[Conversation]:
    """All conversations of the folder, by name."""
    return [_conversation(path) for path in sorted(folder.glob("*.turns.jsonl"))]


def given_folder() -> Path | None:
    """The folder that the environment names; None when it names none, or one without data."""
    folder = Path(os.environ.get(FOLDER_VARIABLE, ""))
    return folder if FOLDER_VARIABLE in os.environ and any(folder.glob("*.turns.jsonl")) else None


def pooled(separate: list[Conversation]) -> Conversation:
    """All turns and questions as one: strangers in one index."""
    turns: list[Turn] = []
    questions: list[Question] = []
    for conversation in separate:
        shift = len(turns)
        turns += [replace(turn, row=turn.row + shift) for turn in conversation.turns]
        questions += [
            replace(question, evidence=frozenset(row + shift for row in question.evidence))
            for question in conversation.questions
        ]
    return Conversation("all in one index", tuple(turns), tuple(questions))


def _conversation(path: Path) -> Conversation:
    name = path.name.removesuffix(".turns.jsonl")
    turns: list[Turn] = []
    rows: dict[str, int] = {}
    for number, row in enumerate(_rows(path), 1):
        rows[row["id"]] = number
        text = row["x"] + (f" [image: {row['cap']}]" if "cap" in row else "")
        told = datetime.fromisoformat(row["t"]).replace(tzinfo=UTC)
        turns.append(Turn(number, name, row["sp"], text, told))
    questions = tuple(
        Question(row["q"], row["c"], frozenset(rows[given] for given in row["rel"]))
        for row in _rows(path.with_name(f"{name}.queries.jsonl"))
        if row["rel"]
    )
    return Conversation(name, tuple(turns), questions)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)

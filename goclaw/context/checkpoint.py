"""A checkpoint: a summary of a conversation up to a point, made in the background before the context is full."""

import re
from collections.abc import Sequence

import orjson

from goclaw.codec import Codec
from goclaw.context.summary import SHORTEST_SUMMARY, SYSTEM, Material, Spent, SummaryFailed, ask_about
from goclaw.llm.base import ChatModel
from goclaw.records import record
from goclaw.redact import mask

MARKS = (25, 50, 75)
"""Per cent at which one is made, see `room.filled` (goclaw-facts, "Checkpoints")."""
ORDER = """Write a checkpoint of all of the above. Answer with one JSON object and nothing else:
{"summary": "what a reader needs to go on, in a few paragraphs", "topics": ["…"], "key_decisions": ["…"],
"open_questions": ["…"]}"""
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


@record
class Checkpoint:
    """A stored checkpoint."""

    summary: str
    topics: tuple[str, ...] = ()
    key_decisions: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()

    def text(self) -> str:
        """As the summary of a compaction."""
        lists = (
            ("Topics", self.topics),
            ("Decisions", self.key_decisions),
            ("Open questions", self.open_questions),
        )
        blocks = [f"{head}:\n" + "\n".join(f"- {line}" for line in lines) for head, lines in lists if lines]
        return "\n\n".join([self.summary, *blocks])


CHECKPOINT: Codec[Checkpoint] = Codec(Checkpoint)


def reached(share: float, marks: Sequence[int] = MARKS) -> int:
    """Return the highest of `marks` that a context has reached of which so many per cent are filled; 0: none."""
    return max((mark for mark in marks if share >= mark), default=0)


async def write_checkpoint(material: Material, model: ChatModel, spent: Spent) -> Checkpoint:
    """Return the checkpoint that `model` writes, secrets masked.

    Raises:
        SummaryFailed: it wrote none that can be used.
    """
    answer = mask(await ask_about(material, model, SYSTEM, ORDER, spent))
    found = _OBJECT.search(answer)
    try:
        given = orjson.loads(found[0]) if found else None
    except orjson.JSONDecodeError:
        given = None
    if not isinstance(given, dict):
        return Checkpoint(answer)  # a small model that forgets the form has still said what matters
    summary = given.get("summary")
    lists = (_lines(given.get(name)) for name in ("topics", "key_decisions", "open_questions"))
    checkpoint = Checkpoint(summary.strip() if isinstance(summary, str) else "", *lists)
    if len(checkpoint.summary) < SHORTEST_SUMMARY:
        raise SummaryFailed(f"the checkpoint by {model.spec} has no summary")
    return checkpoint


def _lines(value: object) -> tuple[str, ...]:
    """Small models give a text for a list, or objects for lines."""
    if isinstance(value, str):
        return (value,) if value.strip() else ()
    return tuple(str(line) for line in value if line) if isinstance(value, list) else ()

"""Vectors from sentence-transformers, which lives in another interpreter: texts go there, hits come back.

Nothing of that package is a dependency of GoClaw; `GOCLAW_EMBEDDING_PYTHON` names a Python that has it.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.recall.dataset import Conversation
from goclaw.memory.chunks import chunk_messages
from goclaw.memory.ranking import MESSAGE_DEPTH, WINDOW_DEPTH, of_windows

PYTHON_VARIABLE = "GOCLAW_EMBEDDING_PYTHON"
_WORKER = Path(__file__).with_name("worker.py")

Hits = dict[int, float]
"""Similarities by place."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the vectors find for one question."""

    turns: Hits
    """The nearest messages, `MESSAGE_DEPTH` of them."""
    windows: Hits
    """What lies in the nearest windows over the conversation, `WINDOW_DEPTH` of them."""


def given_python() -> str:
    """The interpreter that the environment names; empty for none."""
    return os.environ.get(PYTHON_VARIABLE, "")


def search(python: str, groups: Sequence[Conversation]) -> list[list[Found]]:
    """For each conversation, what the vectors find for each of its questions.

    Raises:
        RuntimeError: the worker failed; the text is its last line.
    """
    windows = [chunk_messages((turn.place, turn.line) for turn in group.turns) for group in groups]
    given = [
        {
            "queries": [question.text for question in group.questions],
            "searched": [
                {"texts": [turn.line for turn in group.turns], "depth": MESSAGE_DEPTH},
                {"texts": [window.text for window in cut], "depth": WINDOW_DEPTH},
            ],
        }
        for group, cut in zip(groups, windows, strict=True)
    ]
    done = subprocess.run([python, str(_WORKER)], input=json.dumps(given).encode(), capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    return [
        [
            Found(
                {group.turns[number].place: cosine for number, cosine in messages},
                of_windows((cut[number].start, cut[number].end, cosine) for number, cosine in around),
            )
            for messages, around in answer
        ]
        for group, cut, answer in zip(groups, windows, json.loads(done.stdout), strict=True)
    ]

"""What a person is asked while a turn waits, and the agent's own list of what is to be done."""

import re
from typing import Literal

from goclaw.records import record

_LISTED = re.compile(
    r"^(?:[^\w\n]|_){0,20}(?:[^\W\d_]{1,20} )?\d{1,9}[^\w\n]{0,4}?[.):\]|\u20e3\u2013\u2014-](?![^\W_])"
    r"|(?:^|(?<=[\s(\[]))\d{1,2}[.)\]](?=\s)",
    re.MULTILINE,
)
"""An item of a numbered list as people and models write them: `1.`, `**2)**`, `### 3.`, `Step 4:`, `| 5 |`, `6️⃣`, also
in quotes and other lists; and within a line, `1) merge or 2) rebase?`."""
_NUMBERED = re.compile(r"\W*\d")
"""How an option begins that has a number of its own (`2 replicas`)."""


@record
class Question:
    """Something that a person is asked while a turn waits; it survives restarts with the turn."""

    id: str
    """Random, for one answer; `/approve ID` and buttons carry it."""
    kind: Literal["approval", "question"]
    """`approval`: may this tool call run? Answered by its id only, never by the next message."""
    asker: str
    """Actor key of the person for whom the turn runs."""
    title: str
    text: str
    """Markdown: for an approval, the call with all its arguments."""
    options: tuple[str, ...] = ()
    """Choices, answered by number (see `is_numbered`) or text; an approval has ALLOW, DENY and at times ALWAYS."""
    free_text: bool = True
    """Whether an answer may be something else than one of the options."""
    required: bool = False
    """Whether the asker needs an answer: `/deny` then fails the call instead of leaving the question open."""
    asked_at: float = 0.0
    expires_at: float | None = None
    """Epoch seconds after which the answer is no."""
    about: str = ""
    """The tool that an approval is about."""
    digest: str = ""
    """Names the call of an approval with everything that it rests on: what is approved is this and nothing else."""

    @property
    def is_numbered(self) -> bool:
        """Whether its options may be shown with numbers: nothing else beside them has a number that can be meant."""
        is_one_beside = any(map(_NUMBERED.match, self.options)) or _LISTED.search(f"{self.title}\n{self.text}")
        return bool(self.options) and not is_one_beside


ALLOW, ALWAYS, DENY = "allow", "always", "deny"
"""The options of an approval. `always` is there only where a rule can be made of the call."""


DECIDED = "Already decided:"
"""How the reply to a second answer begins."""
GONE = "There is no such question (any more)."
"""The reply to an answer to a question that is gone, or that the person may not answer."""


@record
class Todo:
    """A line of the agent's list of what is to be done."""

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"

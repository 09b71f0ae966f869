"""Questions to a person while a turn waits, and the agent's to-do list."""

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
"""The beginning of an option that has a number of its own (`2 replicas`)."""


@record
class Question:
    """A question to a person while a turn waits; it survives restarts with the turn."""

    id: str
    """Random, for one answer; `/approve ID` and buttons contain it."""
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
    """The digest of an approval's call and everything that it depends on: the approval covers exactly this."""

    @property
    def is_numbered(self) -> bool:
        """Return whether its options may be shown with numbers, that is no other number in it could be meant."""
        is_one_beside = any(map(_NUMBERED.match, self.options)) or _LISTED.search(f"{self.title}\n{self.text}")
        return bool(self.options) and not is_one_beside


ALLOW, ALWAYS, DENY = "allow", "always", "deny"
"""The options of an approval. `always` is there only if a rule can be made of the call."""


DECIDED = "Already decided:"
"""The beginning of the reply to a second answer."""
GONE = "There is no such question (any more)."
"""The reply to an answer to an expired question, or one that the person may not answer."""


@record
class Todo:
    """An item of the agent's to-do list."""

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"

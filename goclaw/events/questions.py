"""What a person is asked while a turn waits, and the agent's own list of what is to be done."""

import re
from typing import Literal

from goclaw.records import record

_LISTED = re.compile(r"^[\s>*+-]*\(?\d{1,9}[.):\]](\s|$)", re.MULTILINE)
"""An item of a numbered list, as Markdown or plain text writes it, also inside of quotes and other lists."""


@record
class Question:
    """Something that a person is asked while a turn waits; it survives restarts with the turn."""

    id: str
    """Random, for one answer; `/approve ID` and buttons carry it."""
    kind: Literal["approval", "question"]
    """`approval`: may this tool call run? Answered by its id only, never by what somebody happens to write next."""
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
        numbers_beside = any(option.strip().isdecimal() for option in self.options) or _LISTED.search(self.text)
        return bool(self.options) and not numbers_beside


ALLOW, ALWAYS, DENY = "allow", "always", "deny"
"""The options of an approval. `always` is there only where a rule can be made of the call."""


DECIDED = "Already decided:"
"""How the answer begins to somebody who answers once more."""
GONE = "There is no such question (any more)."
"""What somebody reads who answers a question that is gone, or that is not for them to answer."""


@record
class Todo:
    """A line of the agent's list of what is to be done."""

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"

"""Overheard messages: words of others in a group, edits of answered messages, reactions to the agent's messages.

The model reads them with the next message. See `overheard`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from goclaw.common.core.messages import Piece, Provenance, SourceKind
from goclaw.common.core.records import record
from goclaw.conversation.agent.context.model_messages import plain

MAX_NOTE = 500
"""Maximum characters of each text of an edit, and of a message with a reaction."""
BEFORE_CHANGE = 100
"""Characters shown before a change far from the beginning of a text."""
MAX_SAID = 2_000
"""Maximum characters of one person's message in a group."""
MAX_NOTES = 20
"""Maximum edits and reactions that wait for the next message; the oldest are dropped."""


@record
class OverheardMessage:
    """One overheard message, edit or reaction."""

    kind: Literal["said", "edit", "reaction"]
    author: str
    """Actor key of the person."""
    name: str
    """The person's display name; never used for a decision."""
    text: str
    """The words; for an edit the new text, for a reaction the action."""
    about: str = ""
    """Of an edit the old text; of a reaction the message that it is on."""
    ref: str = ""
    """The channel's id of the message; of one message only the latest edit and reaction are kept."""
    passed_on: bool = False
    """It is a forward or a reply with words of others: then all of it is untrusted material."""
    at: float = 0.0
    """Time of arrival, in epoch seconds."""

    def piece(self, speaker: str) -> Piece:
        """Return the line for a message of `speaker`, with their own words trusted."""
        who = f"{plain(self.name, '<>[]()', 64)} ({self.author})".strip()
        is_own = self.author == speaker and not self.passed_on
        provenance = Provenance(SourceKind.PERSON if is_own else SourceKind.OTHER, self.author)
        match self.kind:
            case "said":
                text = f"[{who} said before: {self.text}]" if is_own else self.text
                return text, f"{who}, earlier in this group", provenance
            case "edit":
                text = f'[{who} edited an earlier message: "{self.about}" → "{self.text}"]'
                return text, f"an edit by {who}", provenance
            case "reaction":
                # A sign, and the agent's own words.
                origin = f"a reaction by {who}"
                return f'[{who} {self.text} your message: "{self.about}"]', origin, Provenance(SourceKind.AGENT)


def with_one_more(known: Sequence[OverheardMessage], new: OverheardMessage, keep: int) -> tuple[OverheardMessage, ...]:
    """Return the waiting messages with `new` among them; `keep`: the number of group messages to keep."""
    older = next((each for each in known if new.ref and (each.kind, each.ref) == (new.kind, new.ref)), None)
    if older and new.kind == "edit":  # from what the model knows to what holds now
        new = replace(new, about=older.about)
    if older and new.kind == "said":
        return tuple(new if each is older else each for each in known)
    waiting = [*(each for each in known if each is not older), new]
    if older and new.kind == "edit" and new.text == new.about:  # taken back
        waiting.pop()
    said = [each for each in waiting if each.kind == "said"]
    notes = [each for each in waiting if each.kind != "said"]
    too_much = len(said) - keep if new.kind == "said" else 0
    dropped = {id(each) for each in (*said[: max(0, too_much)], *notes[: max(0, len(notes) - MAX_NOTES)])}
    return tuple(each for each in waiting if id(each) not in dropped)


def change(before: str, now: str) -> tuple[str, str]:
    """Return an older and a newer text as `one_line`, from the first difference if that is far from the start."""
    older, newer = " ".join(before.split()), " ".join(now.split())
    same = next((at for at, (old, new) in enumerate(zip(older, newer, strict=False)) if old != new), None)
    if same is None:  # one continues the other
        same = min(len(older), len(newer))
    if older == newer or same <= MAX_NOTE - BEFORE_CHANGE:
        return one_line(older), one_line(newer)
    start = same - BEFORE_CHANGE
    return f"…{one_line(older[start:])}", f"…{one_line(newer[start:])}"


def one_line(text: str, longest: int = MAX_NOTE) -> str:
    """Return a text on one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]}…"

"""What people see in a chat, read piece by piece: which message was answered how often, and how often marked.

A piece is what may arrive once only: the head of an answer ("answer m1"), a line of a long one ("m1 line 7"), its end,
a file's caption, a question. A piece is marked when its message says that it may have come before, or the message above
it, where a full one left no room, says so.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from goclaw.channels.telegram.outgoing import WHOLE_BELOW, WHOLE_NAME
from tests.acceptance.model import CAPTION, END, QUESTION
from tests.fake_telegram.world import Sent

MARKS = ("(sent again after a restart)", "(sent again: the first try may have arrived)")
TOOL_LINES = ("⚙", "✓ Ran ")
"""How a preview of a tool begins that runs, or that has ended and had nothing to show but that."""
NO_ANSWER = "The gateway that works on this conversation did not answer in time"
"""What stands in place of a command's reply while another daemon, which owns the conversation, is paused or cut off."""
SILENT_OWNER = "The process that works on this conversation does not answer just now"
"""The same in place of an answer to a message that takes another one's place; the message itself waits."""
NAME = r"m\d+\w*"
_HEAD = re.compile(rf"answer((?: {NAME}(?: \[[a-z ]+\])*)+)")
_LINE = re.compile(rf"({NAME}) line (\d+)")
_CARD = re.compile(rf"({re.escape(QUESTION)}|{re.escape(CAPTION)}) ({NAME})")
_REPLIES = re.compile(
    r"Stopped\.|Stopping: |Nothing is running\.|Queue mode: |Allowed\.|Denied\.|Compaction |Nothing to compact|"
    r"The context will be compacted|"
    rf"This question does not exist|Already decided: |{NO_ANSWER}|{SILENT_OWNER}|\*{{0,2}}A question|'s agent wants to "
)
"""Messages that are no answer of a model."""


@dataclass(frozen=True)
class Seen:
    """One message of the bot."""

    message_id: int
    text: str
    """Without its mark; of a file with a whole answer what is in it."""
    marked: bool
    begins_file: bool = False
    """Whether it is only the beginning of a very long answer, which follows as a file."""

    @property
    def answers(self) -> tuple[str, ...]:
        """The names of the messages whose answer begins here."""
        found = None if self.begins_file else _HEAD.match(self.text)
        return tuple(re.findall(NAME, found[1])) if found else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the messages that are answered here, also where only further lines of their answers stand."""
        return self.answers or tuple(dict.fromkeys(name for name, _ in _LINE.findall(self.text)))

    @property
    def pieces(self) -> list[str]:
        """Everything in it that may come once only."""
        if self.begins_file:
            return [f"beginning of {self.text[:40]}"]
        lines = [f"{name} line {number}" for name, number in _LINE.findall(self.text)]
        ends = [f"{name} {END}" for name in self.names if self.text.endswith(END)]
        cards = [f"{kind} {name}" for kind, name in _CARD.findall(self.text)]
        return [*(f"answer {name}" for name in self.answers), *lines, *ends, *cards]

    @property
    def is_begun(self) -> bool:
        """Whether it is a preview: the head of an answer without lines and without an end, or what a tool does."""
        if self.begins_file:
            return False
        begins = self.text.startswith("answer") or "answer".startswith(self.text)
        begun = begins and not self.text.endswith(END) and not _LINE.search(self.text)
        return begun or self.text.startswith(TOOL_LINES)

    @property
    def is_known(self) -> bool:
        """Whether the bot may say so at all."""
        return bool(self.pieces or self.is_begun or _REPLIES.search(self.text))


def read_chat(messages: Sequence[Sent]) -> list[Seen]:
    """A chat as its people read it, oldest first."""
    seen: list[Seen] = []
    carried = False
    for sent in messages:
        # What was decided is edited into a question, and takes the place of its mark.
        text, marked = sent.text, carried or (QUESTION in sent.text and sent.first_text.startswith(MARKS))
        for mark in MARKS:
            if text.startswith(mark):
                text, marked = text.removeprefix(mark).strip(), True
        carried = marked and not text and sent.file is None
        if sent.file_name == WHOLE_NAME and sent.file is not None:
            text = sent.file.decode()
        if text or sent.file is not None:
            seen.append(Seen(sent.message_id, text, marked, text.endswith(WHOLE_BELOW)))
    return seen


@dataclass
class Copies:
    """How often each piece came."""

    plain: Counter[str]
    marked: Counter[str]

    @classmethod
    def of(cls, seen: Sequence[Seen]) -> "Copies":
        """Counted; previews that a kill left are no answers."""
        whole = [message for message in seen if not message.is_begun]
        return cls(
            Counter(piece for message in whole if not message.marked for piece in message.pieces),
            Counter(piece for message in whole if message.marked for piece in message.pieces),
        )

    def doubled(self) -> list[str]:
        """Pieces that came more than once without a mark."""
        return [piece for piece, count in self.plain.items() if count > 1]

    def has(self, piece: str) -> bool:
        """Whether it came at all."""
        return bool(self.plain[piece] or self.marked[piece])

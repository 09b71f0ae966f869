"""Reads a turn for a program: its events, or its rows afterwards, as pieces of an answer.

The pieces of a stream and a whole answer are the same text: everything that the agent says in the turn, in paragraphs.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from goclaw.common.core.events import (
    MessageStored,
    QuestionAsked,
    StreamRestarted,
    TextStreamed,
    ThinkingStreamed,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from goclaw.common.core.messages import SAID, Artifact, AssistantMessage, ToolResult, UserMessage
from goclaw.common.core.records import record
from goclaw.conversation.questions.question_messages import in_words
from goclaw.tools.approval.requests import describe_refusals

_SPECIAL = re.compile(r"[\\\[\]]")
"""Characters that end the label of a link."""
_FILE_ID = re.compile(r"file-([0-9a-f]{64})((?:[0-9a-f]{2}){1,400})")
BEGINS_ANEW = "(The answer was cut off and starts again.)"


@record
class Delta:
    """A piece of the program's answer."""

    kind: Literal["text", "reasoning"]
    text: str


class TurnReader:
    """Makes pieces of one turn's events; take all of them in their order."""

    def __init__(
        self, turn: str, *, unattended: bool, progress: bool, live: bool, link: str = "", files: str = ""
    ) -> None:
        """Read the turn with the id `turn`.

        Args:
            turn: may become another one: a message can join the turn that runs.
            unattended: whether to say at the end which calls were refused because no person could be asked.
            progress: whether thinking and the use of tools are read, too.
            live: whether text is read while it is written, or each message when it is whole.
            link: where people answer questions besides; empty: nowhere.
            files: begins the address of each file of the session; `file_id` follows.
        """
        self.turn = turn
        self.asked = False
        """Whether the turn waits for a person."""
        self.finished: TurnFinished | None = None
        self._unattended = unattended
        self._progress = progress
        self._live = live
        self._link = link
        self._files = files
        self._refused: list[str] = []
        self._streamed = ""
        """The part of the present message that is out."""
        self.has_text = False
        """Whether any text was read."""
        self._goes_on = False
        """Whether the next message goes on in the middle of a sentence."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self.asked or self.finished is not None

    def translate(self, event: TurnEvent) -> Iterator[Delta]:
        """Yield the pieces that an event makes."""
        if isinstance(event, MessageStored) and event.joined == self.turn:
            self.turn = event.turn
        if event.turn != self.turn:
            return
        match event:
            case MessageStored():
                yield from self._process_message(event)
            case TextStreamed(text=text) if self._live:
                yield from self._text(text)
                self._streamed += text
            case StreamRestarted() if self._streamed:
                self._streamed = ""
                yield from self._text(BEGINS_ANEW)
            case ThinkingStreamed(text=text) if self._progress:
                yield Delta("reasoning", text)
            case ToolStarted() if self._progress:
                yield Delta("reasoning", f"\n{event.hint or event.name}\n")
            case QuestionAsked():
                self.asked = True
                where = "in this conversation, or in a terminal (`goclaw`)"
                where = f"{where}, or at {self._link}" if self._link else where
                words = in_words(event.question, event.question.text, ids=True)
                yield from self.paragraph(f"{words}\n\nAnswer {where}.")
            case TurnFinished():
                self.finished = event
                yield from self._end(event)

    def paragraph(self, text: str) -> Iterator[Delta]:
        """Yield a text that stands for itself."""
        self._streamed = ""
        yield from self._text(text)

    def _text(self, text: str) -> Iterator[Delta]:
        """Yield a text; one that begins a message is a paragraph of its own."""
        if not text:
            return
        if not self._streamed and self.has_text and not self._goes_on:
            text = f"\n\n{text}"
        self.has_text, self._goes_on = True, False
        yield Delta("text", text)

    def _process_message(self, event: MessageStored) -> Iterator[Delta]:
        match event.message:
            case AssistantMessage(text=text):
                begun = self._streamed.strip()  # what is stored has no blank space around it
                is_begun = bool(begun) and text.strip().startswith(begun)
                rest = text.strip()[len(begun) :] if is_begun else text
                if not is_begun:
                    self._streamed = ""  # a hook of the operator made another text of it
                yield from self._text(rest)
                self._streamed = ""
                yield from self._artifacts(event.session, event.message.artifacts)
            case ToolResult(name=name, denied=True):
                self._refused.append(name)
            case ToolResult(artifacts=artifacts):
                yield from self._artifacts(event.session, artifacts)
            case UserMessage() if not event.sender:
                self._goes_on = True  # the daemon asked for the rest of an answer that was cut

    def _artifacts(self, session: str, artifacts: Iterable[Artifact]) -> Iterator[Delta]:
        """Yield the messages and files that the agent sent or named, a file as a link."""
        for each in artifacts:
            if each.kind == SAID:
                yield from self.paragraph(each.text)
            elif each.is_file:
                label = _SPECIAL.sub(r"\\\g<0>", each.name)
                yield from self.paragraph(f"[{label}]({self._files}{file_id(session, each.blob)}/content)")

    def _end(self, event: TurnFinished) -> Iterator[Delta]:
        if event.outcome.went_well and not self.has_text:
            yield from self._text(event.text)
        elif refused := describe_refusals(self._refused) if self._unattended else "":
            yield from self.paragraph(refused)


def file_id(session: str, blob: str) -> str:
    """Return the id of a file of a session: it names both, so that no table is needed."""
    return f"file-{blob}{session.encode().hex()}"


def file_named_by(identity: str) -> tuple[str, str]:
    """Return the session and the key of the file that an id names; empty: it is no id of ours."""
    found = _FILE_ID.fullmatch(identity)
    try:
        return (bytes.fromhex(found[2]).decode(), found[1]) if found else ("", "")
    except UnicodeDecodeError:
        return "", ""

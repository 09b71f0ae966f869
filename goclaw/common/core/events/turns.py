"""Events of a turn, the questions and to-dos in them, and conversations as readers see them.

The bus numbers events per session; only `MessageStored` is kept forever, as a row.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

from goclaw.common.core.events.traffic import Address
from goclaw.common.core.messages import Artifact, Image, Message
from goclaw.common.core.records import record

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
    """The id of the tool that an approval is about."""
    digest: str = ""
    """The digest of an approval's call and everything that it depends on: the approval covers exactly this."""
    details: str = ""
    """Markdown, shown on demand: for an approval, what contains the call, and the call as the model wrote it."""
    always: str = ""
    """The words of an approval's button for ALWAYS."""

    @property
    def has_turn(self) -> bool:
        """Return whether a turn waits for it; an approval of no tool's call (may Ann write to you?) holds up none."""
        return self.kind == "question" or bool(self.about)

    @property
    def is_numbered(self) -> bool:
        """Return whether its options may be shown with numbers, that is no other number in it could be meant."""
        is_one_beside = any(map(_NUMBERED.match, self.options)) or _LISTED.search(f"{self.title}\n{self.text}")
        return bool(self.options) and not is_one_beside


DETAILS = "details"
"""The label of a button that shows an approval's details; it decides nothing."""
ALLOW, ALWAYS, DENY = "allow", "always", "deny"
"""The options of an approval. `always` is there only if a rule can be made of the call."""


@record
class Todo:
    """An item of the agent's to-do list."""

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


SessionPlace = tuple[float, str]
"""Where a session stands in the list, the latest first: when its last message was stored, then its key."""


@record
class SessionInfo:
    """An entry in a list of sessions. Times are seconds since the epoch."""

    key: str
    messages: int
    first_at: float
    last_at: float
    title: str = ""
    """The beginning of a person's last message."""

    @property
    def place(self) -> SessionPlace:
        """Return where it stands in the list."""
        return self.last_at, self.key


@record
class TranscriptRow:
    """A row of a transcript as stored, without data that only the model's provider can read."""

    row: int
    session: str
    turn: str
    step: str
    """The turn's step that wrote it."""
    role: Literal["user", "assistant", "notice", "tool_use", "tool_result"]
    """`notice`: GoClaw's own words in the place of an answer, or below one."""
    text: str
    at: float
    sender: str = ""
    """Actor key of a person."""
    context: str = ""
    """The line about time, sender and channel that the model reads before a person's text."""
    images: tuple[Image, ...] = ()
    name: str = ""
    """The name of a tool."""
    call_id: str = ""
    input: Mapping[str, Any] | None = None
    """The arguments of a `tool_use`."""
    is_error: bool = False
    hint: str = ""
    """The result of a call, in one line for people."""
    call_hint: str = ""
    """The activity of the result's call, in one line for people."""
    artifacts: tuple[Artifact, ...] = ()
    """Artifacts of a call or an answer, stored for people."""


@record
class CompactionRecord:
    """A summary that replaces everything before a row."""

    first_kept: int
    summary: str
    source: str
    tokens_before: int
    tokens_after: int
    at: float


@record
class Outline:
    """The state of a session apart from its rows."""

    session: str
    rows: int
    shown_from: int
    """The first row in the model's context."""
    cleared_to: int = 0
    """The last row that `/clear` hid."""
    begins: int = 0
    """The row where the requested number of last messages begins."""
    compactions: tuple[CompactionRecord, ...] = ()
    summary: CompactionRecord | None = None
    """The summary in the model's context."""


@record
class TurnStarted:
    turn: str
    session: str
    address: Address


@record
class TextStreamed:
    turn: str
    session: str
    text: str


@record
class ThinkingStreamed:
    turn: str
    session: str
    text: str


@record
class StreamRestarted:
    """The text streamed so far of this answer is void; views start it again."""

    turn: str
    session: str
    reason: str


@record
class ToolStarted:
    turn: str
    session: str
    call_id: str
    name: str
    input: Mapping[str, Any]
    hint: str = ""
    """The call's activity, in one line for people."""


@record
class ToolFinished:
    turn: str
    session: str
    call_id: str
    name: str
    content: str
    is_error: bool
    seconds: float
    hint: str = ""
    """The outcome, in one line for people."""
    artifacts: tuple[Artifact, ...] = ()
    denied: bool = False
    """The call needed approval, and did not get it."""


@record
class AgentProgress:
    """The activity of an agent that a call of the turn has started (its own events are those of its own session), or
    the progress of a call, reported by its tool."""

    turn: str
    session: str
    call_id: str
    """The call that started it."""
    agent: str
    """Its kind and, where it has one, the name of its task; else the tool."""
    doing: str
    """In one line for people: the hint of a tool that it uses, or the tool's own report."""


@record
class MessageStored:
    """A row of the transcript. `row` grows within a session and a client resumes from it."""

    turn: str
    session: str
    row: int
    message: Message
    at: float
    sender: str = ""
    joined: str = ""
    """For a message that joined the running turn (`/queue`): its own id, which became no turn."""


class NoticeKind(StrEnum):
    """The event that a notice reports, where a program acts on it."""

    TEXT = "text"
    """No more than its text."""
    PAUSED = "paused"
    RESUMED = "resumed"


@record
class Notice:
    """A line for the people who watch: compaction began, Ollama is away …"""

    session: str
    text: str
    turn: str = ""
    for_admins: bool = False
    """Whether it is a fault of the daemon, which token holders and readers of other people's sessions need not see."""
    code: str = ""
    """The code of a web page that asks to be let in: `/approve` with it does so."""
    kind: NoticeKind = NoticeKind.TEXT


@record
class QuestionAsked:
    """A turn waits for a person; or, without a turn, the message of another person does."""

    turn: str
    session: str
    question: Question


@record
class QuestionAnswered:
    """The turn goes on; views close the card."""

    turn: str
    session: str
    question_id: str
    answer: str
    """The decision, for people: `allow`, an option, a text; empty: not answered in time."""
    by: str = ""
    """Actor key of who answered."""


@record
class TodosChanged:
    """The session's to-do list, as it is now."""

    turn: str
    session: str
    todos: tuple[Todo, ...]


@record
class SessionForgotten:
    """The session's transcript is gone: views start again."""

    session: str
    turn: str = ""


class Outcome(StrEnum):
    """The outcome of a turn."""

    ANSWERED = "answered"
    CUT = "cut"  # answered up to the output limit of the model
    LIMITED = "limited"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def went_well(self) -> bool:
        """Return whether the person has an answer, even a partial one."""
        return self in (Outcome.ANSWERED, Outcome.CUT, Outcome.LIMITED)


@record
class TurnFinished:
    turn: str
    session: str
    outcome: Outcome
    text: str
    """The text for the user."""
    silent: bool = False
    """Whether no chat gets the text as a delivery: stopping the turn has been answered already, or a hook withholds it.
    """


TurnEvent = (
    TurnStarted
    | TextStreamed
    | ThinkingStreamed
    | StreamRestarted
    | ToolStarted
    | ToolFinished
    | AgentProgress
    | MessageStored
    | Notice
    | QuestionAsked
    | QuestionAnswered
    | TodosChanged
    | SessionForgotten
    | TurnFinished
)


@record
class SessionNow:
    """The state of a session that a client joining late needs besides the rows."""

    turn: str = ""
    """The running turn; empty: none."""
    since: float = 0.0
    """When it began, in epoch seconds."""
    text: str = ""
    """The text streamed so far of the current answer."""
    thinking: str = ""
    questions: tuple[Question, ...] = ()
    todos: tuple[Todo, ...] = ()

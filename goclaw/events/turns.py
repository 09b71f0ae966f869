"""Events of a turn. The bus numbers them per session; only `MessageStored` is kept forever, as a row."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from goclaw.events.people import Address
from goclaw.events.questions import Question, Todo
from goclaw.messages import Artifact, Message
from goclaw.records import record


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
    """The text streamed so far of this answer is void; views start it anew."""

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


@record
class AgentProgress:
    """The activity of an agent that a call of the turn has started (its own events are those of its own session), or
    the progress of a call whose tool reports it."""

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
    """A row of the transcript. `row` grows within a session and is what a client resumes from."""

    turn: str
    session: str
    row: int
    message: Message
    at: float
    sender: str = ""
    joined: str = ""
    """For a message that joined the running turn (`/queue`): its own id, which became no turn."""


@record
class Notice:
    """A line for the people who watch: compaction began, Ollama is away …"""

    session: str
    text: str
    turn: str = ""
    for_admins: bool = False
    """Whether it is a fault of the daemon, which token holders and readers of other people's sessions need not see."""


@record
class QuestionAsked:
    """A turn waits for a person."""

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
    """The session's transcript is gone: views start anew."""

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
    """The state of a session that a client joining late needs beside the rows."""

    turn: str = ""
    """The running turn; empty: none."""
    since: float = 0.0
    """When it began, in epoch seconds."""
    text: str = ""
    """The text streamed so far of the current answer."""
    thinking: str = ""
    questions: tuple[Question, ...] = ()
    todos: tuple[Todo, ...] = ()

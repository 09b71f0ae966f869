"""What happens during a turn. The bus numbers these per session; only `MessageStored` is kept forever, as a row."""

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
    """What was streamed of this answer so far is void; views start it anew."""

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
    """What it does, in one line for people."""


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
    """What an agent does that a call of the turn has started (its own events are those of its own session), or how far
    a call is whose tool says so."""

    turn: str
    session: str
    call_id: str
    """The call that started it."""
    agent: str
    """Its kind and, where it has one, the name of its task; else the tool."""
    doing: str
    """In one line for people: the hint of a tool that it uses, or what the tool says."""


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
    """Of a message that came while the turn ran and joined it (`/queue`): its own id, which became no turn."""


@record
class Notice:
    """A line for the people who watch: compaction began, Ollama is away …"""

    session: str
    text: str
    turn: str = ""
    for_admins: bool = False
    """A fault of the daemon: who has a token, or may read the session of another person, need not know of it."""


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
    """What was decided, for people: `allow`, an option, a text; empty: not answered in time."""
    by: str = ""
    """Actor key of who answered."""


@record
class TodosChanged:
    """The session's list of what is to be done, as it is now."""

    turn: str
    session: str
    todos: tuple[Todo, ...]


@record
class SessionForgotten:
    """The session's transcript is gone: views start anew."""

    session: str
    turn: str = ""


class Outcome(StrEnum):
    """How a turn ended."""

    ANSWERED = "answered"
    CUT = "cut"  # answered up to the output limit of the model
    LIMITED = "limited"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def went_well(self) -> bool:
        """Whether the person has an answer, be it a part of one."""
        return self in (Outcome.ANSWERED, Outcome.CUT, Outcome.LIMITED)


@record
class TurnFinished:
    turn: str
    session: str
    outcome: Outcome
    text: str
    """What the user reads."""
    silent: bool = False
    """No chat gets the text as a delivery: who stopped the turn has an answer already, or a hook keeps it back."""


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
    """What a client that comes late must know beside the rows."""

    turn: str = ""
    """The turn that runs; empty: none."""
    since: float = 0.0
    """When it began, in epoch seconds."""
    text: str = ""
    """What was streamed so far of the answer that is being written."""
    thinking: str = ""
    questions: tuple[Question, ...] = ()
    todos: tuple[Todo, ...] = ()

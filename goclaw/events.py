"""What crosses rooms: who speaks, what comes in, what goes out, what happens during a turn, and the gateway's port."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from goclaw.messages import Image, Message

LOCAL = "local"
"""The channel name of clients on the socket: their sessions are read from the transcript, nothing is sent to them."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts. Only an identity: rights are looked up by `access.authorize` at every use, never carried along."""

    key: str
    """The name in users.json: `telegram:<numeric user id>` or `tui:<name>`; empty for nobody."""
    entry: str
    """The way in: a channel's name, `socket`, `cli`."""
    owner: bool = False
    """True only where the operating system vouched for it: same uid on the socket, or the CLI under the state lock."""
    name: str = ""
    """A display name. Never used for a decision."""
    behalf: "tuple[Actor, ...]" = ()
    """For whom else the actor acts (a sub-agent's parents); every one of them must be allowed, too."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where an answer goes."""

    channel: str
    chat: str
    thread: str | None = None
    """A forum topic."""
    reply_to: str | None = None
    """The message that is answered; set in groups."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message, still at the channel until a turn fetches it."""

    kind: Literal["image", "document", "voice"]
    ref: str
    """The channel's own handle (Telegram: the file id)."""
    mime: str
    name: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Inbound:
    """One message from a person, as a channel hands it over."""

    id: str
    """Same id, same message: redelivery is dropped by this key. `telegram:<update id>`, `socket:<uuid>`."""
    actor: Actor
    session: str
    text: str
    address: Address
    received_at: float
    attachments: tuple[Attachment, ...] = ()


class AcceptKind(StrEnum):
    """What became of an `Inbound`."""

    TURN = "turn"
    """Journaled; the agent will answer."""
    REPLY = "reply"
    """A command, answered at once; the answer is in `text` and on its way to the address."""
    ANSWER = "answer"
    """It answered a question that a turn waits for."""
    DUPLICATE = "duplicate"
    IGNORED = "ignored"
    """The sender is nobody here."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The gateway's receipt: once a channel holds it, the message is on disk and may be acknowledged."""

    kind: AcceptKind
    turn: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Something to hand over to a chat."""

    id: str
    """Same id, same delivery."""
    address: Address
    text: str = ""
    """Markdown."""
    action: Literal["send", "react", "edit", "delete"] = "send"
    message_id: str | None = None
    """Which message to react to, edit or delete."""
    emoji: str | None = None
    media: str | None = None
    """Blob key of a file to send."""
    media_name: str = ""
    turn: str = ""
    """The turn that this answers: lets a channel end its live view of that turn."""
    session: str = ""
    """The session of that turn."""
    repeated: bool = False
    """True when an earlier try may have arrived unrecorded; the channel marks the message."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """A channel's word that a delivery arrived."""

    message_id: str
    """The (first) message's id at the channel, or empty where there is none."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer of `authorize`."""

    allowed: bool
    rule: str
    """Which rule decided, in words for logs and audits: `users.json telegram:5 allowedTools`."""


@dataclass(frozen=True, slots=True)
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
    """Choices, answered by number or text; an approval has ALLOW and DENY."""
    free_text: bool = True
    """Whether an answer may be something else than one of the options."""
    required: bool = False
    """Whether the asker needs an answer: `/deny` then fails the call instead of leaving the question open."""
    asked_at: float = 0.0
    expires_at: float | None = None
    """Epoch seconds after which the answer is no."""
    about: str = ""
    """The tool that an approval is about."""


ALLOW, DENY = "allow", "deny"
GONE = "There is no such question (any more)."
"""What somebody reads who answers a question that is gone, or that is not for them to answer."""


@dataclass(frozen=True, slots=True)
class Todo:
    """A line of the agent's list of what is to be done."""

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One line of a list of sessions. Times are seconds since the epoch."""

    key: str
    messages: int
    first_at: float
    last_at: float
    title: str = ""
    """How the last message of a person begins."""


@dataclass(frozen=True, slots=True)
class TranscriptRow:
    """One row of a transcript as the store has it, but for what only the model's provider can read."""

    row: int
    session: str
    turn: str
    step: str
    """The turn's step that wrote it."""
    role: Literal["user", "assistant", "tool_use", "tool_result"]
    text: str
    at: float
    sender: str = ""
    """Actor key of a person."""
    context: str = ""
    """The line about time, sender and channel that the model reads before a person's text."""
    images: tuple[Image, ...] = ()
    name: str = ""
    """Of a tool."""
    call_id: str = ""
    input: Mapping[str, Any] | None = None
    """The arguments of a `tool_use`."""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class CompactionRecord:
    """A summary that stands for everything before a row."""

    first_kept: int
    summary: str
    source: str
    tokens_before: int
    tokens_after: int
    at: float


@dataclass(frozen=True, slots=True)
class Outline:
    """A session beside its rows."""

    session: str
    rows: int
    shown_from: int
    """The first row that the model is shown."""
    cleared_to: int = 0
    """The last row that `/clear` hid."""
    begins: int = 0
    """The row where the last messages begin that were asked for."""
    compactions: tuple[CompactionRecord, ...] = ()
    summary: CompactionRecord | None = None
    """The one that the model is shown."""


# What happens during a turn. The bus numbers these per session; only `MessageStored` is kept for ever, as a row.


@dataclass(frozen=True, slots=True)
class TurnStarted:
    turn: str
    session: str
    address: Address


@dataclass(frozen=True, slots=True)
class TextStreamed:
    turn: str
    session: str
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingStreamed:
    turn: str
    session: str
    text: str


@dataclass(frozen=True, slots=True)
class StreamRestarted:
    """What was streamed of this answer so far is void; views start it anew."""

    turn: str
    session: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    turn: str
    session: str
    call_id: str
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolFinished:
    turn: str
    session: str
    call_id: str
    name: str
    content: str
    is_error: bool
    seconds: float


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for the people who watch: compaction began, Ollama is away …"""

    session: str
    text: str
    turn: str = ""


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """A turn waits for a person."""

    turn: str
    session: str
    question: Question


@dataclass(frozen=True, slots=True)
class QuestionAnswered:
    """The turn goes on; views close the card."""

    turn: str
    session: str
    question_id: str
    answer: str
    """What was decided, for people: `allow`, an option, a text; empty: nobody answered in time."""
    by: str = ""
    """Actor key of who answered."""


@dataclass(frozen=True, slots=True)
class TodosChanged:
    """The session's list of what is to be done, as it is now."""

    turn: str
    session: str
    todos: tuple[Todo, ...]


@dataclass(frozen=True, slots=True)
class SessionForgotten:
    """The session's transcript is gone: views start anew."""

    session: str
    turn: str = ""


class Outcome(StrEnum):
    """How a turn ended."""

    ANSWERED = "answered"
    LIMITED = "limited"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class TurnFinished:
    turn: str
    session: str
    outcome: Outcome
    text: str
    """What the user reads."""


TurnEvent = (
    TurnStarted
    | TextStreamed
    | ThinkingStreamed
    | StreamRestarted
    | ToolStarted
    | ToolFinished
    | MessageStored
    | Notice
    | QuestionAsked
    | QuestionAnswered
    | TodosChanged
    | SessionForgotten
    | TurnFinished
)


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """A slash command as menus and completions show it."""

    name: str
    summary: str


class GatewayPort(Protocol):
    """All that channels, servers and clients may ask of the gateway."""

    async def accept(self, inbound: Inbound) -> Acceptance:
        """Authorize, answer or journal. When this returns, the message is durable: the channel may acknowledge it."""
        ...

    def commands(self, actor: Actor | None) -> Sequence[CommandInfo]:
        """The commands that `actor` may use; those of a plain listed user for None."""
        ...

    def subscribe(self, session: str | None) -> AbstractAsyncContextManager[AsyncIterator[TurnEvent]]:
        """Events from now on, of one session or (for channels, which filter by address) of all.

        The stream of a subscriber that lags too far behind simply ends; it reads `history` and subscribes anew.
        """
        ...

    async def history(
        self, session: str, after: int = 0, limit: int = 200, before: int | None = None
    ) -> Sequence[MessageStored]:
        """The last `limit` rows of the transcript with `row > after` (and `row < before`), oldest first."""
        ...

    async def now(self, session: str) -> "SessionNow":
        """What goes on in a session, beside its transcript, at the moment when this returns."""
        ...

    async def sessions(self, actor: Actor) -> Sequence[SessionInfo]:
        """The sessions that `actor` may read, the latest first."""
        ...

    async def files(self, actor: Actor, begun: str) -> Sequence[str]:
        """Paths in the actor's workspace that match what somebody began to type after `@`; none without that right."""
        ...

    async def status(self, session: str) -> Mapping[str, Any]:
        """The numbers behind `/status`, for machines."""
        ...

    async def decide(self, actor: Actor, question: str, answer: str) -> str:
        """Answer an open question by its id: `allow` and `deny` for an approval, an option's text or number, a text.

        Returns a sentence for the person who answered.
        """
        ...

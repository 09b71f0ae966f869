"""What crosses rooms: who speaks, what comes in, what goes out, what happens during a turn, and the gateway's port."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from goclaw.messages import Message

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


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for the people who watch: compaction began, Ollama is away …"""

    session: str
    text: str
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
    | TurnFinished
)


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

    async def history(self, session: str, after: int = 0, limit: int = 200) -> Sequence[MessageStored]:
        """The last `limit` rows of the transcript with `row > after`, oldest first."""
        ...

    def partial(self, session: str) -> str:
        """The text streamed so far of the answer that is being written; empty when none is."""
        ...

    async def status(self, session: str) -> Mapping[str, Any]:
        """The numbers behind `/status`, for machines."""
        ...

    async def decide(self, actor: Actor, approval: str, allow: bool) -> str:
        """Answer a pending approval; returns a sentence for the person who pressed the button."""
        ...

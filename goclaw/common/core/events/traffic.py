"""Actors, addresses and decisions; messages from people and deliveries to them."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal

from goclaw.common.core.messages import Foreign, Image, Provenance, SourceKind
from goclaw.common.core.records import record

LOCAL = "local"
"""The channel name of clients on the socket: they read the transcript, and get no deliveries."""

UPLOADED = "blob:"
"""Begins the `Attachment.ref` of a file that came over the API: its key in the blob store follows."""

AGENT_MARK = "/agent:"
"""In the key of an agent's session, follows the session that the agent was started from."""


AGENT_TURN = ":agent:"
"""The same in the id of a turn: follows the turn that the agent works for. Deliveries for a turn are named after it
with a colon, too."""


PROGRAM_MARK = f"{AGENT_MARK}program."
"""In the key of a session that a program's request makes, follows the session of its user. Memory keeps nothing of it:
the program has the conversation, and sends it again with every request."""


def turn_of_agent(turn: str, agent: str) -> str:
    """Return the turn of an agent that was started in `turn`."""
    return f"{turn}{AGENT_TURN}{agent}"


def session_of_agent(session: str, agent: str) -> str:
    """Return the session of an agent that was started from `session`."""
    return f"{session}{AGENT_MARK}{agent}"


def session_of_program(session: str, request: str) -> str:
    """Return the session of a program's request, for the user of `session`."""
    return f"{session}{PROGRAM_MARK}{request}"


def root_session(session: str) -> str:
    """Return the session of the person for whom an agent works, however deep; for other sessions, `session` itself."""
    return session.partition(AGENT_MARK)[0]


@record
class Actor:
    """The identity of an acting user. Rights are looked up by `access.authorize` at every use, never carried along."""

    key: str
    """The name in users.json: `telegram:<numeric user id>` or `tui:<name>`; empty for an unknown user."""
    entry: str
    """The way in: a channel's name, `socket`, `http` (with a token), `web` (a device), `cli`."""
    owner: bool = False
    """True only where the operating system vouched for it: same uid on the socket, or the CLI under the state lock; and
    for a device of the web page that was let in on the socket."""
    name: str = ""
    """A display name. Never used for a decision."""
    behalf: "tuple[Actor, ...]" = ()
    """Further actors for whom this one acts (a sub-agent's parents); every one of them must be allowed, too."""


@record
class Address:
    """The destination of an answer."""

    channel: str
    chat: str
    thread: str | None = None
    """A forum topic."""
    reply_to: str | None = None
    """The message that is answered; set in groups."""


@record
class Decision:
    """The answer of `authorize`."""

    allowed: bool
    rule: str
    """The deciding rule, in words for logs and audits: `users.json telegram:5 allowedTools`."""
    input: Mapping[str, Any] | None = None
    """For a tool call: arguments that replace the requested ones; None: those stay."""
    ends_turn: bool = False
    """For a tool: a call that is refused or denied, by this decision or by a person, ends the turn."""


@record
class Attachment:
    """A file that came with a message, still at the channel until a turn fetches it."""

    kind: Literal["image", "document", "voice", "audio", "video", "video_note", "animation"]
    """`voice` and `video_note` were spoken into the chat; `audio` is a file with sound, `animation` film without."""
    ref: str
    """The channel's own handle (Telegram: the file id), or `UPLOADED` and a key."""
    mime: str
    name: str = ""
    size: int | None = None
    seconds: int = 0
    """How long a recording is; 0: unknown."""
    origin: Provenance | None = None
    """The origin, if it came with the message that this one answers; None: the sender, or the forwarded message."""


@record
class Beside:
    """Marks an `Inbound` that starts no turn: it is added to the session's next one."""

    kind: Literal["said", "reaction"]
    """`said`: to others in the group. `reaction`: the text describes the person's action, up to the message."""
    keep: int = 0
    """For `said`: how many of the latest are kept."""
    on: str = ""
    """For a reaction: the message's id at its channel."""


@record
class Unattended:
    """Marks an `Inbound` that the daemon itself made at a time or for an event: no person waits for its turn.

    One rule holds for all of these (schedules, heartbeat, webhooks): a call that would ask is refused, unless `ask`.
    """

    job: int
    """The row of its job; 0: it has none."""
    name: str
    """The maker, for people: the schedule's name, `heartbeat`, `webhook NAME`."""
    due: float = 0.0
    """When it was due, in epoch seconds."""
    ask: bool = False
    """Whether questions go to the chat, and the turn waits for their answers."""
    agent: str = ""
    """The agent that answers; empty: as for a message of the actor."""
    model: str = ""
    """The model that answers; empty: the agent's."""
    tools: tuple[str, ...] | None = None
    """A selection that limits the actor's tools; None: all of them."""
    budget: float | None = None
    """US dollars that the turn may cost; None: the agent's limit."""
    seconds: float | None = None
    """Time that the turn may take; None: the agent's limit."""
    signed: bool = False
    """Whether its result goes to another person, with its author's name and only where that one has agreed."""
    asked: bool = False
    """Whether a person ordered it or set its very time: quiet hours do not hold its result back."""
    source: SourceKind | None = None
    """The source that may have asked for it, besides its maker; None: none."""
    awaited: bool = False
    """Whether a program made it that waits for the answer: the program alone gets it, unchanged."""


@record
class Earlier:
    """A message of a conversation that a program keeps. It has no tool calls or results, so none can be forged."""

    role: Literal["user", "assistant"]
    text: str
    images: tuple[Image, ...] = ()


@record
class Given:
    """The things that a program sends with a message."""

    earlier: tuple[Earlier, ...] = ()
    """The conversation before the message, oldest first; for a session without messages only."""
    images: tuple[Image, ...] = ()
    """Pictures of the message, in the blob store."""


NOTHING_TO_SAY = "HEARTBEAT_OK"
"""The answer of an unattended turn that delivers nothing."""


@record
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
    ref: str = ""
    """The message's own name at its channel (`telegram:<chat>:<message id>`): the same when the person edits it."""
    edited: bool = False
    """Whether it is a new version of the message `ref`: it replaces the waiting one, and is dropped once a turn has
    read that."""
    foreign: tuple[Foreign, ...] = ()
    """Parts of the text that the sender did not write now."""
    sent_at: float = 0.0
    """When its sender sent it, in epoch seconds, as far as the channel says: it may have waited there; 0: unknown."""
    forwarded: bool = False
    """Whether the sender forwarded all of it, attachments included, from another author."""
    beside: Beside | None = None
    """Set if it is not addressed to the agent."""
    unattended: Unattended | None = None
    """Set if no person sent it."""
    given: Given | None = None
    """Set if a program sent more than a text."""

    @property
    def pieces(self) -> Iterator[tuple[str, str, Provenance | None]]:
        """Yield the text in pieces, each with its origin (empty: the sender wrote it) and its provenance."""
        at = 0
        for piece in self.foreign:
            yield self.text[at : piece.start], "", None
            yield self.text[piece.start : piece.end], piece.origin, piece.provenance
            at = piece.end
        yield self.text[at:], "", None

    @property
    def own_words(self) -> str:
        """Return the text without parts by others."""
        return "".join(text for text, origin, _ in self.pieces if not origin).strip()


class AcceptKind(StrEnum):
    """The handling of an `Inbound`."""

    TURN = "turn"
    """Journaled; the agent will answer."""
    REPLY = "reply"
    """A command, answered at once; the answer is in `text` and on its way to the address."""
    ANSWER = "answer"
    """It answered a question that a turn waits for."""
    REPLACED = "replaced"
    """An edited message: it took the place of its older version, which still waited."""
    NOTED = "noted"
    """An edit of a message already read, a reaction, or words to others: the next turn gets it."""
    DUPLICATE = "duplicate"
    IGNORED = "ignored"
    """The sender may do nothing here, or the edited message is not waiting any more."""


class AnswerRefusal(StrEnum):
    """Why an answer to a question does not count."""

    GONE = "gone"
    """There is no such question (any more), or it is not for this person."""
    DECIDED = "decided"
    """Another answer came first."""
    INVALID = "invalid"
    """The question takes no such answer, and is still open."""


@record
class Acceptance:
    """The gateway's receipt: once a channel holds it, the message is on disk and may be acknowledged."""

    kind: AcceptKind
    turn: str = ""
    text: str = ""
    session: str = ""
    """The session of the turn: users.json may name another one than the channel did."""
    markdown: bool = False
    """Whether `text` is Markdown with headings and tables, not plain lines."""
    refusal: AnswerRefusal | None = None
    """Reason that it does not count as an answer; None: it counts, or it is no answer."""


@record
class Choice:
    """A button below a message: pressing it answers a question, through `GatewayPort.decide` as the person who pressed
    it."""

    label: str
    question: str
    answer: str
    place: int | None = None
    """Its index among the question's options, where that is not its place among the buttons."""


@record
class Delivery:
    """A message, file or change to be sent to a chat."""

    id: str
    """Same id, same delivery."""
    address: Address
    text: str = ""
    """Markdown."""
    action: Literal["send", "react", "edit", "delete"] = "send"
    message_id: str | None = None
    """The message to react to, edit or delete."""
    emoji: str | None = None
    media: str | None = None
    """Blob key of a file to send."""
    media_name: str = ""
    turn: str = ""
    """The turn that this answers: lets a channel end its live view of that turn."""
    interim: bool = False
    """Whether the turn goes on behind it, and so does its live view."""
    session: str = ""
    """The session of that turn."""
    choices: tuple[Choice, ...] = ()
    """Buttons; only the daemon itself makes them, never a tool or a model."""
    asks: bool = False
    """Whether it asks a person a question: only the daemon's own `of` may change or remove it."""
    author: str = ""
    """The name of the person whose words these are, where the receiver is another one: it stands above each part of a
    message that a channel has to split. The text itself begins with it."""
    of: str = ""
    """For an edit: the id of the delivery whose message it changes, in place of `message_id`."""


@record
class Receipt:
    """A channel's confirmation that a delivery arrived."""

    message_id: str
    """The (first) message's id at the channel; empty where it has no ids."""
    held: bool = False
    """Whether it waits until its receiver has agreed."""

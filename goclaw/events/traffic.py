"""What comes in from people and what goes out to them."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Literal

from goclaw.events.people import Actor, Address
from goclaw.messages import Foreign, Provenance
from goclaw.records import record


@record
class Attachment:
    """A file that came with a message, still at the channel until a turn fetches it."""

    kind: Literal["image", "document", "voice", "audio", "video", "video_note", "animation"]
    """`voice` and `video_note` were spoken into the chat; `audio` is a file with sound, `animation` film without."""
    ref: str
    """The channel's own handle (Telegram: the file id)."""
    mime: str
    name: str = ""
    size: int | None = None
    seconds: int = 0
    """How long a recording is; 0: unknown."""
    origin: Provenance | None = None
    """Whose it is, where it came with the message that this one answers; None: the sender's, or what they passed on."""


@record
class Beside:
    """What makes an `Inbound` no message to the agent: it starts no turn, and goes with the session's next one."""

    kind: Literal["said", "reaction"]
    """`said`: to others in the group. `reaction`: the text says what the person did, up to the message."""
    keep: int = 0
    """Of what was said: how many of the latest are kept."""
    on: str = ""
    """Of a reaction: the message's id at its channel."""


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
    """A new version of the message `ref`: it replaces the one that waits, and is dropped once that one was taken up."""
    foreign: tuple[Foreign, ...] = ()
    """What of the text the sender did not write now."""
    sent_at: float = 0.0
    """When its sender sent it, in epoch seconds, as far as the channel says: it may have waited there; 0: unknown."""
    forwarded: bool = False
    """All of it is another's, what came with it included; the sender only passed it on."""
    beside: Beside | None = None
    """It is not said to the agent."""

    @property
    def pieces(self) -> Iterator[tuple[str, str, Provenance | None]]:
        """The text in pieces, each with its origin (empty: the sender wrote it) and its provenance."""
        at = 0
        for piece in self.foreign:
            yield self.text[at : piece.start], "", None
            yield self.text[piece.start : piece.end], piece.origin, piece.provenance
            at = piece.end
        yield self.text[at:], "", None

    @property
    def own_words(self) -> str:
        """The text without what others wrote."""
        return "".join(text for text, origin, _ in self.pieces if not origin).strip()


class AcceptKind(StrEnum):
    """What became of an `Inbound`."""

    TURN = "turn"
    """Journaled; the agent will answer."""
    REPLY = "reply"
    """A command, answered at once; the answer is in `text` and on its way to the address."""
    ANSWER = "answer"
    """It answered a question that a turn waits for."""
    REPLACED = "replaced"
    """An edited message: it took the place of its older version, which still waited."""
    NOTED = "noted"
    """An edit of what was heard already, a reaction, or words to others: the next turn is told."""
    DUPLICATE = "duplicate"
    IGNORED = "ignored"
    """The sender may do nothing here, or the message is a new version of one that does not wait any more."""


@record
class Acceptance:
    """The gateway's receipt: once a channel holds it, the message is on disk and may be acknowledged."""

    kind: AcceptKind
    turn: str = ""
    text: str = ""
    session: str = ""
    """Where the turn will run: users.json may name another session than the channel did."""
    markdown: bool = False
    """Whether `text` has headings and tables, and is no plain lines."""


@record
class Choice:
    """A button below a message: pressing it answers a question, through `GatewayPort.decide` as the person who did."""

    label: str
    question: str
    answer: str


@record
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
    interim: bool = False
    """The turn goes on behind it, and so does its live view."""
    session: str = ""
    """The session of that turn."""
    choices: tuple[Choice, ...] = ()
    """Buttons; only the daemon itself makes them, never a tool or a model."""
    asks: bool = False
    """It puts a question to a person: nothing but the daemon's own `of` may change or remove it."""
    of: str = ""
    """For an edit: the id of the delivery whose message it changes, in place of `message_id`."""


@record
class Receipt:
    """A channel's word that a delivery arrived."""

    message_id: str
    """The (first) message's id at the channel; empty where it has no ids."""

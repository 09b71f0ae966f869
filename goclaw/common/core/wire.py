"""The frames that clients and the daemon exchange: JSON texts over a WebSocket.

A client attaches to one session, gets the events it missed and the answer that is being written, and then every event
of the session. It may send messages; each has an id of the client's own, so that one sent again after a break is not
taken twice. Events are numbered (`past`): a client that comes back says which it has, and gets the others.

Client and daemon may be of different versions. What one does not know of the other's frames and fields it passes over;
new fields have defaults with the meaning from before them.
"""

from dataclasses import field
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationError

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import (
    Acceptance,
    CommandInfo,
    MessageStored,
    Outline,
    SessionInfo,
    SessionNow,
    SessionPlace,
    TranscriptRow,
    TurnEvent,
)
from goclaw.common.core.records import record

PATH = "/ws"
LINK_PATH = "/web/link"
"""Path on the Unix socket: POST makes a one-time link to the web page, for `?user=`, else for the owner."""
PROTOCOL = 1
"""The version of the protocol; 0: older than this number.

1: events are numbered, `Ack`; a client that was cut off goes on where it was.
"""
MAX_FRAME = 4 << 20
"""Bytes of one frame: a pasted log fits, a flood does not."""

MAX_NAME = 200
"""Characters of a session's key, and of a client's id for a message."""
LAST_ROW = 2**63 - 1
"""The store numbers rows up to this."""
MAX_SESSIONS = 1_000
"""In one frame: well below its limit, with the longest keys and titles."""
MAX_ROWS = 100_000
"""Rows that a client can ask for at once."""

# From the client


@record
class Attach:
    """First frame of a connection: the session (empty, over TCP: the person's own) and the last row of the client."""

    session: Annotated[str, Field(max_length=MAX_NAME)]
    after: Annotated[int, Field(ge=0, le=LAST_ROW)] = 0
    limit: Annotated[int, Field(ge=0, le=MAX_ROWS)] = 50
    protocol: Annotated[int, Field(ge=0)] = 0
    client: Annotated[str, Field(max_length=MAX_NAME)] = ""
    """A name that no other client has, the same after every break; empty: this one will not come back."""
    epoch: Annotated[str, Field(max_length=MAX_NAME)] = ""
    """With `seen`: the last event that the client has, of an earlier connection."""
    seen: Annotated[int, Field(ge=0, le=LAST_ROW)] = 0
    type: Literal["attach"] = "attach"


@record
class Ack:
    """Everything up to this event is on the client's screen: it need not be kept for it. Not answered."""

    seen: Annotated[int, Field(ge=0, le=LAST_ROW)]
    type: Literal["ack"] = "ack"


@record
class Send:
    """A person's message or command."""

    id: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    text: str
    type: Literal["send"] = "send"


@record
class Decide:
    """An answer to an open question, by its id; the daemon's `Accepted` holds the sentence for the person."""

    id: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    question: Annotated[str, Field(max_length=MAX_NAME)]
    answer: str
    type: Literal["decide"] = "decide"


@record
class AskStatus:
    """The numbers of `/status`."""

    type: Literal["ask_status"] = "ask_status"


@record
class AskOlder:
    """Rows before `before`, for a person who scrolls up."""

    before: Annotated[int, Field(ge=1, le=LAST_ROW)]
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 50
    type: Literal["ask_older"] = "ask_older"


@record
class AskSessions:
    """The next sessions that may be attached to, the latest first; with those of agents, which may only be read."""

    agents: bool = False
    after: SessionPlace | None = None
    """`SessionInfo.place` of the last one before; None: from the first on."""
    limit: Annotated[int, Field(ge=1, le=MAX_SESSIONS)] = MAX_SESSIONS
    type: Literal["ask_sessions"] = "ask_sessions"


@record
class AskFiles:
    """Paths of the workspace for the text typed after `@`."""

    begun: Annotated[str, Field(max_length=4_096)]
    type: Literal["ask_files"] = "ask_files"


@record
class AskRows:
    """The next rows of the transcript after `after`, oldest first: as many as suit one frame."""

    after: Annotated[int, Field(ge=0, le=LAST_ROW)] = 0
    type: Literal["ask_rows"] = "ask_rows"


@record
class AskOutline:
    """The session apart from its rows, and where its last `last` messages begin."""

    last: Annotated[int, Field(ge=0, le=LAST_ROW)] = 0
    type: Literal["ask_outline"] = "ask_outline"


@record
class AskArtifact:
    """A request for an artifact of the session, by its key."""

    blob: Annotated[str, Field(max_length=MAX_NAME)]
    type: Literal["ask_artifact"] = "ask_artifact"


@record
class AskMemory:
    """A query of `goclaw memory` or `goclaw tool run`; see `memory.memory_queries.MemoryQuery`."""

    order: Literal["search", "list", "status", "reindex", "talks", "heard"]
    query: Annotated[str, Field(max_length=100_000)] = ""
    user: Annotated[str, Field(max_length=MAX_NAME)] = ""
    everybody: bool = False
    limit: Annotated[int, Field(ge=0, le=50)] = 0
    wanted: dict[str, Any] = field(default_factory=dict)
    type: Literal["ask_memory"] = "ask_memory"


ClientFrame = (
    Attach
    | Ack
    | Send
    | Decide
    | AskStatus
    | AskOlder
    | AskSessions
    | AskFiles
    | AskRows
    | AskOutline
    | AskArtifact
    | AskMemory
)

# From the daemon


@record
class Attached:
    """Answer to `Attach`: rows that the client lacks, and what goes on."""

    session: str
    history: list[MessageStored]
    now: SessionNow
    commands: list[CommandInfo]
    greeting: str
    """The model that answers, what is not set up, and how to set it up: at most four lines."""
    anew: bool = False
    """The row that the client has last is gone (`/forget`, retention): what it shows is, too."""
    protocol: int = 0
    epoch: str = ""
    """Which count of events; empty: they are not numbered."""
    seen: int = 0
    """After which event of it this connection begins: `history` and `now` hold everything up to there."""
    goes_on: bool = False
    """The client has missed nothing but what follows as events: there is no history, and `now` is of no concern."""
    clock: float = 0.0
    """The daemon's seconds at this moment, by which events are timed: those may have waited, here or on their way."""
    person: str = ""
    """Key of the user as whom the client acts; empty: an older daemon, which does not say."""
    type: Literal["attached"] = "attached"


@record
class Accepted:
    """Answer to `Send` and `Decide`: the message is on disk, or a text for the person."""

    id: str
    acceptance: Acceptance
    type: Literal["accepted"] = "accepted"


@record
class Status:
    """Answer to `AskStatus`."""

    numbers: dict[str, Any]
    type: Literal["status"] = "status"


@record
class Older:
    """Answer to `AskOlder`, oldest first."""

    before: int
    rows: list[MessageStored]
    type: Literal["older"] = "older"


@record
class SessionsReply:
    """Answer to `AskSessions`, the latest first."""

    sessions: list[SessionInfo]
    more: bool = False
    """Whether others follow."""
    type: Literal["sessions"] = "sessions"


@record
class FilesReply:
    """Answer to `AskFiles`."""

    begun: str
    paths: list[str]
    type: Literal["files"] = "files"


@record
class Rows:
    """Answer to `AskRows`; empty: there are no more."""

    rows: list[TranscriptRow]
    type: Literal["rows"] = "rows"


@record
class OutlineFrame:
    """Answer to `AskOutline`."""

    outline: Outline
    type: Literal["outline"] = "outline"


@record
class ArtifactFrame:
    """Answer to `AskArtifact`."""

    blob: str
    text: str
    """The beginning of the artifact; if it is gone, the reason."""
    cut: bool = False
    """There is more."""
    type: Literal["artifact"] = "artifact"


@record
class MemoryFrame:
    """Answer to `AskMemory`."""

    answer: dict[str, Any]
    type: Literal["memory"] = "memory"


@record
class Happened:
    """Something happened in the session."""

    name: str
    event: dict[str, Any] = field(default_factory=dict)
    number: int = 0
    """The event's number in the epoch of the connection; 0: none. Texts that were joined have their last one's."""
    at: float = 0.0
    """Time of the event, on the clock of `Attached.clock`; 0: just now."""
    type: Literal["happened"] = "happened"


@record
class Refused:
    """The client did something that the daemon does not take."""

    reason: str
    id: str = ""
    """Id of the refused `Send` or `Decide`, if it was one."""
    rule: str = ""
    """The rule that denies the client what it wants; empty: something else is wrong."""
    type: Literal["refused"] = "refused"


ServerFrame = (
    Attached
    | Accepted
    | Status
    | Older
    | SessionsReply
    | FilesReply
    | Rows
    | OutlineFrame
    | ArtifactFrame
    | MemoryFrame
    | Happened
    | Refused
)

CLIENT_FRAME: Codec[ClientFrame] = Codec(Annotated[ClientFrame, Field(discriminator="type")])
SERVER_FRAME: Codec[ServerFrame] = Codec(Annotated[ServerFrame, Field(discriminator="type")])

_EVENTS: dict[str, Codec[Any]] = {kind.__name__: Codec(kind) for kind in get_args(TurnEvent)}


def event_frame(event: TurnEvent, number: int = 0, at: float = 0.0) -> Happened:
    """Return an event as a frame."""
    name = type(event).__name__
    return Happened(name, _EVENTS[name].to_data(event), number, at)


def event_of(frame: Happened) -> TurnEvent | None:
    """Return the event in a frame; None for one of another version with unknown content."""
    adapter = _EVENTS.get(frame.name)
    try:
        event: TurnEvent | None = adapter.from_data(frame.event) if adapter else None
    except ValidationError:
        return None
    return event


def frame_of(text: str) -> ServerFrame | None:
    """Return a daemon's frame; None for a kind that only a newer daemon knows.

    Raises:
        ValidationError: it is of a kind that is known, and cannot be read all the same.
    """
    try:
        return SERVER_FRAME.from_json(text)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] == "union_tag_invalid":
            return None
        raise

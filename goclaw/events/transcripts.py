"""Conversations for readers: lists, rows, compactions."""

from collections.abc import Mapping
from typing import Any, Literal

from goclaw.messages import Artifact, Image
from goclaw.records import record


@record
class SessionInfo:
    """An entry in a list of sessions. Times are seconds since the epoch."""

    key: str
    messages: int
    first_at: float
    last_at: float
    title: str = ""
    """The beginning of a person's last message."""


@record
class TranscriptRow:
    """A row of a transcript as stored, without data that only the model's provider can read."""

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
    """Artifacts of a call, stored for people."""


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
    """The state of a session beside its rows."""

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

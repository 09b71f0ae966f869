"""Conversations as readers see them: lists, rows, compactions."""

from collections.abc import Mapping
from typing import Any, Literal

from goclaw.messages import Artifact, Image
from goclaw.records import record


@record
class SessionInfo:
    """One line of a list of sessions. Times are seconds since the epoch."""

    key: str
    messages: int
    first_at: float
    last_at: float
    title: str = ""
    """How the last message of a person begins."""


@record
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
    hint: str = ""
    """What came of a call, in one line for people."""
    call_hint: str = ""
    """What the call of a result did, in one line for people."""
    artifacts: tuple[Artifact, ...] = ()
    """What a call kept for people."""


@record
class CompactionRecord:
    """A summary that stands for everything before a row."""

    first_kept: int
    summary: str
    source: str
    tokens_before: int
    tokens_after: int
    at: float


@record
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

"""The conversation as plain data: messages, tool calls and tool results.

No library's types appear here. Data that a provider must get back (signed thinking, say) travels
with an answer as an opaque `Native` and is dropped when another provider reads the conversation.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from goclaw.common.core.records import record

NO_LONGER_KEPT = "[picture no longer kept]"
"""Stands in a transcript, and before a model, for a picture whose bytes are gone (`media.max_megabytes`)."""
_DENIED_BEFORE = '{"result": "denied: '
"""How the result of a denied call begins: the only mark of one in what former versions wrote."""
NOT_SEEN = "[this model does not see pictures: say so, or find out in another way]"
"""Stands before a model that is blind for a picture that a tool gave it."""


@record
class Image:
    """A picture, or a document for models that take documents, kept by the blob store."""

    blob: str
    """SHA-256 of the bytes, in hex: the key in the blob store."""
    mime: str
    """`image/jpeg`, `image/png`, `image/gif` or `image/webp`; of a document `application/pdf`."""
    pages: int = 0
    """The number of pages of a document; 0: it is a picture."""
    size: int = 0
    """The number of bytes of a document."""


SAID, SENT, NAMED = "said", "sent", "named"
"""Kinds of artifacts that are messages, not data of a tool: a text and a file that the agent sent to its own
conversation by a call, and a file that its answer names."""
SAID_NAME = "message.md"


@record
class Artifact:
    """Data for people in addition to a result or an answer; the model never gets it."""

    kind: str
    """The tool's name for it, `SAID`, `SENT` or `NAMED`."""
    blob: str
    """Its key in the blob store."""
    mime: str
    name: str
    """A file name for it; of a file that was sent or named its path in the workspace."""
    size: int
    """Bytes."""
    text: str = ""
    """The whole text of a message, in Markdown."""

    @property
    def is_file(self) -> bool:
        """Whether it is a file that the agent hands over."""
        return self.kind in (SENT, NAMED)


@record
class ToolCall:
    """The model asks for a tool."""

    id: str
    name: str
    input: dict[str, Any]


@record
class Native:
    """A provider's own form of an answer, for replay to that same provider."""

    provider: str
    schema: int
    """Version of `content`'s shape; a wire ignores numbers that it does not know."""
    content: Any
    """JSON data."""


class SourceKind(StrEnum):
    """The origin of a part of the conversation."""

    UNKNOWN = "unknown"
    """Somewhere outside: rows from before provenance was kept say no more."""
    PERSON = "person"
    """The sender wrote it, at another time."""
    AGENT = "agent"
    """The agent itself said it."""
    VOICE = "voice"
    """The sender spoke it, and a machine wrote it down."""
    OTHER = "other"
    """Another person."""
    FORWARDED = "forwarded"
    FILE = "file"
    """Files, notes and conversations of the people here."""
    DOCUMENT = "document"
    """Such a one in which others wrote, or that was made while the agent had read what others wrote."""
    WEB = "web"
    TOOL = "tool"
    MCP = "mcp"
    HOOK = "hook"
    """A program of the operator's."""

    @classmethod
    def _missing_(cls, value: object) -> "SourceKind":
        return cls.UNKNOWN  # a newer version wrote the row


OWN = frozenset({SourceKind.PERSON, SourceKind.AGENT, SourceKind.HOOK})
"""Sources inside the conversation: their words count as what they are, and are no material from outside."""


@record
class Provenance:
    """Origin of a part of a message. Rules rest on it, never on the words that the model is shown about it."""

    kind: SourceKind = SourceKind.UNKNOWN
    author: str = ""
    """Actor key of the person who wrote it; empty: not known, or no person."""

    @property
    def is_own(self) -> bool:
        """Whether the sender, the agent or the operator wrote it."""
        return self.kind in OWN


@record
class Foreign:
    """A piece of a text that its sender did not write now: forwarded, quoted, or read in a file."""

    start: int
    end: int
    """The first character after it. Pieces of one text are in order and apart."""
    origin: str
    """Name of the source, for the model: `forwarded from Bob`. Names in it were chosen by their bearers."""
    provenance: Provenance | None = None
    """The same for rules; None: from outside, of an unknown source."""
    blob: str = ""
    """Key of the document among the message's images that it is the text of; empty: of none."""

    @property
    def is_own(self) -> bool:
        """Whether its words are the sender's, the agent's or the operator's."""
        return self.provenance is not None and self.provenance.is_own


Piece = tuple[str, str] | tuple[str, str, Provenance | None] | tuple[str, str, Provenance | None, str]
"""A text, its origin in words (empty: the sender writes it now, or GoClaw does), its provenance, and its document."""


def join(pieces: Iterable[Piece]) -> tuple[str, tuple[Foreign, ...]]:
    """Put pieces together to one text of a line or more each.

    Empty pieces are left out, and so is blank space around pieces without an origin.
    """
    lines: list[str] = []
    foreign: list[Foreign] = []
    at = 0
    for text, origin, *source in pieces:
        if not text.strip():
            continue
        lines.append(text if origin else text.strip())
        if origin:
            foreign.append(Foreign(at, at + len(text), origin, *source))
        at += len(lines[-1]) + 1
    return "\n".join(lines), tuple(foreign)


def shift(pieces: tuple[Foreign, ...], by: int) -> tuple[Foreign, ...]:
    """Return the pieces of a text that got `by` characters before it."""
    return tuple(replace(piece, start=piece.start + by, end=piece.end + by) for piece in pieces)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class UserMessage:
    """A message to the model by a person, or by the gateway in a person's place."""

    text: str
    images: tuple[Image, ...] = ()
    foreign: tuple[Foreign, ...] = ()
    told: str = field(default="", compare=False)
    """Text of the operator's hooks for the model; people are not shown it. Stored with the row's context."""
    role: Literal["user"] = "user"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class AssistantMessage:
    """One whole answer of a model: text, then tool calls."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    native: Native | None = None
    withheld: bool = field(default=False, compare=False)
    """A hook of the operator keeps the answer from the person."""
    deferred: bool = field(default=False, compare=False)
    """Its text reaches a chat in front of the next one of its turn (`turns.answers`)."""
    artifacts: tuple[Artifact, ...] = field(default=(), compare=False)
    """The files that the text names, as they were then."""
    notice: bool = False
    """The text is GoClaw's to the person, in the place of an answer or below one: why there is no more. No model wrote
    it, and none is shown it as its own."""
    role: Literal["assistant"] = "assistant"

    @property
    def is_interim(self) -> bool:
        """Whether it says something to the person before its calls."""
        return bool(self.calls and self.text.strip()) and not self.withheld


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ToolResult:
    """The answer to the `ToolCall` with the same id. Every call has exactly one."""

    call_id: str
    name: str
    content: str
    is_error: bool = False
    foreign: bool = field(default=False, compare=False)
    """The content is from outside (a file, a command, the web), not GoClaw's own words."""
    provenance: Provenance | None = field(default=None, compare=False)
    """Origin of a content from outside; None: of an unknown source."""
    hint: str = field(default="", compare=False)
    """The outcome, in one line for people."""
    call_hint: str = field(default="", compare=False)
    """The call in one line for people, as shown while it ran."""
    artifacts: tuple[Artifact, ...] = field(default=(), compare=False)
    """Artifacts kept for people."""
    images: tuple[Image, ...] = ()
    """Images for a model that accepts them, in addition to the content."""
    reminds: bool = field(default=False, compare=False)
    """The reminder that its tool declares belongs to it: the call ran, and gave what it should."""
    ends_turn: bool = field(default=False, compare=False)
    """Whether to end the turn, because the call was refused or denied (`policy.deny_ends_turn`)."""
    malformed: bool = field(default=False, compare=False)
    """The call did not run for its form alone: its arguments do not fit the schema, or its name is near a tool's."""
    denied: bool = field(default=False, compare=False)
    """The call needed approval, and did not get it."""
    lacking: tuple[str, ...] = field(default=(), compare=False)
    """The required arguments that the call lacked, where the agent's policy handles that (`on_missing_fields`)."""
    role: Literal["tool_result"] = "tool_result"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Read what former versions wrote, too (https://docs.pydantic.dev/latest/concepts/types/#custom-types)."""
        return {
            "type": "function-before",
            "function": {"type": "no-info", "function": _add_denial},
            "schema": handler(source),
        }


def was_denied(denied: Any, content: str) -> bool:
    """Return whether a stored result is that of a denied call.

    Args:
        denied: the stored field; None: a former version wrote the result, and its text alone tells.
    """
    return content.startswith(_DENIED_BEFORE) if denied is None else bool(denied)


def _add_denial(data: Any) -> Any:
    if not isinstance(data, dict) or "denied" in data:
        return data
    return data | {"denied": was_denied(None, str(data.get("content")))}


Message = UserMessage | AssistantMessage | ToolResult


def outside_sources(messages: Iterable[Message]) -> frozenset[SourceKind]:
    """Return the sources outside the conversation from which parts of some messages come.

    A file that a person handed over counts as a document: others may have written it.
    """
    found: set[SourceKind] = set()
    for message in messages:
        match message:
            case ToolResult(foreign=True, provenance=provenance):
                found.add(provenance.kind if provenance else SourceKind.UNKNOWN)
            case UserMessage(foreign=pieces):
                outside = (piece.provenance for piece in pieces if not piece.is_own)
                kinds = (provenance.kind if provenance else SourceKind.UNKNOWN for provenance in outside)
                found.update(SourceKind.DOCUMENT if kind is SourceKind.FILE else kind for kind in kinds)
    return frozenset(found)

"""A transcript for people at a terminal: what each has said, indented below a line that says who and when."""

import textwrap
from datetime import datetime

import orjson

from goclaw.cli.transcripts.jsonl import masked
from goclaw.cli.transcripts.source import Entry, Kept
from goclaw.events import CompactionRecord, Outline, TranscriptRow
from goclaw.messages import NO_LONGER_KEPT
from goclaw.redact import mask

ASSISTANT = "assistant"
INDENT = "  "


class Plain:
    """A writer of plain text. Nothing in a message can look like the lines about sender and time.

    `kept`: whether a picture still exists.
    """

    def __init__(self, kept: Kept = lambda key: True) -> None:
        self._kept = kept
        self._cleared_to = 0

    def head(self, outline: Outline) -> str:
        """Return a line about the conversation."""
        self._cleared_to = outline.cleared_to
        return f"{outline.session}: {outline.rows:,} rows\n"

    def entry(self, entry: Entry) -> str:
        """Format one row, or a summary in the place of the rows before it."""
        if isinstance(entry, CompactionRecord):
            return f"\n{when(entry.at)}  {_compaction(entry)}\n{_indented(entry.summary)}"
        hidden = "\n(what is above was hidden from the model by /clear)\n" if self._crosses_clear(entry) else ""
        return hidden + _row(entry, self._kept)

    def _crosses_clear(self, row: TranscriptRow) -> bool:
        crossed = bool(self._cleared_to) and row.row > self._cleared_to
        if crossed:
            self._cleared_to = 0
        return crossed


def _row(row: TranscriptRow, kept: Kept) -> str:
    match row.role:
        case "tool_use":
            return _indented(f"> {row.name} {orjson.dumps(masked(row.input)).decode()}")
        case "tool_result":
            failed = " failed" if row.is_error else ""
            return _indented(f"< {row.name}{failed}: {row.text}")
        case _:
            speaker = row.sender or "user" if row.role == "user" else ASSISTANT
            pictures = [
                f"[picture {image.blob}, {image.mime}]" if kept(image.blob) else NO_LONGER_KEPT for image in row.images
            ]
            words = "\n".join([row.text, *pictures]).strip("\n")
            return f"\n{when(row.at)}  {speaker}\n{_indented(words)}"


def when(at: float) -> str:
    """Format a moment in the reader's time zone."""
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M}"


def _compaction(record: CompactionRecord) -> str:
    sizes = f"{record.tokens_before:,} to {record.tokens_after:,} tokens"
    return f"summary of what is before (source: {record.source}, {sizes})"


def _indented(text: str) -> str:
    return textwrap.indent(mask(text), INDENT, lambda _: True) + "\n" if text else ""

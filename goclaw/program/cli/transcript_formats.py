"""Formats of transcripts: for people at a terminal, a Markdown document, lines of JSON. Secrets are masked in all.

No message can reshape the Markdown document. Only our own headings stand at the margin. A person's message is a
quotation, a tool's result a fenced block with a fence longer than any in it. A text with raw HTML, pictures from
elsewhere, link definitions (they would hold for the whole document) or links that run something is fenced, too: shown
as it was written.
"""

import re
import textwrap
from datetime import datetime
from functools import cache
from typing import Any

import orjson
from markdown_it import MarkdownIt
from markdown_it.token import Token

from goclaw.common.core.events import CompactionRecord, Outline, TranscriptRow
from goclaw.common.core.messages import NO_LONGER_KEPT, Image
from goclaw.common.core.redact import mask, printable
from goclaw.durable.store.transcripts import NOTICE
from goclaw.program.cli.transcripts import Entry, Kept

ASSISTANT = "assistant"
_SPEAKERS = {NOTICE: "GoClaw"}
"""Speakers that are neither a person nor a model, by role."""
INDENT = "  "

_TRACES = ("<", "![", "]:", "](")
"""Without one of these a text holds nothing that has to be fenced: most texts need not be parsed."""
_ACTIVE = frozenset({"html_block", "html_inline", "image"})
_HARMLESS_LINK = re.compile(r"(?:https?|mailto):|[^:]*$", re.IGNORECASE)
_LINE_ENDS = re.compile(r"\r\n?")
_WHITE = re.compile(r"\s+")


class PlainWriter:
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
            sizes = f"{entry.tokens_before:,} to {entry.tokens_after:,} tokens"
            words = f"summary of the messages above (source: {entry.source}, {sizes})"
            return f"\n{when(entry.at)}  {words}\n{_indent(entry.summary)}"
        text = _row(entry, self._kept)
        if not 0 < self._cleared_to < entry.row:
            return text
        self._cleared_to = 0
        return f"\n(/clear hid the messages above from the model)\n{text}"


def _row(row: TranscriptRow, kept: Kept) -> str:
    match row.role:
        case "tool_use":
            return _indent(f"> {row.name} {orjson.dumps(mask_json(row.input)).decode()}")
        case "tool_result":
            failed = " failed" if row.is_error else ""
            return _indent(f"< {row.name}{failed}: {row.text}")
        case _:
            speaker = row.sender or "user" if row.role == "user" else _SPEAKERS.get(row.role, ASSISTANT)
            pictures = [
                f"[{_kind(image)} {image.blob}, {image.mime}]" if kept(image.blob) else NO_LONGER_KEPT
                for image in row.images
                if not image.pages or kept(image.blob)
            ]
            words = "\n".join([row.text, *pictures]).strip("\n")
            return f"\n{when(row.at)}  {speaker}\n{_indent(words)}"


def _kind(image: Image) -> str:
    return "document" if image.pages else "picture"


def when(at: float) -> str:
    """Format a moment in the reader's time zone."""
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M}"


def _indent(text: str) -> str:
    return textwrap.indent(mask(text), INDENT, lambda _: True) + "\n" if text else ""


class MarkdownWriter:
    """A writer of the document. `names`: display names by actor key; `kept`: whether a picture still exists."""

    def __init__(self, names: dict[str, str], kept: Kept = lambda key: True) -> None:
        self._names = names
        self._kept = kept

    def head(self, outline: Outline) -> str:
        """Return the title."""
        return f"# Conversation {code(outline.session)}\n\n{outline.rows:,} rows\n"

    def entry(self, entry: Entry) -> str:
        """Format one row, or a summary in the place of the rows before it."""
        if isinstance(entry, CompactionRecord):
            sizes = f"{entry.tokens_before:,} to {entry.tokens_after:,} tokens"
            return (
                f"\n---\n\n## Summary of what is above, {_second(entry.at)}\n\n"
                f"source {code(entry.source)}, {sizes}\n\n{quote(entry.summary)}\n"
            )
        return f"\n{self._row(entry)}\n"

    def _row(self, row: TranscriptRow) -> str:
        match row.role:
            case "tool_use":
                arguments = orjson.dumps(mask_json(row.input), option=orjson.OPT_INDENT_2).decode()
                return f"**calls** {code(row.name)}\n\n{fence_block(arguments, 'json')}"
            case "tool_result":
                outcome = "**error of**" if row.is_error else "**result of**"
                return f"{outcome} {code(row.name)}\n\n{fence_block(row.text, 'text')}"
            case _:
                speaker = self._speaker(row.sender) if row.role == "user" else _SPEAKERS.get(row.role, "Assistant")
                pictures = [
                    f"{_kind(image)} {code(image.blob)} ({code(image.mime)})"
                    if self._kept(image.blob)
                    else NO_LONGER_KEPT
                    for image in row.images
                    if not image.pages or self._kept(image.blob)
                ]
                parts = [f"## {speaker}, {_second(row.at)}", quote(row.text), *pictures]
                return "\n\n".join(part for part in parts if part)

    def _speaker(self, key: str) -> str:
        name = self._names.get(key, "")
        return f"{code(key or 'user')} {code(name)}" if name else code(key or "user")


def quote(text: str) -> str:
    """Format a person's words as a quotation, or fenced where they would be rendered."""
    text = clean(text).strip("\n")
    if not text:
        return ""
    if does_more(text):
        return fence_block(text, "markdown")
    return "\n".join(f"> {line}" if line else ">" for line in text.split("\n"))


def fence_block(text: str, info: str) -> str:
    """Format a block that ends where we say."""
    text = clean(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{info}\n{text}\n{fence}"


def code(text: str) -> str:
    """Format a name on one line, as inline code."""
    text = _WHITE.sub(" ", clean(text)).strip() or "?"
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    marks = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{marks}{pad}{text}{pad}{marks}"


def clean(text: str) -> str:
    """Remove secrets, and control sequences for terminals or editors; line ends become ours."""
    return printable(_LINE_ENDS.sub("\n", mask(text)))


def does_more(text: str) -> bool:
    """Whether the text, read as Markdown, holds HTML, foreign pictures, definitions or links that run something."""
    if not any(trace in text for trace in _TRACES):
        return False
    found: dict[str, object] = {}
    tokens = _parser().parse(text, found)
    return bool(found.get("references")) or any(_is_active(token) for token in tokens)


def _is_active(token: Token) -> bool:
    if token.type in _ACTIVE:
        return True
    if token.type == "link_open" and not _HARMLESS_LINK.match(str(token.attrs.get("href", ""))):
        return True
    return any(_is_active(child) for child in token.children or ())


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark")
    # What it would not link, others may: we must see it.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # the documented way to set it
    return parser


def _second(at: float) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M:%S %Z}"


class JsonLinesWriter:
    """Writes lines; the first key says the kind of the line."""

    def head(self, outline: Outline) -> str:
        """Return nothing: a transcript has no first line."""
        return ""

    def entry(self, entry: Entry) -> str:
        """Format one entry as a line."""
        kind = "compaction" if isinstance(entry, CompactionRecord) else "message"
        data = mask_json(orjson.loads(orjson.dumps(entry)))
        return orjson.dumps({"type": kind, **data}).decode() + "\n"


def mask_json(value: Any) -> Any:
    """Return JSON data without secrets, in keys and values."""
    match value:
        case str():
            return mask(value)
        case list():
            return [mask_json(item) for item in value]
        case dict():
            return {mask(key): mask_json(item) for key, item in value.items()}
        case _:
            return value

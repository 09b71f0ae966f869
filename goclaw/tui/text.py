"""Sanitizing of texts for the terminal: no control sequences get through, and Markdown hides no words."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import orjson
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore

QUIET = "dim"
"""The style of what matters less. Textual 8.2 paints `$text-muted` in a part of a text as plain black or white."""
FORGOTTEN = "This session was forgotten: nothing of what was said is kept."

# Colours and cursor movements of a program's output, then its titles and clipboard requests.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
# Other control characters, direction overrides that let a text read differently from what it is, and lone surrogates.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """`text` without anything that a terminal would obey; newlines and tabs stay."""
    return text if text.isascii() and text.isprintable() else _UNPRINTABLE.sub("", _ESCAPES.sub("", text))


def one_line(text: str, length: int) -> str:
    """`text` on one line of at most `length` characters."""
    line = " ".join(printable(text[: 4 * length]).split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def error_words(content: str) -> str:
    """Return the message of a failed call without the JSON that models get; `content` itself if it is not JSON."""
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        return content
    words = found.get("error") if isinstance(found, dict) and len(found) == 1 else None
    return words if isinstance(words, str) and words.strip() else content


def hint(given: Mapping[str, Any], length: int) -> str:
    """Summarise a tool's input: the value of a single field, else `name=value` of each."""
    if len(given) == 1:
        return one_line(_in_words(next(iter(given.values()))), length)
    return one_line("  ".join(f"{name}={_in_words(value)}" for name, value in given.items()), length)


def _in_words(value: Any) -> str:
    """Return a value as people read it; of nested values the texts, the first of each part."""
    if isinstance(value, list):
        return ", ".join(map(_in_words, value))
    if isinstance(value, Mapping):
        return next((inner for inner in value.values() if isinstance(inner, str) and inner), "…")
    return str(value)


def seconds(duration: float) -> str:
    """Format a duration for people: `0.2 s`, `14 s`, `3 min 05 s`."""
    if duration < 10:
        return f"{duration:.1f} s"
    if duration < 60:
        return f"{duration:.0f} s"
    return f"{int(duration) // 60} min {int(duration) % 60:02d} s"


def whole_seconds(duration: float) -> str:
    """Format an approximate duration: `2 s`, `14 s`, `3 min 05 s`."""
    return f"{duration:.0f} s" if duration < 10 else seconds(duration)


def data_size(size: int) -> str:
    """Format a number of bytes: `950 B`, `12.3 kB`, `1.2 MB`."""
    if size < 1_000:
        return f"{size} B"
    return f"{size / 1_000:.1f} kB" if size < 999_950 else f"{size / 1_000_000:.1f} MB"


def count(number: int) -> str:
    """Format a number of tokens: `950`, `12.3k`, `1.2M`."""
    if number < 1_000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1_000:.1f}k".replace(".0k", "k")
    return f"{number / 1_000_000:.1f}M".replace(".0M", "M")


def bar(part: int, kept: int, whole: int, cells: int) -> str:
    """Draw a share of a whole in `cells` characters, with the reserved part at the end; any share above 0 shows one."""
    full = min(cells, -(-cells * part // whole))
    reserved = min(cells - full, cells * kept // whole)
    return "█" * full + "░" * (cells - full - reserved) + "▒" * reserved


@cache
def markdown_parser() -> MarkdownIt:
    """Return the parser for the Markdown of answers."""
    parser = MarkdownIt("gfm-like", {"html": False}).disable("reference")
    parser.core.ruler.push("keep_lines", _keep_lines)
    return parser


def _keep_lines(state: StateCore) -> None:
    for token in state.tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"

"""Texts for the terminal: no control sequences get through.

Numbers and durations for people; and texts about questions, how each is answered and its outcome, for cards and for
plain lines alike.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any

import orjson

from goclaw.common.auth.users import login_name
from goclaw.common.core.events import ALLOW, ALWAYS, Question, QuestionAnswered
from goclaw.common.core.messages import SAID, Artifact
from goclaw.common.core.records import record
from goclaw.common.core.redact import reveal

QUIET = "dim"
"""The style of what matters less. Textual 8.2 paints `$text-muted` in a part of a text as plain black or white."""
FORGOTTEN = "This session was deleted; nothing of it is left."

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


def artifact_lines(artifact: Artifact, person: str = "") -> list[str]:
    """Format what a call or an answer has for people: a message's text, or a file with its size and how to open it.

    `person`: the key of the actor in whose workspace it is; empty: the login's.
    """
    if artifact.kind == SAID:
        return artifact.text.splitlines()
    lines = [f"▸ {one_line(artifact.name, 200)} · {data_size(artifact.size)}"]
    whose = f"--user {shlex.quote(person)} " if person not in ("", f"tui:{login_name()}") else ""
    return [*lines, f"  goclaw open {whose}{shlex.quote(artifact.name)}"] if artifact.is_file else lines


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


SHORT_ANSWER = 60
"""Characters of an answer that stands in the line of its question; a longer one stands below it."""
MAX_QUESTION_TITLE = 500
LAST_SECONDS = 90
"""From here on the time that is left is said in seconds."""
HOURS = 3
"""From so many hours on it is said in hours."""


@record
class Decided:
    """The outcome of a question."""

    sign: str
    """Distinguishes yes from no without colours."""
    words: str
    """In few words, and by whom."""
    below: str = ""
    """An answer that needs lines of its own."""


def title_of(question: Question) -> str:
    """Return the title on one line."""
    return one_line(question.title, MAX_QUESTION_TITLE)


def text_of(question: Question) -> str:
    """Return the text as Markdown. Nothing of a call awaiting approval stays hidden."""
    return reveal(question.text) if question.kind == "approval" else printable(question.text)


def signs_of(question: Question) -> list[str]:
    """Return the label before each option: its number, unless that number occurs elsewhere in the question."""
    return [str(number) if question.is_numbered else "•" for number in range(1, len(question.options) + 1)]


def option_lines(question: Question) -> list[str]:
    """The options as plain lines."""
    signs = (f"{sign}." if question.is_numbered else sign for sign in signs_of(question))
    return [f"  {sign} {one_line(option, 200)}" for sign, option in zip(signs, question.options, strict=True)]


def time_left(question: Question, now: float) -> str:
    """Return the time left for an answer at `now` (epoch seconds); empty: unlimited."""
    if question.expires_at is None:
        return ""
    left = max(0.0, question.expires_at - now)
    if left < LAST_SECONDS:
        return f"{left:.0f} s left"
    return f"{left / 60:.0f} min left" if left < HOURS * 3_600 else f"{left / 3_600:.0f} h left"


def ways_to_answer(question: Question, me: str) -> str:
    """Return how `me` (an actor key) answers in text."""
    if question.kind == "approval":
        always = f", /approve {question.id} always" if ALWAYS in question.options else ""
        return f"/approve {question.id}{always} or /deny {question.id}"
    if question.asker != me:
        return f"for {printable(question.asker)}"
    words = "in your own words" if question.free_text or not question.options else ""
    choice = ("with a number" if question.is_numbered else "with one of these") if question.options else ""
    how = " or ".join(way for way in (choice, words) if way)
    return f"answer {how}; /deny {question.id} skips it"


def describe_decision(question: Question, answered: QuestionAnswered, me: str, now: float) -> Decided:
    """Return the outcome, worded for `me` (an actor key)."""
    by = "you" if answered.by == me else printable(answered.by)
    answer = printable(answered.answer)
    match question.kind, answer:
        case _ if not answered.by:
            expired = question.expires_at is not None and now >= question.expires_at
            return Decided("✗", "nobody answered in time" if expired else "no longer needed")
        case "approval", _ if answer == ALWAYS:
            return Decided("✓", f"always allowed by {by}")
        case "approval", _:
            return Decided("✓", f"allowed by {by}") if answer == ALLOW else Decided("✗", f"denied by {by}")
        case _, "":
            return Decided("✗", f"skipped by {by}")
        case _ if len(answer) > SHORT_ANSWER or "\n" in answer:
            return Decided("✓", f"answered by {by}", answer)
    return Decided("✓", f"{answer} ({by})")

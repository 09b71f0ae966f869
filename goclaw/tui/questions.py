"""Texts about questions: how each is answered, and its outcome. For cards and for plain lines alike."""

from goclaw.events import ALLOW, ALWAYS, Question, QuestionAnswered
from goclaw.records import record
from goclaw.redact import revealed
from goclaw.tui.text import one_line, printable

SHORT_ANSWER = 60
"""Characters of an answer that stands in the line of its question; a longer one stands below it."""
MAX_TITLE = 100
LAST_SECONDS = 90
"""From here on the time that is left is said in seconds."""


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
    return one_line(question.title, MAX_TITLE)


def text_of(question: Question) -> str:
    """Return the text as Markdown. Nothing of a call awaiting approval stays hidden."""
    return revealed(question.text) if question.kind == "approval" else printable(question.text)


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
    return f"{left:.0f} s left" if left < LAST_SECONDS else f"{left / 60:.0f} min left"


def ways(question: Question, me: str) -> str:
    """Return how `me` (an actor key) answers in text."""
    if question.kind == "approval":
        always = f", /approve {question.id} always" if ALWAYS in question.options else ""
        return f"/approve {question.id}{always} or /deny {question.id}"
    if question.asker != me:
        return f"{printable(question.asker)} is asked"
    words = "in your own words" if question.free_text or not question.options else ""
    choice = ("with a number" if question.is_numbered else "with one of these") if question.options else ""
    how = " or ".join(way for way in (choice, words) if way)
    return f"answer {how}; /deny {question.id} leaves it open"


def decided(question: Question, answered: QuestionAnswered, me: str, now: float) -> Decided:
    """Return the outcome, worded for `me` (an actor key)."""
    by = "you" if answered.by == me else printable(answered.by)
    answer = printable(answered.answer)
    match question.kind, answer:
        case _ if not answered.by:
            expired = question.expires_at is not None and now >= question.expires_at
            return Decided("✗", "nobody answered in time" if expired else "not asked any more")
        case "approval", _ if answer == ALWAYS:
            return Decided("✓", f"allowed for good by {by}")
        case "approval", _:
            return Decided("✓", f"allowed by {by}") if answer == ALLOW else Decided("✗", f"denied by {by}")
        case _, "":
            return Decided("✗", f"left open by {by}")
        case _ if len(answer) > SHORT_ANSWER or "\n" in answer:
            return Decided("✓", f"answered by {by}", answer)
    return Decided("✓", f"{answer} ({by})")

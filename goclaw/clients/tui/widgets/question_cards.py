"""Questions of the agent in the conversation: the approval of a call, or a question of `ask_user`.

Each stands on the screen once; `QuestionCards` knows which of them a key may answer.
"""

from collections.abc import Iterable, Mapping

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message as TextualMessage
from textual.widget import Widget

from goclaw.clients.tui.markdown import Document
from goclaw.clients.tui.text import (
    QUIET,
    Decided,
    describe_decision,
    printable,
    signs_of,
    text_of,
    time_left,
    title_of,
    ways_to_answer,
)
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import ALLOW, ALWAYS, DENY, DETAILS, Question, QuestionAnswered
from goclaw.common.core.records import record
from goclaw.common.core.redact import reveal

KEYS = {ALLOW: "y", ALWAYS: "a", DENY: "n", DETAILS: "d"}
"""The key for each option of an approval, and for its details."""
MEANWHILE = Decided("·", "answered meanwhile")
"""Of a question that was open before a break and is not any more."""

SEEN_SECONDS = 0.5
"""Seconds an approval must have been in view: an earlier key answers nothing."""


class QuestionCard(Widget):
    """One question, open until it is answered, wherever that is; then a line that names the decision."""

    DEFAULT_CSS = """
    QuestionCard {
        width: 1fr; height: auto; margin: 1 0 0 0; padding: 0 1;
        border-left: thick $primary; background: $boost;
    }
    QuestionCard.-closed { border-left: solid $surface-lighten-2; color: $text-muted; background: transparent; }
    QuestionCard:nocolor { border-left: heavy $warning; }
    QuestionCard.-closed:nocolor { border-left: solid $warning; text-style: dim; }
    """

    class Chosen(TextualMessage):
        """An option was clicked."""

        def __init__(self, card: "QuestionCard", answer: str) -> None:
            super().__init__()
            self.card = card
            self.answer = answer

    def __init__(self, question: Question, me: str, clock: Clock) -> None:
        """`me`: the actor key of the person who looks at this."""
        super().__init__()
        self.question = question
        self._me = me
        self._clock = clock
        self._document = Document()
        self._document.append(text_of(question))
        self._has_more = bool(question.details)
        """Whether details may still be opened."""
        self._said = ""
        """The outcome of the last attempt to answer."""
        self._outcome: list[Content] | None = None
        self._drawn: tuple[int, list[Content]] | None = None
        self._options: dict[int, str] = {}
        """The lines on which options stand."""

    @property
    def is_approval(self) -> bool:
        """Return whether it asks for permission; else it asks for information."""
        return self.question.kind == "approval"

    @property
    def is_mine(self) -> bool:
        """Return whether this person is the one asked."""
        return self.question.asker == self._me

    @property
    def is_open(self) -> bool:
        """Return whether it is unanswered, as far as is known here."""
        return self._outcome is None

    @property
    def is_undecided(self) -> bool:
        """Return whether an answer may be given here: it is open, and none is under way."""
        return self.is_open and not self._said

    def show_progress(self, sentence: str) -> None:
        """Show the progress of an answer given here, until the question is closed; empty: ask again."""
        self._said = sentence
        self._redraw()

    def offers(self, answer: str) -> bool:
        """Return whether this may be chosen here now."""
        return answer in self.question.options or (answer == DETAILS and self._has_more)

    def show_details(self) -> None:
        """Show what contains a call, and the call as the model wrote it."""
        if self.is_open and self._has_more:
            self._has_more = False
            self._document.append(f"\n\n{reveal(self.question.details)}")
            self._redraw()

    def close(self, answered: QuestionAnswered | None = None) -> None:
        """Shrink to the decision; None: it was decided while no client looked."""
        if self.is_open:
            self._outcome = self._closed_lines(answered)
            self.add_class("-closed")
            self._redraw()

    def tick(self) -> None:
        """Advance the timers by a second."""
        if self.is_open and self.question.expires_at is not None:
            self._redraw(same_height=True)

    def on_click(self, event: events.Click) -> None:
        """Choose an option on a click; selecting text does not."""
        place = event.get_content_offset(self)
        answer = self._options.get(place.y) if place is not None else None
        if answer and self.is_undecided and not self.screen.get_selected_text():
            event.stop()
            if answer == DETAILS:
                self.show_details()
            else:
                self.post_message(self.Chosen(self, answer))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines of the question at this width."""
        return len(self.lines(width))

    def render(self) -> Content:
        """Return the lines."""
        return Content("\n").join(self.lines(self.content_size.width))

    def _redraw(self, *, same_height: bool = False) -> None:
        self._drawn = None
        self.refresh(layout=not same_height)

    def lines(self, width: int) -> list[Content]:
        """The question, or the decision, no line wider than `width`."""
        if self._drawn is None or self._drawn[0] != width:
            content = self._open_lines(width) if self._outcome is None else self._outcome
            self._drawn = (width, [part for line in content for part in line.wrap(max(width, 1))])
        return self._drawn[1]

    # Open

    def _open_lines(self, width: int) -> list[Content]:
        lines = [*self._headline().wrap(max(width, 1)), *self._document.lines(width), Content("")]
        self._options = {}
        signs = [*zip(self.question.options, signs_of(self.question), strict=True)]
        for option, number in [*signs, *([(DETAILS, "")] if self._has_more else [])]:
            sign = KEYS.get(option, "") if self.is_approval else number
            name = option.capitalize() if self.is_approval else option
            name = printable(self.question.always if option == ALWAYS and self.question.always else name)
            sign_cell, indent = Content.assemble((f" {sign} ", "reverse"), " "), Content("    ")
            for at, part in enumerate(Content(name).wrap(max(width - 4, 1))):
                self._options[len(lines)] = option
                lines.append((indent if at else sign_cell) + part)
        return [*lines, Content.styled(self._said or self._how(), "$text-warning" if self._said else QUIET)]

    def _headline(self) -> Content:
        asked = self.question
        left = time_left(asked, self._clock.now())
        return Content.assemble(
            ("? ", "bold $text-warning"),
            (title_of(asked), "bold"),
            ("" if self.is_mine else f"  for {printable(asked.asker)}", QUIET),
            (f"  {left}" if left else "", QUIET),
        )

    def _how(self) -> str:
        words = ways_to_answer(self.question, self._me)
        if self.is_approval:
            keys = "y, a (always allow) or n" if ALWAYS in self.question.options else "y or n"
            how = f"{keys} while the input is empty"
            return f"{how}, or a click" if self._has_more else f"{how}, a click, or {words}"
        return words if self.is_mine or not self.question.options else f"{words}; or click to answer for them"

    # Closed

    def _closed_lines(self, answered: QuestionAnswered | None) -> list[Content]:
        outcome = describe_decision(self.question, answered, self._me, self._clock.now()) if answered else MEANWHILE
        line = Content.assemble((f"{outcome.sign} {title_of(self.question)}", "bold"), f"  {outcome.words}")
        return [line, *(Content(f"  {line}") for line in outcome.below.splitlines())]


@record
class InView:
    """Which ends of a card are in view."""

    begin: bool
    end: bool


class QuestionCards:
    """The cards that were not closed yet, oldest first."""

    def __init__(self, me: str, clock: Clock) -> None:
        self._me = me
        self._clock = clock
        self._open: dict[str, QuestionCard] = {}
        self._withdrawn: dict[str, QuestionCard] = {}
        """Closed without an answer that is known here. A restart of the daemon asks some of them again."""
        self._replaced: list[QuestionCard] = []
        """Cards that a new card for the same question replaces."""
        self._begun: set[str] = set()
        """Questions whose first line has been in view: the end of a long question alone is no basis for a decision."""
        self._seen: dict[str, float] = {}
        """Since when a question has been in view, to its last line."""

    def enter(self, me: str) -> None:
        """Enter another session, with the person as `me`."""
        self._me = me
        self.clear()

    @property
    def open(self) -> list[QuestionCard]:
        """The cards with questions that wait for an answer."""
        return list(self._open.values())

    def add(self, question: Question) -> list[QuestionCard]:
        """A new card; none when there is one already. Whatever was about to be answered must be looked at again."""
        if question.id in self._open:
            return []
        self._seen.clear()
        if withdrawn := self._withdrawn.pop(question.id, None):
            self._replaced.append(withdrawn)
        self._open[question.id] = QuestionCard(question, self._me, self._clock)
        return [self._open[question.id]]

    def show_progress(self, card: QuestionCard, sentence: str) -> None:
        """Show the progress of an answer on `card`; a second press of the key must not reach the next one."""
        self._seen.clear()
        card.show_progress(sentence)

    def close(self, event: QuestionAnswered) -> None:
        """Close the card of a question that was answered."""
        if card := self._open.pop(event.question_id, None):
            self._seen.clear()
            card.close(event)
            if not event.by:
                self._withdrawn[event.question_id] = card

    def sync(self, questions: Iterable[Question]) -> list[QuestionCard]:
        """After a break: exactly `questions` are open. Returns the new cards; an answer that was on its way is not."""
        asked = list(questions)
        for gone in self._open.keys() - {question.id for question in asked}:
            self._withdrawn[gone] = self._open.pop(gone)
            self._withdrawn[gone].close()
        self.ask_again()
        return [card for question in asked for card in self.add(question)]

    def ask_again(self) -> None:
        """An answer that was on its way when the connection broke may not have arrived; if it did, the card closes."""
        for card in self._open.values():
            card.show_progress("")

    def pop_obsolete(self) -> list[QuestionCard]:
        """The cards that have to go since the last call: new ones ask the same."""
        replaced, self._replaced = self._replaced, []
        return replaced

    def note_visible(self, in_view: Mapping[str, InView]) -> None:
        """Notice the visible parts, by question: a long card's beginning at some time, and its end with options."""
        now = self._clock.monotonic()
        for name, card in self._open.items():
            if in_view[name].begin:
                self._begun.add(name)
            if card.is_undecided and in_view[name].end:
                self._seen.setdefault(name, now)
            else:
                self._seen.pop(name, None)

    def is_seen(self, card: QuestionCard) -> bool:
        """Return whether all of `card` was in view long enough to be answered by one key or one click."""
        since = self._seen.get(card.question.id)
        if since is None or not card.is_undecided or card.question.id not in self._begun:
            return False
        return self._clock.monotonic() - since >= SEEN_SECONDS

    @property
    def answerable(self) -> QuestionCard | None:
        """Return the approval that a key may answer: the newest one, first of those that hold up a turn, if seen."""
        waiting = [card for card in reversed(self.open) if card.is_approval and card.is_undecided]
        newest = max(waiting, key=lambda card: card.question.has_turn, default=None)  # of equals the first
        return newest if newest is not None and self.is_seen(newest) else None

    def tick(self) -> None:
        """Advance the timers by a second."""
        for card in self._open.values():
            card.tick()

    def clear(self) -> None:
        """Forget everything, because the screen is cleared."""
        self._open.clear()
        self._withdrawn.clear()
        self._begun.clear()
        self._seen.clear()

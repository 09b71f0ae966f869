"""A question of the agent in the conversation: the approval of a call, or a question of `ask_user`."""

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message as TextualMessage
from textual.widget import Widget

from goclaw.clock import Clock
from goclaw.events import ALLOW, ALWAYS, DENY, Question, QuestionAnswered
from goclaw.tui.markdown import Document
from goclaw.tui.questions import Decided, decided, signs_of, text_of, time_left, title_of, ways
from goclaw.tui.text import QUIET, printable

KEYS = {ALLOW: "y", ALWAYS: "a", DENY: "n"}
"""The key for each option of an approval."""
MEANWHILE = Decided("·", "answered meanwhile")
"""Of a question that was open before a break and is not any more."""


class QuestionCard(Widget):
    """One question, open until it is answered, wherever that is; then a line that says what was decided."""

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

    def say(self, sentence: str) -> None:
        """Show the progress of an answer given here, until the question is closed; empty: ask again."""
        self._said = sentence
        self._redraw()

    def close(self, answered: QuestionAnswered | None = None) -> None:
        """Shrink to what was decided; None: it was decided while no client looked."""
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
        """The question, or what was decided, no line wider than `width`."""
        if self._drawn is None or self._drawn[0] != width:
            content = self._open_lines(width) if self._outcome is None else self._outcome
            self._drawn = (width, [part for line in content for part in line.wrap(max(width, 1))])
        return self._drawn[1]

    # Open

    def _open_lines(self, width: int) -> list[Content]:
        lines = [*self._headline().wrap(max(width, 1)), *self._document.lines(width), Content("")]
        self._options = {}
        for option, number in zip(self.question.options, signs_of(self.question), strict=True):
            sign = KEYS.get(option, "") if self.is_approval else number
            name = option.capitalize() if self.is_approval else printable(option)
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
        words = ways(self.question, self._me)
        if self.is_approval:
            keys = "y, a (from now on unasked) or n" if ALWAYS in self.question.options else "y or n"
            return f"{keys} while the input is empty, a click, or {words}"
        return words if self.is_mine or not self.question.options else f"{words}; a click answers for them"

    # Closed

    def _closed_lines(self, answered: QuestionAnswered | None) -> list[Content]:
        outcome = decided(self.question, answered, self._me, self._clock.now()) if answered else MEANWHILE
        line = Content.assemble((f"{outcome.sign} {title_of(self.question)}", "bold"), f"  {outcome.words}")
        return [line, *(Content(f"  {line}") for line in outcome.below.splitlines())]

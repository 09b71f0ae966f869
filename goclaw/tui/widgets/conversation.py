"""The scrolled conversation: the entries, and which questions among them are in view."""

from collections.abc import Sequence

from textual.geometry import Region
from textual.message import Message as TextualMessage
from textual.widget import Widget

from goclaw.tui.widgets.follow import FollowedScroll
from goclaw.tui.widgets.question_card import QuestionCard
from goclaw.tui.widgets.question_cards import InView, QuestionCards

LOOK_SECONDS = 0.1
"""Seconds between two looks at which questions are in view."""


class ConversationView(FollowedScroll):
    """Implements `conversation.View`."""

    DEFAULT_CSS = """
    ConversationView { padding: 0 1; align: left bottom; scrollbar-size-vertical: 1; }
    ConversationView:focus { background-tint: $foreground 0%; }
    """

    class AnswerableChanged(TextualMessage):
        """Another approval than before, or none, may be answered by a key."""

    def __init__(self, questions: QuestionCards) -> None:
        super().__init__()
        self._questions = questions
        self._answerable: QuestionCard | None = None

    def on_mount(self) -> None:
        """Look after the questions while there are some."""
        super().on_mount()
        self._questions_looked_at = self.set_interval(LOOK_SECONDS, self._look_at_questions, pause=True)

    @property
    def entries(self) -> Sequence[Widget]:
        """All of them, oldest first."""
        return self.children

    async def put(self, entries: Sequence[Widget], before: Widget | None) -> None:
        """Put entries before one of those that stand, or (None) at the end."""
        await self.mount_all(entries, before=before)

    async def put_on_top(self, entries: Sequence[Widget]) -> None:
        """Put entries before all others; what is in view stays in view."""
        first, height = next(iter(self.children), None), self.virtual_size.height
        await self.mount_all(entries, before=first)

        def keep_place() -> None:
            self.scroll_relative(y=self.virtual_size.height - height, animate=False)

        if not self.end_in_view:
            self.call_after_refresh(keep_place)
        self.look_soon()

    async def take(self, entries: Sequence[Widget]) -> None:
        """Take entries out."""
        if entries:
            await self.remove_children(entries)

    def move(self, entry: Widget, before: Widget) -> None:
        """Let an entry stand before another one."""
        self.move_child(entry, before=before)

    def want_older(self) -> None:
        """Ask for what is older than everything that stands."""
        self.post_message(self.OlderWanted())

    def look_at_questions(self) -> None:
        """Notice from now on which questions are in view, while there are some."""
        self._questions_looked_at.resume()

    def _look_at_questions(self) -> None:
        view = self.scrollable_content_region
        self._questions.look({card.question.id: _in_view(card.region, view) for card in self._questions.open})
        if self._answerable is not (answerable := self._questions.answerable):
            self._answerable = answerable
            self.post_message(self.AnswerableChanged())
        if not self._questions.open:
            self._questions_looked_at.pause()


def _in_view(place: Region, view: Region) -> InView:
    """Return the visible part of a card at `place`."""
    if not place.width:
        return InView(begin=False, end=False)
    return InView(begin=view.contains_point((view.x, place.y)), end=view.contains_point((view.x, place.bottom - 1)))

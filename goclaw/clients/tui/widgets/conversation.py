"""The scrolled conversation: the entries, and which questions among them are in view.

The view stays at its end until the person scrolls up, and reports when end or top are reached.
"""

from collections.abc import Sequence

from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.message import Message as TextualMessage
from textual.screen import Screen
from textual.widget import Widget

from goclaw.clients.tui.widgets.question_cards import InView, QuestionCard, QuestionCards

END_LOOK_SECONDS = 0.1
NEAR_TOP = 3
"""Lines from the top at which more is asked for."""


class FollowedScroll(VerticalScroll):
    """Stays at the end; scrolling up ends that, `jump` or scrolling to the end begins it again."""

    class OlderWanted(TextualMessage):
        """The person scrolls towards entries that are not on the screen."""

    class EndMoved(TextualMessage):
        """The end came into view or went out of it."""

        def __init__(self, *, in_view: bool) -> None:
            super().__init__()
            self.in_view = in_view

    def __init__(self) -> None:
        super().__init__()
        self.has_older = False
        """Whether there is more above the top."""
        self.end_in_view = True
        self._looking = False
        self._bar_at = 0.0

    def on_mount(self) -> None:
        """Begin at the end."""
        self.anchor()
        self.screen.screen_layout_refresh_signal.subscribe(self, self._draw_bar)

    def jump(self) -> None:
        """Go to the end and stay there."""
        self.anchor()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Notice when the top comes near and when the end goes out of view."""
        super().watch_scroll_y(old_value, new_value)
        if self.has_older and new_value < old_value and new_value <= NEAR_TOP:
            self.post_message(self.OlderWanted())
        self.check_soon()

    def watch_virtual_size(self) -> None:
        """Follow the end when content was added."""
        self.check_soon()

    def on_resize(self) -> None:
        """Stay at the end when a panel next to it came or went; Textual 8.2 goes there with the next layout only."""
        self.refresh(layout=True)
        self.check_soon()

    def check_soon(self) -> None:
        """Notice whether the view is full and where the end is, once activity has come to rest.

        While the end is being followed it is always out of view a little.
        """
        if not self._looking:
            self._looking = True
            self.set_timer(END_LOOK_SECONDS, self._check)

    def _draw_bar(self, screen: Screen[object]) -> None:
        """Draw the bar where it is; where a view stays at its end, Textual 8.2 moves the bar only."""
        if self.show_vertical_scrollbar and self._bar_at != (position := self.vertical_scrollbar.position):
            self._bar_at = position
            self.vertical_scrollbar.refresh()

    def _check(self) -> None:
        self._looking = False
        if self.has_older and self.max_scroll_y <= 0:
            self.post_message(self.OlderWanted())  # nothing to scroll yet: the view is not even full
        in_view = self.max_scroll_y <= 0 or self.scroll_y >= self.max_scroll_y - 1
        if in_view != self.end_in_view:
            self.end_in_view = in_view
            self.post_message(self.EndMoved(in_view=in_view))


LOOK_SECONDS = 0.1
"""Seconds between two looks at which questions are in view."""


class ConversationView(FollowedScroll):
    """Implements `conversation.EntryView`."""

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
        self._questions_looked_at = self.set_interval(LOOK_SECONDS, self._notice_questions, pause=True)

    @property
    def entries(self) -> Sequence[Widget]:
        """All of them, oldest first."""
        return self.children

    async def put(self, entries: Sequence[Widget], before: Widget | None) -> None:
        """Put entries before one of those that stand, or (None) at the end."""
        await self.mount_all(entries, before=before)

    async def put_on_top(self, entries: Sequence[Widget]) -> None:
        """Put entries before all others; the visible part stays in view."""
        first, height = next(iter(self.children), None), self.virtual_size.height
        await self.mount_all(entries, before=first)

        def restore_place() -> None:
            self.scroll_relative(y=self.virtual_size.height - height, animate=False)

        if not self.end_in_view:
            self.call_after_refresh(restore_place)
        self.check_soon()

    async def remove_entries(self, entries: Sequence[Widget]) -> None:
        """Remove entries."""
        if entries:
            await self.remove_children(entries)

    def move(self, entry: Widget, before: Widget) -> None:
        """Let an entry stand before another one."""
        self.move_child(entry, before=before)

    def request_older(self) -> None:
        """Ask for entries older than all present ones."""
        self.post_message(self.OlderWanted())

    def watch_questions(self) -> None:
        """Notice from now on which questions are in view, while there are some."""
        self._questions_looked_at.resume()

    def _notice_questions(self) -> None:
        view = self.scrollable_content_region
        self._questions.note_visible({card.question.id: _in_view(card.region, view) for card in self._questions.open})
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

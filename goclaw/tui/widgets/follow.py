"""A scrolled view that stays at its end until the person scrolls up, and reports when end or top are reached."""

from textual.containers import VerticalScroll
from textual.message import Message as TextualMessage
from textual.screen import Screen

LOOK_SECONDS = 0.1
NEAR_TOP = 3
"""Lines from the top at which more is asked for."""


class FollowedScroll(VerticalScroll):
    """Stays at the end; scrolling up ends that, `jump` or scrolling to the end begins it again."""

    class OlderWanted(TextualMessage):
        """The person scrolls towards what is not on the screen."""

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
        self.look_soon()

    def watch_virtual_size(self) -> None:
        """Follow the end when content was added."""
        self.look_soon()

    def on_resize(self) -> None:
        """Stay at the end when a panel beside it came or went; Textual 8.2 goes there with the next layout only."""
        self.refresh(layout=True)
        self.look_soon()

    def look_soon(self) -> None:
        """Notice whether the view is full and where the end is, once what is going on has come to rest.

        While the end is being followed it is always out of view a little.
        """
        if not self._looking:
            self._looking = True
            self.set_timer(LOOK_SECONDS, self._look)

    def _draw_bar(self, screen: Screen[object]) -> None:
        """Draw the bar where it is; where a view stays at its end, Textual 8.2 moves the bar only."""
        if self.show_vertical_scrollbar and self._bar_at != (position := self.vertical_scrollbar.position):
            self._bar_at = position
            self.vertical_scrollbar.refresh()

    def _look(self) -> None:
        self._looking = False
        if self.has_older and self.max_scroll_y <= 0:
            self.post_message(self.OlderWanted())  # nothing to scroll yet: the view is not even full
        in_view = self.max_scroll_y <= 0 or self.scroll_y >= self.max_scroll_y - 1
        if in_view != self.end_in_view:
            self.end_in_view = in_view
            self.post_message(self.EndMoved(in_view=in_view))

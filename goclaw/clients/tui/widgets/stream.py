"""The streamed output of the model: its thinking, dim and folded, then its answer. The stored row replaces both."""

from collections.abc import Awaitable, Callable, Sequence

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from goclaw.clients.tui.text import printable, whole_seconds
from goclaw.clients.tui.widgets.entries import AnswerEntry, Growing
from goclaw.common.core.clock import Clock

FOLDED_LINES = 2
"""Lines of a thought that grows, while it is folded."""
STEP = 1_000
"""Characters by which the start of a long paragraph's shown part moves at once, so that its lines stay still."""


class Thought(Growing):
    """The thinking of one answer. Closed as soon as the answer begins; open, all of it can be read."""

    DEFAULT_CSS = """
    Thought { width: 1fr; height: auto; margin: 1 0 0 0; padding: 0 1 0 2; color: $text-muted; }
    Thought:hover { background: $boost; }
    Thought:nocolor { text-style: dim; }
    """

    def __init__(self, clock: Clock, age: float = 0.0, *, is_open: bool, is_timed: bool = True) -> None:
        """It began `age` seconds ago; `is_timed` False: before this client looked, so the time is unknown."""
        super().__init__()
        self._clock = clock
        self._open = is_open
        self._timed = is_timed
        self._text = ""
        self._spent = 0.0
        """Seconds of the finished thought."""
        self._began: float | None = clock.monotonic() - age
        """None while the answer is being written."""
        self._height = 0
        self._whole: tuple[int, list[Content]] | None = None
        """A width and all lines for it."""

    @property
    def source(self) -> str:
        """Return the text painted so far."""
        return self._text

    def think(self, text: str, age: float = 0.0) -> None:
        """Think on, as it was done `age` seconds ago."""
        if self._began is None:
            self._began = self._clock.monotonic() - age
        self.feed(text)

    def finish(self, age: float = 0.0) -> None:
        """End the thinking: the answer began `age` seconds ago."""
        if self._began is not None:
            self._spent += max(0.0, self._clock.monotonic() - age - self._began)
            self._began = None
            self.grow(self.finish_painting())

    def grow(self, text: str) -> None:
        """Paint the gathered text; the rest of the screen moves only when there are more lines than before."""
        self._text += printable(text)
        self._whole = None
        height = len(self.lines(self.content_size.width))
        self.refresh(layout=height != self._height)
        self._height = height

    def tick(self) -> None:
        """Advance the timers by a second."""
        if self._began is not None:
            self.refresh()

    def fold(self, *, is_open: bool) -> None:
        """Open or close it."""
        self._open = is_open
        self.refresh(layout=True)

    def on_click(self, event: events.Click) -> None:
        """Open or close it on a click; selecting text does not."""
        if not self.screen.get_selected_text():
            event.stop()
            self.fold(is_open=not self._open)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of shown lines at this width."""
        return len(self.lines(width))

    def render(self) -> Content:
        """Return the lines."""
        return Content("\n").join(self.lines(self.content_size.width))

    def lines(self, width: int) -> list[Content]:
        """A line that says how long, and below it the shown part of the thought."""
        if self._open:
            if self._whole is None or self._whole[0] != width:
                self._whole = (width, Content(self._text.strip()).wrap(max(width, 1)))
            return [self._headline(), *self._whole[1]]
        if self._began is None:
            return [self._headline()]
        return [self._headline(), *_last_lines(self._text.rstrip(), max(width, 1))]

    def _headline(self) -> Content:
        running = self._began is not None
        spent = self._spent + (self._clock.monotonic() - self._began if self._began is not None else 0.0)
        took = whole_seconds(spent) if self._timed and spent >= 1 else ""
        words = f"thinking {took}" if running else f"thought for {took}" if took else "thought"
        return Content.styled(words.rstrip(), "italic")


def _last_lines(text: str, width: int) -> list[Content]:
    """Return the last lines of the text, broken so that they stay the same while it grows."""
    start = text.rfind("\n", 0, max(0, len(text) - FOLDED_LINES * width)) + 1
    if len(text) - start > 2 * STEP:
        start = text.find(" ", start + (len(text) - start) // STEP * STEP - STEP) + 1
    return Content(text[start:]).wrap(width)[-FOLDED_LINES:] if text else []


Change = Callable[[Sequence[Widget]], Awaitable[None]]
"""Puts entries into the conversation, or takes them out."""


class Stream:
    """At most one answer and one thought, which stands above it."""

    def __init__(self, add: Change, remove: Change, clock: Clock) -> None:
        self._add = add
        self._remove = remove
        self._clock = clock
        self._answer: AnswerEntry | None = None
        self._thought: Thought | None = None

    @property
    def entries(self) -> list[Widget]:
        """Return the entries that are not rows yet."""
        return [entry for entry in (self._thought, self._answer) if entry is not None]

    async def think(self, text: str, age: float = 0.0, *, is_open: bool, is_timed: bool = True) -> None:
        """Add to the thinking, as received `age` seconds ago."""
        if self._thought is None:
            self._thought = Thought(self._clock, age, is_open=is_open, is_timed=is_timed)
            await self._add([self._thought])
        self._thought.think(text, age)

    async def write(self, text: str, age: float = 0.0) -> None:
        """Add to the answer."""
        self._end_thinking(age)
        if self._answer is None:
            self._answer = AnswerEntry()
            await self._add([self._answer])
        self._answer.feed(text)

    async def become(self, text: str, age: float = 0.0) -> AnswerEntry | None:
        """End the stream with the answer's row; return its entry, or None if nothing was streamed or all is blank."""
        self._end_thinking(age)
        answer, self._answer, self._thought = self._answer, None, None
        if answer is None:
            return None
        if not text.strip():
            await self._remove([answer])
            return None
        answer.finish(text)
        return answer

    async def drop(self) -> None:
        """Drop the streamed output, which is void."""
        entries = self.entries
        self._answer = self._thought = None
        await self._remove(entries)

    async def end(self) -> None:
        """End the turn: no row follows, and the thinking stays."""
        self._end_thinking()
        self._thought = None
        await self.drop()

    def tick(self) -> None:
        """Advance the timers by a second."""
        if self._thought is not None:
            self._thought.tick()

    def _end_thinking(self, age: float = 0.0) -> None:
        if self._thought is not None:
            self._thought.finish(age)

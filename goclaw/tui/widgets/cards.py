"""The tool card of each call, also when events repeat or change order after a disconnect."""

from collections.abc import Iterable

from goclaw.clock import Clock
from goclaw.events import AgentProgress, ToolFinished, ToolStarted
from goclaw.messages import ToolCall, ToolResult
from goclaw.tui.widgets.tool_card import ToolCard

CallKey = tuple[str, str]
"""A turn and the id of a call in it; models may use an id again in another answer."""


class Cards:
    """The calls of the turn that runs, and those of rows that came from the past."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._unfinished: dict[CallKey, ToolCard] = {}
        self._asked_at: dict[CallKey, float] = {}
        self._finished: set[CallKey] = set()
        self._early: dict[CallKey, tuple[ToolResult, float]] = {}
        """Results, and when they were stored, of calls whose rows are not on the screen."""
        self.are_open = False
        """Whether new cards are open at first."""

    def asked(self, turn: str, calls: Iterable[ToolCall], at: float) -> list[ToolCard]:
        """New cards for the calls of an answer that was stored at `at` (epoch seconds)."""
        cards = []
        for call in calls:
            key = (turn, call.id)
            self._finished.discard(key)
            self._asked_at[key] = at
            if key not in self._unfinished:
                self._unfinished[key] = ToolCard(call.name, call.input, self._clock, is_open=self.are_open)
                cards.append(self._unfinished[key])
        return cards

    def older(self) -> "Cards":
        """For rows from before those on the screen: an id that is used again there is another call."""
        cards = Cards(self._clock)
        cards.are_open = self.are_open
        cards._early = self._early
        return cards

    def adopt(self, older: "Cards") -> None:
        """Take over the calls of older rows, whose results may be known already or are still to come."""
        for key, card in older._unfinished.items():
            if early := self._early.pop(key, None):
                result, at = early
                _finish(card, result, about=at - older._asked_at[key])
            elif key not in self._unfinished:
                self._unfinished[key] = card
                self._asked_at[key] = older._asked_at[key]

    def started(self, event: ToolStarted, age: float = 0.0) -> list[ToolCard]:
        """A tool runs, since `age` seconds; a new card when nothing was known of it."""
        key = (event.turn, event.call_id)
        if key in self._finished:
            return []  # repeated after a disconnect
        new = []
        if key not in self._unfinished:
            self._unfinished[key] = ToolCard(event.name, event.input, self._clock, is_open=self.are_open)
            new.append(self._unfinished[key])
        self._unfinished[key].begin(age, event.hint)
        return new

    def told(self, event: AgentProgress | ToolFinished) -> None:
        """Show that a tool runs, or the activity of an agent that it has started."""
        card = self._unfinished.get((event.turn, event.call_id))
        if card is None:
            return
        if isinstance(event, AgentProgress):
            card.went_on(f"{event.agent} › {event.doing}")
        else:
            card.finish(
                event.content,
                is_error=event.is_error,
                took=event.seconds,
                outcome=event.hint,
                artifacts=event.artifacts,
            )

    def stored(self, turn: str, result: ToolResult, at: float) -> None:
        """End the call, whose result became a row at `at`."""
        key = (turn, result.call_id)
        self._finished.add(key)
        if card := self._unfinished.pop(key, None):
            asked_at = self._asked_at.pop(key, at)
            _finish(card, result, about=at - asked_at)
        else:
            self._early[key] = (result, at)

    def tick(self) -> None:
        """Advance the timers by a second."""
        for card in self._unfinished.values():
            card.tick()

    def forget(self) -> None:
        """Forget the ids of an ended turn, which may be used again."""
        self._unfinished.clear()
        self._asked_at.clear()
        self._finished.clear()

    def clear(self) -> None:
        """Forget everything, because the screen is cleared."""
        self.forget()
        self._early.clear()


def _finish(card: ToolCard, result: ToolResult, about: float) -> None:
    card.finish(
        result.content,
        is_error=result.is_error,
        about=about,
        doing=result.call_hint,
        outcome=result.hint,
        artifacts=result.artifacts,
    )

"""Which tool card belongs to which call, whatever comes twice or in another order after a break."""

from collections.abc import Iterable

from goclaw.events import ToolFinished, ToolStarted
from goclaw.messages import ToolCall, ToolResult
from goclaw.tui.widgets.tool_card import ToolCard

CallKey = tuple[str, str]
"""A turn and the id of a call in it; models may use an id again in another answer."""


class Cards:
    """The calls of the turn that runs."""

    def __init__(self) -> None:
        self._unfinished: dict[CallKey, ToolCard] = {}
        self._finished: set[CallKey] = set()
        self.are_open = False
        """Whether new cards begin open."""

    def asked(self, turn: str, calls: Iterable[ToolCall]) -> list[ToolCard]:
        """New cards for the calls of a stored answer."""
        cards = []
        for call in calls:
            key = (turn, call.id)
            self._finished.discard(key)
            if key not in self._unfinished:
                self._unfinished[key] = ToolCard(call.name, call.input, is_open=self.are_open)
                cards.append(self._unfinished[key])
        return cards

    def started(self, event: ToolStarted) -> list[ToolCard]:
        """A tool runs; a new card when nothing was known of it."""
        key = (event.turn, event.call_id)
        if key in self._finished:
            return []  # told a second time after a break
        new = []
        if key not in self._unfinished:
            self._unfinished[key] = ToolCard(event.name, event.input, is_open=self.are_open)
            new.append(self._unfinished[key])
        self._unfinished[key].begin()
        return new

    def ended(self, event: ToolFinished) -> None:
        """A tool has run."""
        if card := self._unfinished.get((event.turn, event.call_id)):
            card.finish(event.content, is_error=event.is_error, took=event.seconds)

    def stored(self, turn: str, result: ToolResult) -> None:
        """The result is a row: that is the end of the call."""
        key = (turn, result.call_id)
        self._finished.add(key)
        if card := self._unfinished.pop(key, None):
            card.finish(result.content, is_error=result.is_error)

    def tick(self) -> None:
        """A second has gone by."""
        for card in self._unfinished.values():
            card.tick()

    def forget(self) -> None:
        """The turn has ended, or the screen begins anew."""
        self._unfinished.clear()
        self._finished.clear()

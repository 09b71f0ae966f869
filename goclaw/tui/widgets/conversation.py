"""The conversation: rows of the transcript, the answer that is being written, and messages that wait their turn.

It keeps what is on the screen in step with the daemon: each row is shown once, whether it came with the history, as an
event, or both; what was streamed gives way to the row that it became.
"""

from collections.abc import Sequence

from textual.widget import Widget

from goclaw.events import (
    MessageStored,
    Notice,
    StreamRestarted,
    TextStreamed,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from goclaw.messages import AssistantMessage, ToolResult, UserMessage
from goclaw.tui.widgets.cards import Cards
from goclaw.tui.widgets.entries import Answer, Note, Said
from goclaw.tui.widgets.follow import FollowedScroll
from goclaw.tui.widgets.tool_card import ToolCard

MOST_ENTRIES = 80
"""Entries on the screen at once; older ones come back when somebody scrolls up to them."""
PRUNED = 30


class Conversation(FollowedScroll):
    """Everything that was said, oldest first."""

    DEFAULT_CSS = """
    Conversation { padding: 0 1; align: left bottom; scrollbar-size-vertical: 1; }
    Conversation:focus { background-tint: $foreground 0%; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[Widget, int] = {}
        """Which row an entry shows."""
        self._cards = Cards()
        self._waiting: dict[str, Said] = {}
        """Own messages that are no row yet, by turn, in order."""
        self._answer: Answer | None = None
        self._last_text = ""
        """The last answer of the turn: what its end need not repeat."""
        self._last_row = 0

    @property
    def span(self) -> int:
        """How many rows there may be from the oldest on the screen to the newest."""
        return self._last_row - self._first_row + 1

    @property
    def _first_row(self) -> int:
        return min(self._rows.values(), default=self._last_row + 1)

    # What comes from the daemon

    async def attached(self, history: Sequence[MessageStored], partial: str, *, resumed: bool, more: bool) -> None:
        """The rows that were missed, or (not `resumed`) the last rows of the session; and the text being written."""
        await self._drop_answer()
        if not resumed:
            await self._forget()
            self.has_older = more
        await self._add([entry for row in history for entry in await self._row(row)])
        if partial:
            await self._stream(partial)

    async def show(self, event: TurnEvent) -> None:
        """One event."""
        match event:
            case TextStreamed():
                await self._stream(event.text)
            case StreamRestarted():
                await self._drop_answer()
            case MessageStored():
                await self._add(await self._row(event))
            case ToolStarted():
                await self._add(self._cards.started(event))
            case ToolFinished():
                self._cards.ended(event)
            case Notice():
                await self.note(Note(event.text))
            case TurnFinished():
                await self._turn_finished(event)
            case _:
                pass

    async def note(self, note: Note) -> None:
        """A line of GoClaw."""
        await self._add([note])

    async def prepend(self, rows: Sequence[MessageStored], *, more: bool) -> None:
        """Older rows: those of `rows` (which reach up to the present) that are not on the screen."""
        self.has_older = more
        cards = Cards()
        cards.are_open = self._cards.are_open
        first_row, entries = self._first_row, list[Widget]()
        for row in rows:
            match row.message:
                case ToolResult():
                    cards.stored(row.turn, row.message)
                case _ if row.row < first_row:
                    entries += self._keep(row, entries_of(row, cards))
        first, height = next(iter(self.children), None), self.virtual_size.height
        await self.mount_all(entries, before=first)

        def keep_place() -> None:
            self.scroll_relative(y=self.virtual_size.height - height, animate=False)

        if not self.end_in_view:
            self.call_after_refresh(keep_place)

    # What comes from the person

    async def say(self, turn: str, text: str) -> None:
        """An own message that was just sent; it waits below everything until it is a row."""
        self._waiting[turn] = Said(text, waiting=True)
        await self.mount(self._waiting[turn])
        self.jump()

    async def settle(self, turn: str, note: Note) -> None:
        """An own message becomes no row: it stays where it is, and `note` says what became of it."""
        said = self._waiting.pop(turn, None)
        if said is not None:
            said.remove_class("-waiting")
            if self._waiting:
                self.move_child(said, before=next(iter(self._waiting.values())))
        await self._add([note])

    def fold(self) -> None:
        """Open all cards, or close them."""
        self._cards.are_open = not self._cards.are_open
        for card in self.query(ToolCard):
            card.fold(is_open=self._cards.are_open)

    def tick(self) -> None:
        """A second has gone by."""
        self._cards.tick()

    # Rows

    async def _row(self, row: MessageStored) -> list[Widget]:
        """The entries that a new row adds; what it completes is completed."""
        if row.row <= self._last_row:
            return []
        self._last_row = row.row
        match row.message:
            case UserMessage():
                if waiting := self._waiting.pop(row.turn, None):
                    await waiting.remove()
            case AssistantMessage():
                self._last_text = row.message.text
                if answer := await self._take_answer(row.message.text):
                    self._keep(row, [answer])
                    return self._keep(row, self._cards.asked(row.turn, row.message.calls))
            case ToolResult():
                self._cards.stored(row.turn, row.message)
                return []
        return self._keep(row, entries_of(row, self._cards))

    def _keep(self, row: MessageStored, entries: Sequence[Widget]) -> list[Widget]:
        self._rows.update(dict.fromkeys(entries, row.row))
        return list(entries)

    async def _turn_finished(self, event: TurnFinished) -> None:
        await self._drop_answer()
        # What ended before the agent's own words stands in the transcript in brackets.
        text = event.text.strip()
        if text and self._last_text.strip() not in (text, f"[{text}]"):
            await self.note(Note(text))
        self._last_text = ""
        self._cards.forget()

    # The answer that grows, and what stands where

    async def _stream(self, text: str) -> None:
        if self._answer is None:
            self._answer = Answer()
            await self._add([self._answer])
        self._answer.feed(text)

    async def _take_answer(self, text: str) -> Answer | None:
        """The answer that was streamed, brought to its final text; None when there is none or the text is blank."""
        if self._answer is None or not text.strip():
            await self._drop_answer()
            return None
        answer, self._answer = self._answer, None
        answer.finish(text)
        return answer

    async def _drop_answer(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            await answer.remove()

    async def _add(self, entries: Sequence[Widget]) -> None:
        """Below everything that stands, above what waits."""
        if entries:
            await self.mount_all(entries, before=next(iter(self._waiting.values()), None))
        if len(self.children) > MOST_ENTRIES and self.end_in_view:
            oldest = [child for child in self.children[:PRUNED] if child in self._rows or isinstance(child, Note)]
            for entry in oldest:
                self._rows.pop(entry, None)
            self.has_older = True
            await self.remove_children(oldest)

    async def _forget(self) -> None:
        waiting = set(self._waiting.values())
        await self.remove_children([child for child in self.children if child not in waiting])
        self._rows.clear()
        self._cards.forget()
        self._last_row = 0


def entries_of(row: MessageStored, cards: Cards) -> list[Widget]:
    """The entries of a row by itself; who spoke is said when it was not somebody at a terminal."""
    match row.message:
        case UserMessage():
            return [Said(row.message.text, sender="" if row.sender.startswith("tui:") else row.sender)]
        case AssistantMessage():
            answer: list[Widget] = [Answer(row.message.text)] if row.message.text.strip() else []
            return [*answer, *cards.asked(row.turn, row.message.calls)]
        case ToolResult():
            return []

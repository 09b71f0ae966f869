"""The conversation: rows of the transcript, streamed text, questions, and waiting messages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from goclaw.clients.tui.text import FORGOTTEN, artifact_lines
from goclaw.clients.tui.widgets.entries import AnswerEntry, Entry, Note, PageEntry, Said
from goclaw.clients.tui.widgets.question_cards import QuestionCard, QuestionCards
from goclaw.clients.tui.widgets.stream import Stream, Thought
from goclaw.clients.tui.widgets.tool_cards import Cards, ToolCard
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import (
    AgentProgress,
    MessageStored,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    SessionForgotten,
    SessionNow,
    StreamRestarted,
    TextStreamed,
    ThinkingStreamed,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.messages import AssistantMessage, ToolResult, UserMessage

MAX_ENTRIES = 80
"""Entries on the screen at once; older ones come back when the person scrolls up to them."""
PRUNED = 30


class EntryView(Protocol):
    """The view that shows the entries, one below the other (`widgets.conversation`)."""

    has_older: bool
    """Whether there is more above the top."""
    end_in_view: bool

    @property
    def entries(self) -> Sequence[Entry]:
        """All of them, oldest first."""
        ...

    async def put(self, entries: Sequence[Entry], before: Entry | None) -> None:
        """Put entries before one of those that stand, or (None) at the end."""
        ...

    async def put_on_top(self, entries: Sequence[Entry]) -> None:
        """Put entries before all others; the visible part stays in view."""
        ...

    async def remove_entries(self, entries: Sequence[Entry]) -> None:
        """Remove entries."""
        ...

    def move(self, entry: Entry, before: Entry) -> None:
        """Let an entry stand before another one."""
        ...

    def jump(self) -> None:
        """Go to the end and stay there."""
        ...

    def check_soon(self) -> None:
        """Notice soon whether the view is full, and where the end is."""
        ...

    def request_older(self) -> None:
        """Ask for entries older than all present ones."""
        ...

    def watch_questions(self) -> None:
        """Notice from now on which questions are in view, while there are some."""
        ...


PAGE_KEY = "Ctrl+P does the same."
"""Behind the line about a web page that asks to be let in."""


class Conversation:
    """Everything that was said, oldest first."""

    def __init__(self, view: EntryView, questions: QuestionCards, clock: Clock, person: Callable[[], str]) -> None:
        """`person`: returns the actor key of the person at this terminal."""
        self.view = view
        self.questions = questions
        self._rows: dict[Entry, int] = {}
        """Which row an entry shows."""
        self._cards = Cards(clock, person)
        self._stream = Stream(self._add, view.remove_entries, clock)
        self._waiting: dict[str, Said] = {}
        """Own messages that are no row yet, by turn, in order."""
        self._begun: dict[str, Said] = {}
        """Messages whose turn runs: its entries stand below them. `/compact` never becomes a row."""
        self._last_text = ""
        """The last answer of the turn, which its end need not repeat."""
        self._last_row = 0
        self.first_row = 1
        """The oldest row loaded; earlier ones have to be fetched."""

    @property
    def waiting(self) -> list[str]:
        """The turns of own messages that are no row yet, in order."""
        return [*self._begun, *self._waiting]

    async def enter(self, me: str, waiting: Mapping[str, str]) -> None:
        """Enter another session, with the person as `me`; `waiting`: messages for it, by turn, that no daemon took."""
        await self._stream.drop()
        self._waiting.clear()
        self._begun.clear()
        await self._clear()
        self.questions.enter(me)
        self.view.has_older, self._last_text = False, ""
        for turn, text in waiting.items():
            await self.add_pending(turn, text)

    # What comes from the daemon

    async def show_history(
        self, history: Sequence[MessageStored], now: SessionNow, *, resumed: bool, more: bool
    ) -> None:
        """Show the missed rows, or (not `resumed`) the last rows of the session; and the current activity."""
        await self._stream.drop()
        if not resumed:
            await self._clear()
            self.view.has_older = more
            self.first_row = history[0].row if history else 1
        await self._add([entry for row in history for entry in await self._row(row)])
        await self._ask(self.questions.sync(now.questions))
        if now.thinking:
            await self._stream.think(now.thinking, is_open=self._cards.are_open, is_timed=False)
        if now.text:
            await self._stream.write(now.text)
        self.view.check_soon()

    async def show(self, event: TurnEvent, age: float = 0.0) -> None:
        """Show one event, which happened `age` seconds ago."""
        match event:
            case TextStreamed() | ThinkingStreamed() | StreamRestarted():
                await self._write_stream(event, age)
            case MessageStored():
                await self._add(await self._row(event, age))
            case ToolStarted():
                await self._add(self._cards.start_tool(event, age))
            case AgentProgress() | ToolFinished():
                self._cards.show_activity(event)
            case QuestionAsked():
                await self._ask(self.questions.add(event.question))
            case QuestionAnswered():
                self.questions.close(event)
            case Notice():
                await self._show_notice(event)
            case TurnStarted() | TurnFinished():
                await self._follow_turn(event)
            case SessionForgotten():
                await self._forget()
            case _:
                pass

    async def note(self, note: Note) -> None:
        """Add a line of GoClaw."""
        await self._add([note])

    async def prepend(self, rows: Sequence[MessageStored], *, more: bool) -> None:
        """Rows from before the oldest on the screen, oldest first."""
        self.view.has_older = more
        if not rows or rows[-1].row >= self.first_row:
            return  # asked for before the screen began anew
        self.first_row = rows[0].row
        cards = self._cards.older()
        entries = [entry for row in rows for entry in self._index(row, entries_of(row, cards))]
        self._cards.adopt(cards)
        if not entries and more:
            self.view.request_older()  # nothing but results of what is older still
        await self.view.put_on_top(entries)

    # What comes from the person

    async def add_pending(self, turn: str, text: str) -> None:
        """An own message that was just sent; it waits below everything until it is a row."""
        self._waiting[turn] = Said(text, waiting=True)
        await self.view.put([self._waiting[turn]], before=None)
        self.view.jump()

    async def finish_pending(self, turn: str, note: Note | PageEntry) -> None:
        """Finish an own message that becomes no row: it stays in its place, with `note` as its outcome."""
        self._start_pending(turn)
        self._begun.pop(turn, None)
        await self._add([note])

    async def withdraw(self, turn: str) -> None:
        """An own message became an answer: the card of the question shows it, in every client alike."""
        if said := self._no_longer_waits(turn):
            await self.view.remove_entries([said])

    def fold(self) -> None:
        """Open all tool cards and thoughts, or close them."""
        self._cards.are_open = not self._cards.are_open
        for entry in self.view.entries:
            if isinstance(entry, ToolCard | Thought):
                entry.fold(is_open=self._cards.are_open)

    def artifact(self, blob: str, text: str, *, cut: bool) -> None:
        """Pass the beginning of an artifact to the cards that show it."""
        for entry in self.view.entries:
            if isinstance(entry, ToolCard):
                entry.artifact(blob, text, cut=cut)

    def tick(self) -> None:
        """Advance the timers by a second."""
        self._cards.tick()
        self.questions.tick()
        self._stream.tick()

    async def _ask(self, cards: Sequence[QuestionCard]) -> None:
        stand = self.view.entries
        await self.view.remove_entries([card for card in self.questions.pop_obsolete() if card in stand])
        await self._add(cards)
        self.view.watch_questions()

    # What becomes of events

    async def _write_stream(self, event: TextStreamed | ThinkingStreamed | StreamRestarted, age: float) -> None:
        match event:
            case TextStreamed():
                await self._stream.write(event.text, age)
            case ThinkingStreamed():
                await self._stream.think(event.text, age, is_open=self._cards.are_open)
            case StreamRestarted():
                await self._stream.drop()

    async def _show_notice(self, notice: Notice) -> None:
        if notice.turn not in self._waiting:  # else the answer to that command says it
            await self.note(Note(f"{notice.text} {PAGE_KEY}" if notice.code else notice.text))

    async def _forget(self) -> None:
        await self._stream.drop()
        await self._clear()
        self.view.has_older = False
        await self.note(Note(FORGOTTEN))

    async def _row(self, row: MessageStored, age: float = 0.0) -> list[Entry]:
        """Return the entries that a new row adds; complete those that it completes."""
        if row.row <= self._last_row:
            return []
        self._last_row = row.row
        match row.message:
            case UserMessage():
                if waiting := self._no_longer_waits(row.joined or row.turn):
                    await self.view.remove_entries([waiting])
            case AssistantMessage():
                self._last_text = row.message.text
                if answer := await self._stream.become(row.message.text, age):
                    self._index(row, [answer])
                    calls = self._cards.add_calls(row.turn, row.message.calls, row.at)
                    return self._index(row, [*_files_of(row.message, self._cards.person()), *calls])
            case ToolResult():
                pass
        return self._index(row, entries_of(row, self._cards))

    def _index(self, row: MessageStored, entries: Sequence[Entry]) -> list[Entry]:
        self._rows.update(dict.fromkeys(entries, row.row))
        return list(entries)

    def _start_pending(self, turn: str) -> None:
        """Move an own message at the start of its turn above those that still wait; its answer follows below it."""
        if said := self._waiting.pop(turn, None):
            said.remove_class("-waiting")
            if self._waiting:
                self.view.move(said, before=next(iter(self._waiting.values())))
            self._begun[turn] = said

    def _no_longer_waits(self, turn: str) -> Said | None:
        return self._waiting.pop(turn, None) or self._begun.pop(turn, None)

    async def _follow_turn(self, event: TurnStarted | TurnFinished) -> None:
        self._start_pending(event.turn)
        if isinstance(event, TurnFinished):
            self._begun.pop(event.turn, None)
            await self._turn_finished(event)

    async def _turn_finished(self, event: TurnFinished) -> None:
        await self._stream.end()
        # What ended before the agent's own words stands in the transcript in brackets.
        text, last = event.text.strip(), self._last_text.strip()
        # An answer that was cut and went on stands there in several rows.
        is_there = bool(last) and (last == f"[{text}]" or text.endswith(last))
        if text and not is_there:
            await self.note(Note(text))
        self._last_text = ""
        self._cards.forget()

    # What stands where

    async def _add(self, entries: Sequence[Entry]) -> None:
        """Below everything that stands, above what waits."""
        if entries:
            await self.view.put(entries, before=next(iter(self._waiting.values()), None))
        if len(self.view.entries) > MAX_ENTRIES and self.view.end_in_view:
            await self._prune()

    async def _prune(self) -> None:
        """Take the oldest entries away, whole rows only: those come back when the person scrolls up."""
        kept = {*self._begun.values(), *self._waiting.values(), *self.questions.open, *self._stream.entries}
        entries = self.view.entries
        first_kept = self._rows.get(entries[PRUNED])
        oldest = [
            entry
            for entry in entries[:PRUNED]
            if entry not in kept and (first_kept is None or self._rows.get(entry) != first_kept)
        ]
        for entry in oldest:
            self._rows.pop(entry, None)
        self.first_row = min(self._rows.values(), default=self._last_row + 1)
        self.view.has_older = True
        await self.view.remove_entries(oldest)

    async def _clear(self) -> None:
        waiting = {*self._begun.values(), *self._waiting.values()}
        await self.view.remove_entries([entry for entry in self.view.entries if entry not in waiting])
        self._rows.clear()
        self._cards.clear()
        self.questions.clear()
        self._last_row, self.first_row = 0, 1


def entries_of(row: MessageStored, cards: Cards) -> list[Entry]:
    """The entries of a row by itself; who spoke is said where that was not at a terminal."""
    match row.message:
        case UserMessage():
            return [Said(row.message.text, sender="" if row.sender.startswith("tui:") else row.sender)]
        case AssistantMessage():
            answer: list[Entry] = [AnswerEntry(row.message.text)] if row.message.text.strip() else []
            files = _files_of(row.message, cards.person())
            return [*answer, *files, *cards.add_calls(row.turn, row.message.calls, row.at)]
        case ToolResult():
            cards.add_result(row.turn, row.message, row.at)
            return []


def _files_of(answer: AssistantMessage, person: str) -> list[Entry]:
    """Return the lines about the files that an answer names."""
    lines = [line for each in answer.artifacts for line in artifact_lines(each, person)]
    return [Note("\n".join(lines))] if lines else []

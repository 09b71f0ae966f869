"""The terminal client without a screen: its parts are wired as in the program, its widgets are never mounted.

What it would show is read from the entries; what a person would press is a call of what the key does.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from textual.widget import Widget

from goclaw.clients.tui.app import DaemonPlace
from goclaw.clients.tui.approving import Approving
from goclaw.clients.tui.conversation import Conversation
from goclaw.clients.tui.incoming import FIRST_ROWS, Incoming, IncomingViews
from goclaw.clients.tui.link import Link
from goclaw.clients.tui.switching import Switching
from goclaw.clients.tui.widgets.completion import Completion
from goclaw.clients.tui.widgets.entries import AnswerEntry, Growing
from goclaw.clients.tui.widgets.panels import TodoPanel
from goclaw.clients.tui.widgets.picker import SessionPicker
from goclaw.clients.tui.widgets.prompt import HISTORY_FILE, InputHistory, Prompt
from goclaw.clients.tui.widgets.question_cards import InView, QuestionCard, QuestionCards
from goclaw.clients.tui.widgets.status_bar import StatusBar
from goclaw.clients.tui.widgets.stream import Thought
from goclaw.common.core.clock import Clock
from goclaw.common.core.wire import AskFiles
from tests.clients.tui.screen import PATIENCE
from tests.harness import before_the_next_look

SIZE = (100, 100)
ALL = InView(begin=True, end=True)
NOTHING = InView(begin=False, end=False)


class Column:
    """Implements `conversation.EntryView`: a list."""

    def __init__(self) -> None:
        self.has_older = False
        self.end_in_view = True
        self.wants_older = False
        self.entries: list[Widget] = []

    async def put(self, entries: Sequence[Widget], before: Widget | None) -> None:
        at = len(self.entries) if before is None else self.entries.index(before)
        self.entries[at:at] = entries

    async def put_on_top(self, entries: Sequence[Widget]) -> None:
        self.entries[:0] = entries

    async def remove_entries(self, entries: Sequence[Widget]) -> None:
        for entry in entries:
            self.entries.remove(entry)
            if isinstance(entry, Growing):
                entry.finish_painting()

    def move(self, entry: Widget, before: Widget) -> None:
        self.entries.remove(entry)
        self.entries.insert(self.entries.index(before), entry)

    def jump(self) -> None:
        self.end_in_view = True

    def check_soon(self) -> None:
        pass

    def request_older(self) -> None:
        self.wants_older = True

    def watch_questions(self) -> None:
        pass


class Around:
    """Implements `approving.Host`: what was told is kept, and the list of sessions waits for a choice."""

    def __init__(self) -> None:
        self._work: list[asyncio.Task[None]] = []
        self.told: list[str] = []
        self.has_ended = False
        self.picker: SessionPicker | None = None
        self._picked: Callable[[str | None], None] | None = None

    def run_worker(self, work: Callable[[], Awaitable[None]], *, name: str) -> asyncio.Task[None]:
        async def begun() -> None:
            await work()

        self._work.append(asyncio.create_task(begun(), name=name))
        return self._work[-1]

    def notify(self, message: str, *, severity: str = "information") -> None:
        self.told.append(message)

    def push_screen(self, screen: SessionPicker, callback: Callable[[str | None], None]) -> None:
        self.picker, self._picked = screen, callback

    def pick(self, session: str | None) -> None:
        """Choose from the list that is open."""
        assert self._picked is not None
        picked, self._picked, self.picker = self._picked, None, None
        picked(session)

    def exit(self) -> None:
        self.has_ended = True

    async def end(self) -> None:
        """End what goes on beside; an error in it is raised."""
        for task in self._work:
            task.cancel()
        for result in await asyncio.gather(*self._work, return_exceptions=True):
            if isinstance(result, Exception):
                raise result


class Unseen:
    """A client, and what it would show."""

    def __init__(self, place: DaemonPlace, session: str, clock: Clock, host: Around) -> None:
        self.clock = clock
        self.host = host
        self.link = Link(place.way, session, FIRST_ROWS)
        self.questions = QuestionCards(self.link.person, clock)
        self.view = Column()
        self.conversation = Conversation(self.view, self.questions, clock, lambda: self.link.person)
        self.todos = TodoPanel()
        self.completion = Completion(lambda begun: self.link.ask(AskFiles(begun)))
        self.prompt = Prompt(InputHistory(place.state_dir / HISTORY_FILE), self.completion)
        self.bar = StatusBar(session)
        self.approving = Approving(self.link, self.questions, self.prompt, host, clock)
        parts = IncomingViews(self.conversation, self.todos, self.completion, self.prompt, self.bar)
        self.incoming = Incoming(self.link, parts, self.approving, clock)
        self.switching = Switching(place.way, self.link, self.incoming, self.conversation, host, clock)

    # What a person sees

    @property
    def lines(self) -> list[str]:
        """The entries, a line or more for each."""
        return [line.rstrip() for entry in self.view.entries for line in _text_of(entry).split("\n")]

    @property
    def doing(self) -> str:
        """What stands above and below the input."""
        return f"{self.prompt.border_title or ''} | {self.prompt.border_subtitle or ''}"

    def text(self) -> str:
        """Everything that can be read, from top to bottom."""
        width, height = SIZE
        todos = [line.plain for line in self.todos.lines(width, height)]
        edge = [self.doing, self.prompt.text, self.bar.line(width).plain, *self.host.told]
        return "\n".join([*self.lines, *todos, *edge])

    async def until(self, words: str, *, gone: bool = False) -> str:
        """Wait until `words` can be read (or no more); returns everything."""
        try:
            async with asyncio.timeout(PATIENCE):
                while (words in (seen := self.text())) == gone:
                    await before_the_next_look()
                return seen
        except TimeoutError:
            raise AssertionError(f"{words!r} {'stays' if gone else 'does not come'}:\n{self.text()}") from None

    def said(self, kind: type[Widget]) -> list[str]:
        """The texts of all entries of a kind."""
        return [_text_of(entry) for entry in self.view.entries if isinstance(entry, kind)]

    # What a person does

    async def send(self, text: str) -> str:
        """Type, press Enter; returns the turn that it may become, empty where it was an answer by its letter."""
        self.prompt.put("")
        if self.approving.confirms(text):
            return ""
        turn = self.link.submit(text)
        await self.conversation.add_pending(turn, text)
        self.incoming.show_activity()
        return turn

    def type(self, text: str) -> None:
        """Type at the end of what stands in the input."""
        for letter in text:
            may_decide = not self.prompt.text and self.approving.press(letter)
            self.prompt.put(self.prompt.text + letter)
            if may_decide:
                self.host.run_worker(self.approving.decide_soon, name="decide")
        self.incoming.show_activity()

    def look(self, in_view: InView = ALL) -> None:
        """Notice that so much of every open question is in view."""
        self.questions.note_visible({card.question.id: in_view for card in self.questions.open})
        self.incoming.show_activity()

    def card(self, name: str) -> QuestionCard:
        """The open card of a question."""
        return next(card for card in self.questions.open if card.question.id == name)

    def tick(self) -> None:
        """A second has gone by."""
        self.incoming.tick()


def _text_of(entry: Widget) -> str:
    width = SIZE[0]
    match entry:
        case AnswerEntry() | Thought() | QuestionCard():
            return "\n".join(line.plain for line in entry.lines(width))
        case _:
            return str(entry.render())


async def fetch_all(client: Unseen) -> None:
    """Scroll up until there is nothing older."""
    async with asyncio.timeout(PATIENCE):
        while client.view.has_older or client.incoming._fetching:
            if client.view.has_older:
                client.incoming.fetch_older()
            await before_the_next_look()


@asynccontextmanager
async def open_unseen(place: DaemonPlace, session: str, clock: Clock) -> AsyncIterator[Unseen]:
    """A client that is attached, or tries to be, until the block ends."""
    client = Unseen(place, session, clock, host := Around())
    client.switching.start()
    try:
        yield client
    finally:
        await client.view.remove_entries(list(client.view.entries))
        await host.end()

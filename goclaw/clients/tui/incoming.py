"""Display of events from the daemon. It decides which are shown; the widgets decide how.

The daemon also decides how messages are handled that are written while a turn runs; only words for it are here.
"""

import gc
from collections.abc import Mapping

from goclaw.clients.tui.approving import Approving
from goclaw.clients.tui.client import Received
from goclaw.clients.tui.conversation import Conversation
from goclaw.clients.tui.link import TAKEN, Link, turn_of
from goclaw.clients.tui.text import FORGOTTEN, one_line
from goclaw.clients.tui.widgets.completion import Completion
from goclaw.clients.tui.widgets.entries import Note, PageEntry
from goclaw.clients.tui.widgets.panels import TodoPanel
from goclaw.clients.tui.widgets.prompt import Prompt
from goclaw.clients.tui.widgets.status_bar import StatusBar
from goclaw.common.core.clock import Clock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.events import (
    ALWAYS,
    AcceptKind,
    MessageStored,
    Notice,
    SessionForgotten,
    StreamRestarted,
    TextStreamed,
    ThinkingStreamed,
    TodosChanged,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.records import record
from goclaw.common.core.wire import (
    Accepted,
    ArtifactFrame,
    AskOlder,
    AskStatus,
    Attached,
    FilesReply,
    Older,
    Refused,
    SessionsReply,
    Status,
)

FIRST_ROWS = 30
"""Rows that are shown at first; more come when the person scrolls up."""
OLDER_ROWS = 40
"""Rows that come then."""
MAX_TITLE = 40
"""Characters of a question above the input."""
STOPPED = "Stopped."
"""The prefix of the answer to `/stop` where something was stopped."""
OLD_SECONDS = 0.5
"""Seconds from which an event counts as delayed: timers based on it start earlier."""
PAGE_SECONDS = 300.0
"""Seconds for which a web page's code can be approved."""
LOOK_SECONDS = 1.0
"""Seconds for which the line about a page must have been there: no page slips in right before the key."""
NO_PAGE = "No web page is asking to sign in."
JUST_CAME = "A web page has just asked to sign in: check which one, then press the key again."
MANY_PAGES = "Several web pages are asking to sign in: write /approve and the code that your page shows."
AWAY = f"trying to reach the daemon · {daemon_command('start')} starts it"
"""Above the input while nothing answers: no key stops or allows anything then."""


@record
class IncomingViews:
    """The views that events are shown in."""

    conversation: Conversation
    todos: TodoPanel
    completion: Completion
    prompt: Prompt
    bar: StatusBar


class Incoming:
    """Implements `link.Watcher`."""

    def __init__(self, link: Link, parts: IncomingViews, approving: Approving, clock: Clock) -> None:
        self._link = link
        self._parts = parts
        self._approving = approving
        self._clock = clock
        self._greeted = False
        self._away = ""
        """Why nothing can be done, while the daemon is out of reach."""
        self._thinking = False
        self._running_since: float | None = None
        self._turn = ""
        """The running turn."""
        self._ahead = 0.0
        """Seconds that our clock is ahead of the daemon's."""
        self._fetching = False
        """Whether older rows were requested."""
        self._stops: set[str] = set()
        """Messages that a key sent in order to stop the turn."""
        self._queue_mode = ""
        self._pages: dict[str, float] = {}
        """Codes of web pages that ask to be let in, and when they came, monotonic."""

    @property
    def running(self) -> bool:
        """Return whether a turn runs."""
        return self._running_since is not None

    async def enter(self, session: str, waiting: Mapping[str, str]) -> None:
        """Another session: nothing of the one before stays. `waiting`: as in `Link.enter`."""
        self._approving.on_disconnect()
        self._away = ""
        self._set_running(False)
        self._thinking = False
        self._parts.todos.show(())
        self._turn = self._queue_mode = ""
        self._fetching = False
        self._parts.bar.enter(session)
        self._parts.bar.connection("connecting")
        await self._parts.conversation.enter(self._link.person, {turn_of(key): waiting[key] for key in waiting})
        self.show_activity()

    async def on_attach(self, attached: Attached, *, resumed: bool) -> None:
        """Handle a new connection."""
        parts, now = self._parts, attached.now
        full = len(attached.history) >= FIRST_ROWS
        await parts.conversation.show_history(attached.history, now, resumed=resumed, more=full)
        if attached.anew and not attached.history:
            await parts.conversation.note(Note(FORGOTTEN))
        if not self._greeted:
            self._greeted = True
            await parts.conversation.note(Note(attached.greeting))
        parts.todos.show(now.todos)
        self._turn = now.turn
        self._set_running(bool(now.turn), since=now.since)
        self._thinking = bool(now.thinking) and not now.text
        self._handle_attach(attached)
        _collect_garbage_again()

    async def went_on(self, attached: Attached) -> None:
        """Handle a restored connection; missed events follow."""
        self._parts.conversation.questions.ask_again()
        self._handle_attach(attached)

    async def on_frame(self, received: Received) -> None:
        """Handle a frame of the daemon."""
        match received:
            case Accepted():
                if not self._approving.on_acceptance(received):
                    await self._handle_acceptance(received)
            case Status():
                self._parts.bar.numbers(received.numbers)
                self._queue_mode = str(received.numbers.get("queue_mode", ""))
                self.show_activity()
            case Refused():
                if not self._approving.on_refusal(received):
                    await self._handle_refusal(received)
            case Older():
                self._fetching = False
                await self._parts.conversation.prepend(received.rows, more=len(received.rows) >= OLDER_ROWS)
            case ArtifactFrame():
                self._parts.conversation.artifact(received.blob, received.text, cut=received.cut)
            case FilesReply():
                self._parts.completion.answer(received.begun, received.paths)
            case SessionsReply():
                pass
            case _:
                await self._handle_event(received)

    def stop(self) -> None:
        """Stop the running turn, if there is one."""
        if self.running and self._link.connected:
            self._stops.add(self._link.submit("/stop"))

    async def admit_page(self) -> str:
        """Let in the web page that asks; returns why not, else an empty text."""
        now = self._clock.monotonic()
        open_ones = {code: since for code, since in self._pages.items() if now - since < PAGE_SECONDS}
        self._pages = open_ones
        if not open_ones or not self._link.connected:
            return NO_PAGE
        if len(open_ones) > 1:
            return MANY_PAGES
        code, since = next(iter(open_ones.items()))
        if now - since < LOOK_SECONDS:
            return JUST_CAME
        del open_ones[code]
        text = f"/approve {code}"
        await self._parts.conversation.add_pending(self._link.submit(text), text)
        return ""

    def fetch_older(self) -> None:
        """Older rows are wanted; without a connection they are asked for at the next scrolling."""
        conversation = self._parts.conversation
        if self._link.ask(AskOlder(conversation.first_row, OLDER_ROWS)):
            conversation.view.has_older, self._fetching = False, True

    async def on_disconnect(self, reason: str) -> None:
        """Handle a broken connection, which the link tries to restore. Its open requests get no answer any more."""
        _collect_garbage_again()
        self._approving.on_disconnect()
        self._parts.completion.expect_no_answer()
        if self._fetching:
            self._parts.conversation.view.has_older, self._fetching = True, False
        self._parts.bar.connection("reconnecting" if self._greeted else "no daemon")
        self._away = AWAY
        self.show_activity()

    async def on_refusal(self, reason: str) -> None:
        """Handle the loss of access to the session."""
        await self.on_disconnect(reason)
        self._parts.bar.connection("not allowed")
        self._away = "your message will wait"
        self.show_activity()

    def tick(self) -> None:
        """Advance the timers by a second."""
        since = self._running_since
        self._parts.bar.elapsed(None if since is None else self._clock.monotonic() - since)
        self._parts.conversation.tick()

    def show_activity(self) -> None:
        """Show the current activity and its keys above the input, and waiting messages below it."""
        prompt, title, subtitle = self._parts.prompt, self._doing(), self._waiting()
        if prompt.border_title != title:
            prompt.border_title = title
        if prompt.border_subtitle != subtitle:
            prompt.border_subtitle = subtitle

    async def _handle_event(self, event: TurnEvent) -> None:
        age = self._age()
        await self._parts.conversation.show(event, age)
        match event:
            case TurnStarted():
                self._turn = event.turn
                self._set_running(True, since=self._clock.now() - age if age else 0.0)
            case TurnFinished():
                self._set_running(False)
            case TodosChanged():
                self._parts.todos.show(event.todos)
            case SessionForgotten():
                self._parts.todos.show(())
            case Notice() if event.code:
                self._pages[event.code] = self._clock.monotonic()
            case _:
                pass
        thinking = isinstance(event, ThinkingStreamed)
        # Thousands of these come in a turn, and all but the first say nothing new.
        if thinking != self._thinking or not isinstance(event, TextStreamed | ThinkingStreamed):
            self._thinking = thinking
            self.show_activity()
        if isinstance(event, MessageStored | TurnFinished | StreamRestarted | SessionForgotten):
            self._link.ask(AskStatus())

    async def _handle_acceptance(self, accepted: Accepted) -> None:
        turn, acceptance = turn_of(accepted.id), accepted.acceptance
        conversation = self._parts.conversation
        match acceptance.kind:
            case AcceptKind.REPLY:
                # A turn that a key stopped ends with a line that says so.
                text = acceptance.text.removeprefix(STOPPED if turn in self._stops else "").strip()
                if text:
                    await conversation.finish_pending(
                        turn, PageEntry(text) if acceptance.markdown else Note(text, "reply")
                    )
                self._link.ask(AskStatus())
            case AcceptKind.ANSWER if acceptance.refusal:
                await conversation.finish_pending(turn, Note(f"Not accepted as an answer: {acceptance.text}", "error"))
            case AcceptKind.ANSWER:
                await conversation.withdraw(turn)
            case AcceptKind.IGNORED:
                await conversation.finish_pending(turn, Note("You may not write to this session.", "error"))
            case AcceptKind.DUPLICATE if acceptance.turn != turn or self._link.taken.startswith("/"):
                await conversation.finish_pending(turn, Note(TAKEN))
            case _:
                pass  # it becomes a row
        self._stops.discard(turn)
        self.show_activity()

    async def _handle_refusal(self, refused: Refused) -> None:
        text = self._link.drop_message(refused.id)
        if text is None:
            await self._parts.conversation.note(Note(refused.reason, "error"))
            return
        await self._parts.conversation.finish_pending(
            turn_of(refused.id), Note(f"Not accepted: {refused.reason}", "error")
        )
        if not self._parts.prompt.text:
            self._parts.prompt.put(text)

    def _age(self) -> float:
        """Return the age in seconds of the event being handled; 0 if it came immediately."""
        age = self._clock.monotonic() - self._ahead - self._link.at if self._link.at else 0.0
        return age if age >= OLD_SECONDS else 0.0

    def _handle_attach(self, attached: Attached) -> None:
        self._away = ""
        self._ahead = self._clock.monotonic() - attached.clock
        self._parts.bar.connection("connected")
        self._parts.completion.know(attached.commands)
        self.show_activity()
        self._link.ask(AskStatus())

    def _set_running(self, running: bool, since: float = 0.0) -> None:
        """`since`: when the turn began, in epoch seconds; 0: now."""
        self._parts.todos.turn(running=running)
        if running and (since or not self.running):
            age = max(0.0, self._clock.now() - since) if since else 0.0
            self._running_since = self._clock.monotonic() - age
            self.tick()
        elif not running and self.running:
            self._running_since = None
            self.tick()

    def _doing(self) -> str:
        if self._away:
            return self._away
        questions = self._parts.conversation.questions
        undecided = [card for card in questions.open if card.is_undecided]
        waiting = [card for card in undecided if card.question.has_turn] or ([] if self.running else undecided)
        stops = " · Esc stops" if self.running else ""
        if any(card.is_approval for card in waiting):
            if self._parts.prompt.text:
                return "approval needed · clear the input to answer with a key"
            if (card := questions.answerable) is not None:
                for_good = " · a always allow" if ALWAYS in card.question.options else ""
                return f"{one_line(card.question.title, MAX_TITLE)} · y allow{for_good} · n deny"
            return "approval needed · scroll through all of it to answer with a key"
        if any(card.is_mine for card in waiting):
            return f"question for you · your next message is the answer{stops}"
        doing = "thinking" if self._thinking else "working"
        return f"{doing}{stops}" if self.running else ""

    def _waiting(self) -> str:
        """Only a turn of a person at a terminal can be joined from here, or interrupted (see `sessions.queueing`)."""
        return waiting_words(
            self._queue_mode if self._turn.startswith(turn_of("")) else "",
            unsent=0 if self._link.connected else len(self._link.unsent()),
            sent=sum(turn != self._turn for turn in self._parts.conversation.waiting),
            is_running=self.running,
            is_typing=bool(self._parts.prompt.text),
        )


def _collect_garbage_again() -> None:
    """After a start without (see `cli.tui`)."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


ENTER_WORDS = {
    "queue": "Enter queues",
    "collect": "Enter queues",
    "steer": "Enter steers the answer",
    "interrupt": "Enter interrupts the answer",
}
"""By the session's queue mode: what sending does now."""
SENT_WORDS = {
    "queue": "queued",
    "collect": "queued, to be answered together",
    "steer": "waiting to steer the answer",
    "interrupt": "interrupting the answer",
}
"""By the session's queue mode: the state of sent messages."""


def waiting_words(mode: str, *, unsent: int, sent: int, is_running: bool, is_typing: bool) -> str:
    """Return a few words for below the input, empty if there is nothing to say."""
    if unsent:
        return f"{unsent} not sent yet"
    if not is_running:
        return ""
    if sent:
        return f"{sent} {SENT_WORDS.get(mode, SENT_WORDS['queue'])}"
    return ENTER_WORDS.get(mode, "") if is_typing else ""

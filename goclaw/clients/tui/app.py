"""The full terminal client: the conversation and the daemon's log side by side, the input below, numbers at the bottom.

A client like every other: all it knows comes over the socket and from the log file. Only `open_terminal` is called
from outside, and only where there is a terminal; Textual is imported here and in `widgets`, nowhere else.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import ClassVar

from textual import events, work
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static

from goclaw.clients.tui import terminal_integration
from goclaw.clients.tui.approving import Approving
from goclaw.clients.tui.client import RemoteDaemon, Way
from goclaw.clients.tui.conversation import Conversation
from goclaw.clients.tui.incoming import FIRST_ROWS, Incoming, IncomingViews
from goclaw.clients.tui.link import Link
from goclaw.clients.tui.switching import Switching
from goclaw.clients.tui.terminal_integration import EditorError, edit, editor_of
from goclaw.clients.tui.type_ahead import TypeAheadDriver
from goclaw.clients.tui.widgets.completion import Completion
from goclaw.clients.tui.widgets.conversation import ConversationView, FollowedScroll
from goclaw.clients.tui.widgets.panels import LogView, TodoPanel
from goclaw.clients.tui.widgets.picker import SessionPicker
from goclaw.clients.tui.widgets.prompt import HISTORY_FILE, InputHistory, Prompt
from goclaw.clients.tui.widgets.question_cards import QuestionCard, QuestionCards
from goclaw.clients.tui.widgets.status_bar import StatusBar
from goclaw.clients.tui.widgets.tool_cards import ToolCard
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.records import record
from goclaw.common.core.wire import MAX_FRAME, AskArtifact, AskFiles

LEAVE = ("/quit", "/exit")
PICK = "/sessions"
LAYOUTS = ("-split", "-chat", "-log")
ASK_SECONDS = 3.0
"""Seconds during which a second Ctrl+C quits, and `Ctrl+C again` is shown."""
MAX_TEXT = MAX_FRAME // 2
"""Bytes of one message: its JSON may be twice as long and must fit a frame."""
LIGHT_BACKGROUNDS = ("7", "15")
"""The last field of `COLORFGBG` in terminals with a light background."""


@record
class DaemonPlace:
    """The location of the daemon and its files."""

    socket: Path
    log: Path
    state_dir: Path
    remote: RemoteDaemon | None = None
    """A daemon elsewhere, in place of the socket's."""

    @property
    def way(self) -> Way:
        """To the daemon."""
        return self.remote or self.socket


@record
class Farewell:
    """The way the client was left."""

    connected: bool
    unsent: tuple[str, ...]
    """Messages that no daemon has taken."""
    session: str = ""
    """The toast shown last."""


class _Main(Screen[None]):
    """The main screen. Keys typed during the start go to the input, not to the first widget that can have the focus."""

    AUTO_FOCUS = "Prompt"


class Terminal(App[Farewell]):
    """The program: its layout, and the person's actions. `Incoming` shows events from the daemon."""

    CSS = (
        """
    Screen { layout: vertical; }
    #panes { height: 1fr; }
    ConversationView { width: 3fr; scrollbar-background: $background; scrollbar-color: $surface-lighten-2; }
    LogView { width: 2fr; max-width: 90; scrollbar-background: $surface; scrollbar-color: $surface-lighten-2; }
    Screen.-chat LogView { display: none; }
    Screen.-log ConversationView { display: none; }
    Screen.-log LogView { max-width: 100%; }
    Prompt { border-title-color: $foreground; border-title-style: bold; border-subtitle-color: $text-warning; }
    ToastRack { margin-bottom: 4; }
    #jump { display: none; height: 1; background: $accent; color: $text; text-align: center; }
    #jump.-shown { display: block; }
    """
        + terminal_integration.NO_COLOR_CSS
    )
    TITLE = "GoClaw"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Copy, stop, clear, quit", priority=True),
        Binding("ctrl+l", "layout", "Layout", priority=True),
        Binding("ctrl+o", "fold", "Open or close the tool cards", priority=True),
        Binding("ctrl+n", "todos", "Open or close the to-do list", priority=True),
        Binding("ctrl+g", "edit", "Write in your own editor", priority=True),
        Binding("ctrl+p", "let_in", "Approve the sign-in of a web page", priority=True),
        Binding("ctrl+t", "theme", "Light or dark", priority=True),
        Binding("ctrl+end", "jump", "Go to the end", priority=True),
        Binding("pageup", "page(-1)", "Page up", priority=True),
        Binding("pagedown", "page(1)", "Page down", priority=True),
        Binding("escape", "stop", "Stop the turn"),
    ]

    def __init__(self, place: DaemonPlace, session: str, clock: Clock | None = None, *, pick: bool = False) -> None:
        """`pick`: begin with the list of sessions."""
        ansi = True if terminal_integration.is_no_color_set() else None
        super().__init__(driver_class=TypeAheadDriver, ansi_color=ansi)
        self.theme = "textual-light" if os.environ.get("COLORFGBG", "").endswith(LIGHT_BACKGROUNDS) else "textual-dark"
        self._recall = InputHistory(place.state_dir / HISTORY_FILE)
        self._link = Link(place.way, session, FIRST_ROWS)
        clock = clock or RealClock()
        questions = QuestionCards(self._link.person, clock)
        self._view = ConversationView(questions)
        self._conversation = Conversation(self._view, questions, clock, lambda: self._link.person)
        self._todos = TodoPanel()
        self._completion = Completion(lambda begun: self._link.ask(AskFiles(begun)))
        self._prompt = Prompt(self._recall, self._completion)
        self._bar = StatusBar(session)
        self._log_view = LogView(place.log)
        self._approving = Approving(self._link, questions, self._prompt, self, clock)
        parts = IncomingViews(self._conversation, self._todos, self._completion, self._prompt, self._bar)
        self._incoming = Incoming(self._link, parts, self._approving, clock)
        self._switching = Switching(place.way, self._link, self._incoming, self._conversation, self, clock)
        self._pick_at_once = pick
        self._asked_at = float("-inf")
        self._layout = 0

    @property
    def failure(self) -> Exception | None:
        """Return the error that ended the program, if one did."""
        return self._exception or self._switching.refusal

    def get_default_screen(self) -> Screen[None]:
        """The screen of the conversation."""
        return _Main(id="_default")

    def compose(self) -> ComposeResult:
        """Yield the parts, from top to bottom."""
        with Horizontal(id="panes"):
            yield self._view
            yield self._log_view
        yield Static("↓ more below: press End or click", id="jump")
        yield self._todos
        yield self._completion
        yield self._prompt
        yield self._bar

    async def on_mount(self) -> None:
        """Attach; nothing is waited for."""
        self.screen.add_class(LAYOUTS[0])
        self._prompt.focus()
        self._load_recall()
        self._switching.start()
        if self._pick_at_once:
            self._switching.pick()
        self.set_interval(1.0, self._incoming.tick)

    @work
    async def _load_recall(self) -> None:
        await asyncio.to_thread(self._recall.load)

    # What comes from the person

    async def on_prompt_submitted(self, submitted: Prompt.Submitted) -> None:
        """Send; while a turn runs the message waits for it at the daemon."""
        if submitted.text in LEAVE:
            self._leave()
            return
        if submitted.text == PICK:
            self._switching.pick()
            return
        if self._approving.confirms(submitted.text):
            return
        if len(submitted.text.encode()) > MAX_TEXT:
            self._prompt.put_back(submitted.text)
            self.notify("That is too long for one message. Save it as a file and name the file.", severity="error")
            return
        if submitted.is_new:
            self.run_worker(asyncio.to_thread(self._recall.save, submitted.text))
        await self._conversation.add_pending(self._link.submit(submitted.text), submitted.text)

    def on_prompt_begun(self, begun: Prompt.Begun) -> None:
        """Handle the beginning of input: a single letter may answer an approval."""
        if self._approving.press(begun.letter):
            self._decide_soon()

    @work(group="decide", exclusive=True)
    async def _decide_soon(self) -> None:
        await self._approving.decide_soon()

    def on_question_card_chosen(self, chosen: QuestionCard.Chosen) -> None:
        """Handle a click on an option."""
        self._approving.choose(chosen.card, chosen.answer)

    def on_conversation_view_answerable_changed(self) -> None:
        """Update the description of the keys that answer a question."""
        self._incoming.show_activity()

    def on_text_area_changed(self) -> None:
        """Update the keys on display: the letters answer while the input is empty."""
        self._incoming.show_activity()

    def on_prompt_end_wanted(self) -> None:
        """Go to the end."""
        self.action_jump()

    def on_option_list_option_selected(self) -> None:
        """Handle a click on a command or a file."""
        self._prompt.complete()

    def on_tool_card_artifact_wanted(self, wanted: ToolCard.ArtifactWanted) -> None:
        """Ask for the content of a card; without a connection it asks again when it is opened the next time."""
        self._link.ask(AskArtifact(wanted.blob))

    def on_click(self, event: events.Click) -> None:
        """Handle a click on the bar that marks the end."""
        if event.widget is not None and event.widget.id == "jump":
            self.action_jump()

    def on_key(self, event: events.Key) -> None:
        """Send keys typed anywhere to the input."""
        if event.is_printable and event.character and self.focused is not self._prompt:
            self._prompt.focus()
            if not self._prompt.text:
                self._prompt.post_message(Prompt.Begun(event.character))
            self._prompt.insert(event.character)

    def on_followed_scroll_end_moved(self, moved: FollowedScroll.EndMoved) -> None:
        """Say where the end is while it is out of view."""
        self.query_one("#jump").set_class(not moved.in_view, "-shown")

    def on_followed_scroll_older_wanted(self) -> None:
        """Fetch older rows."""
        self._incoming.fetch_older()

    def action_interrupt(self) -> None:
        """Copy the selection, else stop the turn, else clear the input, else ask once and quit."""
        selected = self._prompt.selected_text or self.screen.get_selected_text()
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
        elif self._incoming.running and self._link.connected:
            self.action_stop()
        elif self._prompt.text:
            self._recall.add(self._prompt.pop_text())
        elif time.monotonic() - self._asked_at < ASK_SECONDS:
            self._leave()
        else:
            self._asked_at = time.monotonic()
            unsent = len(self._switching.unsent())
            lost = f" {unsent} message(s) were not sent." if unsent else ""
            self.notify(f"Press Ctrl+C again to leave; the daemon keeps running.{lost}", timeout=ASK_SECONDS)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy to the clipboard of the terminal that the person sits at, and say whether it was done."""
        if not terminal_integration.fits_clipboard(text):
            most = terminal_integration.MAX_COPY // 1000
            self.notify(f"Not copied: terminals accept at most {most} kB. Select less.", severity="error")
            return
        self.notify("Copied.", timeout=1)
        if terminal_integration.in_tmux():
            self._copy_through_tmux(text)
        else:
            super().copy_to_clipboard(text)

    @work(group="copy")
    async def _copy_through_tmux(self, text: str) -> None:
        if not await terminal_integration.copy_through_tmux(text):
            super().copy_to_clipboard(text)

    def action_stop(self) -> None:
        """Stop the turn, if one runs."""
        self._incoming.stop()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """While the list of sessions is open, nothing happens underneath it."""
        return action == "quit" or not isinstance(self.screen, SessionPicker)

    @work(group="edit", exclusive=True)
    async def action_edit(self) -> None:
        """Write on in the person's editor. What happens meanwhile is shown afterwards."""
        text = self._prompt.whole_text
        try:
            command = editor_of()
            # The loop goes on, but nothing may be painted: the thread that writes to the terminal has ended.
            with self.batch_update(), self.suspend():
                edited = await edit(text, command)
        except (EditorError, SuspendNotSupported) as error:
            self.notify(str(error), severity="error")
            return
        self._prompt.apply_edit(text, edited.text)
        if edited.problem:
            self.notify(edited.problem, severity="error")

    def action_layout(self) -> None:
        """Chat and log, chat alone, log alone."""
        self.screen.remove_class(LAYOUTS[self._layout])
        self._layout = (self._layout + 1) % len(LAYOUTS)
        self.screen.add_class(LAYOUTS[self._layout])
        if self.focused is None or not self.focused.display:
            self._prompt.focus()

    def action_fold(self) -> None:
        """Open or close the tool cards."""
        self._conversation.fold()

    def action_todos(self) -> None:
        """Open or close the to-do list."""
        self._todos.fold()

    async def action_let_in(self) -> None:
        """Approve the sign-in of a web page."""
        if problem := await self._incoming.admit_page():
            self.notify(problem, severity="warning")

    def action_theme(self) -> None:
        """Light or dark."""
        self.theme = "textual-dark" if self.theme == "textual-light" else "textual-light"

    def action_jump(self) -> None:
        """To the end of the conversation."""
        self._view.jump()

    def action_page(self, direction: int) -> None:
        """Scroll a page up (-1) or down (1) in the conversation, or in the log where only that is shown."""
        in_log = LAYOUTS[self._layout] == "-log" or self.focused is self._log_view
        pane = self._log_view if in_log else self._view
        if direction < 0:
            pane.scroll_page_up(animate=False)
        else:
            pane.scroll_page_down(animate=False)

    async def action_quit(self) -> None:
        """Textual's own Ctrl+Q."""
        self._leave()

    def _fatal_error(self) -> None:
        """Hide Textual's report of our own bugs, which prints every variable. The caller reports them in a line."""
        self._close_messages_no_wait()

    def _leave(self) -> None:
        self.exit(Farewell(self._link.connected, tuple(self._switching.unsent()), self._link.session))


async def open_terminal(place: DaemonPlace, session: str, *, mouse: bool = True, pick: bool = False) -> Farewell:
    """Talk in `session`, or in the picked one, until the person leaves.

    Raises:
        StateError: the session is not open to the person.
    """
    terminal_integration.drop_empty_no_color()
    terminal = Terminal(place, session, pick=pick)
    farewell = await terminal.run_async(mouse=mouse)
    if terminal.failure is not None:
        raise terminal.failure
    return farewell or Farewell(connected=False, unsent=())

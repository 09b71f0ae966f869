"""What comes from the daemon, brought onto the screen. It decides what is shown; the widgets decide how."""

import gc
from dataclasses import dataclass

from goclaw.clock import Clock
from goclaw.events import AcceptKind, MessageStored, StreamRestarted, ThinkingStreamed, TurnFinished, TurnStarted
from goclaw.tui.client import Received
from goclaw.tui.link import Link
from goclaw.tui.widgets.completion import Completion
from goclaw.tui.widgets.conversation import Conversation
from goclaw.tui.widgets.entries import Note
from goclaw.tui.widgets.prompt import Prompt
from goclaw.tui.widgets.status_bar import StatusBar
from goclaw.wire import Accepted, Attached, Refused, Status

FIRST_ROWS = 30
"""Rows that are shown at first; more come when somebody scrolls up."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The widgets that show what comes."""

    conversation: Conversation
    completion: Completion
    prompt: Prompt
    bar: StatusBar


class Incoming:
    """Implements `link.Watcher`."""

    def __init__(self, link: Link, parts: Parts, clock: Clock) -> None:
        self._link = link
        self._parts = parts
        self._clock = clock
        self._greeted = False
        self._running_since: float | None = None

    @property
    def running(self) -> bool:
        """Whether a turn runs."""
        return self._running_since is not None

    async def attached(self, attached: Attached, *, resumed: bool) -> None:
        """The connection stands."""
        parts = self._parts
        parts.bar.connection("connected")
        parts.completion.know(attached.commands)
        full = len(attached.history) >= FIRST_ROWS
        await parts.conversation.attached(attached.history, attached.now.text, resumed=resumed, more=full)
        if not self._greeted:
            self._greeted = True
            await parts.conversation.note(Note(attached.greeting))
        self._set_running(bool(attached.now.turn))
        self._say_doing(thinking=False)
        self._link.ask_status()
        _collect_garbage_again()

    async def received(self, received: Received) -> None:
        """Something came."""
        match received:
            case Accepted():
                await self._accepted(received)
            case Status():
                self._parts.bar.numbers(received.numbers)
            case Refused():
                await self._refused(received.reason)
            case _:
                await self._parts.conversation.show(received)
                if isinstance(received, TurnStarted):
                    self._set_running(True)
                elif isinstance(received, TurnFinished):
                    self._set_running(False)
                self._say_doing(thinking=isinstance(received, ThinkingStreamed))
                if isinstance(received, MessageStored | TurnFinished | StreamRestarted):
                    self._link.ask_status()

    async def lost(self, reason: str) -> None:
        """The connection broke; the link goes on trying."""
        _collect_garbage_again()
        self._parts.bar.connection("reconnecting" if self._greeted else "no daemon")
        unsent = len(self._link.unsent())
        self._parts.prompt.border_subtitle = f"{unsent} not sent yet" if unsent else ""

    def tick(self) -> None:
        """A second has gone by."""
        since = self._running_since
        self._parts.bar.elapsed(None if since is None else self._clock.monotonic() - since)
        self._parts.conversation.tick()

    async def _accepted(self, accepted: Accepted) -> None:
        turn, acceptance = f"socket:{accepted.id}", accepted.acceptance
        conversation = self._parts.conversation
        self._parts.prompt.border_subtitle = ""
        match acceptance.kind:
            case AcceptKind.REPLY:
                await conversation.settle(turn, Note(acceptance.text, "reply"))
                self._link.ask_status()
            case AcceptKind.IGNORED:
                await conversation.settle(turn, Note("You may not write to this session.", "error"))
            case AcceptKind.DUPLICATE if acceptance.turn != turn:
                await conversation.settle(turn, Note("Done; the answer was lost in the break."))
            case _:
                pass  # it becomes a row

    async def _refused(self, reason: str) -> None:
        given_up = self._link.refused()
        if given_up is None:
            await self._parts.conversation.note(Note(reason, "error"))
            return
        turn, text = given_up
        await self._parts.conversation.settle(turn, Note(f"Not taken: {reason}", "error"))
        if not self._parts.prompt.text:
            self._parts.prompt.put(text)

    def _set_running(self, running: bool) -> None:
        if running != self.running:
            self._running_since = self._clock.monotonic() if running else None
            self.tick()

    def _say_doing(self, *, thinking: bool) -> None:
        """What the turn is at, above the input."""
        doing = "thinking" if thinking else "working"
        title = f"{doing} · Esc stops" if self.running else ""
        if self._parts.prompt.border_title != title:
            self._parts.prompt.border_title = title


def _collect_garbage_again() -> None:
    """After a start without (see `cli.home`)."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()

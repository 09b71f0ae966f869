"""The session that the terminal shows, and switching to another one.

Messages for a session that is no longer shown are still sent there.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from goclaw.clients.tui.approving import BackgroundWork, Host
from goclaw.clients.tui.client import Received, Way
from goclaw.clients.tui.conversation import Conversation
from goclaw.clients.tui.incoming import Incoming
from goclaw.clients.tui.link import Link
from goclaw.clients.tui.text import one_line
from goclaw.clients.tui.widgets.entries import Note
from goclaw.clients.tui.widgets.picker import SessionPicker
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import AcceptKind
from goclaw.common.core.supervise import background
from goclaw.common.core.wire import Accepted, AskSessions, Attached, Refused, SessionsReply
from goclaw.errors import StateError

SHOWN = 200
"""Characters shown of a message, or of an answer to it."""


class UnsentMessages:
    """A `link.Watcher` that shows no conversation, only a sentence on each of these messages."""

    def __init__(self, way: Way, session: str, waiting: Mapping[str, str], tell: Callable[[str], None]) -> None:
        """`waiting`: texts by the ids of their messages."""
        self.link = Link(way, session, limit=1)
        self.link.enter(session, waiting)
        self._tell = tell
        self._told = False
        self._taken = asyncio.Event()

    async def deliver(self) -> None:
        """Return when every message was taken, or given back in words."""
        async with background(self.link.run(self), f"sending what is left for {self.link.session}"):
            await self._taken.wait()

    async def on_attach(self, attached: Attached, *, resumed: bool) -> None:
        """Do nothing: the link sends waiting messages."""

    async def went_on(self, attached: Attached) -> None:
        """Do nothing: the link sends waiting messages, as after `on_attach`."""

    async def on_frame(self, received: Received) -> None:
        """Handle a frame of the daemon: a message was accepted, or refused."""
        match received:
            case Accepted() if received.acceptance.kind is AcceptKind.IGNORED:
                self._report("you may not write there")
            case Accepted() if received.acceptance.text:
                self._report(received.acceptance.text)
            case Refused() if (text := self.link.drop_message(received.id)) is not None:
                self._report(f"not accepted: {received.reason} Your message: {text}")
            case _:
                pass
        if not self.link.unsent():
            self._taken.set()

    async def on_disconnect(self, reason: str) -> None:
        """Do nothing: the link tries again."""

    async def on_refusal(self, reason: str) -> None:
        """Do nothing: the link tries again, and access may come back."""
        if not self._told:
            self._told = True
            self._report(f"{len(self.link.unsent())} message(s) cannot be sent now: {reason}")

    def _report(self, sentence: str) -> None:
        self._tell(f"{self.link.session}: {one_line(sentence, SHOWN)}")


class Switching:
    """Implements `link.Watcher`: what concerns the choice of a session it does itself, the rest goes to `Incoming`."""

    def __init__(
        self, way: Way, link: Link, incoming: Incoming, conversation: Conversation, host: Host, clock: Clock
    ) -> None:
        self._way = way
        self._link = link
        self._incoming = incoming
        self._conversation = conversation
        self._host = host
        self._clock = clock
        self._attending: BackgroundWork | None = None
        self._going = asyncio.Lock()
        self._home = ""
        """The last session that the person had access to; empty: none yet."""
        self._shown = ""
        """The daemon's key of the session on display."""
        self._is_shut = False
        self._picker: SessionPicker | None = None
        self._left: dict[str, tuple[UnsentMessages, BackgroundWork]] = {}
        """By session: messages still on their way to a session that the terminal has left."""
        self.refusal: StateError | None = None
        """Why the very first session was not open to the person."""

    def start(self) -> None:
        """Attach; nothing is waited for."""
        self._attending = self._host.run_worker(partial(self._link.run, self), name="attending")

    def unsent(self) -> list[str]:
        """The texts that no daemon has taken yet, with their sessions where these are not shown."""
        elsewhere = [
            f"(to {session}) {text}" for session, (left, _) in self._left.items() for text in left.link.unsent()
        ]
        return [*self._link.unsent(), *elsewhere]

    def pick(self) -> None:
        """Let the person choose a session."""
        self._picker = SessionPicker(self._shown or self._link.session, self._clock)
        self._host.push_screen(self._picker, self._on_pick)
        self._link.ask(AskSessions())

    def switch(self, session: str) -> None:
        """Show another session, as soon as may be."""
        self._host.run_worker(partial(self._switch, session), name=f"going to {session}")

    async def on_attach(self, attached: Attached, *, resumed: bool) -> None:
        """Handle a new connection."""
        was_at, self._home = self._home, self._link.session
        self._shown, self._is_shut = attached.session, False
        await self._incoming.on_attach(attached, resumed=resumed)
        if was_at not in ("", self._home):
            await self._conversation.note(
                Note(f"You are now in the session {attached.session}. /sessions lists them all.")
            )
        self._ask_for_list()

    async def went_on(self, attached: Attached) -> None:
        """Handle a restored connection."""
        self._is_shut = False
        await self._incoming.went_on(attached)
        self._ask_for_list()

    async def on_frame(self, received: Received) -> None:
        """Handle a frame of the daemon."""
        if not isinstance(received, SessionsReply):
            await self._incoming.on_frame(received)
        elif self._picker is not None:
            self._picker.add(received.sessions)
            if received.more:
                self._link.ask(AskSessions(after=received.sessions[-1].place))

    async def on_disconnect(self, reason: str) -> None:
        """Handle a broken connection, which the link tries to restore."""
        await self._incoming.on_disconnect(reason)

    async def on_refusal(self, reason: str) -> None:
        """Return to the previous session, because the person has no access to this one; none exists at the start."""
        session, sentence = self._link.session, f"{reason[0].upper()}{reason[1:]}."
        if not self._home:
            self.refusal = StateError(reason)
            self._host.exit()
        elif self._home != session:
            self._host.notify(sentence, severity="error")
            self.switch(self._home)
        else:
            await self._incoming.on_refusal(reason)
            if not self._is_shut:
                self._is_shut = True
                await self._conversation.note(Note(f"{sentence} Messages that you send now will wait.", "error"))

    def _ask_for_list(self) -> None:
        if self._picker is not None and not self._picker.has_sessions:
            self._link.ask(AskSessions())

    def _on_pick(self, session: str | None) -> None:
        self._picker = None
        if session and session != self._shown:
            self.switch(session)

    async def _switch(self, session: str) -> None:
        async with self._going:
            if session == self._link.session:
                return
            waiting = self._reclaim(session)
            before, left = self._link.session, self._link.enter(session, waiting)
            if self._attending is not None:
                self._attending.cancel()
            if left:
                self._deliver(before, left)
            await self._incoming.enter(session, waiting)
            self.start()

    def _reclaim(self, session: str) -> dict[str, str]:
        """Return the unsent messages of a session, for the link that shows it."""
        if session not in self._left:
            return {}
        unsent, delivering = self._left.pop(session)
        delivering.cancel()
        return unsent.link.waiting()

    def _deliver(self, session: str, waiting: dict[str, str]) -> None:
        unsent = UnsentMessages(self._way, session, waiting, self._host.notify)
        delivering = self._host.run_worker(partial(self._await_delivery, unsent), name=f"what is left for {session}")
        self._left[session] = (unsent, delivering)

    async def _await_delivery(self, unsent: UnsentMessages) -> None:
        await unsent.deliver()
        del self._left[unsent.link.session]

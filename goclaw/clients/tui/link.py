"""A session's connection to the daemon, kept through disconnects and restarts of either side.

For clients that print lines and end, `PendingReplies` keeps the sent messages without a final reply: each ends once.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from goclaw.clients.tui.client import Client, DaemonRefusal, Received, Way, attach, person_at
from goclaw.common.core.events import AcceptKind, MessageStored, SessionNow, TurnEvent, TurnFinished
from goclaw.common.core.messages import AssistantMessage
from goclaw.common.core.records import record
from goclaw.common.core.replay_buffer import NOWHERE, Position
from goclaw.common.core.supervise import background
from goclaw.common.core.wire import Accepted, Ack, Attached, ClientFrame, Decide
from goclaw.errors import StateError

RETRY_SECONDS = 0.5
"""Between two tries to reach the daemon; on this machine a try costs next to nothing."""
REFUSED_SECONDS = 5.0
"""Between two tries to enter a session that is not open to us: users.json may change, but not because we ask."""
MISSED_ROWS = 5_000
"""Maximum rows fetched after a break. A client that missed more starts again with the last ones."""
ACK_SECONDS = 1.0
"""Between two acknowledgements of events: a second of what happens, which the daemon keeps, is next to nothing."""


_Outgoing = asyncio.Queue[str | ClientFrame]


class Watcher(Protocol):
    """The receiver of a link's events, called with one after the other."""

    async def on_attach(self, attached: Attached, *, resumed: bool) -> None:
        """Handle a new connection; `resumed` if the rows in `attached` follow those received before."""
        ...

    async def went_on(self, attached: Attached) -> None:
        """Handle a restored connection; everything that happened meanwhile is still to be `received`."""
        ...

    async def on_frame(self, received: Received) -> None:
        """Handle a frame of the daemon."""
        ...

    async def on_disconnect(self, reason: str) -> None:
        """Handle a connection that broke or could not be made."""
        ...

    async def on_refusal(self, reason: str) -> None:
        """Handle a refusal: the person has no access to the session."""
        ...


class Link:
    """Attaches, listens and sends. `run` does the work; the other methods may be called at any time."""

    def __init__(self, way: Way, session: str, limit: int) -> None:
        self._way = way
        self._session = session
        self._limit = limit
        self._name = uuid.uuid4().hex
        self._last_row = 0
        self._was_attached = False
        self._position = NOWHERE
        """The position after the last event passed to the watcher."""
        self._shown = asyncio.Event()
        """There is something to acknowledge."""
        self._waiting: dict[str, str] = {}
        """Messages that the daemon has not acknowledged, by id, in order."""
        self._outgoing: _Outgoing = asyncio.Queue()
        """Ids of messages to send, and frames that are sent once or not at all."""
        self.connected = False
        self.taken = ""
        """The message that belongs to the `Accepted` being handled by the watcher."""
        self.at = 0.0
        """When the event being handled happened, on the daemon's clock in epoch seconds; 0: not known."""

    @property
    def session(self) -> str:
        """Return the requested session; the daemon may know it under another name."""
        return self._session

    @property
    def person(self) -> str:
        """Return the actor key of the person at this terminal, in this session."""
        return person_at(self._way, self._session)

    def enter(self, session: str, waiting: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
        """Be a link to another session from the next `run` on; the one before must be cancelled in the same breath.

        `waiting` are messages for it that no daemon has taken. Returns those of the session before, by their ids: they
        belong there and nowhere else.
        """
        left, self._waiting = self._waiting, dict(waiting)
        self._session, self._last_row, self._position = session, 0, NOWHERE
        self._outgoing = asyncio.Queue()
        self.connected = self._was_attached = False
        return left

    def submit(self, text: str) -> str:
        """Send `text` now, or as soon as there is a daemon; returns the id of the turn that it may become."""
        message_id = uuid.uuid4().hex
        self._waiting[message_id] = text
        self._outgoing.put_nowait(message_id)
        return turn_of(message_id)

    def ask(self, frame: ClientFrame) -> bool:
        """Send `frame` once; the daemon's answer comes as `received`. False: there is no connection."""
        if self.connected:
            self._outgoing.put_nowait(frame)
        return self.connected

    def decide(self, question: str, answer: str) -> str:
        """Answer a question by its id; returns the id under which the daemon confirms, empty without a connection.

        It is never sent again after a break: by then the question may be gone, or seen with other eyes. Whether it
        counted is seen from the question, which is closed or still open.
        """
        frame = Decide(uuid.uuid4().hex, question, answer)
        return frame.id if self.ask(frame) else ""

    def unsent(self) -> list[str]:
        """The texts that no daemon has taken yet."""
        return list(self._waiting.values())

    def waiting(self) -> dict[str, str]:
        """Return the same, by the ids of their messages."""
        return dict(self._waiting)

    def drop_message(self, message_id: str) -> str | None:
        """Drop the message with this id; return its text, None when there is no such message."""
        return self._waiting.pop(message_id, None)

    async def run(self, watcher: Watcher) -> None:
        """Stay attached until cancelled, and pass every event to `watcher`."""
        while True:
            try:
                await self._attend(watcher)
                reason = "the daemon ended"
            except DaemonRefusal as refusal:
                await watcher.on_refusal(str(refusal))
                await asyncio.sleep(REFUSED_SECONDS)
                continue
            except StateError as error:
                reason = str(error)
            self.connected = False
            await watcher.on_disconnect(reason)
            await asyncio.sleep(RETRY_SECONDS)

    async def _attend(self, watcher: Watcher) -> None:
        limit = MISSED_ROWS if self._was_attached else self._limit
        async with attach(
            self._way, self._session, after=self._last_row, limit=limit, name=self._name, position=self._position
        ) as client:
            attached = client.attached
            self._outgoing = asyncio.Queue()
            for message_id in self._waiting:
                self._outgoing.put_nowait(message_id)
            self.connected = True
            if attached.goes_on:
                await watcher.went_on(attached)
            else:
                resumed = self._was_attached and len(attached.history) < limit and not attached.anew
                self._saw(attached.history)
                await watcher.on_attach(attached, resumed=resumed)
                self._position = Position(attached.epoch, attached.seen)
                self._was_attached = True
            async with (
                background(_send(client, self._outgoing, self._waiting), "sending"),
                background(self._acknowledge(self._outgoing), "acknowledging"),
                aclosing(client.receive()) as all_received,
            ):
                async for received in all_received:
                    if isinstance(received, MessageStored):
                        self._saw([received])
                    elif isinstance(received, Accepted):
                        self.taken = self._waiting.pop(received.id, "")
                    self.at = client.at
                    await watcher.on_frame(received)
                    self._went_on_to(client.seen)

    def _saw(self, rows: list[MessageStored]) -> None:
        self._last_row = max([self._last_row, *(row.row for row in rows)])

    def _went_on_to(self, number: int) -> None:
        if number > self._position.number:
            self._position = Position(self._position.epoch, number)
            self._shown.set()

    async def _acknowledge(self, outgoing: "_Outgoing") -> None:
        while True:
            await self._shown.wait()
            self._shown.clear()
            if self._position.epoch:
                outgoing.put_nowait(Ack(self._position.number))
            await asyncio.sleep(ACK_SECONDS)


async def _send(client: Client, outgoing: "_Outgoing", waiting: Mapping[str, str]) -> None:
    """Send what comes; bound to one connection, so that nothing reaches a session that it was not meant for."""
    try:
        while True:
            next_one = await outgoing.get()
            if not isinstance(next_one, str):
                await client.ask(next_one)
            elif next_one in waiting:
                await client.submit(waiting[next_one], next_one)
    except StateError:
        return  # the reader of the connection notices, too, and attaches anew


def turn_of(message_id: str) -> str:
    """Return the id of the turn that a client's message becomes (see `servers.serving`)."""
    return f"socket:{message_id}"


RETURN_SECONDS = 30.0
"""Seconds to wait for a daemon that went away, and, once it is back, for a turn without any event."""
TAKEN = "The daemon received this before the connection broke, but its reply was lost."
"""Of a command that was carried out by a daemon that could not say so any more."""


class ReplyDeadline:
    """A time limit for the next event."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the time limit; repeated calls do not restart it."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RETURN_SECONDS, self._give_up)

    def end(self) -> None:
        """Cancel the time limit: an event came, or no reply is pending any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@record
class Ended:
    """The end of a message's handling."""

    turn: str
    text: str
    went_well: bool


class PendingReplies:
    """The turns that answer own messages; several messages may be answered by one."""

    def __init__(self) -> None:
        self._turns: dict[str, AssistantMessage | None] = {}
        """The turns' answers in the transcript; None: none yet."""

    def __bool__(self) -> bool:
        return bool(self._turns)

    def __contains__(self, turn: str) -> bool:
        return turn in self._turns

    def on_send(self, turn: str) -> None:
        """Note that a message was sent, and the turn that it may become."""
        self._turns[turn] = None

    def on_acceptance(self, accepted: Accepted, text: str) -> Ended | None:
        """Return the immediate end of the message `text`; None: a turn answers it."""
        acceptance = accepted.acceptance
        if turn_of(accepted.id) not in self._turns:
            return None
        words = self._turns.pop(turn_of(accepted.id))
        if acceptance.kind is AcceptKind.DUPLICATE and text.startswith("/"):
            return Ended(turn_of(accepted.id), TAKEN, False)
        if acceptance.kind in (AcceptKind.TURN, AcceptKind.DUPLICATE):
            self._turns[acceptance.turn or turn_of(accepted.id)] = words
            return None
        is_answered = acceptance.kind in (AcceptKind.REPLY, AcceptKind.ANSWER)
        went_well = is_answered and not acceptance.refusal
        return Ended(turn_of(accepted.id), acceptance.text or str(acceptance.kind), went_well)

    def on_event(self, event: TurnEvent) -> Ended | None:
        """Return the end of a message that an event brings, if any."""
        match event:
            case MessageStored():
                self._process_row(event)
            case TurnFinished() if event.turn in self._turns:
                del self._turns[event.turn]
                return Ended(event.turn, event.text, event.outcome.went_well)
            case _:
                pass
        return None

    def caught_up(self, rows: Iterable[MessageStored], now: SessionNow) -> list[Ended]:
        """Return the messages that ended while the daemon was away; `rows` are those added meanwhile."""
        for row in rows:
            self._process_row(row)
        answered = {turn: words for turn, words in self._turns.items() if words is not None and turn != now.turn}
        for turn in answered:
            del self._turns[turn]
        return [
            Ended(turn, words.text[1:-1] if words.notice else words.text, not words.notice)
            for turn, words in answered.items()
        ]

    def _process_row(self, row: MessageStored) -> None:
        if row.joined in self._turns:
            del self._turns[row.joined]
            self._turns.setdefault(row.turn, None)  # that turn's answer is the answer to this message, too
        if isinstance(row.message, AssistantMessage) and row.turn in self._turns:
            self._turns[row.turn] = None if row.message.calls else _below(self._turns[row.turn], row.message)


def _below(answer: AssistantMessage | None, message: AssistantMessage) -> AssistantMessage:
    """Return the last words of a turn: with the answer above it, where it is a notice that has one."""
    return replace(answer, text=f"{answer.text}\n\n{message.text}") if message.notice and answer else message

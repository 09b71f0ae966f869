"""Sent messages without a final reply, for clients that print lines and end: each ends once."""

import asyncio
from collections.abc import Callable, Iterable

from goclaw.events import (
    DECIDED,
    GONE,
    AcceptKind,
    MessageStored,
    SessionNow,
    TurnEvent,
    TurnFinished,
)
from goclaw.messages import AssistantMessage
from goclaw.records import record
from goclaw.tui.link import turn_of
from goclaw.wire import Accepted

RETURN_SECONDS = 30.0
"""Seconds to wait for a daemon that went away, and, once it is back, for a turn without any event."""
TAKEN = "This was taken before the break; its answer was lost."
"""Of a command that was carried out by a daemon that could not say so any more."""


class ReplyDeadline:
    """A time limit for the next event."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
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
        self._turns: dict[str, str | None] = {}
        """The turns' answers in the transcript; None: none yet."""

    def __bool__(self) -> bool:
        return bool(self._turns)

    def __contains__(self, turn: str) -> bool:
        return turn in self._turns

    def sent(self, turn: str) -> None:
        """Note that a message was sent, and the turn that it may become."""
        self._turns[turn] = None

    def accepted(self, accepted: Accepted, text: str) -> Ended | None:
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
        went_well = is_answered and not acceptance.text.startswith((GONE, DECIDED))
        return Ended(turn_of(accepted.id), acceptance.text or str(acceptance.kind), went_well)

    def happened(self, event: TurnEvent) -> Ended | None:
        """Return the end of a message that an event brings, if any."""
        match event:
            case MessageStored():
                self._stored(event)
            case TurnFinished() if event.turn in self._turns:
                del self._turns[event.turn]
                return Ended(event.turn, event.text, event.outcome.went_well)
            case _:
                pass
        return None

    def caught_up(self, rows: Iterable[MessageStored], now: SessionNow) -> list[Ended]:
        """Return the messages that ended while the daemon was away; `rows` are those added meanwhile."""
        for row in rows:
            self._stored(row)
        answered = {turn: words for turn, words in self._turns.items() if words is not None and turn != now.turn}
        for turn in answered:
            del self._turns[turn]
        return [
            Ended(turn, words[1:-1], False)
            if words.startswith("[") and words.endswith("]")
            else Ended(turn, words, True)
            for turn, words in answered.items()
        ]

    def _stored(self, row: MessageStored) -> None:
        if row.joined in self._turns:
            del self._turns[row.joined]
            self._turns.setdefault(row.turn, None)  # that turn's answer is the answer to this message, too
        if isinstance(row.message, AssistantMessage) and row.turn in self._turns:
            self._turns[row.turn] = None if row.message.calls else row.message.text

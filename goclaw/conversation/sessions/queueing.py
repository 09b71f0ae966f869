"""Queue modes: the handling of messages that arrive while a turn of their session runs, durable in every mode.

Only a message of the person for whom the turn runs, from the same place, can join or interrupt it; all others wait for
a turn of their own. A mode is applied as late as possible: at a message's arrival for `interrupt`, before a
request to the model for `steer` and `collect`. No message waits in order to be merged: one that comes right after a
message that the model has not begun to answer joins its turn in every mode (`burst`), and the request is withdrawn
and made again (`Withdrawal`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from goclaw.common.config.values import QueueMode
from goclaw.common.core.events import Inbound
from goclaw.conversation.sessions.state import QUEUE_MODE, Contexts, Session
from goclaw.durable.engine.base import Turn
from goclaw.durable.store.settings import Settings

MEANINGS: Mapping[QueueMode, str] = {
    "queue": "it waits and gets an answer of its own",
    "collect": "it waits; consecutive messages of one person are answered together",
    "steer": "it joins the turn before the next request to the model",
    "interrupt": "it stops the turn and takes its place",
}
"""Each mode's effect on a message, in words."""
BURST_SECONDS = 1.0
"""Seconds within which a message continues the one before it: people send one thought in several messages."""
MAX_JOINED = 3
"""Maximum messages that join a turn this way; each costs a withdrawn request."""


class Withdrawn(Exception):
    """The request was taken back before the model had begun to answer it."""


class Withdrawal:
    """A context manager around a request; ends it with `Withdrawn` while the model has not begun to answer."""

    def __init__(self, turn: Turn, wanted: Callable[[], object]) -> None:
        """Watch the messages queued after `turn`; `wanted` returns the messages that continue the requested ones."""
        self._turn = turn
        self._wanted = wanted
        self._timeout = asyncio.timeout(None)
        self.is_open = False
        """Whether the request may still be taken back."""

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self.is_open = True
        self._turn.watch(self._check)
        self._check()  # it may have come while the context was made to fit
        return self

    async def close(self) -> None:
        """Note that the model has begun to answer: nothing is taken back from here on."""
        self._close()
        if self._timeout.expired():
            await asyncio.sleep(0)  # where the end that is under way arrives, before anything was shown
        else:
            self._timeout.reschedule(None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as expired:
            raise Withdrawn from expired

    def _check(self) -> None:
        if self.is_open and not self._timeout.expired() and self._wanted():
            self._timeout.reschedule(asyncio.get_running_loop().time())

    def _close(self) -> None:
        self.is_open = False
        self._turn.watch(None)


def burst(turn: Turn, joined: Sequence[Inbound]) -> Sequence[Inbound]:
    """Return the message that continues the turn's messages, if one waits.

    Args:
        turn: the running turn.
        joined: the messages that joined the turn already, oldest first.
    """
    waiting = turn.followers(past_others=False)[:1] if len(joined) < MAX_JOINED else ()
    latest = joined[-1] if joined else turn.inbound
    # What came while the daemon was away is taken in all at once, whenever it was sent.
    return [
        each
        for each in waiting
        if 0 <= each.received_at - latest.received_at <= BURST_SECONDS
        and 0 <= each.sent_at - latest.sent_at <= BURST_SECONDS
    ]


class QueueModes:
    """The modes of all sessions."""

    def __init__(self, contexts: Contexts, stored: Settings, default: QueueMode) -> None:
        self.default = default
        self._contexts = contexts
        self._stored = stored

    async def of(self, key: str) -> QueueMode:
        """Return the mode that is in force in a session."""
        return self._in(await self._contexts.session(key))

    async def set(self, key: str, mode: QueueMode | None) -> None:
        """Choose the mode of a session; None: the configured one."""
        await self._stored.set(key, QUEUE_MODE, mode)
        (await self._contexts.session(key)).settings.queue_mode = mode

    def joining(self, session: Session, turn: Turn, request: int) -> Sequence[Inbound]:
        """Return queued messages to merge into request `request`, oldest first."""
        match self._in(session):
            case "steer":
                return turn.followers(past_others=True)
            case "collect" if request == 1:
                return turn.followers(past_others=False)
            case _:
                return ()

    def _in(self, session: Session) -> QueueMode:
        return session.settings.queue_mode or self.default

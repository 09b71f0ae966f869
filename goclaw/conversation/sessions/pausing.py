"""Pausing of turns (`/pause`): a paused turn stops before its next request or tool call, until `/resume` or `/stop`.

The order is on disk before it is answered, and a paused turn is parked in the journal: it keeps its lane, its
clock stands still, and after a restart it is paused at the same place. Running requests and calls are not cut.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import field

from goclaw.common.core.clock import Clock
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Notice, NoticeKind, TurnEvent
from goclaw.common.core.records import record
from goclaw.durable.engine.base import Turn
from goclaw.durable.store.settings import Settings

PAUSE = "pause"
"""The session's setting that keeps its order over a restart: a row of its own, as several processes may order."""
PAUSES = "pauses"
"""The stored fact of earlier versions, with all of them together."""
STEP = "pause:"
"""Prefix of the step under which a paused turn is parked."""
PAUSED = "The turn is paused. /resume continues it, /stop ends it."
RESUMED = "The turn continues."

Signal = Callable[[str, str, str], Awaitable[bool]]
"""`Engine.signal`."""


@record
class Pause:
    """An order to pause a turn."""

    id: str
    session: str
    turn: str
    by: str
    """Actor key."""
    at: float
    """Epoch seconds."""

    @property
    def step(self) -> str:
        """The name of the step under which the turn is parked."""
        return f"{STEP}{self.id}"


_PAUSE: Codec[Pause] = Codec(Pause)
_PAUSES: Codec[list[Pause]] = Codec(list[Pause])


class Pauses:
    """The paused turns of all sessions."""

    def __init__(self, stored: Settings, clock: Clock, publish: Callable[[TurnEvent], None]) -> None:
        self._stored = stored
        self._clock = clock
        self._publish = publish
        self._ordered: dict[str, Pause] = {}
        """By session: one turn runs in each."""
        self._lock = asyncio.Lock()

    async def restore(self) -> None:
        """Load the orders of an earlier run, before any turn resumes."""
        if kept := _PAUSES.from_data(await self._stored.fact(PAUSES) or []):
            for pause in kept:
                await self._stored.set(pause.session, PAUSE, _PAUSE.to_data(pause))
            await self._stored.learn(PAUSES, [])
        for session in await self._stored.sessions_with(PAUSE):
            await self.reload(session)

    async def reload(self, session: str) -> None:
        """Load the order of one session, which another process may have given or lifted."""
        kept = (await self._stored.of_session(session)).get(PAUSE)
        self._ordered.pop(session, None)
        if kept is not None:
            self._ordered[session] = _PAUSE.from_data(kept)

    def of(self, session: str, turn: str | None) -> Pause | None:
        """Return the pause of a turn, None without one."""
        pause = self._ordered.get(session)
        return pause if pause and pause.turn == turn else None

    async def order(self, session: str, turn: str, by: str) -> bool:
        """Hold a turn at its next step; durable when this returns. False: that was ordered before."""
        async with self._lock:
            if self.of(session, turn):
                return False
            pause = Pause(secrets.token_hex(8), session, turn, by, self._clock.now())
            await self._stored.set(session, PAUSE, _PAUSE.to_data(pause))
            self._ordered[session] = pause
        return True

    async def lift(self, session: str, turn: str, signal: Signal) -> bool:
        """Resume a turn. False: it was not paused."""
        async with self._lock:
            pause = self.of(session, turn)
            if pause is None:
                return False
            await self._without(session)
        # Not parked yet, it finds no order any more when it comes there.
        await signal(turn, pause.step, "")
        return True

    async def on_turn_end(self, session: str, turn: str) -> None:
        """Forget the orders for a turn that has ended."""
        async with self._lock:
            if self.of(session, turn):
                await self._without(session)

    def gate(self, turn: Turn, stand_still: Callable[[], AbstractContextManager[None]]) -> "Gate":
        """Return the gate that a turn passes before each step; `stand_still` stops its clock."""
        return Gate(self, turn, stand_still, self._publish)

    async def _without(self, session: str) -> None:
        await self._stored.set(session, PAUSE, None)
        self._ordered.pop(session, None)


@record
class Gate:
    """The gate of one turn. Of the calls of one answer the first to come parks the turn, the others wait for it."""

    pauses: Pauses
    turn: Turn
    stand_still: Callable[[], AbstractContextManager[None]]
    publish: Callable[[TurnEvent], None]
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def wait(self) -> None:
        """Wait while the turn is paused."""
        session, turn = self.turn.inbound.session, self.turn.id
        async with self._lock:
            pause = self.pauses.of(session, turn)
            if pause is None:
                return
            with self.stand_still():
                await self.turn.park(pause.step, _PAUSE.to_json(pause), self._announce)
            self.publish(Notice(session, RESUMED, turn, kind=NoticeKind.RESUMED))

    async def _announce(self, question: str) -> None:
        self.publish(Notice(self.turn.inbound.session, PAUSED, self.turn.id, kind=NoticeKind.PAUSED))

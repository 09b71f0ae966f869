"""Turns that somebody holds (`/pause`): each stops before its next request or tool call, until `/resume` or `/stop`.

What was ordered is on disk before it is answered, and a held turn is parked in the journal: it keeps its lane, its
time stands still, and after a restart it is held at the same place. Nothing that runs already is cut.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager

from goclaw.clock import Clock
from goclaw.codec import Codec
from goclaw.engine.base import Turn
from goclaw.events import Notice, TurnEvent
from goclaw.records import record
from goclaw.store.settings import Settings

PAUSES = "pauses"
"""Under which name the orders outlive a restart."""
STEP = "pause:"
"""How the step begins under which a held turn is parked."""
HELD = "The turn is paused. /resume goes on with it, /stop ends it."
GOES_ON = "The turn goes on."

Signal = Callable[[str, str, str], Awaitable[bool]]
"""`Engine.signal`."""


@record
class Pause:
    """Somebody wants a turn to wait."""

    id: str
    session: str
    turn: str
    by: str
    """Actor key."""
    at: float
    """Epoch seconds."""

    @property
    def step(self) -> str:
        """Under which name the turn is parked."""
        return f"{STEP}{self.id}"


_PAUSE: Codec[Pause] = Codec(Pause)
_PAUSES: Codec[list[Pause]] = Codec(list[Pause])


class Pauses:
    """All turns that are to be held."""

    def __init__(self, stored: Settings, clock: Clock, publish: Callable[[TurnEvent], None]) -> None:
        self._stored = stored
        self._clock = clock
        self._publish = publish
        self._ordered: dict[str, Pause] = {}
        """By session: one turn runs in each."""
        self._lock = asyncio.Lock()

    async def restore(self) -> None:
        """Know what an earlier run was told, before a turn goes on."""
        kept = await self._stored.fact(PAUSES)
        self._ordered = {pause.session: pause for pause in _PAUSES.from_data(kept or [])}

    def of(self, session: str, turn: str | None) -> Pause | None:
        """The pause of a turn, if somebody ordered one."""
        pause = self._ordered.get(session)
        return pause if pause and pause.turn == turn else None

    async def order(self, session: str, turn: str, by: str) -> bool:
        """Hold a turn at its next step; durable when this returns. False: that was ordered before."""
        async with self._lock:
            if self.of(session, turn):
                return False
            pause = Pause(secrets.token_hex(8), session, turn, by, self._clock.now())
            await self._keep({**self._ordered, session: pause})
        return True

    async def lift(self, session: str, turn: str, signal: Signal) -> bool:
        """Let a turn go on. False: nobody holds it."""
        async with self._lock:
            pause = self.of(session, turn)
            if pause is None:
                return False
            await self._without(session)
        # Not parked yet, it finds no order any more when it comes there.
        await signal(turn, pause.step, "")
        return True

    async def turn_ended(self, session: str, turn: str) -> None:
        """Forget what was ordered for a turn that has ended."""
        async with self._lock:
            if self.of(session, turn):
                await self._without(session)

    def gate(self, turn: Turn, stand_still: Callable[[], AbstractContextManager[None]]) -> "Gate":
        """What a turn passes before each step; `stand_still` stops its clock."""
        return Gate(self, turn, stand_still, self._publish)

    async def _without(self, session: str) -> None:
        await self._keep({key: pause for key, pause in self._ordered.items() if key != session})

    async def _keep(self, ordered: dict[str, Pause]) -> None:
        await self._stored.learn(PAUSES, _PAUSES.to_data(list(ordered.values())))
        self._ordered = ordered


class Gate:
    """Of one turn. Calls of one answer come to it side by side: one of them parks the turn, the others wait behind."""

    def __init__(
        self,
        pauses: Pauses,
        turn: Turn,
        stand_still: Callable[[], AbstractContextManager[None]],
        publish: Callable[[TurnEvent], None],
    ) -> None:
        self._pauses = pauses
        self._turn = turn
        self._stand_still = stand_still
        self._publish = publish
        self._lock = asyncio.Lock()

    async def passed(self) -> None:
        """Return when nobody holds the turn."""
        session, turn = self._turn.inbound.session, self._turn.id
        async with self._lock:
            pause = self._pauses.of(session, turn)
            if pause is None:
                return
            with self._stand_still():
                await self._turn.park(pause.step, _PAUSE.to_json(pause), self._tell)
            self._publish(Notice(session, GOES_ON, turn))

    async def _tell(self, question: str) -> None:
        self._publish(Notice(self._turn.inbound.session, HELD, self._turn.id))

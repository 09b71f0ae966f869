"""An engine on a file, with a handler that does what a test says, and a disk that can be slow."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from goclaw.channels.memory import MemoryChannel, Room
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Actor, Address, Delivery, Inbound
from goclaw.durable.engine.base import Turn, TurnHandler
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.lanes import Lanes, open_lanes
from goclaw.durable.engine.outbox import open_outbox
from goclaw.durable.store.database import BoundStatement, Database, Row, StatementResult
from goclaw.durable.store.open import open_database
from goclaw.durable.store.sqlite.database import DIALECT
from goclaw.errors import StateError

Act = Callable[[Turn], Awaitable[str]]
EVERYWHERE = {"memory"}


def inbound(number: int, session: str = "s", *, by: str = "a", chat: str = "") -> Inbound:
    return Inbound(f"m{number}", Actor(by, "memory"), session, str(number), Address("memory", chat or session), 0.0)


class House:
    """An engine on a file; `room` has what arrived. `around` may put something between the engine and the database."""

    def __init__(
        self, folder: Path, act: Act, around: Callable[[Database], Database] = lambda database: database
    ) -> None:
        self.folder, self.act, self.around = folder, act, around
        self.room = Room()
        self.stopped: list[str] = []
        """Turns that the handler was told to end without an answer."""
        self.clock = SteppedClock()
        self.turns = TurnHandler(self._handle, self._failed)

    @asynccontextmanager
    async def open(self, *, resume: bool = True) -> AsyncIterator[Lanes]:
        async with (
            open_database(self.folder / "a.db") as database,
            open_outbox(database, {"memory": MemoryChannel(self.room, self.clock)}, self.clock) as outbox,
            open_lanes(Journal(self.around(database)), outbox, self.clock) as lanes,
            asyncio.timeout(20),
        ):
            await outbox.resume()
            if resume:
                await lanes.resume(self.turns, EVERYWHERE)
            yield lanes
            await outbox.flush(20)

    def texts(self) -> list[str]:
        return [heard.delivery.text for heard in self.room.all]

    async def _handle(self, turn: Turn) -> Sequence[Delivery]:
        if turn.stopping:
            self.stopped.append(turn.id)
            return ()
        return [Delivery(f"{turn.id}:deliver:1", turn.inbound.address, await self.act(turn))]

    async def _failed(self, turn: Turn, error: Exception) -> Sequence[Delivery]:
        if turn.inbound.text == "worst":
            raise error
        return [Delivery(f"{turn.id}:deliver:1", turn.inbound.address, f"sorry: {error}")]


class Slow(Database):
    """Holds up the write that has `word` among its values, as a busy disk does, and may then refuse it."""

    def __init__(self, inner: Database, word: str) -> None:
        self.inner, self.word = inner, word
        self.reached, self.gate = asyncio.Event(), asyncio.Event()
        self.full = False

    async def write(self, *statements: BoundStatement, durable: bool = False) -> list[StatementResult]:
        if any(self.word in statement.compile(DIALECT)[1].values() for statement in statements):
            self.reached.set()
            await self.gate.wait()
            if self.full:
                raise StateError("the disk is full")
        return await self.inner.write(*statements, durable=durable)

    async def read(self, statement: BoundStatement) -> Sequence[Row]:
        return await self.inner.read(statement)

"""The sessions that this process owns: a protocol, and the process that owns every session of its store.

`leased_sessions` is for one of several processes on a store. The catalogue names the implementation for each kind of
store, so that nothing else asks whether there are other processes.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from goclaw.channels.processes import Processes, SoleProcess
from goclaw.common.core import catalog
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import SessionNow
from goclaw.common.core.plugins import load
from goclaw.common.core.records import record
from goclaw.durable.engine.base import TurnHandler
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.lane import LaneOwner, SoleLaneOwner
from goclaw.durable.engine.lanes import Lanes
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.database import Database
from goclaw.durable.store.ownership import Ownership, SoleOwner
from goclaw.durable.store.reading import TranscriptFeed
from goclaw.errors import NotAnswered

log = logging.getLogger(__name__)

ORDER_SECONDS = 10.0
"""Seconds for which a reply of the owner is waited for: those of a dead one (`STALL_SECONDS` and the next look), of the
transaction that keeps its session (three), and one to carry the order out."""
CarryOut = Callable[[str, str], Awaitable[str]]
"""Carries an order out: takes the session and the order's body, returns the reply. A GoclawError is a refusal."""


class SessionMemory(Protocol):
    """The memory of this process about sessions, apart from their lanes."""

    async def restore(self) -> None:
        """Read what is stored of every session: this process owns all of them."""

    async def reload(self, session: str) -> None:
        """Read a session again: it may have changed elsewhere."""

    def leave(self, session: str) -> None:
        """Note that the session is not this process's any more: its state may change elsewhere."""

    def is_needed(self, session: str) -> bool:
        """Whether something of it would be lost that is nowhere else: the session is kept as long."""

    async def inspect(self, session: str) -> SessionNow:
        """Return the state of a session of this process, as it is when the call returns."""

    async def compare_folders(self) -> None:
        """Answer other processes whether this one sees their workspaces, and ask about its own; until cancelled."""


class OwnedSessions(LaneOwner, Protocol):
    """The sessions of this process, and its part in what the processes of a store do together."""

    @property
    def ownership(self) -> Ownership: ...

    @property
    def processes(self) -> Processes:
        """All processes of the store, for the channels."""

    @property
    def feed(self) -> TranscriptFeed | None:
        """The rows that other processes store, without events here; None: there are no other processes."""

    def open(
        self, lanes: Lanes, outbox: Outbox, turns: TurnHandler, memory: SessionMemory, channels: Collection[str]
    ) -> AbstractAsyncContextManager[None]:
        """Resume unfinished turns and deliveries, and work on sessions while the block runs.

        `channels`: turns of other channels wait for a start, or a process, that has theirs.
        """

    async def ask(self, session: str, name: str, body: str, seconds: float = ORDER_SECONDS) -> str:
        """Have an order carried out by the process that owns a session, or takes it; return the reply.

        Raises:
            NotAnswered: there was no reply in so many seconds. The order may have been carried out.
            StateError: it was refused, or the store cannot be reached.
        """

    def serve(self, orders: Mapping[str, CarryOut]) -> None:
        """Carry orders of other processes out from here on, by their names; until then they wait."""

    def begin_no_more(self) -> None:
        """Wind down: let go of sessions without work immediately, of the others when their turn has ended."""


class AllSessions(SoleLaneOwner):
    """Implements `OwnedSessions` for the only process of a store."""

    feed = None

    def __init__(self) -> None:
        self.ownership = SoleOwner()
        self.processes = SoleProcess()

    @asynccontextmanager
    async def open(
        self, lanes: Lanes, outbox: Outbox, turns: TurnHandler, memory: SessionMemory, channels: Collection[str]
    ) -> AsyncIterator[None]:
        await memory.restore()
        resumed, deliveries = await lanes.resume(turns, channels), await outbox.resume()
        if resumed or deliveries:
            log.info("taking up from before: turns %d, deliveries %d", resumed, deliveries)
        yield

    async def ask(self, session: str, name: str, body: str, seconds: float = ORDER_SECONDS) -> str:
        raise NotAnswered("this process owns every session: no other one carries orders out")

    def serve(self, orders: Mapping[str, CarryOut]) -> None:
        pass

    def begin_no_more(self) -> None:
        pass


@record
class SessionsPart:
    """The sessions of a process, as the catalogue names them."""

    open: Callable[[Database, Journal, Bus, Clock], OwnedSessions]


ALL = SessionsPart(lambda database, journal, bus, clock: AllSessions())
"""The part that `OWNERSHIPS` of the catalogue names for SQLite."""


def sessions_of(database: Database, journal: Journal, bus: Bus, clock: Clock) -> OwnedSessions:
    """Return the sessions that this process owns in a store."""
    return load(catalog.OWNERSHIPS[database.kind], SessionsPart).open(database, journal, bus, clock)

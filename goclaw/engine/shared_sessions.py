"""Work on the sessions that this process owns, of a store that several processes share.

Taking a session up means for one session what a start means for all of them where there is one process: unfinished
turns go into its lane, promised deliveries into the outbox. It is let go when nothing has come for a while, so that a
conversation that goes on pays for the taking once.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Container
from contextlib import asynccontextmanager

from goclaw.core.clock import Clock
from goclaw.core.supervise import background, keep_running, set_within
from goclaw.engine.journal import Journal
from goclaw.engine.lanes import Lanes
from goclaw.engine.shared_outbox import SharedOutbox
from goclaw.engine.statements import OPEN_SESSIONS
from goclaw.errors import OwnershipLost
from goclaw.store.database import Database
from goclaw.store.ownership import Lease, Ownership

LINGER_SECONDS = 10.0
"""Seconds for which a session is kept that has nothing to do."""
SWEEP_SECONDS = 60.0
"""Seconds between two looks for sessions that have work and that no process works on: none should be found."""

Take = Callable[[str], Awaitable[None]]
"""Reads anew what is in memory of a session: it may have changed elsewhere."""
Leave = Callable[[str], None]
"""Drops what is in memory of a session: it may change elsewhere from here on."""
Holds = Callable[[str], bool]
"""Whether something of a session runs in this process beside its turns: it is kept as long."""


class SharedSessions:
    """The sessions of this process. Made by `open_shared_sessions`."""

    def __init__(
        self,
        ownership: Ownership,
        database: Database,
        journal: Journal,
        lanes: Lanes,
        outbox: SharedOutbox,
        channels: Container[str],
        clock: Clock,
        take: Take,
        leave: Leave,
        holds: Holds,
    ) -> None:
        self._ownership = ownership
        self._database = database
        self._journal = journal
        self._lanes = lanes
        self._outbox = outbox
        self._channels = channels
        self._clock = clock
        self._take = take
        self._leave = leave
        self._holds = holds
        self._leases: dict[str, Lease] = {}
        self._ending = False
        lanes.share(ownership.wanted, self._lane_ended)

    def begin_no_more(self) -> None:
        """The process winds down: sessions without work are let go at once, the others when their turn has ended."""
        self._ending = True
        self._ownership.take_no_more()
        for lease in self._leases.values():
            lease.news.set()

    async def run(self) -> None:
        """Take sessions and work on them, until cancelled."""
        await self._ownership.run(self._work)

    async def sweep(self) -> None:
        """Have sessions worked on that were left behind, again and again: at the start those of one process alone."""
        while True:
            await self._journal.forget_loose()
            begun = [row["session"] for row in await self._database.read(OPEN_SESSIONS())]
            sessions = {*begun, *await self._outbox.open_sessions()}
            for session in sorted(sessions - self._leases.keys()):
                await self._database.write(self._ownership.wanted_if_idle(session))
            await self._clock.sleep(SWEEP_SECONDS)

    async def _work(self, lease: Lease) -> bool:
        """Work on a session until nothing is left of it. False: the process ends before.

        Raises:
            OwnershipLost: another process goes on with it.
        """
        session = lease.session
        await self._take(session)
        self._leases[session] = lease
        known = set[str]()
        try:
            while True:
                lease.news.clear()
                await self._take_up(lease, known)
                while await self._rests(lease):
                    await self._database.write(self._ownership.withdrawn(session))
                    if not await self._take_up(lease, known):
                        return not self._ending
        finally:
            # Its lane would meet that of the next lease, should this process take the session again.
            await self._lanes.cut(session)
            del self._leases[session]
            self._outbox.leave(lease.fence)
            self._leave(session)

    async def _take_up(self, lease: Lease, known: set[str]) -> int:
        if self._ending:
            return 0
        turns = await self._lanes.take_up(lease.session, self._channels, known)
        return turns + await self._outbox.take_up(lease.session, lease.fence)

    async def _rests(self, lease: Lease) -> bool:
        """Wait until a session has had nothing to do for a while. False: there may be something new.

        Raises:
            OwnershipLost: another process goes on with it.
        """
        while True:
            is_new = await set_within(lease.news, self._clock, LINGER_SECONDS)
            if lease.is_lost:
                raise OwnershipLost("another process has taken the session over")
            if is_new and not self._ending:
                return False
            if not self._is_busy(lease):
                return True
            if self._ending:
                lease.news.clear()

    def _is_busy(self, lease: Lease) -> bool:
        if self._lanes.is_busy(lease.session):
            return True
        # The end of the process waits for what is being sent, but not for a service that cannot be reached.
        return not self._ending and (self._outbox.is_busy(lease.fence) or self._holds(lease.session))

    def _lane_ended(self, session: str, *, is_lost: bool) -> None:
        lease = self._leases.get(session)
        if lease is not None and (is_lost or self._ending):
            lease.is_lost = lease.is_lost or is_lost
            lease.news.set()


@asynccontextmanager
async def open_shared_sessions(shared: SharedSessions, lanes: Lanes, clock: Clock) -> AsyncIterator[SharedSessions]:
    """Work on sessions for as long as the block lasts; then their lanes end, and others may take them."""
    async with (
        background(keep_running("sweeping sessions", shared.sweep, clock), "sweeping sessions"),
        background(shared.run(), "sessions of this process"),
    ):
        try:
            yield shared
        finally:
            shared.begin_no_more()
            await lanes.close()

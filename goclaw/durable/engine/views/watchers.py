"""Readers elsewhere of the sessions that this process owns: they are sent the events published here.

Each process knows who watches what; only the owner of a session acts on it. A process that watches is sent the state of
the session first, and from there on every event.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from goclaw.common.core.clock import Clock
from goclaw.common.core.events import AGENT_MARK, Address, MessageStored, SessionNow, TurnEvent, TurnStarted
from goclaw.common.core.fencing import AUTHORITY, Fence
from goclaw.durable.engine.views.parcels import RETRY_SECONDS, ParcelQueue
from goclaw.durable.engine.views.stored_views import StoredViews, published_to
from goclaw.durable.store.replicas import Exchange
from goclaw.errors import StateError

log = logging.getLogger(__name__)

Inspect = Callable[[str], Awaitable[SessionNow]]
"""Returns the state of a session that this process owns; as it is when the call returns."""


class Watchers:
    """The processes that watch sessions, and what those of this one have been told."""

    def __init__(
        self,
        exchange: Exchange,
        stored: StoredViews,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        """`spawn`: begins a task that ends with the bus."""
        self.queue = ParcelQueue(exchange, clock, self._introduce_again)
        self.inspect: Inspect | None = None
        self._exchange = exchange
        self._stored = stored
        self._clock = clock
        self._spawn = spawn
        self._epochs: dict[str, int] = {}
        """Of the leases of this process, by session."""
        self._agents: dict[str, str] = {}
        """Sessions of agents that work under a lease of this process, with the session of that lease."""
        self._rows: dict[str, int] = {}
        """The last row that was published of an owned session."""
        self._addresses: dict[str, Address] = {}
        """Where the answer of an owned session's turn goes."""
        self._known: dict[str, dict[str, float]] = {}
        """By session and process: when a watch was heard of."""
        self._told: dict[str, frozenset[str]] = {}
        """By session of this process: the processes that know its state, and are sent what follows."""

    def owns(self, session: str) -> bool:
        """Whether this process works on a session: it has the lease, or an agent there works under another one."""
        return self._lease_of(session) is not None

    def _lease_of(self, session: str) -> str | None:
        lease = session if session in self._epochs else self._agents.get(session)
        return lease if lease in self._epochs else None

    def publish(self, event: TurnEvent) -> bool:
        """Send an event to those who watch its session. False: the session is not this process's."""
        session = event.session
        lease = self._lease_of(session) or self._begun_by_agent(session)
        if lease is None:
            return False
        if isinstance(event, MessageStored):
            self._rows[session] = event.row
        elif isinstance(event, TurnStarted):
            self._addresses[session] = event.address
        if told := self._told.get(session):
            self.queue.add(told, session, self._epochs[lease], event)
        return True

    def _begun_by_agent(self, session: str) -> str | None:
        """Return the lease under which an agent begins to work in a session: only its events show that."""
        fence = AUTHORITY.get().fence
        if fence is None or fence.session not in self._epochs or not session.startswith(fence.session + AGENT_MARK):
            return None
        self.took_agent(session, fence.session)
        return fence.session

    def on_acquire(self, fence: Fence) -> None:
        """Mark the session as owned by this process, and send its state to its watchers."""
        self._epochs[fence.session] = fence.epoch
        for replica in self._known.get(fence.session, ()):
            self._introduce_soon(fence.session, replica)

    def took_agent(self, session: str, lease: str) -> None:
        """The session of an agent is this process's, under the lease of its person's."""
        self._agents[session] = lease
        for replica in self._known.get(session, ()):
            self._introduce_soon(session, replica)

    def on_release(self, session: str) -> set[str]:
        """This process does not own a session any more; returns it, and those of agents that worked under its lease."""
        gone = {session, *(each for each, lease in self._agents.items() if lease == session)}
        self._epochs.pop(session, None)
        kept: dict[str, Any]
        for kept in (self._agents, self._rows, self._addresses, self._told):
            for each in gone & kept.keys():
                del kept[each]
        return gone

    def add(self, session: str, replica: str) -> None:
        """A process watches a session, from now on or again."""
        self._known.setdefault(session, {})[replica] = self._clock.monotonic()
        self._introduce_soon(session, replica)

    def remove(self, session: str, replica: str) -> None:
        """A process has no readers of a session any more."""
        if (watches := self._known.get(session)) is not None:
            watches.pop(replica, None)
            if not watches:
                del self._known[session]
        if told := self._told.pop(session, frozenset()) - {replica}:
            self._told[session] = told

    @property
    def are_there(self) -> bool:
        """Whether any process is known to watch anything."""
        return bool(self._known)

    async def refresh(self, *, anew: bool = False) -> None:
        """Read who watches what, and who does no more; `anew`: requests made meanwhile may have been missed.

        Raises:
            DiskError: the store cannot be read.
        """
        since = self._clock.monotonic()
        there = {(watch.session, watch.replica) for watch in await self._exchange.watches()}
        known = {
            (session, replica): heard_at
            for session, replicas in self._known.items()
            for replica, heard_at in replicas.items()
        }
        for session, replica in sorted(there if anew else there - known.keys()):
            self.add(session, replica)
        for (session, replica), heard_at in known.items():
            if heard_at < since and (session, replica) not in there:
                self.remove(session, replica)

    def _introduce_again(self, session: str, replicas: frozenset[str]) -> None:
        """Resend the state to processes that missed events of a session."""
        if told := self._told.pop(session, frozenset()) - replicas:
            self._told[session] = told
        for replica in replicas:
            self._introduce_soon(session, replica)

    def _introduce_soon(self, session: str, replica: str) -> None:
        if (lease := self._lease_of(session)) is not None:
            fence = Fence(lease, self._epochs[lease])
            self._spawn(self._introduce(session, replica, fence), f"telling {replica} of {session}")

    async def _introduce(self, session: str, replica: str, fence: Fence) -> None:
        """Send the state of a session to a process, and from here on what follows."""
        while self._epochs.get(fence.session) == fence.epoch and replica in self._known.get(session, ()):
            try:
                if await self._is_introduced(session, replica, fence):
                    return
            except StateError as error:
                log.debug("the state of %s cannot be told: %s", session, error)
            await self._clock.sleep(RETRY_SECONDS)

    async def _is_introduced(self, session: str, replica: str, fence: Fence) -> bool:
        if self.inspect is None:
            return False
        row, last = self._rows.get(session), None
        if row is None and (last := await self._stored.last_message(session)) is None:
            row = await self._stored.last_row(session)
        now = await self.inspect(session)
        # From here on nothing waits: what is published later follows.
        if self._epochs.get(fence.session) != fence.epoch:
            return True
        row = self._rows.get(session, row)
        if row is None and last is not None:
            row = published_to(last, now)
        self.queue.introduce(replica, session, fence, now, row or 0, self._addresses.get(session))
        self._told[session] = self._told.get(session, frozenset()) | {replica}
        return True

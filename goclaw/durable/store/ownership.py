"""Which process works on which session: a protocol, and the sole owner, which has every session for ever.

Processes that share a store have leases (`LeaseStore`): a session is wanted by the transaction that brings it work. One
process takes it, works until nothing is left and a while has passed, and lets it go. Its writes meanwhile are checked
by the fence of its lease (`common.core.fencing`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from goclaw.channels.processes import Processes
from goclaw.common.core.clock import Clock
from goclaw.common.core.fencing import Fence
from goclaw.common.core.records import record
from goclaw.durable.store.database import BoundStatement, Database
from goclaw.durable.store.replicas import Exchange

OF_CHAT = "outbox:"
"""Beginning of the name that stands for a session where a delivery has none; its channel and chat follow."""
OF_WORK_BESIDE = "beside:"
"""Beginning of the name under which work for a session is fenced that any process does; the session follows."""


@dataclass(slots=True)
class Lease:
    """A session that this process works on."""

    fence: Fence
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever the session may have been brought something, by this process or another one."""
    is_lost: bool = False
    """Another process owns the session, or this one has acquired it again: its work ends with `OwnershipLost`."""
    has_orders: bool = True
    """The session may have been given orders that were not looked at."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when nothing works under it any more."""

    @property
    def session(self) -> str:
        """The session's key."""
        return self.fence.session


Work = Callable[[Lease], Awaitable[bool]]
"""Works on a session, in tasks that begin under its fence, until nothing is left. False: something is, for another
process or another time."""


@record
class Order:
    """A request of one process to the one that works on a session."""

    id: str
    session: str
    name: str
    """The order; the engine and the gateway know the names."""
    body: str


class Orders(Protocol):
    """Orders to the processes that work on sessions."""

    async def request(self, session: str, name: str, body: str, seconds: float) -> str:
        """Send an order to the process that works on a session, and return its reply.

        Where none works on it, one takes it. When that one dies before it has answered, the next one carries the order
        out, perhaps a second time; none does when `seconds` are over.

        Raises:
            NotAnswered: there was no reply in `seconds`. The order may have been carried out.
            StateError: it was refused, or the store cannot be reached.
        """

    async def open(self, session: str) -> Sequence[Order]:
        """Return the orders of a session without a reply and within their time, in order."""

    async def answer(self, order: Order, reply: str, *, is_refusal: bool = False) -> None:
        """Send the reply to the process that gave an order; a refusal is raised there as a StateError."""

    async def sweep(self) -> None:
        """Delete expired orders: their askers have died."""


class Ownership(Protocol):
    """The sessions that this process may work on, as everything sees it that writes or sends for one."""

    replica: str
    """Name of this process among those of the store."""
    sends_all: bool
    """Whether this process sends what is promised under no fence, too; else the owner of the session does."""

    def request(self, sessions: Iterable[str]) -> list[BoundStatement]:
        """Return the statements that request owners for sessions; none where this process has them anyway."""

    def fence_of(self, session: str) -> Fence | None:
        """Return the fence under which this process works on a session, as far as it knows; None: it does not."""

    async def check(self, fence: Fence) -> None:
        """Have a fence of this process asked once more, unless `is_sure_of` says that it holds.

        Raises:
            OwnershipLost: another process has taken the session over.
            DiskError: the store cannot be reached.
        """

    async def beside(self, session: str) -> Fence | None:
        """Return the fence for work for a session that need not be its owner's: one for all, until `end_beside`.

        None: such work needs none.

        Raises:
            StateError: the store cannot be reached.
        """

    async def end_beside(self, session: str) -> None:
        """Have all later writes under the fences that `beside` returned refused, in every process.

        When this returns, all that was written under them is committed or never will be.

        Raises:
            StateError: the store cannot be reached, or such a transaction does not end.
        """

    def announce(self, topic: str, words: str) -> list[BoundStatement]:
        """Return the statements that announce something to all processes, once their transaction is committed."""

    def hear(self, topic: str, heard: Callable[[str], None], missed: Callable[[], None]) -> None:
        """Have `heard` called with announcements of a topic, and `missed` when some may have been lost."""

    async def lead(self, duty: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do what one process at a time does, as soon as no other one does it; until cancelled, or `run` returns.

        Raises:
            DiskError: the duty is lost, because the store cannot be reached. It may be another process's by now.
        """


EVERY_SESSION = Fence("", 0)
"""The fence of the only process of a store. Nothing checks it."""


class SoleOwner:
    """Implements `Ownership` for the only process of a store."""

    replica = "sole"
    sends_all = True

    def request(self, sessions: Iterable[str]) -> list[BoundStatement]:
        return []

    def fence_of(self, session: str) -> Fence:
        return EVERY_SESSION

    async def check(self, fence: Fence) -> None:
        pass

    async def beside(self, session: str) -> None:
        return None

    async def end_beside(self, session: str) -> None:
        pass

    def announce(self, topic: str, words: str) -> list[BoundStatement]:
        return []

    def hear(self, topic: str, heard: Callable[[str], None], missed: Callable[[], None]) -> None:
        pass

    async def lead(self, duty: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await run()


class LeaseStore(Ownership, Protocol):
    """Leases of sessions, of one of several processes."""

    orders: Orders
    """Their notices set `Lease.has_orders` and `Lease.news`."""
    workspaces: Literal["shared", "own"]
    """Whether all processes see the same workspaces."""

    def wanted(self, session: str) -> BoundStatement:
        """Return the statement that requests an owner for a session, for the transaction that brings it work."""

    def wanted_if_idle(self, session: str) -> BoundStatement:
        """Return the same for a session that may be abandoned: nothing where one works on it or will."""

    async def is_owned(self, session: str) -> bool:
        """Whether any process works on a session now; a dead one counts until it is noticed."""

    def withdrawn(self, session: str) -> BoundStatement:
        """Return the statement with which an owner takes back that its session is wanted once more.

        After it, look at everything committed before: the row no longer announces that work.
        """

    async def run(self, work: Work) -> None:
        """Take sessions that are wanted, those of dead processes included, and have each worked on.

        Cancelled, it takes no more, and ends when all `work` has; another process immediately takes the rest of a
        session.
        """

    async def left_waiting(self) -> list[tuple[str, str]]:
        """Return sessions with work and their files at a gateway that is gone, and its name; each once an absence.

        Raises:
            StateError: the store cannot be reached.
        """

    def take_no_more(self) -> None:
        """Leave further sessions to other processes; this one continues to own those that it has."""

    def is_sure_of(self, session: str, epoch: int | None = None) -> bool:
        """Whether this process works on a session (under `epoch`), and no other has taken it, or will in a moment."""


@record
class LeasePart:
    """The leases of a store, as the catalogue names them."""

    open: Callable[[Database, Clock], LeaseStore]
    processes: Callable[[Database, LeaseStore, Clock], Processes]
    """Opens what the channels of all processes have in common."""
    exchange: Callable[[Database], Exchange]
    """Opens the exchange of events between processes."""

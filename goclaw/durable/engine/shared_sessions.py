"""Work on the sessions that this process owns, of a store that several processes share.

Taking a session up is like a start of a lone process, for this session only: unfinished
turns go into its lane, promised deliveries into the outbox. It is let go when nothing has come for a while, so that a
conversation that goes on pays for the taking once.

What another process wants of a session that this one has comes as an order (`store.ownership.Orders`), and is carried
out under the same epoch as its turns.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from goclaw.common.core.clock import Clock
from goclaw.common.core.supervise import background, keep_running, result_of, set_within
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.lanes import CLOSE_SECONDS, Lanes
from goclaw.durable.engine.leases import CANCEL, ORDER_SECONDS, Held, Leases
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.engine.statements import OPEN_SESSIONS
from goclaw.durable.store.database import Database
from goclaw.durable.store.ownership import Lease, Order, Ownership
from goclaw.errors import GoclawError, OwnershipLost, StateError

log = logging.getLogger(__name__)

LINGER_SECONDS = 10.0
"""Seconds for which a session is kept that has nothing to do."""
SWEEP_SECONDS = 60.0
"""Seconds between two looks for sessions that have work and that no process works on: none should be found."""
RETRY_SECONDS = 0.5
"""Seconds between two looks at a session while the store cannot be reached."""
SEND_SECONDS = 5.0
"""Seconds for which a session is kept, when the process winds down, whose delivery a service is just taking."""
SENDING_LOOK_SECONDS = 0.1
"""Seconds between two looks whether it has."""
UNFORESEEN = "it failed unexpectedly; the log says more"

CarryOut = Callable[[str, str], Awaitable[str]]
"""Carries an order out: takes the session and the order's body, returns the reply. A GoclawError is a refusal."""


class SessionMemory(Protocol):
    """The memory of this process about sessions, apart from their lanes."""

    async def take(self, session: str) -> None:
        """Read it again: it may have changed elsewhere."""
        ...

    def leave(self, session: str) -> None:
        """Note that the session is not this process's any more: its state may change elsewhere."""
        ...

    def forget(self, session: str) -> None:
        """Have another process's session read again at the next look."""
        ...

    def is_needed(self, session: str) -> bool:
        """Whether something of it would be lost that is nowhere else: the session is kept as long."""
        ...


class SharedSessions:
    """The sessions of this process. Made by `open_shared_sessions`."""

    def __init__(
        self,
        database: Database,
        journal: Journal,
        lanes: Lanes,
        leases: Leases,
        outbox: Outbox,
        memory: SessionMemory,
        ownership: Ownership,
        clock: Clock,
    ) -> None:
        self.leases = leases
        self._memory = memory
        self._ownership = ownership
        self._database = database
        self._journal = journal
        self._lanes = lanes
        self._outbox = outbox
        self._clock = clock
        self._keeps_sending_until = 0.0
        self._carry_out: asyncio.Future[Mapping[str, CarryOut]] = asyncio.get_running_loop().create_future()

    def begin_no_more(self) -> None:
        """Wind down: let go of sessions without work immediately, of the others when their turn has ended."""
        if not self.leases.ending:
            self._keeps_sending_until = self._clock.monotonic() + SEND_SECONDS
        self.leases.ending = True
        self._ownership.take_no_more()
        for held in self.leases.all():
            held.lease.news.set()

    def serve(self, orders: Mapping[str, CarryOut]) -> None:
        """Carry orders of these names out from here on; until then they wait."""
        self._carry_out.set_result({CANCEL: self._lanes.stop_for, **orders})

    async def ask(self, session: str, name: str, body: str, seconds: float = ORDER_SECONDS) -> str:
        """Have an order carried out by the process that works on a session, or takes it; return its reply.

        Raises:
            NotAnswered: there was no reply in so many seconds. It may have been carried out.
            StateError: it was refused, or the store cannot be reached.
        """
        return await self._ownership.orders.give(session, name, body, seconds)

    async def is_elsewhere(self, session: str) -> bool:
        """Whether another process works on a session."""
        return self.leases.of(session) is None and await self._ownership.is_owned(session)

    async def check(self, held: Held) -> None:
        """Have the fence of a session asked once more, unless this process is sure of it.

        Raises:
            OwnershipLost: another process has taken the session over.
            DiskError: the store cannot be reached.
        """
        await self._ownership.check(held.lease.fence)

    def forget(self, session: str) -> None:
        """Have a session read again that is not this process's, and is not being taken by it."""
        if self._ownership.fence_of(session) is None:
            self._memory.forget(session)

    async def run(self) -> None:
        """Take sessions and work on them, until cancelled."""
        await self._ownership.run(self._work)

    async def sweep(self) -> None:
        """Keep getting abandoned sessions worked on: at the start those of one process alone."""
        while True:
            await self._journal.forget_loose()
            await self._ownership.orders.sweep()
            begun = [row["session"] for row in await self._database.read(OPEN_SESSIONS())]
            sessions = {*begun, *await self._outbox.open_sessions()}
            for session in sorted(sessions):
                if self.leases.of(session) is None:
                    await self._database.write(self._ownership.wanted_if_idle(session))
            await self._clock.sleep(SWEEP_SECONDS)

    async def _work(self, lease: Lease) -> bool:
        """Work on a session until nothing is left of it. False: the process ends before.

        Raises:
            OwnershipLost: another process goes on with it.
        """
        held = Held(lease, self._clock.monotonic())
        try:
            await self._memory.take(lease.session)
            with self.leases.holding(held):
                return await self._until_idle(held)
        finally:
            # From here on nothing begins any more in this session. What is left of it would meet that of the next
            # lease, should this process take the session again.
            for task in held.carried_out:
                task.cancel()
            await self._lanes.cut(lease.session)
            await set_within(held.idle, self._clock, sum(CLOSE_SECONDS))
            self._outbox.leave(lease.fence)
            self._memory.leave(lease.session)

    async def _until_idle(self, held: Held) -> bool:
        """Work on a session until nothing is left of it. Running turns go on while the store is unreachable."""
        while True:
            try:
                if await self._looked_until_idle(held):
                    return not self.leases.ending
            except OwnershipLost:
                raise
            except StateError as error:
                if not self._is_busy(held):
                    raise
                # Of the outage the database tells, once; this comes for each session, again and again.
                log.debug("a session is looked at a moment later: %s", error, extra={"session": held.session})
                held.lease.has_orders = True
                await self._clock.sleep(RETRY_SECONDS)

    async def _looked_until_idle(self, held: Held) -> bool:
        """Take up what there is. True: then nothing came for a while, and nothing is left; False: look again."""
        held.lease.news.clear()
        await self._take_up(held)
        while await self._rests(held):
            await self._database.write(self._ownership.withdrawn(held.session))
            held.lease.has_orders = True
            # Nothing may begin between this look and the return: there is no wait in between.
            if not await self._take_up(held) and not self._is_busy(held):
                return True
        return False

    async def _take_up(self, held: Held) -> int:
        orders = await self._new_orders(held)
        taken = 0
        if not self.leases.ending:
            # Answers of before are in the outbox before a turn begins: nothing that it shows may come above them.
            taken = await self._outbox.take_up(held.session, held.lease.fence)
            # What was taken in before an order is in the lane before that is carried out: /stop is to find it.
            taken += await self.leases.take_up(held, self._lanes.push)
        held.begun.update(order.id for order in orders)
        for order in orders:
            # Each beside the others: one may wait for another.
            task = asyncio.create_task(self._carried_out(order), name=f"order {order.name} of {held.session}")
            held.carried_out.add(task)
            task.add_done_callback(held.carried_out.discard)
        return len(orders) + taken

    async def _new_orders(self, held: Held) -> Sequence[Order]:
        if not held.lease.has_orders:
            return ()
        held.lease.has_orders = False
        return [order for order in await self._ownership.orders.open(held.session) if order.id not in held.begun]

    async def _carried_out(self, order: Order) -> None:
        """Carry an order out and send its reply; one that is cut is carried out by the session's next owner."""
        try:
            with self.leases.acting(order.session) as held:
                if held is not None:
                    reply, is_refusal = await self._reply(order)
                    await self._ownership.orders.answer(order, reply, is_refusal=is_refusal)
        except GoclawError as error:
            log.warning("an order is left without a reply: %s", error, extra={"session": order.session})

    async def _reply(self, order: Order) -> tuple[str, bool]:
        """Carry an order out; return its reply, and whether that is a refusal."""
        try:
            orders = await result_of(self._carry_out)
            return await orders[order.name](order.session, order.body), False
        except OwnershipLost:
            raise
        except GoclawError as error:
            return str(error), True
        except Exception:
            log.exception("an order failed unexpectedly", extra={"session": order.session})
            return UNFORESEEN, True

    async def _rests(self, held: Held) -> bool:
        """Wait until a session has had nothing to do for a while. False: there may be something new.

        Raises:
            OwnershipLost: another process goes on with it.
        """
        lease, seconds = held.lease, LINGER_SECONDS
        while True:
            is_new = await set_within(lease.news, self._clock, seconds)
            if lease.is_lost:
                raise OwnershipLost("another process has taken the session over")
            if is_new and (lease.has_orders or not self.leases.ending):
                return False
            # What is done here is no news: the while begins at the end of that.
            left = 0.0 if self.leases.ending else held.active_at + LINGER_SECONDS - self._clock.monotonic()
            if left <= 0 and not self._is_busy(held):
                return True
            seconds = left if left > 0 else LINGER_SECONDS
            if self.leases.ending:
                lease.news.clear()
                seconds = SENDING_LOOK_SECONDS if self._is_sending(held) else LINGER_SECONDS

    def _is_busy(self, held: Held) -> bool:
        if held.acting or held.carried_out or self._lanes.is_busy(held.session):
            return True
        # The end of the process waits for what is being sent, but not for a service that cannot be reached.
        if self.leases.ending:
            return self._is_sending(held)
        return self._outbox.is_busy(held.lease.fence) or self._memory.is_needed(held.session)

    def _is_sending(self, held: Held) -> bool:
        return self._clock.monotonic() < self._keeps_sending_until and self._outbox.is_sending(held.lease.fence)


@asynccontextmanager
async def open_shared_sessions(shared: SharedSessions, lanes: Lanes, clock: Clock) -> AsyncIterator[SharedSessions]:
    """Work on sessions while the block runs; then their lanes end, and others may take them."""
    async with (
        background(keep_running("sweeping sessions", shared.sweep, clock), "sweeping sessions"),
        background(shared.run(), "sessions of this process"),
    ):
        try:
            yield shared
        finally:
            shared.begin_no_more()
            await lanes.close()

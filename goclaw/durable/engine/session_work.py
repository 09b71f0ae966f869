"""The work on one session that this process has a lease of, from taking it to leaving it.

Taking a session is like a start of a sole process, for this session only: unfinished turns go into its lane, promised
deliveries into the outbox. It is left when nothing has come for a while, so that a conversation that goes on pays for
the taking once. Orders of other processes (`store.ownership.Orders`) are carried out under the same epoch as its turns.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from goclaw.channels.processes import Processes
from goclaw.common.core.supervise import result_of, set_within
from goclaw.durable.engine.lanes import CLOSE_SECONDS, Lanes
from goclaw.durable.engine.leases import Held, HeldSessions
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.engine.sessions import CarryOut, SessionMemory
from goclaw.durable.engine.views.remote_sessions import RemoteSessions
from goclaw.durable.store.ownership import Lease, Order
from goclaw.errors import GoclawError, OwnershipLost, StateError

log = logging.getLogger(__name__)

LINGER_SECONDS = 10.0
"""Seconds for which a session is kept that has nothing to do."""
RETRY_SECONDS = 0.5
"""Seconds between two looks at a session while the store cannot be reached."""
SEND_SECONDS = 5.0
"""Seconds for which a session is kept, when the process winds down, whose delivery a service is just taking."""
SENDING_LOOK_SECONDS = 0.1
"""Seconds between two looks whether it has."""
CANCEL = "cancel"
"""The order to stop a turn, by its id, if it is running."""
UNFORESEEN = "it failed unexpectedly; the log says more"


class SessionWork:
    """Works on the sessions of this process."""

    def __init__(
        self,
        held: HeldSessions,
        lanes: Lanes,
        outbox: Outbox,
        memory: SessionMemory,
        processes: Processes,
        remote: RemoteSessions,
        orders: "asyncio.Future[Mapping[str, CarryOut]]",
    ) -> None:
        """`orders`: carry orders out, by their names; done when this process can."""
        self._held = held
        self._leases = held.leases
        self._clock = held.clock
        self._lanes = lanes
        self._outbox = outbox
        self._memory = memory
        self._processes = processes
        self._remote = remote
        self._orders = orders

    async def run(self) -> None:
        """Take sessions and work on them, until cancelled."""
        await self._leases.run(self._work)

    async def _work(self, lease: Lease) -> bool:
        """Work on a session until nothing is left of it. False: the process ends before.

        Raises:
            OwnershipLost: another process goes on with it.
        """
        held = Held(lease, self._clock.monotonic())
        try:
            await self._take(lease)
            with self._held.holding(held):
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
            self._remote.on_release(lease.session)

    async def _take(self, lease: Lease) -> None:
        """Read the state of a session, which may have changed elsewhere."""
        self._remote.on_release(lease.session)
        await self._memory.reload(lease.session)
        for take in self._processes.takes:
            await take(lease.session)
        await self._remote.on_acquire(lease.fence)

    async def _until_idle(self, held: Held) -> bool:
        """Work on a session until nothing is left of it. Running turns go on while the store is unreachable."""
        while True:
            try:
                if await self._looked_until_idle(held):
                    return not self._held.ending
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
            await self._held.database.write(self._leases.withdrawn(held.session))
            held.lease.has_orders = True
            # Nothing may begin between this look and the return: there is no wait in between.
            if not await self._take_up(held) and not self._is_busy(held):
                return True
        return False

    async def _take_up(self, held: Held) -> int:
        orders = await self._new_orders(held)
        taken = 0
        if not self._held.ending:
            # Answers of before are in the outbox before a turn begins: nothing that it shows may come above them.
            taken = await self._outbox.send_unfinished(held.session, held.lease.fence)
            # What was taken in before an order is in the lane before that is carried out: /stop is to find it.
            taken += await self._held.take_up(held, self._lanes.push)
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
        return [order for order in await self._leases.orders.open(held.session) if order.id not in held.begun]

    async def _carried_out(self, order: Order) -> None:
        """Carry an order out and send its reply; one that is cut is carried out by the session's next owner."""
        try:
            with self._held.acting(order.session) as held:
                if held is not None:
                    reply, is_refusal = await self._reply(order)
                    await self._leases.orders.answer(order, reply, is_refusal=is_refusal)
        except GoclawError as error:
            log.warning("an order is left without a reply: %s", error, extra={"session": order.session})

    async def _reply(self, order: Order) -> tuple[str, bool]:
        """Carry an order out; return its reply, and whether that is a refusal."""
        try:
            orders = await result_of(self._orders)
            carry_out = self._lanes.stop_for if order.name == CANCEL else orders[order.name]
            return await carry_out(order.session, order.body), False
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
            if is_new and (lease.has_orders or not self._held.ending):
                return False
            # What is done here is no news: the while begins at the end of that.
            left = 0.0 if self._held.ending else held.active_at + LINGER_SECONDS - self._clock.monotonic()
            if left <= 0 and not self._is_busy(held):
                return True
            seconds = left if left > 0 else LINGER_SECONDS
            if self._held.ending:
                lease.news.clear()
                seconds = SENDING_LOOK_SECONDS if self._is_sending(held) else LINGER_SECONDS

    def _is_busy(self, held: Held) -> bool:
        if held.acting or held.carried_out or self._lanes.is_busy(held.session):
            return True
        # The end of the process waits for what is being sent, but not for a service that cannot be reached.
        if self._held.ending:
            return self._is_sending(held)
        return self._outbox.is_busy(held.lease.fence) or self._memory.is_needed(held.session)

    def _is_sending(self, held: Held) -> bool:
        began = self._held.ending_at
        is_in_time = began is not None and self._clock.monotonic() < began + SEND_SECONDS
        return is_in_time and self._outbox.is_sending(held.lease.fence)

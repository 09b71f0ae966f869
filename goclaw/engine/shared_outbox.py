"""The outbox of a store that several processes share: a delivery is sent by the process that owns its session.

What is promised under the fence of a session is sent here at once, as ever. What is promised elsewhere (the answer of a
command, an alert) is committed with the wish that its session be worked on, and sent by the process that takes it. A
delivery without a session is of its chat, which is owned like a session; one that a session's turn promises for itself
(a tool's message) or for another one is its own, and its row says so.
"""

import json
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from sqlalchemy import bindparam, func, literal, or_, select

from goclaw.channels.base import Channel
from goclaw.core.clock import Clock
from goclaw.core.events import Delivery, Receipt
from goclaw.core.supervise import ends_within
from goclaw.engine.outbox import DeliveryProgress, Outbox, Promise
from goclaw.errors import StateError
from goclaw.store.database import BoundStatement, Database, Statement
from goclaw.store.dialect import json_text
from goclaw.store.fencing import HELD, Fence
from goclaw.store.ownership import OF_CHAT, Ownership
from goclaw.store.schema import deliveries

log = logging.getLogger(__name__)

OWNER = "owner"
"""Key in a row's body: the session that has promised the delivery, where nothing else says that."""
RECALL_SECONDS = 0.5
"""Seconds between two looks for the receipt of what another process may send."""

_IS_OPEN = or_(deliveries.c.state == "pending", deliveries.c.state == "sending")
_OWNER = func.coalesce(
    json_text(deliveries.c.body, OWNER),
    func.nullif(json_text(deliveries.c.body, "session"), ""),
    literal(OF_CHAT) + deliveries.c.channel + ":" + deliveries.c.chat,
)
OPEN_OF = Statement(select(deliveries).where(_IS_OPEN, bindparam("owned") == _OWNER).order_by(deliveries.c.seq))
OPEN_SESSIONS = Statement(select(_OWNER.label("owned")).where(_IS_OPEN).distinct().order_by("owned"))


def owned_as(delivery: Delivery) -> str:
    """Return the session whose owner sends a delivery that is promised under no fence."""
    return delivery.session or f"{OF_CHAT}{delivery.address.channel}:{delivery.address.chat}"


class SharedOutbox(Outbox):
    """An outbox beside those of other processes. Not resumed at the start: `take_up` does that for each session."""

    def __init__(self, database: Database, channels: Mapping[str, Channel], clock: Clock, ownership: Ownership) -> None:
        super().__init__(database, channels, clock)
        self._early = None
        self.ownership = ownership
        self._promised: dict[int, set[str]] = {}
        """Ids that are promised or taken up under an epoch: they are in a queue here, will be, or have been sent."""

    def row(self, delivery: Delivery, *, marked: bool = False) -> BoundStatement:
        if fence := HELD.get():
            # Before it is committed: a look for what others promised finds it as soon as it is.
            self._promised.setdefault(fence.epoch, set()).add(delivery.id)
        return super().row(delivery, marked=marked)

    def _body_of(self, delivery: Delivery) -> str:
        body, fence = super()._body_of(delivery), HELD.get()
        if fence is None or owned_as(delivery) == fence.session:
            return body
        return json.dumps({**json.loads(body), OWNER: fence.session})

    def promise_of(self, deliveries: Sequence[Delivery]) -> Promise:
        promise = super().promise_of(deliveries)
        if HELD.get() is not None:
            return promise
        return Promise(promise.started, [*promise.rows, *self._wanted(deliveries)], promise.durable)

    def take(self, promised: Sequence[Delivery]) -> None:
        if HELD.get() is not None:
            super().take(promised)
        else:
            self._spawn(self._want(promised), "wanting sessions of deliveries")

    def begin(self, started: Sequence[DeliveryProgress]) -> None:
        super().begin([progress for progress in started if progress.fence is not None])

    async def send(self, delivery: Delivery, *others: BoundStatement) -> Receipt:
        if HELD.get() is not None:
            return await super().send(delivery, *others)
        sending = self._spawn(super().send(delivery, *others), f"send {delivery.id}")
        try:
            while not await ends_within(sending, self._clock, RECALL_SECONDS):
                await self._recall(delivery.id)
        finally:
            sending.cancel()
        return sending.result()

    async def take_up(self, session: str, fence: Fence) -> int:
        """Send what others have promised for a session that this process owns; returns how many deliveries."""
        promised, taken = self._promised.setdefault(fence.epoch, set()), 0
        for row in await self._database.read(OPEN_OF(owned=session)):
            if row["id"] in promised:
                continue
            promised.add(row["id"])
            try:
                await self._take_up([row])
            except StateError:
                promised.discard(row["id"])
                raise
            taken += 1
        return taken

    def is_busy(self, fence: Fence) -> bool:
        """Whether something is being sent under a fence, or waits for it."""
        return any(progress.fence == fence for queue in self._queues.values() for progress in queue)

    def is_sending(self, fence: Fence) -> bool:
        """Whether a part is just being sent under a fence."""
        return any(queue[0].fence == fence and queue[0].is_being_sent for queue in self._queues.values() if queue)

    def leave(self, fence: Fence) -> None:
        """Send no more under a fence: another process does. What is being sent meets the fence itself."""
        self._promised.pop(fence.epoch, None)
        for queue in self._queues.values():
            for progress in [each for each in list(queue)[1:] if each.fence == fence]:
                queue.remove(progress)

    async def open_sessions(self) -> list[str]:
        """Return the sessions with deliveries that are not sent."""
        return [row["owned"] for row in await self._database.read(OPEN_SESSIONS())]

    def _queue(self, started: Sequence[DeliveryProgress]) -> None:
        for progress in started:
            progress.clearance = partial(self.ownership.check, progress.fence) if progress.fence else None
        super()._queue(started)

    async def _promise(self, delivery: Delivery, others: Sequence[BoundStatement]) -> bool:
        fence, created = HELD.get(), False
        promised = self._promised.setdefault(fence.epoch, set()) if fence else set[str]()
        is_ours = delivery.id not in promised
        try:
            created = await super()._promise(delivery, others)
        finally:
            if is_ours and not created:
                promised.discard(delivery.id)
        if fence and is_ours and not created:
            # An owner before this one promised it, perhaps without sending it; a look for that has passed it over.
            await self.take_up(fence.session, fence)
        return created

    def _goes_at_once(self, delivery: Delivery) -> bool:
        return HELD.get() is not None and super()._goes_at_once(delivery)

    def _wanted(self, promised: Iterable[Delivery]) -> list[BoundStatement]:
        return [self.ownership.wanted(session) for session in sorted(set(map(owned_as, promised)))]

    async def _want(self, promised: Sequence[Delivery]) -> None:
        try:
            await self._database.write(*self._wanted(promised))
        except StateError as error:
            log.warning("deliveries wait for a later look: %s", error)


@asynccontextmanager
async def open_shared_outbox(
    database: Database, channels: Mapping[str, Channel], clock: Clock, ownership: Ownership
) -> AsyncIterator[SharedOutbox]:
    """Yield the outbox, for as long as the block lasts."""
    outbox = SharedOutbox(database, channels, clock, ownership)
    try:
        yield outbox
    finally:
        await outbox.close()

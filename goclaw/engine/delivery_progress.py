"""The progress of a delivery, kept in its row: its arrived parts, and whether the next may have arrived unrecorded.

Implements `channels.base.Handover`: the channel reports when it sends a part and when the part arrived. The record on
disk is never ahead of the chat, and behind it by one part at most: the one that is marked as being sent.
"""

from sqlite3 import Row

from sqlalchemy import bindparam, update

from goclaw.channels.base import Doubt
from goclaw.codec import Codec
from goclaw.events import Delivery
from goclaw.store.database import Database, Statement
from goclaw.store.tables import deliveries

_DELIVERY: Codec[Delivery] = Codec(Delivery)
_PARTS: Codec[tuple[str, ...]] = Codec(tuple[str, ...])

_STATE = Statement(update(deliveries).where(deliveries.c.id == bindparam("of")).values(state=bindparam("new_state")))
_ARRIVED = Statement(
    update(deliveries)
    .where(deliveries.c.id == bindparam("of"))
    .values(state="pending", progress=bindparam("new_progress"))
)


class DeliveryProgress:
    """One delivery and its progress."""

    def __init__(
        self, delivery: Delivery, database: Database, parts: tuple[str, ...] = (), doubt: Doubt = Doubt.NONE
    ) -> None:
        self.delivery = delivery
        self._database = database
        self._parts = parts
        self._doubt = doubt
        self._marked = doubt is not Doubt.NONE
        """Whether the row says that a part is being sent."""

    @property
    def parts(self) -> tuple[str, ...]:
        return self._parts

    @property
    def doubt(self) -> Doubt:
        return self._doubt

    async def sending(self) -> None:
        if not self._marked:
            await self._database.write(_STATE(of=self.delivery.id, new_state="sending"), durable=True)
            self._marked = True

    async def arrived(self, message_id: str) -> None:
        # First in memory: should the disk refuse it, this run of the daemon still knows.
        self._parts = (*self._parts, message_id)
        self._doubt = Doubt.NONE
        self._marked = False
        await self._database.write(_ARRIVED(of=self.delivery.id, new_progress=_PARTS.to_json(self._parts)))

    async def failed(self, *, maybe_arrived: bool) -> None:
        """A try ended without `arrived`: doubt remains where the part may be there, else the row is as before."""
        if maybe_arrived:
            self.interrupted()
        elif self._marked and self._doubt is Doubt.NONE:
            await self._database.write(_STATE(of=self.delivery.id, new_state="pending"))
            self._marked = False

    def interrupted(self) -> None:
        """A try ended somehow: a part that was being sent may be there."""
        if self._marked:
            self._doubt = Doubt.SILENCE


def progress_of(row: Row, database: Database) -> DeliveryProgress:
    """Return the progress of a delivery that an earlier run of the daemon left undelivered."""
    parts = _PARTS.from_json(row["progress"]) if row["progress"] else ()
    doubt = Doubt.RESTART if row["state"] == "sending" else Doubt.NONE
    return DeliveryProgress(_DELIVERY.from_json(row["body"]), database, parts, doubt)

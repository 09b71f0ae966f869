"""One delivery: its progress, the form that its chat sees, and the notice where it was refused."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from sqlalchemy import bindparam, update

from goclaw.channels.base import Doubt
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Delivery
from goclaw.common.core.fencing import Fence
from goclaw.common.core.redact import mask_known, printable
from goclaw.durable.store.database import Database, Row, Statement
from goclaw.durable.store.schema import deliveries

DELIVERY: Codec[Delivery] = Codec(Delivery)
_PARTS: Codec[tuple[str, ...]] = Codec(tuple[str, ...])

_MARK = Statement(update(deliveries).where(deliveries.c.id == bindparam("of")).values(state=bindparam("new_state")))
_ARRIVED = Statement(
    update(deliveries)
    .where(deliveries.c.id == bindparam("of"))
    .values(state="pending", progress=bindparam("new_progress"))
)

WORD = ":refused"
"""Suffix of the id of the notice about a refused delivery."""


class DeliveryProgress:
    """One delivery and its progress."""

    def __init__(
        self,
        delivery: Delivery,
        database: Database,
        parts: tuple[str, ...] = (),
        doubt: Doubt = Doubt.NONE,
        *,
        fence: Fence | None,
        marked: bool = False,
    ) -> None:
        self.delivery = delivery
        self._database = database
        self.parts = parts
        self.doubt = doubt
        self._asked = doubt is not Doubt.NONE
        """Whether the service may have been asked to take the next part."""
        self._marked = marked or self._asked
        """Whether the row says that a part is being sent."""
        self.fence = fence
        """Of the session that promised it; None: this process sends it whoever owns the session."""
        self.clearance: Callable[[], Awaitable[None]] | None = None
        """Called right before a part is sent; raises OwnershipLost where another process sends it."""
        self.queue: Sequence[DeliveryProgress] = ()
        """The deliveries to its chat, in order, itself included."""

    @property
    def others_wait(self) -> bool:
        return len(self.queue) > 1

    @property
    def is_being_sent(self) -> bool:
        """Whether its row says that a part is being sent, and none has failed: another process would send it again."""
        return self._marked and self.doubt is Doubt.NONE

    async def sending(self) -> None:
        if not self._marked:
            await self._database.write(_MARK(of=self.delivery.id, new_state="sending"), durable=True)
            self._marked = True
        if self.clearance is not None:
            await self.clearance()
        self._asked = True

    async def arrived(self, message_id: str, *, last: bool = False) -> None:
        # First in memory: should the disk refuse it, this run of the daemon still knows.
        self.parts = (*self.parts, message_id)
        self.doubt = Doubt.NONE
        self._marked, self._asked = self._marked and last, False
        if not last:
            await self._database.write(_ARRIVED(of=self.delivery.id, new_progress=self.recorded))

    @property
    def recorded(self) -> str:
        """The parts that have arrived, according to the row."""
        return _PARTS.to_json(self.parts)

    async def record_failure(self, *, maybe_arrived: bool) -> None:
        """A try ended without `arrived`: doubt remains where the part may be there, else the row is as before."""
        if maybe_arrived:
            self.record_interruption()
        elif self._marked and self.doubt is Doubt.NONE:
            await self._database.write(_MARK(of=self.delivery.id, new_state="pending"))
            self._marked = self._asked = False

    def record_interruption(self) -> None:
        """A try ended somehow: a part that was being sent may be there."""
        if self._asked:
            self.doubt = Doubt.SILENCE


def progress_of(row: Row, database: Database, fence: Fence | None) -> DeliveryProgress:
    """Return the progress of a delivery that an earlier run of the daemon left undelivered."""
    parts = _PARTS.from_json(row["progress"]) if row["progress"] else ()
    doubt = Doubt.RESTART if row["state"] == "sending" else Doubt.NONE
    return DeliveryProgress(DELIVERY.from_json(row["body"]), database, parts, doubt, fence=fence)


def mask(delivery: Delivery) -> Delivery:
    """Return the delivery without the daemon's secrets in its visible parts: its text, file name and buttons.

    Names and buttons also lose what lets them read differently from what they are (`exe.jpg` backwards).

    A channel that renders Markdown masks its final output once more.
    """
    text, name = mask_known(delivery.text), mask_known(printable(delivery.media_name))
    labels = [mask_known(printable(choice.label)) for choice in delivery.choices]
    if text == delivery.text and name == delivery.media_name and labels == [each.label for each in delivery.choices]:
        return delivery
    choices = tuple(replace(choice, label=label) for choice, label in zip(delivery.choices, labels, strict=True))
    return replace(delivery, text=text, media_name=name, choices=choices)


def word_about(delivery: Delivery, reason: str) -> Sequence[Delivery]:
    """Return the notice to a chat about an undeliverable message; empty for such a notice itself."""
    if delivery.action != "send" or delivery.id.endswith(WORD):
        return ()
    text = f"A message could not be delivered here: {reason}. Its text is kept; `goclaw tui` shows the conversation."
    return (Delivery(f"{delivery.id}{WORD}", delivery.address, text, session=delivery.session),)

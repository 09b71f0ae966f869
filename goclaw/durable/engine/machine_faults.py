"""Faults of the machine: a disk that takes nothing, and a wall clock that is set.

While nothing can be stored, people get one notice each, past the outbox, which stores its deliveries; the operator gets
an alert. Anyone writing meanwhile is informed once that the message waits, either with us (it is in the journal)
or where it came from (it is not acknowledged, and comes again).

When the wall clock is set, stamps on disk are moved with it, so that ages stay true. A machine without a battery for
its clock boots years or days back, takes messages, and then learns the time. Without this, an answer promised a minute
before would count as days old and be dropped at the next start (`outbox`), and ids that Telegram may still redeliver
would be forgotten (`Journal.prune`). Order never rests on stamps: rows have numbers.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from sqlalchemy import bindparam, update

from goclaw.channels.base import Channel, Unrecorded
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import LOCAL, Alerts, Delivery, Inbound, Notice
from goclaw.common.core.supervise import finish_despite_cancel
from goclaw.durable.store.database import Database, Statement
from goclaw.durable.store.schema import deliveries, inbox
from goclaw.errors import DeliveryError, DiskError, NotAnswered, StateError

log = logging.getLogger(__name__)


FAULT = "database"
"""The key of the alert."""
AGAIN_SECONDS = 300.0
"""Seconds within which returning trouble counts as the same, for people who were informed."""
TELL_SECONDS = 10.0
"""Seconds after which a notice is dropped: the message itself waits, which matters more."""
ANY_FAULT = "I cannot store anything just now"
SILENT_OWNER = "The process that works on this conversation does not answer just now"
KEPT = "Your message is kept, and I answer it as soon as that is mended."
NOT_KEPT = "I take your message in as soon as that is mended; you need not send it again."


class Outage:
    """The people informed of an outage."""

    def __init__(
        self, channels: Mapping[str, Channel], notice: Callable[[Notice], None], alerts: Alerts, clock: Clock
    ) -> None:
        self._channels = channels
        self._notice = notice
        self._alerts = alerts
        self._clock = clock
        self._told: dict[tuple[str, str, bool], float] = {}
        self._over = 0.0

    def on_trouble_change(self, trouble: DiskError | None) -> None:
        """The database begins to refuse writes, or (None) accepts them again. See `Database.on_trouble`."""
        if trouble:
            self._alerts.tell(FAULT, str(trouble))
        else:
            self._alerts.clear(FAULT)
            self._over = self._clock.monotonic()

    async def on_delay(self, inbound: Inbound, error: StateError) -> None:
        """The turn of a message that is in the journal waits."""
        await self._notify(inbound, f"{_fault_words(error)}. {KEPT}", kept=True)

    async def on_refusal(self, inbound: Inbound, error: StateError) -> None:
        """A message could not be stored. A terminal has the error itself."""
        if inbound.address.channel != LOCAL:
            await self._notify(inbound, f"{_fault_words(error)}. {NOT_KEPT}", kept=False)

    async def _notify(self, inbound: Inbound, text: str, *, kept: bool) -> None:
        address = inbound.address
        key, now = (address.channel, address.chat, kept), self._clock.monotonic()
        # Those told of trouble that is over, and did not come back soon, are told again.
        soon = min(self._over, now - AGAIN_SECONDS)
        self._told = {told: at for told, at in self._told.items() if at >= soon}
        if key in self._told:
            return
        self._told[key] = now
        if address.channel == LOCAL:
            self._notice(Notice(inbound.session, text))
        elif channel := self._channels.get(address.channel):
            # Its intake may end meanwhile, with the message of another person that could not be stored.
            await finish_despite_cancel(self._deliver(channel, inbound, text, key), "telling of an outage")

    async def _deliver(self, channel: Channel, inbound: Inbound, text: str, key: tuple[str, str, bool]) -> None:
        address = inbound.address
        try:
            async with asyncio.timeout(TELL_SECONDS):
                await channel.deliver(Delivery(f"{inbound.id}:outage", address, text), Unrecorded())
        except (DeliveryError, TimeoutError) as error:
            log.warning("%s:%s could not be told: %s", address.channel, address.chat, error)
            self._told.pop(key, None)  # the message comes again, and then its sender is told


def _fault_words(error: StateError) -> str:
    if isinstance(error, NotAnswered):
        return SILENT_OWNER
    return error.fault.value if isinstance(error, DiskError) else ANY_FAULT


LOOK_SECONDS = 5.0
JUMP_SECONDS = 60.0
"""Minimum seconds of a change: smaller ones keep clocks right, and nothing here is judged by the minute."""


_MOVES = [
    Statement(
        update(table)
        .where(column >= bindparam("since"), column <= bindparam("until"))
        .values({column.name: column + bindparam("by")})
    )
    for table, column in (
        (deliveries, deliveries.c.created_at),
        (inbox, inbox.c.received_at),
        (inbox, inbox.c.ended_at),
    )
]
"""Move stamps by so many seconds."""


class Timers(Protocol):
    """The parts that wait for moments of the wall clock."""

    def start_due(self) -> None:
        """Start everything due: the machine may have slept."""

    async def clock_was_set(self) -> None:
        """Recompute moments. Raises StateError where the disk refuses."""


class ClockChange:
    """Watches the wall clock. `run` is its life."""

    def __init__(self, database: Database, clock: Clock, timers: Timers) -> None:
        self._database = database
        self._clock = clock
        self._timers = timers
        self._began = clock.now()
        self._offset = self._began - clock.awake_or_not()
        """Offset of the wall clock to the clock that cannot be set."""

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            await self.check()

    async def check(self) -> None:
        """Shift the stored stamps if the clock was set since the last check."""
        self._timers.start_due()
        now, steady = self._clock.now(), self._clock.awake_or_not()
        by = now - steady - self._offset
        if abs(by) < JUMP_SECONDS:
            return
        before = steady + self._offset
        # Forward: an earlier run may have stamped by the wrong clock, too, and rather an old answer is sent than a new
        # one dropped. Back: what is older than this run was stamped by the right one.
        since = 0.0 if by > 0 else self._began
        log.warning("the machine's clock was set %s by %.0f s", "forward" if by > 0 else "back", abs(by))
        try:
            if not self._database.is_shared:  # what others stamped is right by their clocks
                await self._database.write(*(move(since=since, until=before, by=by) for move in _MOVES))
        except StateError as error:
            log.warning("the stamps before that could not be moved with it, next try in a moment: %s", error)
            return
        self._began, self._offset = self._began + by, self._offset + by
        await self._timers.clock_was_set()

"""Notices to people while nothing can be stored: once each, past the outbox, which stores what it sends.

The operator gets an alert. A person who writes meanwhile is informed once that the message waits, either with us (it is
in the journal) or where it came from (it is not acknowledged, and comes again).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from goclaw.channels.base import Channel, Unrecorded
from goclaw.clock import Clock
from goclaw.errors import DeliveryError, DiskError, StateError
from goclaw.events import LOCAL, Alerts, Delivery, Inbound, Notice

log = logging.getLogger(__name__)

FAULT = "database"
"""The key of the alert."""
AGAIN_SECONDS = 300.0
"""Seconds within which returning trouble counts as the same, for people who were informed."""
TELL_SECONDS = 10.0
"""Seconds after which a notice is dropped: the message itself waits, which matters more."""
ANY_FAULT = "I cannot store anything just now"
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

    def changed(self, trouble: DiskError | None) -> None:
        """The database begins to refuse what it is given, or (None) takes it again. See `Database.watcher`."""
        if trouble:
            self._alerts.tell(FAULT, str(trouble))
        else:
            self._alerts.clear(FAULT)
            self._over = self._clock.monotonic()

    async def delayed(self, inbound: Inbound, error: StateError) -> None:
        """The turn of a message that is in the journal waits."""
        await self._tell(inbound, f"{_words(error)}. {KEPT}", kept=True)

    async def refused(self, inbound: Inbound, error: StateError) -> None:
        """A message could not be stored. A terminal has the error itself."""
        if inbound.address.channel != LOCAL:
            await self._tell(inbound, f"{_words(error)}. {NOT_KEPT}", kept=False)

    async def _tell(self, inbound: Inbound, text: str, *, kept: bool) -> None:
        address = inbound.address
        key, now = (address.channel, address.chat, kept), self._clock.monotonic()
        self._forget_who_heard_of_another()
        if key in self._told:
            return
        self._told[key] = now
        if address.channel == LOCAL:
            self._notice(Notice(inbound.session, text))
        elif channel := self._channels.get(address.channel):
            try:
                async with asyncio.timeout(TELL_SECONDS):
                    await channel.deliver(Delivery(f"{inbound.id}:outage", address, text), Unrecorded())
            except (DeliveryError, TimeoutError) as error:
                log.warning("%s:%s could not be told: %s", address.channel, address.chat, error)

    def _forget_who_heard_of_another(self) -> None:
        """Forget the people informed of trouble that is over, and did not come back soon."""
        soon = min(self._over, self._clock.monotonic() - AGAIN_SECONDS)
        self._told = {key: at for key, at in self._told.items() if at >= soon}


def _words(error: StateError) -> str:
    return error.fault.value if isinstance(error, DiskError) else ANY_FAULT

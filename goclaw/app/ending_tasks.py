"""Notices that a person's background task has ended: a line in their chat, an event in terminals."""

import logging

from goclaw.bus import Bus
from goclaw.engine.outbox import Outbox
from goclaw.errors import DiskError
from goclaw.events import LOCAL, Delivery, Notice
from goclaw.redact import mask
from goclaw.tasks.base import Job, TaskInfo, TaskWork

log = logging.getLogger(__name__)

_MAX_LABEL = 200


async def tell_of_end(bus: Bus, outbox: Outbox, info: TaskInfo, work: TaskWork | Job) -> None:
    """Send the notice to where the task was started from; a delivery that the disk refuses is only logged."""
    label = mask(info.label).replace("`", "'")[:_MAX_LABEL]
    text = f"Background task {info.id} (`{label}`) {info.end}."
    if work.address.channel != LOCAL:
        told = Delivery(f"{work.turn}:{info.id}", work.address, text, session=info.owner.session)
        try:
            await outbox.promise(told)
        except DiskError as error:
            log.warning("the chat is not told that %s has ended: %s", info.id, error)
    bus.publish(Notice(info.owner.session, text))

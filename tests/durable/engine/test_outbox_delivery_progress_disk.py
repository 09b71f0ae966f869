"""What a delivery knows of itself while the disk refuses to note it."""

import pytest

from goclaw.channels.base import Doubt
from goclaw.common.core.events import Address, Delivery
from goclaw.durable.engine.deliveries import DeliveryProgress
from goclaw.durable.store.database import Database
from goclaw.errors import StateError
from tests.parts import Mortal


async def test_a_part_that_arrived_while_the_disk_was_full_casts_no_doubt_on_the_next(database: Database) -> None:
    disk = Mortal(database, None, None)
    progress = DeliveryProgress(Delivery("d1", Address("memory", "here"), "two parts"), disk, fence=None)
    await progress.sending()
    disk.full = True
    with pytest.raises(StateError):
        await progress.arrived("1")
    progress.record_interruption()
    assert (progress.parts, progress.doubt) == (("1",), Doubt.NONE)
    disk.full = False
    await progress.sending()
    progress.record_interruption()
    assert progress.doubt is Doubt.SILENCE

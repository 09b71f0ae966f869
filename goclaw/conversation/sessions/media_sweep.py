"""Removal of unused pictures and files (`media.ttl`), every few minutes."""

import logging

from goclaw.common.core.clock import Clock
from goclaw.durable.store.blobs import Blobs
from goclaw.durable.store.media import NeededMedia

log = logging.getLogger(__name__)

SWEEP_SECONDS = 300.0
"""Seconds between sweeps; a file so stays up to five minutes longer than `media.ttl`."""


class MediaSweep:
    """A periodic sweep of media that no context shows any more; see `store.media`.

    A file stored during a sweep, again or for the first time, is newer than those the sweep removes: it stays.
    """

    def __init__(self, blobs: Blobs, needed: NeededMedia, clock: Clock, ttl: float) -> None:
        self._blobs = blobs
        self._needed = needed
        self._clock = clock
        self._ttl = ttl

    async def run(self) -> None:
        """Sweep forever.

        Raises:
            StateError: the database or the disk refuses; begin again later.
        """
        while True:
            await self.sweep()
            await self._clock.sleep(SWEEP_SECONDS)

    async def sweep(self) -> int:
        """Sweep once; returns how many files went."""
        until = self._clock.now() - self._ttl
        fetching_since = await self._needed.oldest_unprocessed()
        if fetching_since is not None:
            # Files of a running turn are stored later than that, and referred to once all of them are there.
            until = min(until, fetching_since)
        await self._blobs.tidy(until)
        old = await self._blobs.old_media(until)
        if not old:
            return 0
        unneeded = old - await self._needed.keys()
        removed = len(unneeded) - len(await self._blobs.remove_media(unneeded, until))
        if removed:
            log.info("removed %d pictures and files that no context refers to (media.ttl)", removed)
        return removed

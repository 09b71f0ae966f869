"""The daemon's shutdown: input stops, running work gets a while to end, the rest resumes at the next start.

The order as a whole: the HTTP listener and the channels accept nothing more (their services keep it), no turn begins,
running turns end or are cut, deliveries go out, then the parts close in reverse. Terminals stay until after that, so
that `/stop` works meanwhile; messages written there are kept for the next start.
"""

import asyncio
import logging
from contextlib import suppress

from goclaw.app.parts import App
from goclaw.gateway import Gateway

log = logging.getLogger(__name__)

GRACE_SECONDS = 10.0
"""Seconds for running turns and deliveries to end at shutdown; the rest resumes at the next start."""
FLUSH_SECONDS = 3.0
"""Seconds of these that are kept for deliveries."""


async def wind_down(app: App, gateway: Gateway) -> None:
    """Let turns and deliveries end for a while."""
    app.engine.begin_no_more()
    clock = app.foundation.clock
    began = clock.monotonic()
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS - FLUSH_SECONDS):
            await app.engine.idle(but_parked=True)
            await gateway.quiet()
    if left := app.engine.busy():
        log.warning("not finished, taken up at the next start: the turns of %d session(s)", left)
    if not await app.outbox.flush(max(FLUSH_SECONDS, GRACE_SECONDS - (clock.monotonic() - began))):
        log.warning("%d deliveries are left for the next start", app.outbox.waiting())

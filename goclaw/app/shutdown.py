"""The daemon winds down: nothing comes in any more, what runs may end for a while, the rest goes on at the next start.

The order as a whole: the HTTP listener and the channels take nothing more in (their services keep it), no turn begins,
turns that run end or are cut, deliveries go out, then the parts close in reverse. Terminals stay until after that, so
that `/stop` works meanwhile; what is written there is kept for the next start.
"""

import asyncio
import logging
from contextlib import suppress

from goclaw.app.parts import App
from goclaw.gateway import Gateway

log = logging.getLogger(__name__)

GRACE_SECONDS = 10.0
"""What running turns and deliveries get to end when the daemon is asked to; the rest is taken up at the next start."""
FLUSH_SECONDS = 3.0
"""What is kept of it for deliveries."""


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

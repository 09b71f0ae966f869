"""The daemon's part in publishing: it updates registries, and reports failures to the operator."""

import asyncio
import logging
from functools import partial

from goclaw import catalog
from goclaw.app.parts import App
from goclaw.config.publishing import hindrances, may_be_told, public_address
from goclaw.plugins import load
from goclaw.registries.parts import PublisherPart
from goclaw.supervise import keep_running
from goclaw.toolkit.sources import SETTLED_SECONDS

log = logging.getLogger(__name__)


async def keep_published(app: App) -> None:
    """Update registries about published items, until cancelled. Without the MCP server it only reports why not."""
    config, clock = app.foundation.config, app.foundation.clock
    for place, why in hindrances(config):
        app.sources.report(place, why)
    named = {name for each in config.publications for name in each.settings.publish_to}
    registries = sorted(name for name in named if may_be_told(config, name))
    if not registries or not config.mcp.server.enabled:
        return
    await app.registry.ready()
    await app.sources.settled(SETTLED_SECONDS)
    part = await asyncio.to_thread(load, catalog.REGISTRIES["publishing"], PublisherPart)
    work = partial(
        part.run,
        registries,
        config,
        http=app.foundation.ports.http,
        clock=clock,
        specs=app.registry.specs,
        address=lambda: public_address(config, app.mcp_server.port) if app.mcp_server.port else "",
        report=partial(_report, app),
        facts=app.sessions.ports.settings,
    )
    await keep_running("publishing", work, clock)


def _report(app: App, what: str, why: str, *, for_good: bool = False) -> None:
    """Beside the faults of tools, and to an admin where nothing but a person mends it."""
    app.sources.report(what, why)
    if why and for_good:
        app.foundation.alerts.tell(f"publishing {what}", f"{what} {why}")
    else:
        app.foundation.alerts.clear(f"publishing {what}")

"""The daemon's part in registries: it has catalogues fetched, updates registries, and reports failures.

Failures are listed with the faults of tools; those that only a person can mend are reported to an admin.
"""

import asyncio
import logging
from functools import partial

from goclaw.common.config.listening import hindrances, may_publish_to, public_address
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.core.supervise import run_with_restarts
from goclaw.program.app.parts import App
from goclaw.tools.toolkit.registry_parts import PublisherPart, PublishPorts, SyncPart
from goclaw.tools.toolkit.sources import SETTLED_SECONDS

log = logging.getLogger(__name__)

SYNC_AFTER_SECONDS = 1.0
"""Seconds after the start: no one waits for a catalogue, and earlier fetched ones are there already."""


async def publish_forever(app: App) -> None:
    """Update registries about published items, until cancelled. Without the MCP server it only reports why not."""
    config, clock = app.foundation.config, app.foundation.clock
    for place, why in hindrances(config):
        app.foundation.tools.sources.report(place, why)
    named = {name for each in config.publications for name in each.settings.publish_to}
    registries = sorted(name for name in named if may_publish_to(config, name))
    if not registries or not config.mcp.server.enabled:
        return
    await app.foundation.tools.registry.ready()
    await app.foundation.tools.sources.settled(SETTLED_SECONDS)
    part = await asyncio.to_thread(load, catalog.REGISTRIES["publishing"], PublisherPart)
    ports = PublishPorts(
        config,
        clock,
        specs=app.foundation.tools.registry.specs,
        address=lambda: public_address(config, app.mcp_server.port) if app.mcp_server.port else "",
        report=partial(_report, app),
        facts=app.sessions.ports.store.settings,
    )
    await run_with_restarts("publishing", partial(part.run, registries, ports, app.foundation.ports.http), clock)


def _report(app: App, what: str, why: str, *, for_good: bool = False) -> None:
    """Report a failure among the faults of tools, and to an admin where only a person can mend it."""
    app.foundation.tools.sources.report(what, why)
    if why and for_good:
        app.foundation.alerts.tell(f"publishing {what}", f"{what} {why}")
    else:
        app.foundation.alerts.clear(f"publishing {what}")


async def sync_registries(app: App) -> None:
    """Keep the catalogues of all registries in sync, until cancelled."""
    foundation = app.foundation
    await foundation.clock.sleep(SYNC_AFTER_SECONDS)
    part = await asyncio.to_thread(load, catalog.REGISTRIES["syncing"], SyncPart)
    await part.run(
        foundation.config.registries,
        foundation.config.state_dir,
        http=foundation.ports.http,
        clock=foundation.clock,
        tell=partial(_report_problem, app),
    )


def _report_problem(app: App, registry: str, problem: str, *, changed: bool) -> None:
    """Report a problem among the faults of tools, and to an admin where a registry changed published content."""
    app.foundation.tools.sources.report(f"registries.{registry}", problem)
    if changed:
        app.foundation.alerts.tell(
            f"registry {registry}", f"the registry {registry} has changed a published entry: {problem}"
        )
    elif not problem:
        app.foundation.alerts.clear(f"registry {registry}")

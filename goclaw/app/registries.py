"""The daemon's part in registries: it has catalogues fetched, and reports failures to the operator."""

import asyncio
from functools import partial

from goclaw import catalog
from goclaw.app.parts import App
from goclaw.plugins import load
from goclaw.registries.parts import SyncPart

AFTER = 1.0
"""Seconds after the start: no one waits for a catalogue, and earlier fetched ones are there already."""


async def keep_registries(app: App) -> None:
    """Keep the catalogues of all registries in sync, until cancelled."""
    foundation = app.foundation
    await foundation.clock.sleep(AFTER)
    part = await asyncio.to_thread(load, catalog.REGISTRIES["syncing"], SyncPart)
    await part.run(
        foundation.config.registries,
        foundation.config.state_dir,
        http=foundation.ports.http,
        clock=foundation.clock,
        tell=partial(_tell, app),
    )


def _tell(app: App, registry: str, problem: str, *, changed: bool) -> None:
    """Beside the faults of tools; to an admin where only a person can say who is to blame."""
    app.sources.report(f"registries.{registry}", problem)
    if changed:
        app.foundation.alerts.tell(
            f"registry {registry}", f"the registry {registry} has changed what it said: {problem}"
        )
    elif not problem:
        app.foundation.alerts.clear(f"registry {registry}")

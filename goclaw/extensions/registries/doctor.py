"""The doctor's check of registries: whether they answer, fetched data are sound, and ours can be served."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from goclaw.common.config.load import Loaded
from goclaw.common.config.registries import RegistrySettings, RetrySettings
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock, ago
from goclaw.common.net import open_client
from goclaw.errors import StateError
from goclaw.extensions.registries.base import RegistryError
from goclaw.extensions.registries.catalog_store import FILE, CatalogStore
from goclaw.extensions.registries.client import RegistryClient
from goclaw.extensions.registries.file import check_catalog
from goclaw.program.ops.doctor.base import CheckPart, Finding
from goclaw.program.ops.doctor.servers import is_ours, try_port

REGISTRY_SECONDS = 10.0
"""Time limit of one registry: half of that of the whole check."""


async def check_registries(loaded: Loaded) -> list[Finding]:
    """Return a finding for each registry and for the file of all; nothing without registries."""
    config, path = loaded.config, loaded.config.state_dir / FILE
    found = await asyncio.to_thread(lambda: list(_catalog(path)))
    if any(finding.verdict == "problem" for finding in found):
        return found
    async with open_client() as http:
        catalog = CatalogStore(path)
        found += await asyncio.gather(*(_ask_registry(*each, catalog, http) for each in config.registries.items()))
        if "registry_server" in config.model_fields_set and config.registry_server.port:
            found.append(await _own_registry(config, http))
    return found


def _catalog(path: Path) -> Iterator[Finding]:
    if not path.exists():
        return
    try:
        check_catalog(path)
    except StateError as error:
        remedy = "run `goclaw restore` with a backup, or move the file away and publish everything again"
        yield Finding("registries", "problem", str(error), remedy)


async def _ask_registry(
    name: str, settings: RegistrySettings, catalog: CatalogStore, http: aiohttp.ClientSession
) -> Finding:
    clock = RealClock()
    known = await asyncio.to_thread(catalog.sync, name)
    fetched = f"fetched {ago(clock.now() - known.synced_at)}" if known.synced_at else "not fetched yet"
    seconds = min(settings.timeout, REGISTRY_SECONDS)
    once = settings.model_copy(update={"retry": RetrySettings(max=0), "timeout": seconds, "auth": settings.auth})
    try:
        await RegistryClient(name, once, http, clock).try_out()
    except RegistryError as error:
        return Finding("registries", "warning", f"{error} ({fetched})", "the last fetched entries stay in use")
    if known.problem:
        return Finding(
            "registries", "warning", f"{name}: {known.problem}", "fetch it again with `goclaw registry sync`"
        )
    return Finding("registries", "ok", f"{name} answers; {fetched}")


async def _own_registry(config: Config, http: aiohttp.ClientSession) -> Finding:
    """Check that our own is served, or could be."""
    host, port = config.registry_server.host, config.registry_server.port
    try:
        ours = await is_ours(http, host, port, "/v1/")
    except (aiohttp.ClientError, TimeoutError, OSError):
        ours = False
    if ours:
        return Finding("registries", "ok", f"this gateway's own registry is served at {host} port {port}")
    return await asyncio.to_thread(try_port, host, port, "registries", "registry_server.port")


CHECK = CheckPart(check_registries)

"""Registries: whether those that are configured answer, what was fetched is sound, and ours can be served."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from goclaw.clock import RealClock, ago
from goclaw.config.listening import is_loopback
from goclaw.config.load import Loaded
from goclaw.config.registries import RegistrySettings, RetrySettings
from goclaw.config.schema import Config
from goclaw.doctor.base import Finding, weak
from goclaw.doctor.listener import is_ours, try_port
from goclaw.errors import StateError
from goclaw.net import open_client
from goclaw.registries.base import RegistryError
from goclaw.registries.catalog_store import FILE, CatalogStore
from goclaw.registries.client import RegistryClient
from goclaw.registries.file import check_catalog

SECONDS = 10.0
"""Time limit of one registry: half of that of the whole check."""


async def check_registries(loaded: Loaded) -> list[Finding]:
    """Return a finding for each registry and for the file of all; nothing without registries."""
    config, path = loaded.config, loaded.config.state_dir / FILE
    found = await asyncio.to_thread(lambda: list(_file(path)))
    if any(finding.verdict == "problem" for finding in found):
        return found
    async with open_client() as http:
        asked = [_asked(name, settings, CatalogStore(path), http) for name, settings in config.registries.items()]
        found += await asyncio.gather(*asked)
        if "registry_server" in config.model_fields_set and config.registry_server.port:
            found.append(await _served(config, http))
    return found


def weak_registries(config: Config) -> Iterator[Finding]:
    """Yield weaknesses in the use and service of registries."""
    for name, line in config.tools.from_registry.items():
        key = f"tools.from_registry.{name}"
        if line.enabled and not line.version and line.packages:
            yield weak(
                f"{key}.packages is true without a version: whoever publishes the next one has it run as you",
                f"name the version that you have looked at in `{key}.version`, and its `sha256`",
            )
        if line.enabled and not line.version and line.headers:
            yield weak(
                f"{key}.headers go to whatever address the newest version names",
                f"name the version that you have looked at in `{key}.version`, and its `sha256`",
            )
    if "registry_server" not in config.model_fields_set or is_loopback(config.registry_server.host):
        return
    host = config.registry_server.host
    yield weak(
        f"registry_server.host is {host}: the registry is open to other machines, and it speaks no TLS",
        "set `registry_server.host` to 127.0.0.1 and put a reverse proxy with https before it (docs/registries.md)",
    )
    if config.registry_server.open:
        yield weak(
            "registry_server.open is true: whoever reaches the registry may read all that is published there",
            "take `registry_server.open` out, unless all of it is for everybody",
        )


def _file(path: Path) -> Iterator[Finding]:
    if not path.exists():
        return
    try:
        check_catalog(path)
    except StateError as error:
        remedy = "`goclaw restore` a backup, or move it away: what was published here has to be published again then"
        yield Finding("registries", "problem", str(error), remedy)


async def _asked(name: str, settings: RegistrySettings, catalog: CatalogStore, http: aiohttp.ClientSession) -> Finding:
    clock = RealClock()
    known = await asyncio.to_thread(catalog.sync, name)
    fetched = f"fetched {ago(clock.now() - known.synced_at)}" if known.synced_at else "not fetched yet"
    once = settings.model_copy(
        update={"retry": RetrySettings(max=0), "timeout": min(settings.timeout, SECONDS), "auth": settings.auth}
    )
    try:
        await RegistryClient(name, once, http, clock).try_out()
    except RegistryError as error:
        return Finding("registries", "warning", f"{error} ({fetched})", "what was fetched stays in use meanwhile")
    if known.problem:
        return Finding("registries", "warning", f"{name}: {known.problem}", "`goclaw registry sync` fetches it anew")
    return Finding("registries", "ok", f"{name} answers; {fetched}")


async def _served(config: Config, http: aiohttp.ClientSession) -> Finding:
    """Check that our own is served, or could be."""
    host, port = config.registry_server.host, config.registry_server.port
    try:
        ours = await is_ours(http, host, port, "/v1/")
    except (aiohttp.ClientError, TimeoutError, OSError):
        ours = False
    if ours:
        return Finding("registries", "ok", f"our own is served at {host} port {port}")
    return await asyncio.to_thread(try_port, host, port, "registries", "registry_server.port")

"""The servers of `tools.from_registry`: joins entries fetched from registries to the MCP connector.

Loaded only where that key is configured. The address of a server is looked up at each attempt to connect, so no start
waits for a registry: if it cannot be reached the last fetched entry counts, and a newer one is found later.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from goclaw.common.config.mcp import McpClientSettings
from goclaw.common.config.registries import FromRegistrySettings
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import Clock
from goclaw.common.net import UrlGuard, UrlRefused
from goclaw.extensions.registries.base import RegistryError
from goclaw.extensions.registries.catalog_store import FILE, CatalogStore
from goclaw.extensions.registries.resolving import Resolved, resolve
from goclaw.tools.mcp.base import Finder, FinderPart, ServerLocation

LOOK_SECONDS = 5.0
"""Seconds between two looks whether the catalogue store was changed, by the daemon or by `goclaw registry sync`."""
_HTTPS, _HTTP = 443, 80


class RegistryFinder:
    """Finds the server of one entry of `tools.from_registry`. Implements `Finder`."""

    def __init__(self, name: str, settings: FromRegistrySettings, config: Config, clock: Clock) -> None:
        self.place = f"tools.from_registry.{name}"
        self.settings = McpClientSettings.model_construct(
            timeout=settings.timeout, roles=settings.roles, tags=settings.tags
        )
        self._wanted = settings
        self._registry = config.registries.get(settings.registry)
        self._guard = UrlGuard(config.tools.network.allow, config.tools.network.deny)
        self._file = config.state_dir / FILE
        self._store = CatalogStore(self._file)
        self._clock = clock
        self._seen: tuple[int, int] = (0, 0)

    async def find(self) -> ServerLocation:
        """Return the location of the server from the last fetched entry.

        Raises:
            RegistryError: it has no location, or one that may not be called.
            StateError: the catalogue store cannot be used.
        """
        self._seen = await asyncio.to_thread(_stamp, self._file)
        now = self._clock.now()
        found = await asyncio.to_thread(resolve, self._wanted, self._registry, self._store, now, self.place)
        guard = None if found.is_trusted or found.settings.url is None else self._guard
        if guard:
            await self._check(found, guard)
        return ServerLocation(found.settings, guard, found.about)

    async def news(self) -> None:
        """Return when the catalogue store has changed since the last `find`."""
        while await asyncio.to_thread(_stamp, self._file) == self._seen:
            await self._clock.sleep(LOOK_SECONDS)

    async def _check(self, found: Resolved, guard: UrlGuard) -> None:
        """Check the address, for an error in its own words: the guard of each connection does not know the purpose."""
        parts = urlsplit(found.settings.url or "")
        try:
            await guard.addresses(parts.hostname or "", parts.port or (_HTTPS if parts.scheme == "https" else _HTTP))
        except UrlRefused as error:
            raise RegistryError(
                f"the address of {found.about} is not called: {error}. If it is one of yours, set {self.place}.private"
            ) from None


def _stamp(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


def _finders(config: Config, clock: Clock) -> Mapping[str, Finder]:
    lines = config.tools.from_registry.items()
    return {name: RegistryFinder(name, settings, config, clock) for name, settings in lines if settings.enabled}


FINDERS = FinderPart(_finders)

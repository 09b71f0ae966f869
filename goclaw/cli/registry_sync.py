"""Fetching what registries have, for `goclaw registry`, and what can be said of what was fetched."""

from collections.abc import Iterator, Sequence
from typing import Any

from goclaw.clock import RealClock, ago
from goclaw.config.keys import what_helps
from goclaw.config.registries import RegistrySettings
from goclaw.config.schema import Config
from goclaw.errors import ConfigError, StateError
from goclaw.records import record
from goclaw.registries.base import RegistryError
from goclaw.registries.catalog_store import FILE, CatalogStore, TakenOver

MAX_REFUSED = 20
"""Entries that are named which were left out."""


@record
class SyncResult:
    """The result of a request to a registry."""

    registry: str
    taken: TakenOver
    problem: str = ""

    @property
    def entries(self) -> int:
        return self.taken.entries

    def lines(self) -> Iterator[str]:
        """Yield problems and refused entries as lines for people."""
        if self.problem:
            yield self.problem
        for line in self.taken.refused[:MAX_REFUSED]:
            yield f"{self.registry}: left out: {line}"
        if (more := len(self.taken.refused) - MAX_REFUSED) > 0:
            yield f"{self.registry}: left out: {more} more"

    def as_json(self) -> dict[str, Any]:
        """Return the result as an object for machines."""
        refused = list(self.taken.refused)
        return {"registry": self.registry, "entries": self.entries, "refused": refused, "problem": self.problem or None}


def settings_of(config: Config, registry: str) -> RegistrySettings:
    """Return the settings of the registry with this name. Raises `ConfigError` when it is not configured."""
    if registry not in config.registries:
        raise ConfigError(
            f"no registry is called {registry}{what_helps(registry, config.registries)} (`registries` in the "
            "configuration)"
        )
    return config.registries[registry]


async def fetch(config: Config, names: Sequence[str]) -> list[SyncResult]:
    """Fetch these, one after the other; what fails costs the others nothing."""
    from goclaw.net import open_client  # looking at what was fetched needs no network
    from goclaw.registries.syncing import sync

    catalog, clock, results = CatalogStore(config.state_dir / FILE), RealClock(), []
    async with open_client() as http:
        for name in names:
            try:
                results.append(SyncResult(name, await sync(name, config.registries[name], catalog, http, clock)))
            except (RegistryError, StateError) as error:
                results.append(SyncResult(name, TakenOver(0), str(error)))
    return results


def gaps(config: Config, catalog: CatalogStore, names: Sequence[str]) -> Iterator[str]:
    """Yield lines about registries whose catalogs are missing or stale."""
    now = RealClock().now()
    for name in names:
        known, settings = catalog.sync(name), config.registries[name]
        if not known.synced_at:
            why = f": {known.problem}" if known.problem else "; `goclaw registry sync` does it, as does the daemon"
            yield f"{name} was not fetched yet{why}"
        elif now - known.synced_at > settings.known_for:
            why = f": {known.problem}" if known.problem else ""
            yield f"{name} was fetched {ago(now - known.synced_at)}{why}"

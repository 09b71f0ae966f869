"""Keeps what registries list: fetched again and again, chosen by the operator's patterns, taken over by the shelf.

A registry that cannot be asked costs nothing but a line: what was fetched of it stays. What is made of an entry is for
`goclaw.registries.resolving` to say.
"""

import asyncio
import hashlib
import logging
import secrets
from fnmatch import fnmatchcase
from functools import partial

import aiohttp
import orjson

from goclaw.clock import Clock
from goclaw.config.registries import FederationSettings, RegistrySettings
from goclaw.errors import StateError
from goclaw.registries.base import RegistryError
from goclaw.registries.catalog_store import FILE, CatalogStore, TakenOver
from goclaw.registries.client import RegistryCatalog, RegistryClient
from goclaw.registries.pages import Wanted, uncollected
from goclaw.registries.sync_ports import SyncPart, SyncPorts
from goclaw.supervise import keep_running

log = logging.getLogger(__name__)

ID = "id"
"""The fact that is the id of this gateway's own registry: what came through it is not taken over again."""
FAILED_PAUSE = 300.0
"""Seconds after which a fetch that failed is made again, unless the next one is due earlier."""
MAX_PAUSE = 86_400.0
"""Seconds for which a registry may want to be left alone."""
MAX_NAMED = 3
"""Versions of one registry that are told of by name."""
MAX_LOGGED = 20


async def sync(
    name: str, settings: RegistrySettings, shelf: CatalogStore, http: aiohttp.ClientSession, clock: Clock
) -> TakenOver:
    """Fetch the catalogue of a registry and take it over. How that went is kept, too (`CatalogStore.sync`).

    Raises:
        RegistryError: it cannot be had; what was there before stays.
        StateError: the shelf cannot be used.
    """
    own = await asyncio.to_thread(shelf.fact, ID, secrets.token_hex(16))
    known = (await asyncio.to_thread(shelf.sync, name)).etag
    mark = _mark(settings)
    etag = known.removeprefix(mark) if known.startswith(mark) else ""
    try:
        found = await RegistryClient(name, settings, http, clock).listing(etag, chooser(settings.federation))
    except RegistryError as error:
        await asyncio.to_thread(shelf.tried, name, clock.now(), str(error))
        raise
    if found is None:
        await asyncio.to_thread(shelf.tried, name, clock.now())
        return TakenOver(len(await asyncio.to_thread(shelf.lines, name)))
    return await asyncio.to_thread(_take, shelf, name, found, own, clock.now(), mark)


def chooser(federation: FederationSettings) -> Wanted:
    """Which names are taken over: those of `include`, where empty means all, without those of `exclude`."""

    def wanted(name: str) -> bool:
        included = not federation.include or any(fnmatchcase(name, pattern) for pattern in federation.include)
        return included and not any(fnmatchcase(name, pattern) for pattern in federation.exclude)

    return wanted


def problem_of(taken: TakenOver) -> str:
    """What of it somebody has to look at, in words; empty: nothing."""
    if not taken.changed:
        return ""
    more = len(taken.changed) - MAX_NAMED
    named = "; ".join(taken.changed[:MAX_NAMED])
    return f"{named}{f'; and {more} more' if more > 0 else ''}. What was fetched first stays in use"


async def keep_synced(name: str, settings: RegistrySettings, shelf: CatalogStore, ports: SyncPorts) -> None:
    """Fetch the catalogue of a registry every `sync_interval`, until cancelled, and tell how it went."""
    while True:
        pause, problem, changed = settings.sync_interval, "", False
        try:
            taken = await sync(name, settings, shelf, ports.http, ports.clock)
        except (RegistryError, StateError) as error:
            wanted = (error.retry_after if isinstance(error, RegistryError) else None) or 0.0
            pause, problem = max(min(pause, FAILED_PAUSE), min(wanted, MAX_PAUSE)), str(error)
        else:
            problem, changed = problem_of(taken), bool(taken.changed)
            _log(name, taken)
        ports.tell(name, problem, changed=changed)
        await ports.clock.sleep(pause)


async def _keep_all(ports: SyncPorts) -> None:
    """All registries, each at its own pace. A fault that nobody foresaw is one registry's alone."""
    shelf = CatalogStore(ports.state / FILE)
    async with asyncio.TaskGroup() as group:
        for name, settings in ports.registries.items():
            work = partial(keep_synced, name, settings, shelf, ports)
            group.create_task(keep_running(f"registry {name}", work, ports.clock), name=f"registry {name}")


@uncollected()
def _take(shelf: CatalogStore, name: str, found: RegistryCatalog, own: str, now: float, mark: str) -> TakenOver:
    etag = mark + found.etag if found.etag and not found.refused else ""
    taken = shelf.take(name, found.listed.without(own), now, etag)
    taken = TakenOver(taken.entries, (*found.refused, *taken.refused), taken.changed)
    if problem := problem_of(taken):
        shelf.tried(name, now, problem)
    return taken


def _mark(settings: RegistrySettings) -> str:
    """Stands before an ETag: it is of use only as long as the same is asked for."""
    federation = settings.federation
    asked = [settings.url, settings.api_version, federation.include, federation.exclude]
    return f"{hashlib.sha256(orjson.dumps(asked)).hexdigest()[:16]} "


def _log(name: str, taken: TakenOver) -> None:
    for line in taken.refused[:MAX_LOGGED]:
        log.info("registry %s: left out: %s", name, line)
    if len(taken.refused) > MAX_LOGGED:
        log.info("registry %s: left out: %d more", name, len(taken.refused) - MAX_LOGGED)


SYNCING = SyncPart(_keep_all)

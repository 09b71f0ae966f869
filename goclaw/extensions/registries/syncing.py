"""Synchronisation of registries' catalogues: fetched periodically, filtered by the operator's patterns, and stored.

An unavailable registry costs only a message: its stored entries stay. `registries.resolving` decides how an
entry is used.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import aiohttp
import orjson

from goclaw.common.config.registries import FederationSettings, RegistrySettings
from goclaw.common.core.clock import Clock
from goclaw.common.core.supervise import run_with_restarts
from goclaw.errors import StateError
from goclaw.extensions.registries.base import RegistryError
from goclaw.extensions.registries.catalog_store import FILE, CatalogStore, TakenOver
from goclaw.extensions.registries.client import RegistryCatalog, RegistryClient
from goclaw.extensions.registries.pages import Wanted, disable_collection
from goclaw.tools.toolkit.registry_parts import SyncPart, Tell

log = logging.getLogger(__name__)

ID = "id"
"""The name of the fact with the id of this gateway's own registry: entries that came through it are skipped."""
FAILED_PAUSE = 300.0
"""Seconds after which a failed fetch is repeated, unless the next one is due earlier."""
MAX_PAUSE = 86_400.0
"""Seconds of the longest pause that a registry may ask for."""
MAX_NAMED = 3
"""Versions of one registry that a report names."""
MAX_LOGGED = 20


async def sync(
    name: str, settings: RegistrySettings, store: CatalogStore, http: aiohttp.ClientSession, clock: Clock
) -> TakenOver:
    """Fetch the catalogue of a registry and store it, with the result of the fetch (`CatalogStore.sync`).

    Raises:
        RegistryError: the fetch failed; the stored entries stay.
        StateError: the store cannot be used.
    """
    own = await asyncio.to_thread(store.fact, ID, secrets.token_hex(16))
    known = (await asyncio.to_thread(store.sync, name)).etag
    mark = _mark(settings)
    etag = known.removeprefix(mark) if known.startswith(mark) else ""
    try:
        found = await RegistryClient(name, settings, http, clock).listing(etag, chooser(settings.federation))
    except RegistryError as error:
        await asyncio.to_thread(store.record_try, name, clock.now(), str(error))
        raise
    if found is None:
        await asyncio.to_thread(store.record_try, name, clock.now())
        return TakenOver(len(await asyncio.to_thread(store.lines, name)))
    return await asyncio.to_thread(_take, store, name, found, own, clock.now(), mark)


def chooser(federation: FederationSettings) -> Wanted:
    """Return a filter of names: those of `include`, where empty means all, without those of `exclude`."""

    def accepts(name: str) -> bool:
        included = not federation.include or any(fnmatchcase(name, pattern) for pattern in federation.include)
        return included and not any(fnmatchcase(name, pattern) for pattern in federation.exclude)

    return accepts


def problem_of(taken: TakenOver) -> str:
    """Describe the changes that a person has to examine; empty: none."""
    if not taken.changed:
        return ""
    more = len(taken.changed) - MAX_NAMED
    named = "; ".join(taken.changed[:MAX_NAMED])
    return f"{named}{f'; and {more} more' if more > 0 else ''}. What was fetched first stays in use"


async def sync_forever(
    name: str, settings: RegistrySettings, store: CatalogStore, *, http: aiohttp.ClientSession, clock: Clock, tell: Tell
) -> None:
    """Fetch the catalogue of a registry every `sync_interval`, until cancelled, and report each result."""
    while True:
        pause, problem, changed = settings.sync_interval, "", False
        try:
            taken = await sync(name, settings, store, http, clock)
        except (RegistryError, StateError) as error:
            wanted = (error.retry_after if isinstance(error, RegistryError) else None) or 0.0
            pause, problem = max(min(pause, FAILED_PAUSE), min(wanted, MAX_PAUSE)), str(error)
        else:
            problem, changed = problem_of(taken), bool(taken.changed)
            _log(name, taken)
        tell(name, problem, changed=changed)
        await clock.sleep(pause)


async def _sync_all(
    registries: Mapping[str, RegistrySettings], state: Path, *, http: aiohttp.ClientSession, clock: Clock, tell: Tell
) -> None:
    """Keep all registries in sync, each at its own pace. An unforeseen fault affects one registry only."""
    store = CatalogStore(state / FILE)
    async with asyncio.TaskGroup() as group:
        for name, settings in registries.items():
            work = partial(sync_forever, name, settings, store, http=http, clock=clock, tell=tell)
            group.create_task(run_with_restarts(f"registry {name}", work, clock), name=f"registry {name}")


@disable_collection()
def _take(store: CatalogStore, name: str, found: RegistryCatalog, own: str, now: float, mark: str) -> TakenOver:
    etag = mark + found.etag if found.etag and not found.refused else ""
    listed = (each.unwrap() for each in found.listed if own not in each.via)  # one at a time: parsed, it has no room
    taken = store.replace_catalog(name, listed, now, etag)
    taken = TakenOver(taken.entries, (*found.refused, *taken.refused), taken.changed)
    if problem := problem_of(taken):
        store.record_try(name, now, problem)
    return taken


def _mark(settings: RegistrySettings) -> str:
    """Return the prefix of an ETag, which is valid only for the same settings."""
    federation = settings.federation
    asked = [settings.url, settings.api_version, federation.include, federation.exclude]
    return f"{hashlib.sha256(orjson.dumps(asked)).hexdigest()[:16]} "


def _log(name: str, taken: TakenOver) -> None:
    for line in taken.refused[:MAX_LOGGED]:
        log.info("registry %s: left out: %s", name, line)
    if len(taken.refused) > MAX_LOGGED:
        log.info("registry %s: left out: %d more", name, len(taken.refused) - MAX_LOGGED)


SYNCING = SyncPart(_sync_all)

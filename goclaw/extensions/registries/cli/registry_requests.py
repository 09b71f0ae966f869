"""Requests of `goclaw registry` to registries: fetch their entries, publish an entry, withdraw it.

Fetched entries are described without a request. This gateway's own registry is a file.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goclaw.common.auth.audit import AuditEntry, open_audit
from goclaw.common.auth.users import login_name
from goclaw.common.config.keys import what_helps
from goclaw.common.config.locate import parse_json, parse_yaml
from goclaw.common.config.registries import RegistrySettings
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock, ago
from goclaw.common.core.events import Actor
from goclaw.common.core.files import read_text
from goclaw.common.core.records import record
from goclaw.errors import ConfigError, StateError
from goclaw.extensions.registries.base import MAX_DOCUMENT, EntryKind, RegistryError, pack
from goclaw.extensions.registries.catalog_store import FILE, CatalogStore, TakenOver
from goclaw.program.cli.base import FAILED, print_message, show
from goclaw.program.cli.options import load

if TYPE_CHECKING:
    from goclaw.extensions.registries.client import RegistryClient


MAX_REFUSED = 20
"""Entries that are named which were left out."""

OWNER_RULE = "owner of the state folder"
FETCHED_BY = "; `goclaw registry sync` fetches it, and so does the daemon"


@record
class SyncResult:
    """The result of a request to a registry."""

    registry: str
    taken: TakenOver
    problem: str = ""

    def lines(self) -> Iterator[str]:
        """Yield problems and refused entries as lines for people."""
        if self.problem:
            yield self.problem
        for line in self.taken.refused[:MAX_REFUSED]:
            yield f"{self.registry}: skipped: {line}"
        if (more := len(self.taken.refused) - MAX_REFUSED) > 0:
            yield f"{self.registry}: skipped: {more} more"

    def as_json(self) -> dict[str, Any]:
        """Return the result as an object for machines."""
        entries, refused = self.taken.entries, list(self.taken.refused)
        return {"registry": self.registry, "entries": entries, "refused": refused, "problem": self.problem or None}


def settings_of(config: Config, registry: str) -> RegistrySettings:
    """Return the settings of the registry with this name. Raises `ConfigError` when it is not configured."""
    if registry not in config.registries:
        raise ConfigError(
            f"there is no registry {registry}{what_helps(registry, config.registries)} (`registries` in the "
            "configuration)"
        )
    return config.registries[registry]


async def fetch(config: Config, names: Sequence[str]) -> list[SyncResult]:
    """Fetch these, one after the other; what fails costs the others nothing."""
    from goclaw.common.net import open_client  # looking at what was fetched needs no network
    from goclaw.extensions.registries.syncing import sync

    catalog, clock, results = CatalogStore(config.state_dir / FILE), RealClock(), []
    async with open_client() as http:
        for name in names:
            try:
                results.append(SyncResult(name, await sync(name, config.registries[name], catalog, http, clock)))
            except (RegistryError, StateError) as error:
                results.append(SyncResult(name, TakenOver(0), str(error)))
    return results


def gaps(config: Config, catalog: CatalogStore, names: Sequence[str]) -> Iterator[str]:
    """Yield lines about registries with missing or stale catalogs."""
    now = RealClock().now()
    for name in names:
        known, settings = catalog.sync(name), config.registries[name]
        why = f": {known.problem}" if known.problem else ""
        if not known.synced_at:
            yield f"{name} has not been fetched yet{why or FETCHED_BY}"
        elif now - known.synced_at > settings.known_for:
            yield f"{name} was fetched {ago(now - known.synced_at)}{why}"


def publish(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The entry, as JSON or YAML (docs/registries.md).")],
    to: Annotated[str | None, typer.Option(help="A name of `registries`; default: this gateway's own.")] = None,
) -> None:
    """Publish an entry. What is published never changes: whatever is different needs another version."""
    config = load(context).config
    asyncio.run(_publish(config, file, to))


def withdraw(
    context: typer.Context,
    kind: EntryKind,
    name: str,
    version: str,
    from_: Annotated[
        str | None, typer.Option("--from", help="A name of `registries`; default: this gateway's own.")
    ] = None,
) -> None:
    """Remove a version from a registry. Who has fetched it keeps it until the next time."""
    config = load(context).config
    if not asyncio.run(_withdraw(config, kind, name, version, from_)):
        print_message(f"there is no {kind} {name} {version}{f' in {from_}' if from_ else ''}")
        raise typer.Exit(FAILED)
    show(f"withdrew {kind} {name} {version}{f' from {from_}' if from_ else ''}")


async def _publish(config: Config, file: Path, registry: str | None) -> None:
    document = _read(file)
    try:
        new = pack(document)
    except ValueError as error:
        raise RegistryError(f"{file}: {error}") from None
    what = f"{new.entry.kind} {new.entry.name} {new.entry.version}"
    if registry:
        async with _client(config, registry) as client:
            is_new = await client.publish(document)
    else:
        by, now = f"tui:{login_name()}", RealClock().now()
        is_new = await asyncio.to_thread(CatalogStore(config.state_dir / FILE).publish, document, by, now)
    await _note(config, "publish", what, registry, done=is_new)
    where = f" to {registry}" if registry else ""
    show(f"{'published' if is_new else 'was already published'}{where}: {what}\n  sha256: {new.sha256}")


async def _withdraw(config: Config, kind: EntryKind, name: str, version: str, registry: str | None) -> bool:
    if registry:
        async with _client(config, registry) as client:
            done = await client.withdraw(kind, name, version)
    else:
        catalog = CatalogStore(config.state_dir / FILE)
        done = await asyncio.to_thread(catalog.withdraw, kind, name, version, None)
    await _note(config, "withdraw", f"{kind} {name} {version}", registry, done=done)
    return done


def _read(file: Path) -> Mapping[str, Any]:
    """Return the document in a file. Raises ConfigError."""
    # Indented JSON has several times the bytes.
    text = read_text(file, str(file), 4 * MAX_DOCUMENT)
    found = parse_json(text) if file.suffix == ".json" else parse_yaml(text)
    if found.problems:
        raise ConfigError(*(f"{file}:{place}: {words}" for place, _, words in found.problems))
    if not isinstance(found.value, dict):
        raise ConfigError(f"{file}: should be an entry: kind, name, version … (docs/registries.md)")
    return found.value


@asynccontextmanager
async def _client(config: Config, registry: str) -> "AsyncIterator[RegistryClient]":
    from goclaw.common.net import open_client  # our own registry is a file
    from goclaw.extensions.registries.client import RegistryClient

    settings = settings_of(config, registry)
    async with open_client() as http:
        yield RegistryClient(registry, settings, http, RealClock())


async def _note(config: Config, verb: str, what: str, registry: str | None, *, done: bool) -> None:
    actor = Actor(f"tui:{login_name()}", "cli", owner=True, name=login_name())
    result = "done" if done else "nothing to do"
    async with open_audit(config, RealClock()) as audit:
        audit.record(AuditEntry(f"registry.{verb}", what, actor, registry or "", rule=OWNER_RULE, result=result))

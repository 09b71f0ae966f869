"""`goclaw registry publish|withdraw`: an entry from a file to a registry, ours or another's, and away again."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goclaw.audit import AuditEntry as AuditEntry
from goclaw.audit import open_audit
from goclaw.cli.common import load
from goclaw.cli.frame import FAILED, say, show
from goclaw.cli.registry_sync import settings_of
from goclaw.clock import RealClock
from goclaw.config.files import read_text
from goclaw.config.locate import parse_yaml
from goclaw.config.locate_json import parse_json
from goclaw.config.schema import Config
from goclaw.errors import ConfigError
from goclaw.events import Actor
from goclaw.registries.base import MAX_DOCUMENT, EntryKind, RegistryError, packed
from goclaw.registries.catalog_store import FILE, CatalogStore
from goclaw.users import login_name

if TYPE_CHECKING:
    from goclaw.registries.client import RegistryClient

RULE = "owner of the state folder"


def publish(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The entry, as JSON or YAML (docs/registries.md).")],
    to: Annotated[str | None, typer.Option(help="A name of `registries`; not given: this gateway's own.")] = None,
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
        str | None, typer.Option("--from", help="A name of `registries`; not given: this gateway's own.")
    ] = None,
) -> None:
    """Remove a version from a registry. Who has fetched it keeps it until the next time."""
    config = load(context).config
    if not asyncio.run(_withdraw(config, kind, name, version, from_)):
        say(f"there is no {kind} {name} {version}{f' in {from_}' if from_ else ''}")
        raise typer.Exit(FAILED)
    show(f"withdrew {kind} {name} {version}{f' from {from_}' if from_ else ''}")


async def _publish(config: Config, file: Path, registry: str | None) -> None:
    document = _read(file)
    try:
        new = packed(document)
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
    show(f"{'published' if is_new else 'was published already'}{where}: {what}\n  sha256: {new.sha256}")


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
    from goclaw.net import open_client  # our own registry is a file
    from goclaw.registries.client import RegistryClient

    settings = settings_of(config, registry)
    async with open_client() as http:
        yield RegistryClient(registry, settings, http, RealClock())


async def _note(config: Config, verb: str, what: str, registry: str | None, *, done: bool) -> None:
    actor = Actor(f"tui:{login_name()}", "cli", owner=True, name=login_name())
    result = "done" if done else "nothing to do"
    async with open_audit(config, RealClock()) as audit:
        audit.record(AuditEntry(f"registry.{verb}", what, actor, registry or "", rule=RULE, result=result))

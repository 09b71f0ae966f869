"""`goclaw registry`: the catalogs fetched from registries, and this gateway's own. Listing sends no requests."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
import typer

from goclaw.cli import registry_offer, registry_serve
from goclaw.cli.common import load
from goclaw.cli.frame import FAILED, say, show
from goclaw.cli.registry_lines import as_json, described, matches, summary
from goclaw.cli.registry_sync import fetch, gaps, settings_of
from goclaw.config.keys import closest
from goclaw.config.schema import Config
from goclaw.registries.base import EntryKind, RegistryError
from goclaw.registries.catalog_store import FILE, OWN, CatalogStore, StoredEntry

TITLE = "Look into, fetch from, publish to and serve registries."

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True, help=TITLE)

AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
Kind = Annotated[EntryKind | None, typer.Option(help="Only entries of this kind.")]
Own = Annotated[bool, typer.Option("--own", help="Only of this gateway's own registry.")]
_INDENT = orjson.OPT_INDENT_2


@app.command("list")
def list_(
    context: typer.Context,
    registry: Annotated[str | None, typer.Argument(help="Only of this one, as in `registries`.")] = None,
    kind: Kind = None,
    own: Own = False,
    json: AsJson = False,
) -> None:
    """Print what registries have: one line for each name, with its newest version."""
    config = load(context).config
    found = _kept(config, registry, own=own, kind=kind)
    _print_newest(found, json=json)
    if not found and not config.registries:
        say("no registry is configured (`registries`), and nothing was published here (`goclaw registry publish`)")


@app.command()
def search(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(help="All of them: in names, descriptions, tags and tools.")],
    registry: Annotated[str | None, typer.Option(help="Only of this one, as in `registries`.")] = None,
    kind: Kind = None,
    own: Own = False,
    json: AsJson = False,
) -> None:
    """Look for words in what registries have."""
    config = load(context).config
    found = [each for each in _kept(config, registry, own=own, kind=kind) if matches(each.entry, words)]
    _print_newest(found, json=json)
    if not found:
        say(f"nothing has {' '.join(words)} in it")
        raise typer.Exit(FAILED)


@app.command("show")
def show_(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What it is called, such as data-tools.")],
    registry: Annotated[str | None, typer.Option(help="Of this one, as in `registries`; not given: of all.")] = None,
    version: Annotated[str, typer.Option(help="This version; not given: the newest.")] = "",
    own: Own = False,
    json: AsJson = False,
) -> None:
    """Print all that is known of an entry: its versions, tools, digest, where it runs, and how it is used."""
    config = load(context).config
    kept = _kept(config, registry, own=own)
    versions = [each for each in kept if each.entry.name == name]
    if not versions:
        meant = closest(name, list(dict.fromkeys(each.entry.name for each in kept)))
        hint = f"did you mean {meant}?" if meant else "`goclaw registry list` says what there is"
        raise RegistryError(f"no entry is called {name}; {hint}")
    chosen = [each for each in versions if each.entry.version == version] if version else _newest(versions)
    if not chosen:
        there = ", ".join(each.entry.version for each in versions)
        raise RegistryError(f"{name} has no version {version}; there are {there}")
    if json:
        _print_json([{**as_json(each, _of_it(each, versions)), "document": each.document} for each in chosen])
        return
    show("\n\n".join(described(each, _of_it(each, versions), config) for each in chosen))


@app.command()
def sync(
    context: typer.Context,
    registry: Annotated[str | None, typer.Argument(help="Only this one, as in `registries`.")] = None,
    json: AsJson = False,
) -> None:
    """Fetch what registries have now, in this process: whether a daemon runs makes no difference."""
    config = load(context).config
    results = asyncio.run(fetch(config, _chosen(config, registry)))
    if json:
        _print_json([result.as_json() for result in results])
    for result in results:
        if not json and not result.problem:
            show(f"{result.registry}: {result.entries} {'entry' if result.entries == 1 else 'entries'}")
        for line in result.lines():
            say(line)
    if not results:
        say("no registry is configured (`registries`)")
    if any(result.problem for result in results):
        raise typer.Exit(FAILED)


app.command()(registry_serve.serve)
app.command()(registry_offer.publish)
app.command()(registry_offer.withdraw)


def _kept(config: Config, registry: str | None, *, own: bool, kind: EntryKind | None = None) -> list[StoredEntry]:
    """Return entries that were fetched and published; print which registries have missing or stale catalogs."""
    catalog = CatalogStore(config.state_dir / FILE)
    names = [] if own else _chosen(config, registry)
    for line in gaps(config, catalog, names):
        say(line)
    wanted = names if registry and not own else [*names, OWN]
    if len(wanted) == 1:
        found = catalog.entries(wanted[0])
    else:
        found = [each for each in catalog.entries() if each.registry in wanted]
    return [each for each in found if kind in (None, each.entry.kind)]


def _chosen(config: Config, registry: str | None) -> list[str]:
    if registry is None:
        return list(config.registries)
    settings_of(config, registry)
    return [registry]


def _newest(kept: Sequence[StoredEntry]) -> list[StoredEntry]:
    """Return the first, newest version of each entry."""
    return list({(each.registry, each.entry.kind, each.entry.name): each for each in reversed(kept)}.values())[::-1]


def _of_it(one: StoredEntry, kept: Sequence[StoredEntry]) -> list[StoredEntry]:
    same = (one.registry, one.entry.kind, one.entry.name)
    return [each for each in kept if (each.registry, each.entry.kind, each.entry.name) == same]


def _print_newest(kept: Sequence[StoredEntry], *, json: bool) -> None:
    newest = _newest(kept)
    if json:
        _print_json([as_json(each, _of_it(each, kept)) for each in newest])
    for each in () if json else newest:
        show(summary(each))


def _print_json(content: Any) -> None:
    show(orjson.dumps(content, option=_INDENT).decode())

"""`goclaw registry`: the catalogs fetched from registries, and this gateway's own; listing sends no requests.

`serve` serves the own registry in the foreground, with or without a running daemon, and by itself keeps fresh the
entries that `federation.share` passes on. The words of entries are strangers': in a terminal, they stand on lines of
ours.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import orjson
import typer

from goclaw.common.config.keys import closest
from goclaw.common.config.listening import in_url
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.redact import printable
from goclaw.extensions.registries.base import Entry, EntryKind, RegistryError, RemoteServer, ToolEntry
from goclaw.extensions.registries.catalog_store import FILE, OWN, CatalogStore, StoredEntry
from goclaw.extensions.registries.cli import registry_requests
from goclaw.extensions.registries.cli.registry_requests import fetch, gaps, settings_of
from goclaw.extensions.registries.resolving import commands
from goclaw.program.cli.base import FAILED, print_message, show
from goclaw.program.cli.options import command_group, load

log = logging.getLogger(__name__)


LOG_FILE = "registry.log"
"""In `logs`, next to the daemon's: two processes must not write the same file."""

TITLE = "Browse, sync, publish to and serve registries."

MAX_CHARACTERS = 100
"""Characters of a description in a line."""
MAX_WHOLE = 2_000
MAX_VERSIONS = 20
OWN_NAME = "(own)"


def serve(context: typer.Context) -> None:
    """Serve this gateway's own registry until Ctrl-C or SIGTERM."""
    asyncio.run(_serve(load(context).config))


async def _serve(config: Config) -> None:
    # What is wrong with the command line or the configuration is said before these are paid for.
    from goclaw.common.auth.audit import open_audit
    from goclaw.common.auth.tokens import open_tokens
    from goclaw.common.auth.users import open_users
    from goclaw.common.health.logs import open_logs
    from goclaw.extensions.registries.server.api import open_registry, warnings_of

    clock = RealClock()
    with open_logs(config, sys.stderr, config.state_dir / "logs" / LOG_FILE):
        async with (
            _stop_signals() as stopping,
            open_users(config.users_path, clock) as users,
            open_tokens(config.tokens_path, clock) as tokens,
            open_audit(config, clock) as audit,
            _refresh_meanwhile(config, clock),
            open_registry(config, users, tokens, clock, audit.record) as port,
        ):
            address = f"http://{in_url(config.registry_server.host)}:{port}"
            print(f"The registry runs at {address}. Stop it with Ctrl+C.", flush=True)
            for warning in warnings_of(config):
                print(warning, flush=True)
            if not tokens.any():
                what = "publish" if config.registry_server.open else "sign in"
                hint = "create a token for a user with `goclaw token add NAME --user KEY`"
                print(f"Nobody can {what} yet: {hint}.", flush=True)
            await stopping.wait()
            print("The registry has stopped.", flush=True)


@asynccontextmanager
async def _refresh_meanwhile(config: Config, clock: Clock) -> AsyncIterator[None]:
    """Keep fetching the entries that are shared on, while the block runs."""
    shared = {name: settings for name, settings in config.registries.items() if settings.federation.share}
    if not shared:
        yield
        return
    from goclaw.common.core.supervise import background, run_with_restarts
    from goclaw.common.net import open_client
    from goclaw.extensions.registries.syncing import SYNCING

    def report(registry: str, problem: str, *, changed: bool) -> None:
        if problem:
            log.warning("the registry %s: %s", registry, problem)

    async with open_client() as http:
        work = partial(SYNCING.run, shared, config.state_dir, http=http, clock=clock, tell=report)
        name = "registries that are shared on"
        async with background(run_with_restarts(name, work, clock), name):
            yield


@asynccontextmanager
async def _stop_signals() -> AsyncIterator[asyncio.Event]:
    """Yield an event that SIGTERM or Ctrl-C sets."""
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        yield stopping
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


app = command_group(TITLE)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Kind = Annotated[EntryKind | None, typer.Option(help="Only entries of this kind.")]
Own = Annotated[bool, typer.Option("--own", help="Only entries of this gateway's own registry.")]


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
    found = _load_entries(config, registry, own=own, kind=kind)
    _print_newest(found, json=json)
    if not found and not config.registries:
        print_message(
            "no registry is configured (`registries`), and nothing is published here (`goclaw registry publish`)"
        )


@app.command()
def search(
    context: typer.Context,
    words: Annotated[
        list[str], typer.Argument(help="Words to find, all of them, in names, descriptions, tags and tools.")
    ],
    registry: Annotated[str | None, typer.Option(help="Only of this one, as in `registries`.")] = None,
    kind: Kind = None,
    own: Own = False,
    json: AsJson = False,
) -> None:
    """Look for words in what registries have."""
    config = load(context).config
    found = [each for each in _load_entries(config, registry, own=own, kind=kind) if matches(each.entry, words)]
    _print_newest(found, json=json)
    if not found:
        print_message(f"no entry matches {' '.join(words)}")
        raise typer.Exit(FAILED)


@app.command("show")
def show_(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The name of the entry, such as data-tools.")],
    registry: Annotated[str | None, typer.Option(help="The registry, as in `registries`; default: all.")] = None,
    version: Annotated[str, typer.Option(help="The version; default: the newest.")] = "",
    own: Own = False,
    json: AsJson = False,
) -> None:
    """Print all that is known of an entry: its versions, tools, digest, where it runs, and how it is used."""
    config = load(context).config
    kept = _load_entries(config, registry, own=own)
    versions = [each for each in kept if each.entry.name == name]
    if not versions:
        meant = closest(name, list(dict.fromkeys(each.entry.name for each in kept)))
        hint = f"did you mean {meant}?" if meant else "`goclaw registry list` shows all entries"
        raise RegistryError(f"there is no entry {name}; {hint}")
    chosen = [each for each in versions if each.entry.version == version] if version else _newest(versions)
    if not chosen:
        there = ", ".join(each.entry.version for each in versions)
        raise RegistryError(f"{name} has no version {version}; available: {there}")
    if json:
        _print_json([{**as_json(each, _versions_of(each, versions)), "document": each.document} for each in chosen])
        return
    show("\n\n".join(described(each, _versions_of(each, versions), config) for each in chosen))


@app.command()
def sync(
    context: typer.Context,
    registry: Annotated[str | None, typer.Argument(help="Only this one, as in `registries`.")] = None,
    json: AsJson = False,
) -> None:
    """Fetch what registries have now, in this process: whether a daemon runs makes no difference."""
    config = load(context).config
    results = asyncio.run(fetch(config, _choose(config, registry)))
    if json:
        _print_json([result.as_json() for result in results])
    for result in results:
        if not json and not result.problem:
            entries = result.taken.entries
            show(f"{result.registry}: {entries} {'entry' if entries == 1 else 'entries'}")
        for line in result.lines():
            print_message(line)
    if not results:
        print_message("no registry is configured (`registries`)")
    if any(result.problem for result in results):
        raise typer.Exit(FAILED)


app.command()(serve)
app.command()(registry_requests.publish)
app.command()(registry_requests.withdraw)


def _load_entries(
    config: Config, registry: str | None, *, own: bool, kind: EntryKind | None = None
) -> list[StoredEntry]:
    """Return entries that were fetched and published; print which registries have missing or stale catalogs."""
    catalog = CatalogStore(config.state_dir / FILE)
    names = [] if own else _choose(config, registry)
    for line in gaps(config, catalog, names):
        print_message(line)
    wanted = names if registry and not own else [*names, OWN]
    if len(wanted) == 1:
        found = catalog.entries(wanted[0])
    else:
        found = [each for each in catalog.entries() if each.registry in wanted]
    return [each for each in found if kind in (None, each.entry.kind)]


def _choose(config: Config, registry: str | None) -> list[str]:
    if registry is None:
        return list(config.registries)
    settings_of(config, registry)
    return [registry]


def _newest(kept: Sequence[StoredEntry]) -> list[StoredEntry]:
    """Return the first, newest version of each entry."""
    return list({(each.registry, each.entry.kind, each.entry.name): each for each in reversed(kept)}.values())[::-1]


def _versions_of(one: StoredEntry, kept: Sequence[StoredEntry]) -> list[StoredEntry]:
    same = (one.registry, one.entry.kind, one.entry.name)
    return [each for each in kept if (each.registry, each.entry.kind, each.entry.name) == same]


def _print_newest(kept: Sequence[StoredEntry], *, json: bool) -> None:
    newest = _newest(kept)
    if json:
        _print_json([as_json(each, _versions_of(each, kept)) for each in newest])
    for each in () if json else newest:
        show(summary(each))


def _print_json(content: Any) -> None:
    show(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode())


def summary(kept: StoredEntry) -> str:
    """Format an entry as one line."""
    entry = kept.entry
    words = [kept.registry or OWN_NAME, entry.kind.value, f"{entry.name} {entry.version}"]
    return "  ".join([*words, *([_line(entry.description, MAX_CHARACTERS)] if entry.description else [])])


def described(kept: StoredEntry, versions: Sequence[StoredEntry], config: Config) -> str:
    """Format all fields of an entry, and how to use it."""
    entry = kept.entry
    lines = [f"{entry.kind} {entry.name} {entry.version} of {kept.registry or 'this gateway itself'}"]
    lines += _about(kept, versions)
    lines += [f"runs at: {_remote(remote)}" for remote in entry.remotes]
    lines += [f"starts with `packages: true`: {_line(' '.join(command))}" for _, command in commands(entry.packages)]
    if entry.toolsets:
        lines.append(f"toolsets: {_line(', '.join(entry.toolsets))}")
    if entry.tools:
        lines += ["tools:", *(f"  {_tool(tool)}" for tool in entry.tools)]
    return "\n  ".join([*lines, *_use(kept, config)])


def as_json(kept: StoredEntry, versions: Sequence[StoredEntry]) -> dict[str, Any]:
    """Return the entry without its document."""
    entry = kept.entry
    return {
        "registry": kept.registry or None,
        "kind": entry.kind,
        "name": entry.name,
        "version": entry.version,
        "description": entry.description,
        "tags": entry.tags,
        "tools": [tool.name for tool in entry.tools],
        "versions": [each.entry.version for each in versions],
        "sha256": kept.sha256,
        "published_at": kept.published_at or None,
        "published_by": kept.published_by or None,
        "starts": [command for _, command in commands(entry.packages)],
    }


def matches(entry: Entry, words: Sequence[str]) -> bool:
    """Whether all words are somewhere in it."""
    tools = [text for tool in entry.tools for text in (tool.name, tool.title, tool.description)]
    text = "\n".join([entry.kind, entry.name, entry.description, *entry.tags, *entry.toolsets, *tools]).casefold()
    return all(word.casefold() in text for word in words)


def _about(kept: StoredEntry, versions: Sequence[StoredEntry]) -> Iterator[str]:
    entry = kept.entry
    if entry.description:
        yield _line(entry.description, MAX_WHOLE)
    if entry.tags:
        yield f"tags: {_line(', '.join(entry.tags))}"
    named = [f"{each.entry.version}{_day(each.published_at)}" for each in versions[:MAX_VERSIONS]]
    more = f" and {len(versions) - MAX_VERSIONS} more" if len(versions) > MAX_VERSIONS else ""
    yield f"versions: {', '.join(named)}{more}"
    yield f"sha256: {kept.sha256}"
    if kept.published_by:
        yield f"published by: {_line(kept.published_by)}"
    if kept.via:
        yield f"came via: {_line(' → '.join(kept.via))}"


def _use(kept: StoredEntry, config: Config) -> Iterator[str]:
    """Yield lines on how it is used here, or could be."""
    entry, registry = kept.entry, kept.registry
    if registry == OWN or entry.kind is EntryKind.AGENT:
        return
    used = [
        name
        for name, settings in config.tools.from_registry.items()
        if (settings.registry, settings.toolset) == (registry, entry.name)
    ]
    if used:
        yield f"used here: {', '.join(f'tools.from_registry.{name}' for name in used)}"
        return
    yield "to use it, in the configuration (docs/registries.md):"
    name = entry.name.rpartition("/")[2]
    yield f"  tools: {{from_registry: {{{name}: {{registry: {registry}, toolset: {entry.name}}}}}}}"


def _tool(tool: ToolEntry) -> str:
    marks = [word for word, is_so in (("reads only", tool.read_only), ("destructive", tool.destructive)) if is_so]
    words = [_line(tool.name), *([f"({', '.join(marks)})"] if marks else []), _line(tool.description, MAX_CHARACTERS)]
    return "  ".join(word for word in words if word)


def _remote(remote: RemoteServer) -> str:
    wants = f", needs the headers {_line(', '.join(remote.headers))}" if remote.headers else ""
    return f"{_line(remote.url, MAX_WHOLE)} ({_line(remote.type)}{wants})"


def _day(moment: float) -> str:
    """Return the date in brackets; empty for a missing or invalid one."""
    try:
        return f" ({datetime.fromtimestamp(moment).astimezone():%Y-%m-%d})" if moment > 0 else ""
    except (ValueError, OverflowError, OSError):
        return ""


def _line(text: str, longest: int = MAX_WHOLE) -> str:
    """Return others' words on one line: no line end of theirs makes one that looks like ours."""
    line = " ".join(printable(text).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"

"""`goclaw plugin add|list|remove|update|restore`: packages with tools, agents, channels … of others (docs/plugins.md).

Packages are installed after GoClaw's own, and recorded in the state folder, so that a new GoClaw or Python brings them
back. A running daemon keeps the plugins it started with until `goclaw restart`.
"""

from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from goclaw.common.config.packaged import TOOLS_FOLDER, plugin_paths
from goclaw.common.config.schema import Config
from goclaw.common.config.state import running_pid
from goclaw.common.core.container import daemon_command
from goclaw.common.core.files import shown_path
from goclaw.common.core.plugin_folder import LATER, InstalledPlugin, read_record, stamp_of_host
from goclaw.program.cli.base import FAILED, print_message, show
from goclaw.program.cli.options import command_group, load

if TYPE_CHECKING:
    from goclaw.program.ops.plugins.installing import Plugins

app = command_group("Add, list, update and remove plugins. They are packages with tools, agents, channels.")
BUSY = "another process is changing plugins; waiting for it to end"


@app.command()
def add(
    context: typer.Context,
    sources: Annotated[
        list[str], typer.Argument(metavar="NAME|PATH|GIT", help="garden-tools, ./garden, git+https://host/garden.git")
    ],
    editable: Annotated[
        bool, typer.Option("--editable", help="Use the folder in place; changes apply at each start.")
    ] = False,
) -> None:
    """Install plugins, check them and record them. What cannot be used changes nothing.

    They run inside the daemon with all its rights: add only what you trust.
    """
    config = _config(context)
    with _open(config) as plugins:
        added = plugins.add(sources, editable=editable)
    for plugin in added:
        show(f"added {_line(plugin)}")
    _print_when(config)


@app.command("list")
def list_(context: typer.Context, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print the plugins: version, source and parts of each, what does not work, and the files with tools."""
    config = _config(context)
    found, files = read_record(config.state_dir), plugin_paths(config.state_dir, config.plugins)
    stale = found.stamp != stamp_of_host()
    plugins = [(plugin, plugin.fault or (LATER if stale else "")) for plugin in found.plugins]
    if json:
        listed: list[dict[str, object]] = [{**asdict(plugin), "fault": fault} for plugin, fault in plugins]
        show(orjson.dumps([*listed, *({"file": str(file)} for file in files)]).decode())
    for plugin, fault in () if json else plugins:
        show(f"{_line(plugin)}\n  from {plugin.source}{', editable' if plugin.editable else ''}")
        if fault:
            show(f"  {fault}")
    for file in () if json else files:
        show(f"{file}\n  one file; `goclaw declare check {shown_path(file)}` finds its faults")
    if found.fault:
        print_message(found.fault)
        raise typer.Exit(FAILED)
    if not plugins and not files and not json:
        print_message(
            f"no plugin was added; `goclaw plugin add NAME|PATH|GIT` adds one, and a file in "
            f"{config.state_dir / TOOLS_FOLDER} is one, too (docs/plugins.md)"
        )


@app.command()
def remove(context: typer.Context, names: Annotated[list[str], typer.Argument(metavar="NAME")]) -> None:
    """Remove plugins, and what only they needed."""
    config = _config(context)
    with _open(config) as plugins:
        gone = plugins.remove(names)
    for plugin in gone:
        show(f"removed {plugin.name} {plugin.version}")
    _print_when(config)


@app.command()
def update(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="The plugin; default: all.")] = None,
) -> None:
    """Install the newest version that the source of a plugin has, within the bounds it was added with."""
    config = _config(context)
    with _open(config) as plugins:
        changes = plugins.update(names or [])
    for before, after in changes:
        if (before.version, before.pinned, before.digest) == (after.version, after.pinned, after.digest):
            show(f"{after.name} {after.version} is the newest version")
        else:
            show(f"updated {after.name} from {before.version or 'nothing'} to {after.version}")
    if changes:
        _print_when(config)
    else:
        print_message("no plugin was added")


@app.command()
def restore(context: typer.Context) -> None:
    """Install all plugins again as they are recorded, for this Python and this GoClaw.

    Exit code 1 when one of them is left out. Each start of the daemon does this when it has to.
    """
    config = _config(context)
    with _open(config) as plugins:
        found = plugins.restore()
    for plugin in found.plugins:
        if not plugin.fault:
            show(f"restored {_line(plugin)}")
    _print_when(config)
    if any(plugin.fault for plugin in found.plugins):
        raise typer.Exit(FAILED)


def _config(context: typer.Context) -> Config:
    # Without packages: a plugin that does harm at its import must not keep people from removing it.
    return load(context, packages=False).config


def _open(config: Config) -> "AbstractContextManager[Plugins]":
    from goclaw.program.ops.plugins.installing import open_plugins  # listing installs nothing

    return open_plugins(config.state_dir, print_message, busy=BUSY)


def _line(plugin: InstalledPlugin) -> str:
    return f"{plugin.name} {plugin.version}".strip() + (f": {', '.join(plugin.parts)}" if plugin.parts else "")


def _print_when(config: Config) -> None:
    """Say when what changed is in force."""
    if running_pid(config):
        print_message(f"{daemon_command('restart')} makes the running daemon use it")
    else:
        print_message("the next start of the daemon uses it")

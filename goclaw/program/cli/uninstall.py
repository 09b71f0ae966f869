"""`goclaw uninstall`: removes the installed parts, after a look at them; the data stay, unless they are to go, too."""

import asyncio
import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config
from goclaw.common.config.state import running_pid
from goclaw.common.core.clock import RealClock
from goclaw.common.health.resources import amount
from goclaw.errors import StateError
from goclaw.program.cli import process, service, systemd
from goclaw.program.cli.base import print_message, show
from goclaw.program.cli.options import load
from goclaw.program.ops.backup.collect import back_up
from goclaw.program.ops.backup.swap import stamp_of
from goclaw.program.ops.uninstall import (
    Item,
    check_data,
    completions,
    in_checkout,
    links,
    make_complete,
    remove_data,
    remove_whole,
    size_of,
    startup_lines,
)
from goclaw.program.ops.upgrade.installation import is_environment
from goclaw.program.ops.upgrade.package import tool_of
from goclaw.program.ops.upgrade.recognise import checkout_root, environment


def uninstall(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", help="Remove the installation without asking.")] = False,
    data: Annotated[bool, typer.Option("--data", help="Also remove the state folder, after a last backup.")] = False,
    backup: Annotated[
        Path | None, typer.Option(help="The file for the last backup; default: a new file next to the state folder.")
    ] = None,
) -> None:
    """Remove GoClaw and, on request, its data.

    It is listed first, and removed after a yes. Without --data conversations and settings stay. With it the state
    folder goes after a last backup, and after its name was typed. What GoClaw did not make is never touched.
    """
    loaded = load(context, packages=data)
    config, root = loaded.config, checkout_root()
    items = _find_items(root)
    if data:
        check_data(config, [Path.home(), Path.cwd(), environment(), *([root] if root else [])])
    listed = [f"  {each.kind:<12} {each.path}  ({amount(each.size)})" for each in items]
    installed = ["Installed:", *listed] if items else ["There is nothing to remove."]
    show("\n".join([*installed, *_by_hand(root), *_data_lines(config, goes=data)]))
    if not yes and not typer.confirm("Remove it?" if items or data else "Stop the daemon?"):
        raise typer.Exit(1)
    if data and typer.prompt(f"Type the name of the folder ({config.state_dir.name}) to remove the data") != (
        config.state_dir.name
    ):
        raise StateError("that is a different name; nothing was removed")
    for manager in systemd.list_managers():
        service.remove_unit(manager, ends_daemon=True)
    if running_pid(config):
        print_message(f"stopped (pid {asyncio.run(process.stop(config))})")
    if data:
        default = config.state_dir.parent / f"goclaw-last-{stamp_of(RealClock().now())}.tar.gz"
        _remove_data(loaded, (backup or default).expanduser().absolute())
    # The environment that this runs from goes last.
    for item in items:
        remove_whole(item.path)
        print_message(f"{item.path}: removed")
    if not data and config.state_dir.is_dir():
        # Of a checkout this program is gone by now; pip's and uv's goes last, by their own command.
        how = f"rm -r {shlex.quote(str(config.state_dir))}" if root else "goclaw uninstall --data"
        print_message(f"your data stay in {config.state_dir}; `{how}` removes them")
    for line in _by_hand(root):
        print_message(line)


def _find_items(root: Path | None) -> list[Item]:
    """Return the parts removed here, in the order of their removal."""
    home, prefix = Path.home(), environment()
    items = [Item("service", each.unit_path, size_of(each.unit_path)) for each in systemd.list_managers()]
    items += completions(home)
    if root:
        environments = list(in_checkout(root))
        items += links([root / "scripts", *(each.path for each in environments)], os.environ, home)
        items += sorted(environments, key=lambda item: item.path == prefix)
    return items


def _by_hand(root: Path | None) -> list[str]:
    """Return lines about steps left to a person, because this program did not make the thing or runs from it."""
    lines = [f"{place}: your line for completions; delete it yourself" for place in startup_lines(Path.home())]
    if root:
        lines.append(f"the checkout stays; remove it with `rm -r {root}`")
    elif is_environment():
        prefix = environment()
        command = tool_of(prefix).uninstall.format(python=prefix / "bin" / "python")
        lines.append(f"remove the program itself with `{command}`")
    else:
        lines.append("if pip installed the program, remove it with `pip uninstall goclaw`")
    return lines


def _data_lines(config: Config, *, goes: bool) -> list[str]:
    folder = config.state_dir
    if not folder.is_dir():
        return [f"Data: none ({folder})"]
    lines = [f"Data: {folder} ({amount(size_of(folder))}) {'will be removed' if goes else 'stays'}"]
    workspace = config.workspace_path
    if workspace.is_dir() and not workspace.is_relative_to(folder):
        lines.append(f"The agent's files stay: {workspace}")
    return lines


def _remove_data(loaded: Loaded, target: Path) -> None:
    config = loaded.config
    make_complete(config)
    try:
        made = back_up(loaded, target, RealClock(), secrets=True)
    except StateError as error:
        raise StateError(f"{error}\nyour data were not removed; choose another place with `--backup FILE`") from error
    for note in made.notes:
        print_message(f"warning: not in the backup: {note}")
    print_message(f"the last backup is {target} ({amount(made.size)}); it contains tokens and keys, so keep it safe")
    if left := remove_data(config):
        names = ", ".join(path.name for path in left)
        print_message(f"{config.state_dir}: emptied, except for files that GoClaw did not create: {names}")
    else:
        print_message(f"{config.state_dir}: removed")

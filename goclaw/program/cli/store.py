"""`goclaw store`: the database to Postgres and back, and files of the state folder that it may have as documents."""

import asyncio
import signal
import sys
from typing import Annotated

import typer

from goclaw.common.config.schema import Config
from goclaw.common.config.values import PostgresPlace, check_store
from goclaw.common.core.clock import RealClock
from goclaw.common.core.container import daemon_command
from goclaw.program.cli.base import show
from goclaw.program.cli.options import command_group, load
from goclaw.program.cli.state_files import (
    FromFile,
    ToFile,
    edit_file,
    export_file,
    import_file,
    remove_file,
    state_file,
)
from goclaw.program.ops.store_copy import Place, StoreCopied, copy_store, describe

FILE = "sqlite"
"""Stands for the file in the state folder."""

app = command_group("Copy the database to Postgres or back; edit notes.")

Name = Annotated[str, typer.Argument(help="A path in the state folder: users.json, notes/telegram:5/tea.md.")]


@app.command()
def edit(context: typer.Context, name: Name) -> None:
    """Open a file of the state folder in your editor, such as a private note."""
    config = load(context).config
    edit_file(config, state_file(config, name))


@app.command("export")
def export_named(context: typer.Context, name: Name, to: ToFile = None) -> None:
    """Print a file of the state folder, or write it into a file."""
    config = load(context).config
    export_file(config, state_file(config, name), to)


@app.command("import")
def import_named(context: typer.Context, name: Name, file: FromFile) -> None:
    """Replace or make a file of the state folder."""
    config = load(context).config
    import_file(config, state_file(config, name), file)


@app.command()
def remove(context: typer.Context, name: Name) -> None:
    """Delete a file of the state folder, such as a private note."""
    config = load(context).config
    remove_file(config, state_file(config, name))


@app.command()
def copy(
    context: typer.Context,
    to: Annotated[str, typer.Option("--to", help="Where to copy to: postgresql://USER@HOST/DATABASE, or `sqlite`.")],
    source: Annotated[
        str, typer.Option("--from", help="Where to copy from, in the same form; default: the current `store`.")
    ] = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace conversations that are already there; they are kept in a file.")
    ] = False,
) -> None:
    """Copy everything that the database has, as it is, and compare both sides.

    No daemon may run. The target gets all of it or nothing; where it was copied from, nothing changes.
    """
    # So that what was made ready is removed, and a transaction undone.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    config = load(context).config
    begin, end = _place(source, config, "--from") if source else config.store_place, _place(to, config, "--to")
    done = asyncio.run(copy_store(config, begin, end, RealClock(), replace=replace))
    show("\n".join(_lines(done, begin, end, to)))


def _place(given: str, config: Config, option: str) -> Place:
    if given == FILE:
        return config.database_path
    try:
        return PostgresPlace.of(check_store(given), config.store_password, config.state_dir)
    except ValueError as error:
        raise typer.BadParameter(f"{error}; or `{FILE}`", param_hint=option) from None


def _lines(done: StoreCopied, begin: Place, end: Place, to: str) -> list[str]:
    rows = sum(each.rows for each in done.sums.values())
    lines = [f"{describe(end)}: {rows:,} rows, with the checksums of {describe(begin)}"]
    lines += [f"  {name}: {each.rows:,}  {each.sha256[:16]}" for name, each in sorted(done.sums.items()) if each.rows]
    if done.files:
        lines.append(f"  files of the state folder, also compared: {done.files:,}")
    if done.shortened:
        lines.append(f"  {done.shortened:,} texts lost the character NUL, which Postgres cannot store")
    if done.kept:
        lines.append(f"  the previous data are kept in {done.kept}, a SQLite file")
    setting = "Remove `store` from the configuration" if to == FILE else f"Set `store: {to}` in the configuration"
    return [*lines, f"{setting}, then {daemon_command('start')}. The copy changed nothing in {describe(begin)}."]

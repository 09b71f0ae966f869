"""`goclaw declare check FILE`: every fault of a one-file plugin, without a daemon (docs/plugins.md)."""

from pathlib import Path
from typing import Annotated

import orjson
import typer

from goclaw.common.core.files import shown_path
from goclaw.program.cli.base import FAILED, print_message, show
from goclaw.program.cli.options import command_group, load

app = command_group("Check a one-file plugin without a daemon.")


@app.callback()
def group() -> None:
    """Check a one-file plugin without a daemon."""


@app.command()
def check(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="A Python file with tools, toolsets, agents.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Execute files, and print every fault with its place: `garden.py:3:5: message`. Exit code 1 when there is one.

    A statement that fails hides no other: of it, the calls inside are evaluated once more.
    """
    from goclaw.tools.toolkit.plugin_loading import check_file  # its library comes with the tools

    config = load(context, packages=False).config
    found = [(file, problem) for file in files for problem in check_file(file.expanduser().absolute(), config)]
    if json:
        listed = [
            {"file": str(file), "line": each.line, "column": each.column, "message": each.message}
            for file, each in found
        ]
        show(orjson.dumps(listed).decode())
    for file, problem in () if json else found:
        show(problem.format(shown_path(file)))
    if found:
        raise typer.Exit(FAILED)
    if not json:
        print_message(f"{len(files)} {'file' if len(files) == 1 else 'files'} checked, no faults")

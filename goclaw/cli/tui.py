"""`goclaw tui`."""

import asyncio
from typing import Annotated

import typer

from goclaw.cli.common import load
from goclaw.cli.frame import say
from goclaw.cli.start import GOODBYE
from goclaw.tui.plain import converse
from goclaw.users import login_name

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def tui(
    context: typer.Context,
    session: Annotated[str, typer.Option(help="Which conversation; not given: your own.")] = "",
) -> None:
    """Talk to the agent in this terminal."""
    config = load(context).config
    try:
        asyncio.run(converse(config.socket_path, session or f"tui:{login_name()}"))
    except KeyboardInterrupt:
        print()
        say(GOODBYE)

"""`goclaw tui`."""

from typing import Annotated

import typer

from goclaw.cli.common import load
from goclaw.cli.default_command import talk_here
from goclaw.cli.remote_options import Insecure, TokenFile, Url, reach

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def tui(
    context: typer.Context,
    session: Annotated[str, typer.Option(help="Which conversation; not given: your own.")] = "",
    pick: Annotated[bool, typer.Option("--pick", help="Begin with the list of conversations.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, as pipes get them.")] = False,
    mouse: Annotated[bool, typer.Option(help="Whether the mouse folds cards and scrolls.")] = True,
    url: Url = "",
    token_file: TokenFile = None,
    insecure: Insecure = False,
) -> None:
    """Talk to the agent in this terminal."""
    config, remote = load(context, packages=False).config, None
    if url:
        remote, session = reach(url, token_file, session, insecure=insecure)
    talk_here(config, session, plain=plain, mouse=mouse, pick=pick, remote=remote)

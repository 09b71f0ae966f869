"""`goclaw restart`."""

import asyncio

import typer

from goclaw.cli import process
from goclaw.cli.common import load, options
from goclaw.cli.frame import say
from goclaw.state import running_pid

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def restart(context: typer.Context) -> None:
    """End the daemon and start it anew."""
    config = load(context).config
    asyncio.run(process.stop(config))
    asyncio.run(process.start_in_background(config, options(context).config))
    say(f"running in the background (pid {running_pid(config)})")

"""`goclaw stop`."""

import asyncio

import typer

from goclaw.cli import process
from goclaw.cli.common import load
from goclaw.cli.frame import say

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def stop(context: typer.Context) -> None:
    """End the daemon; what is unfinished goes on at the next start."""
    pid = asyncio.run(process.stop(load(context, packages=False).config))
    say(f"stopped (pid {pid})" if pid else "not running")

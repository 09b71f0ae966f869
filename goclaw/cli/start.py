"""`goclaw` alone: start the daemon if none runs, then the terminal client. Without a terminal: the daemon, here."""

import asyncio
import sys

import typer

from goclaw.cli.common import load, options
from goclaw.cli.frame import say
from goclaw.cli.process import listens, start_in_background
from goclaw.config.schema import Config
from goclaw.tui.plain import converse
from goclaw.users import login_name

app = typer.Typer(add_completion=False, rich_markup_mode=None)

GOODBYE = "GoClaw keeps running in the background. Come back with `goclaw tui`, end it with `goclaw stop`."


@app.command()
def start(context: typer.Context) -> None:
    """Start the daemon if none runs, then talk to the agent in this terminal."""
    config = load(context).config
    if not sys.stdin.isatty():
        _run_here(config)
        return
    if not listens(config):
        say("starting the daemon …")
        asyncio.run(start_in_background(config, options(context).config))
    try:
        asyncio.run(converse(config.socket_path, f"tui:{login_name()}"))
    except KeyboardInterrupt:
        print()
    say(GOODBYE)


def _run_here(config: Config) -> None:
    from goclaw.cli.daemon import run_daemon, serve

    run_daemon(serve(config))

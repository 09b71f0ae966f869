"""`goclaw gateway`."""

import typer

from goclaw.cli.common import load
from goclaw.cli.daemon import run_daemon, serve

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def gateway(context: typer.Context) -> None:
    """Run the daemon here, until Ctrl-C or SIGTERM."""
    run_daemon(serve(load(context).config))

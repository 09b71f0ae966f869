"""`goclaw gateway`."""

import gc

import typer

from goclaw.cli.common import load, options
from goclaw.cli.launch_record import started

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def gateway(context: typer.Context) -> None:
    """Run the daemon here, until Ctrl-C or SIGTERM."""
    loaded = load(context)
    # Nothing that a start makes is garbage; looking for some takes a seventh of it. `serve` switches it on again.
    gc.disable()
    # After the configuration: one that cannot be used is refused before the daemon's modules are paid for.
    from goclaw.cli.daemon import run_daemon, serve

    run_daemon(serve(loaded, started(loaded, options(context))))

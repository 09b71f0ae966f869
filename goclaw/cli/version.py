"""`goclaw version`."""

import typer

from goclaw import __version__

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def version() -> None:
    """Print the version."""
    print(f"goclaw {__version__}")

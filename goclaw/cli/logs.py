"""`goclaw logs`."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from goclaw.cli.common import load
from goclaw.cli.frame import say, show
from goclaw.redact import printable

app = typer.Typer(add_completion=False, rich_markup_mode=None)

LOOK_SECONDS = 0.3
TAIL_BYTES = 1 << 20


@app.command()
def logs(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as lines come.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many lines from the end.")] = 50,
) -> None:
    """Show the daemon's log."""
    path = load(context).config.state_dir / "logs" / "goclaw.log"
    if not path.exists():
        say(f"{path}: there is no log yet")
        raise typer.Exit(1)
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        tail = file.read().splitlines()[-lines:] if lines else []
        show("\n".join(line.decode(errors="replace") for line in tail))
    if follow:
        try:
            asyncio.run(_follow(path))
        except KeyboardInterrupt:
            print()


async def _follow(path: Path) -> None:
    """Print what is appended; a rotated file is followed into its successor."""
    file = path.open("rb")
    file.seek(0, os.SEEK_END)
    while True:
        chunk = file.read()
        if chunk:
            sys.stdout.write(printable(chunk.decode(errors="replace")))
            sys.stdout.flush()
        elif _rotated(path, file):
            file.close()
            file = path.open("rb")
        else:
            await asyncio.sleep(LOOK_SECONDS)


def _rotated(path: Path, file: BinaryIO) -> bool:
    return path.exists() and os.fstat(file.fileno()).st_ino != path.stat().st_ino

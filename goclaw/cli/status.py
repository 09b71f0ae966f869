"""`goclaw status`."""

import asyncio
from typing import Annotated, Any

import orjson
import typer

from goclaw.cli.common import load
from goclaw.cli.frame import say, show
from goclaw.cli.process import listens
from goclaw.config.schema import Config
from goclaw.state import running_pid
from goclaw.tui.client import attach
from goclaw.users import login_name

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def status(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    session: Annotated[str, typer.Option(help="Which conversation; not given: your own.")] = "",
) -> None:
    """Print the state of the running daemon. Exit code 1 when no daemon runs."""
    config = load(context, packages=False).config
    if not listens(config):
        if as_json:
            print(orjson.dumps({"running": False}).decode())
        else:
            say(f"not running (state folder {config.state_dir}). Start it with `goclaw`.")
        raise typer.Exit(1)
    numbers = asyncio.run(_ask(config, session or f"tui:{login_name()}"))
    text = numbers.pop("text")
    if as_json:
        print(orjson.dumps({"running": True, "pid": running_pid(config), **numbers}).decode())
    else:
        show(f"{text}\n\nProcess: pid {running_pid(config)}")


async def _ask(config: Config, session: str) -> dict[str, Any]:
    async with attach(config.socket_path, session, limit=1) as client:
        return await client.status()

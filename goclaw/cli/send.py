"""`goclaw send`."""

import asyncio
from typing import Annotated

import typer

from goclaw.cli import talk
from goclaw.cli.common import load
from goclaw.cli.remote_options import Insecure, TokenFile, Url, reach
from goclaw.redact import printable
from goclaw.users import login_name

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def send(
    context: typer.Context,
    words: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="The message, or a command such as /status; quoted or not.")
    ],
    session: Annotated[str, typer.Option(help="Which conversation; not given: your own.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print what happens as lines of JSON.")] = False,
    url: Url = "",
    token_file: TokenFile = None,
    insecure: Insecure = False,
) -> None:
    """Send one message and print the answer. Exit code 1 when it could not be answered."""
    loaded, remote, text = load(context), None, " ".join(words)
    if url:
        remote, session = reach(url, token_file, session, insecure=insecure)
    own, packaged = f"tui:{login_name()}", loaded.packaged
    sending = talk.send(loaded.config, text, session or own, as_json=as_json, remote=remote, packaged=packaged)
    answer, went_well = asyncio.run(sending)
    if answer:
        print(printable(answer))
    if not went_well:
        raise typer.Exit(1)

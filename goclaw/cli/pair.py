"""`goclaw pair list|approve|deny`: the same as `/pair`, from the machine on which the daemon runs."""

import asyncio
from typing import Annotated

import typer

from goclaw.cli import talk
from goclaw.cli.common import load
from goclaw.cli.frame import show
from goclaw.users import login_name

DONE = ("is let in:", "is not let in, and")
"""How `/pair` begins its answer when it succeeded."""

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Let in, or turn away, who asked the bot (pairing.enabled).",
)

Code = Annotated[str, typer.Argument(help="As `goclaw pair list` shows it, or as somebody told you.")]


@app.command("list")
def list_(context: typer.Context) -> None:
    """Print who asks to be let in."""
    show(_said(context, "/pair list"))


@app.command()
def approve(context: typer.Context, code: Code) -> None:
    """Let in the person who got this code: it makes an entry in users.json."""
    _order(context, f"/pair approve {code}")


@app.command()
def deny(context: typer.Context, code: Code) -> None:
    """Turn away the person who got this code."""
    _order(context, f"/pair deny {code}")


def _order(context: typer.Context, command: str) -> None:
    said = _said(context, command)
    show(said)
    if not any(words in said for words in DONE):
        raise typer.Exit(1)


def _said(context: typer.Context, command: str) -> str:
    answer, _ = asyncio.run(talk.send(load(context).config, command, f"tui:{login_name()}"))
    return answer

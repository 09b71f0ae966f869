"""The options of commands that can talk to a daemon on another machine."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from goclaw.cli.frame import say
from goclaw.tui.client import attach
from goclaw.tui.remote import RemoteDaemon, remote_of

Url = Annotated[
    str,
    typer.Option(help="A daemon reached over TCP: http://127.0.0.1:8137, https://host. Needs an access token."),
]
TokenFile = Annotated[
    Path | None, typer.Option(help="The file that holds the token; not given: the variable GOCLAW_TOKEN.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Send the token over http to another machine all the same.")]


def reach(url: str, token_file: Path | None, session: str, *, insecure: bool) -> tuple[RemoteDaemon, str]:
    """Return the daemon, and the key of the session there (empty: the person's own one).

    Raises:
        ConfigError: the address or the token cannot be used.
        StateError: no daemon answers there, it refuses the token, or the session is not open to the person.
    """
    remote, warnings = remote_of(url, token_file, insecure=insecure)
    for warning in warnings:
        say(f"warning: {warning}")
    return asyncio.run(_introduced(remote, session))


async def _introduced(remote: RemoteDaemon, session: str) -> tuple[RemoteDaemon, str]:
    """Ask the daemon for our user there."""
    async with attach(remote, session, limit=0) as client:
        attached = client.attached
    return RemoteDaemon(remote.url, remote.token, attached.person), session or attached.session
